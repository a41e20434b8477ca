# SPDX-License-Identifier: BSD-3-Clause
"""Owns jobs of tutti-train, and of tutti-train-tested, whose ranks die, stop or wait at given moments (moments.c), and
what they log.

The environment names the programs and the data: TEST_RUN, TEST_TRAIN, DIGITS; and TRAIN_DEVICE, host or cuda, and
TEST_TRAIN_TESTED where TEST_TRAIN is the program as users have it."""
import contextlib
import gzip
import importlib.util
import itertools
import json
import operator
import os
import re
import signal
import types
import unittest
import unittest.mock

from launched import ProgramTest

RUN, TRAIN, DIGITS = (os.environ[name] for name in ('TEST_RUN', 'TEST_TRAIN', 'DIGITS'))
TESTED = os.environ.get('TEST_TRAIN_TESTED', TRAIN)
DEVICE = os.environ.get('TRAIN_DEVICE', 'host')
EPOCHS = 6
TIMEOUT_S = 4 if DEVICE == 'cuda' else 2    # of those who wait for a rank that has stopped
LONG_S = 140    # no deadline passes in a test
STEPS = 23  # of an epoch: 1438 samples to train on, 64 at a time
NUMBERS = itertools.count()
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs/reference/trainer.md')
# what its reader needs, where there is no NumPy
Numpy = types.SimpleNamespace(frombuffer=lambda data, kind, count, at:
                              memoryview(data)[at:at + count * int(kind[2])].cast({'<f4': 'f', '<f8': 'd'}[kind]))
host_only = unittest.skipIf(DEVICE == 'cuda', 'on GPUs there is one way')


def paired(*lists):
    """zip(strict=True), which Python 3.9 has not."""
    if len({len(one) for one in lists}) > 1:
        raise AssertionError(f'not as long as each other: {lists}')
    return zip(*lists)


class Log:
    """What a training wrote by --json. The end of it is {} where there is none."""

    def __init__(self, path):
        with open(path) as file:
            events = [json.loads(line) for line in file]
        self.starts, self.epochs, self.losses, ends = ([event for event in events if event['event'] == kind]
                                                       for kind in ('start', 'epoch', 'loss', 'end'))
        self.end = ends[0] if ends else {}

    @property
    def train_losses(self):
        return [epoch['train_loss'] for epoch in self.epochs]

    @property
    def test_losses(self):
        return [epoch['test_loss'] for epoch in self.epochs]

    @property
    def bits(self):
        """Equal where two trainings have the same weights at their end, and had the same losses on the way."""
        return self.end['weights'][0], self.train_losses

    def of_ranks(self, key):
        """A number that each rank had at the end."""
        return [rank[key] for rank in self.end['each_rank']]


class Gate:
    """Ranks wait at it, as moments say: 2@step30={gate}."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR)

    def __str__(self):
        return self.path

    def open(self):
        os.close(self.fd)


class TrainingTest(ProgramTest):
    def train(self, ranks, options='', at='', run='', log='log', epochs=EPOCHS, **env):
        """A job of `ranks` ranks, of tutti-run with the options `run`. At each moment of `at` a rank dies, or does what
        that says."""
        moments = ''.join(f' {word}' if '=' in word else f' {word}=KILL' for word in at.split())
        return self.start(RUN, '-n', ranks, *run.split(), '--', TRAIN, '--data', DIGITS, '--json', self.path(log),
                          '--epochs', epochs, *options.split(), TRAIN_MOMENTS=moments, **env)

    def gate(self):
        return Gate(self.path(f'gate{next(NUMBERS)}'))

    def log(self, name='log'):
        """That of a training that has come to its end."""
        log = Log(self.path(name))
        self.assertEqual(log.end.get('losses'), len(log.losses), 'the end of the log')
        return log

    def await_moment(self, job, rank, moment, action='STOP'):
        """The process of this rank that has come there."""
        return int(job.await_match(rf'\[{rank}\] {action} at {moment}: process (\d+)\n')[1])

    def start_joined(self, ranks, at, start):
        """A job of start(at), and its processes. They join at once, but for those that `at` stops then: their short
        deadlines begin when all are there."""
        gate = self.gate()
        actions = {rank: 'STOP' if f' {rank}@join1' in f' {at}' else gate for rank in range(ranks)}
        job = start(at + ''.join(f' {rank}@join1={gate}' for rank, action in actions.items() if action is gate))
        pids = {rank: self.await_moment(job, rank, 'join1', action) for rank, action in actions.items()}
        gate.open()
        return job, pids

    def lose_last(self, job, gate, moment, actions):
        """When ranks have come to this moment, by what they do there: the last of them, at the gate, is killed."""
        pids = [self.await_moment(job, rank, moment, action) for rank, action in actions.items()]
        os.kill(pids[-1], signal.SIGKILL)
        gate.open()

    def wake(self, pid):
        """Unless its launcher has ended it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    # ---- with options that may say all

    def ranks(self, ranks, options, status=0, device=DEVICE, program=TRAIN, run='', **env):
        """tutti-train on so many ranks in self.dir, after its end."""
        return self.run_to_end(RUN, '-n', ranks, *run.split(), '--', program, '--device', device, *options.split(),
                               status=status, cwd=self.dir, **env)

    def log_of_ranks(self, ranks, options, **more):
        """The log of a training that has ended well."""
        self.last = self.ranks(ranks, f'{options} --json log', **more)
        log = Log(self.path('log'))
        start, = log.starts
        self.assertEqual(start['ranks'], ranks)
        self.assertIn('device', start)
        self.assertEqual([epoch['epoch'] for epoch in log.epochs], list(range(1, len(log.epochs) + 1)))
        self.assertGreater(min(log.end['seconds'], log.end['samples_per_s'], len(log.epochs)), 0)
        return log

    def text_of(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def lines_of_digits(self):
        with gzip.open(DIGITS, 'rt') as file:
            return file.readlines()

    def digits(self, ranks, options='', **more):
        return self.log_of_ranks(ranks, f'--data {DIGITS} {options}', **more)

    def kill_when_saved(self, ranks, options, data=DIGITS):
        """A training whose rank 1 is killed in its fifth epoch: there is a checkpoint of the third, ck."""
        job = self.ranks(ranks, f'--data {data} {options} --save ck --every-epochs 3', status=128 + signal.SIGKILL,
                         program=TESTED, TRAIN_MOMENTS=f' 1@step{4 * STEPS + 1}=KILL')
        self.assertTrue(os.path.exists(self.path('ck')), job.said)

    def read_by_the_page(self, name):
        """By the reader that docs/reference/trainer.md shows: the header, and arrays by name."""
        with open(PAGE) as page:
            reader = re.search(r'```python\n(.*?)```', page.read(), re.DOTALL)[1]
        known = {}
        with unittest.mock.patch.dict('sys.modules', {} if importlib.util.find_spec('numpy') else {'numpy': Numpy}):
            exec(reader.replace('model.ck', self.path(name)), known)
        return known['header'], known['arrays']

    def assert_arrays(self, found, expected):
        """Of two checkpoints: equal but for the order of sums, of which small numbers tell less."""
        for name, numbers in expected.items():
            self.assertEqual(len(found[name]), len(numbers), name)
            most = max(map(abs, numbers))
            self.assertGreater(most, 0, name)
            self.assertLess(max(map(abs, map(operator.sub, found[name], numbers))), 1e-9 * most, name)

    def refuses(self, ranks, options, *texts, **more):
        """All ranks end by themselves, and these texts are said."""
        said = self.ranks(ranks, options, status=1, **more).said
        for text in texts:
            self.assertIn(text, said)

    def refuses_unequal(self, ranks, script, *texts):
        """`script` gives each rank options of its own; $0 is the program."""
        said = self.run_to_end(RUN, '-n', ranks, '--', 'sh', '-c', script, TRAIN, status=1, cwd=self.dir).said
        for text in texts:
            self.assertIn(text, said)

    def assert_losses(self, found, expected, most):
        """As different as numbers are that were added in another order."""
        self.assert_close(found.train_losses + found.test_losses, expected.train_losses + expected.test_losses, most)

    def assert_close(self, found, expected, most, what=None):
        """Numbers, of which each differs by such a part."""
        for a, b in paired(found, expected):
            self.assertLessEqual(abs(a - b), most * b, what or (found, expected))

    def expect_left_out(self, job, victim, pid, name):
        """A process that stopped is lost by a deadline, and ends once it goes on: the log."""
        job.await_text(f'lost rank {victim} ')
        self.wake(pid)
        self.assertLessEqual(job.finish(), 1)   # 1: the others had all ended well when it failed
        log = self.log(name)
        self.assertEqual([(loss['lost'], loss['how']) for loss in log.losses], [([victim], 'deadline')])
        return log
