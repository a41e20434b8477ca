# SPDX-License-Identifier: BSD-3-Clause
"""Owns jobs of tutti-train-tested, whose ranks die, stop or wait at given moments (moments.c), and what they log.

The environment names the programs and the data: TEST_RUN, TEST_TRAIN, DIGITS; and TRAIN_DEVICE, host or cuda."""
import contextlib
import itertools
import json
import os
import signal

from launched import ProgramTest

RUN, TRAIN, DIGITS = (os.environ[name] for name in ('TEST_RUN', 'TEST_TRAIN', 'DIGITS'))
DEVICE = os.environ.get('TRAIN_DEVICE', 'host')
EPOCHS = 6
STEPS = 23  # of an epoch: 1438 samples to train on, 64 at a time
NUMBERS = itertools.count()


class Log:
    """What a training wrote by --json. The end of it is {} where there is none."""

    def __init__(self, path):
        with open(path) as file:
            events = [json.loads(line) for line in file]
        self.epochs, self.losses, ends = ([event for event in events if event['event'] == kind]
                                          for kind in ('epoch', 'loss', 'end'))
        self.end = ends[0] if ends else {}

    @property
    def train_losses(self):
        return [epoch['train_loss'] for epoch in self.epochs]


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

    def wake(self, pid):
        """Unless its launcher has ended it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
