# SPDX-License-Identifier: BSD-3-Clause
"""What programs that compare share: figures of the machine, turns, what stands for runs that differ, and their ends."""
import errno
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from arguments import not_written

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
    """What --json writes: an object to a line. "-" is the standard output; without a path it goes nowhere."""

    def __init__(self, path):
        self.path = path
        try:
            self.file = sys.stdout if path == '-' else open(path or os.devnull, 'w')
        except OSError as error:
            self.fail(error)

    def write(self, found):
        try:
            print(json.dumps(found), file=self.file, flush=True)
        except OSError as error:
            self.fail(error)

    def fail(self, error):
        raise Failure(f'--json: cannot write "{self.path}": {error.strerror}; make space, or name another place')


def read_saved(paths, is_one):
    """What --json wrote, by file; `is_one` knows an object of it."""
    files = []
    for path in paths:
        try:
            with open(path) as file:
                files.append([json.loads(line) for line in file])
        except (OSError, ValueError) as error:
            raise Failure(f'--show: {path} cannot be read: {error}; expected a file that --json wrote')
    if not any(files) or not all(map(is_one, itertools.chain(*files))):
        raise Failure(f'--show: {", ".join(paths)}: expected results that --json wrote')
    return files


def built(args, path):
    """A program below the build directory."""
    program = os.path.join(args.build, path)
    if not shutil.which(program):
        raise Failure(f'{program} was not found: run "meson setup build && ninja -C build", or give --build')
    return program


def run_main(program, main):
    """Ends with the status of main(), once what it printed is written; what it has begun is undone if it is ended before."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        status = main()
        sys.stdout.flush()
    except Failure as failure:
        sys.exit(f'{program}: {failure}')
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.filename:
            raise
        print(not_written(program, error), file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)    # nothing more can be said there
        status = 1
    sys.exit(status)
