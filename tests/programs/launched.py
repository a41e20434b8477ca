# SPDX-License-Identifier: BSD-3-Clause
"""Owns the starting of programs under test from Python, and the collecting of what they write."""
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../python'))
from patience import bound_s    # noqa: E402

UNTIL_PARENT_ENDS = ['/usr/bin/setpriv', '--pdeathsig', 'KILL', '--']

# shells start background jobs with SIGINT ignored, which programs would inherit
signal.signal(signal.SIGINT, signal.default_int_handler)


class Launched:
    """A process with its standard input as a pipe, and what it has written so far. It ends with this process."""

    def __init__(self, argv, env, cwd=None):
        self.process = subprocess.Popen([*UNTIL_PARENT_ENDS, *map(str, argv)], bufsize=0, cwd=cwd,
                                        env={**os.environ, **env}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.bytes = {self.process.stdout: bytearray(), self.process.stderr: bytearray()}
        self.open = list(self.bytes)

    @property
    def out(self):
        return self.bytes[self.process.stdout].decode(errors='replace')

    @property
    def err(self):
        return self.bytes[self.process.stderr].decode(errors='replace')

    @property
    def said(self):
        """Both streams."""
        return self.out + self.err

    @property
    def objects(self):
        """One of JSON in each line of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]

    def fail(self, why):
        raise AssertionError(f'stdout:\n{self.out}\nstderr:\n{self.err}\n{why}')

    def _collect_until(self, is_over, seconds=60):
        """Collect output of both streams until is_over(), or all of it has come."""
        end = time.monotonic() + bound_s(seconds)
        while self.open and not is_over():
            if not self.collect(max(0, end - time.monotonic())):
                self.fail(f'this was not over after {bound_s(seconds):g} s')

    def collect(self, seconds):
        """Collect what there is, or comes within `seconds`: has anything, or the end?"""
        ready = select.select(self.open, [], [], seconds)[0]
        for stream in ready:
            some = os.read(stream.fileno(), 65536)
            self.bytes[stream] += some
            if not some:
                self.open.remove(stream)
        return bool(ready)

    def await_text(self, text, times=1, err=False):
        """Collect output until `text` stands `times` times on standard output, or on standard error."""
        written = self.bytes[self.process.stderr if err else self.process.stdout]
        self._await(lambda: written.count(text.encode()) >= times, f'{times} times "{text}"')

    def _await(self, is_there, what):
        self._collect_until(is_there)
        if not is_there():
            self.fail(f'the end came before {what}')

    def await_match(self, pattern, err=False):
        """Collect output until `pattern` matches a part of standard output, or of standard error: the match."""
        def match():
            return re.search(pattern, self.err if err else self.out)
        self._collect_until(match)
        return match() or self.fail(f'the end came before "{pattern}"')

    def numbers_after(self, key):
        """The whole numbers behind each `key` of standard output."""
        return [int(number) for number in re.findall(re.escape(key) + r'(-?\d+)(?=\D)', self.out)]

    def await_numbers(self, key, count):
        """The first `count` numbers behind `key`, once they have been written."""
        self._await(lambda: len(self.numbers_after(key)) >= count, f'{count} numbers behind "{key}"')
        return self.numbers_after(key)[:count]

    def send(self, number):
        os.kill(self.pid, number)

    def write(self, text):
        self.process.stdin.write(text.encode())

    def close_input(self):
        self.process.stdin.close()

    def close_output(self):
        self.open.remove(self.process.stdout)
        self.process.stdout.close()

    def finish(self):
        """Collect all output and wait for the end: the exit status, or 128 + the signal."""
        self.close_input()
        self._collect_until(lambda: False)
        status = self.process.wait(bound_s(60))
        return status if status >= 0 else 128 - status

    def close(self):
        if self.process.poll() is None:
            started = list(started_by(self.pid))
            for pid in self.pid, *started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


def state_of(pid):
    """What a process does, by the kernel's letter: T: it is stopped; Z: it has ended. '' once it is gone."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ''


def await_state(pid, *states, seconds=20):
    end = time.monotonic() + bound_s(seconds)
    while state_of(pid) not in states:
        if time.monotonic() > end:
            raise AssertionError(f'process {pid} is {state_of(pid)} after {bound_s(seconds):g} s, expected {states}')
        os.sched_yield()


def children_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as file:
        return [int(child) for child in file.read().split()]


def started_by(pid):
    """What a process has started, and what that has, in this test's process group: what leaves it (ranks, and who cleans up
    after them) ends when tutti-run does."""
    for child in children_of(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.getpgid(child) == os.getpgrp():
                yield child
                yield from started_by(child)


@contextlib.contextmanager
def ends_of(pids, seconds=20):
    """Each of these processes has to end after what is done within, if it has not ended before."""
    with contextlib.ExitStack() as stack:
        ends = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                ends[pid] = os.pidfd_open(pid)
                stack.callback(os.close, ends[pid])
        yield
        for pid, end in ends.items():
            if not select.select([end], [], [], bound_s(seconds))[0]:
                raise AssertionError(f'process {pid} has not ended after {bound_s(seconds):g} s')


class ProgramTest(unittest.TestCase):
    """Claims about programs. Each has a directory of its own, self.dir; what it started ends with it."""

    launched = Launched

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='tutti-test-')
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, content='', mode=0o600):
        """A file in self.dir with the directories above it."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), 'w' if isinstance(content, str) else 'wb') as file:
            file.write(content)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name, mode='r'):
        with open(self.path(name), mode) as file:
            return file.read()

    def objects_of(self, name):
        """One of JSON in each line of a file."""
        return [json.loads(line) for line in self.read(name).splitlines()]

    def start(self, *argv, cwd=None, **env):
        """A program with these variables beside those of the environment."""
        launched = self.launched(argv, {name: str(value) for name, value in env.items()}, cwd)
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

    def assert_output_is_missed(self, *argv, status=1, **env):
        """The program says that its standard output could not be written, and ends with `status`."""
        for to, why in ('/dev/full', 'No space left on device'), ('&-', 'Bad file descriptor'):
            run = self.run_to_end('/bin/sh', '-c', f'exec "$0" "$@" >{to}', *argv, status=status, **env)
            self.assertIn(f'cannot write the standard output: {why}; make space, or', run.err)

    def assert_all_gone(self, launched, count=None):
        """Each process that wrote "pid N" is gone; there were `count`."""
        pids = launched.numbers_after('pid ')
        self.assertEqual(len(pids), len(pids) if count is None else count, launched.out)
        self.assertEqual([pid for pid in pids if state_of(pid)], [], 'these are still there')

    def assert_narrow(self, text):
        """No line is wider than 100 columns, but for those of JSON."""
        for line in text.splitlines():
            self.assertTrue(line.startswith('{') or len(line) <= 100, f'more than 100 columns: {line}')


def arguments(count):
    """The first `count` words of the command, which are not for unittest; files of any directory."""
    words, sys.argv[1:] = sys.argv[1:count + 1], sys.argv[count + 1:]
    return [os.path.abspath(word) if os.path.exists(word) else word for word in words]
