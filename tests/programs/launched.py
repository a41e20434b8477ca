# SPDX-License-Identifier: BSD-3-Clause
"""Owns the starting of programs under test from Python, and the collecting of what they write."""
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = max(1.0, float(os.environ.get('TEST_PATIENCE', 1)))   # see tests/patience.h

# shells start background jobs with SIGINT ignored, which programs would inherit
signal.signal(signal.SIGINT, signal.default_int_handler)


def bound_s(seconds):
    """The bound for what takes `seconds` at most where nothing else runs; meson ends a test after 180 s."""
    return min(seconds * PATIENCE, max(seconds, 100))


class Launched:
    """A process with its standard input as a pipe, and what it has written so far. It ends with this process."""

    def __init__(self, argv, env, cwd=None):
        self.process = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', '--', *map(str, argv)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env}, cwd=cwd)
        self.pid = self.process.pid
        self.bytes = {self.process.stdout: b'', self.process.stderr: b''}
        self.open = list(self.bytes)

    @property
    def out(self):
        return self.bytes[self.process.stdout].decode(errors='replace')

    @property
    def err(self):
        return self.bytes[self.process.stderr].decode(errors='replace')

    def fail(self, why):
        raise AssertionError(f'stdout:\n{self.out}\nstderr:\n{self.err}\n{why}')

    def _collect_until(self, is_over, seconds=60):
        """Collect output of both streams until is_over(), or all of it has come."""
        end = time.monotonic() + bound_s(seconds)
        while self.open and not is_over():
            ready = select.select(self.open, [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                self.fail(f'this was not over after {bound_s(seconds):g} s')
            for stream in ready:
                some = os.read(stream.fileno(), 65536)
                self.bytes[stream] += some
                if not some:
                    self.open.remove(stream)

    def await_text(self, text, times=1, err=False):
        """Collect output until `text` stands `times` times on standard output, or on standard error."""
        def count():
            return (self.err if err else self.out).count(text)
        self._collect_until(lambda: count() >= times)
        if count() < times:
            self.fail(f'the end came before {times} times "{text}"')

    def await_match(self, pattern, err=False):
        """Collect output until `pattern` matches a part of standard output, or of standard error: the match."""
        def match():
            return re.search(pattern, self.err if err else self.out)
        self._collect_until(match)
        return match() or self.fail(f'the end came before "{pattern}"')

    def numbers_after(self, key):
        """The numbers behind each `key` of standard output."""
        return [int(number) for number in re.findall(re.escape(key) + r'(-?\d+)', self.out)]

    def send(self, number):
        os.kill(self.pid, number)

    def write(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def close_input(self):
        self.process.stdin.close()

    def finish(self):
        """Collect all output and wait for the end: the exit status, or 128 + the signal."""
        self.close_input()
        self._collect_until(lambda: False)
        status = self.process.wait(bound_s(60))
        return status if status >= 0 else 128 - status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class ProgramTest(unittest.TestCase):
    """Claims about programs. Each has a directory of its own, self.dir; what it started ends with it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='tutti-test-')
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self, *argv, cwd=None, **env):
        """A program with these variables beside those of the environment."""
        launched = Launched(argv, {name: str(value) for name, value in env.items()}, cwd)
        self.addCleanup(launched.close)
        return launched

    def run_to_end(self, *argv, status=0, cwd=None, **env):
        """The program after its end, which has to be with `status`."""
        launched = self.start(*argv, cwd=cwd, **env)
        self.finish(launched, status)
        return launched

    def finish(self, launched, status=0):
        found = launched.finish()
        if found != status:
            launched.fail(f'exit status {found}, expected {status}')

    def assert_narrow(self, text):
        """No line is wider than 100 columns, but for those of JSON."""
        for line in text.splitlines():
            self.assertTrue(line.startswith('{') or len(line) <= 100, f'more than 100 columns: {line}')


def arguments(count):
    """The first `count` words of the command, which are not for unittest."""
    words, sys.argv[1:] = sys.argv[1:count + 1], sys.argv[count + 1:]
    return words
