# SPDX-License-Identifier: BSD-3-Clause
"""What programs that compare share: figures of the machine, turns, what stands for runs that differ, and their ends."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

MACHINE = {'line': 'the way of a line from one core to another',
           'switch': 'the time in which a core goes from one process to another by sched_yield()'}


def lower_quartile(values):
    """By the nearest rank. Some machines pass lines between cores in one of two ways from run to run:
    the median of a few runs then shows the draw."""
    return sorted(values)[(len(values) + 3) // 4 - 1]


def spread(values, form='.0f'):
    """The median, with the least and the most; "-" of none."""
    if not values:
        return '-'
    return f'{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})'


def in_turn(contestants, repetition):
    """In an order that every second repetition reverses."""
    return contestants[::-1] if repetition % 2 else contestants


def run_limited(command, env, limit):
    """Run; returns (exit status, end of standard error), the status None after the time limit."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.terminate()     # a launcher ends its ranks
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        errors.seek(0)
        return status, errors.read().decode(errors='replace')[-1500:]


class Failure(Exception):
    """Ends a program with its sentence."""


class Lines:
    """What --json writes: an object to a line. Without a path it goes nowhere."""

    def __init__(self, path):
        self.path = path
        try:
            self.file = open(path or os.devnull, 'w')
        except OSError as error:
            self.fail(error)

    def write(self, found):
        try:
            print(json.dumps(found), file=self.file, flush=True)
        except OSError as error:
            self.fail(error)

    def fail(self, error):
        raise Failure(f'--json: cannot write "{self.path}": {error.strerror}; make space, or name another place')


def built(args, path):
    """A program below the build directory."""
    program = os.path.join(args.build, path)
    if not shutil.which(program):
        raise Failure(f'{program} was not found: run "meson setup build && ninja -C build", or give --build')
    return program


def run_main(program, main):
    """Ends with the status of main(); what it has begun is undone if it is ended before."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f'{program}: {failure}')
    except KeyboardInterrupt:
        sys.exit(130)
