#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare tutti-train with PyTorch's DistributedDataParallel over Gloo on this machine.

Both train the same multilayer perceptron, in the same type, by the same optimiser and batches, with one thread per
rank. Every repetition runs all contestants one after another, each second one in reverse order. The first epoch of
a run is not timed: connections are made in it. What was trained is checked in every run.
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

from arguments import Parser, number, numbers, some_of, words
from machine import Failure, Lines, built, in_turn, lower_quartile, run_limited, run_main

HERE = os.path.dirname(os.path.abspath(__file__))
RANK = os.path.join(HERE, 'peers', 'ddp_rank.py')
DIGITS = os.path.join(HERE, '..', 'data', 'digits.csv.gz')
SKIPPED = 77
GOAL = 1.3                      # tutti / PyTorch, at two ranks in float32
LEAST_ACCURACY = 0.9            # on the digits
TOLERANCE = 0.25                # of the larger loss on the digits: weights and order begin differently
DIVERGED = 10                   # times the loss of guessing, as in tutti-train
OPTIMISER = {'momentum': '0.9', 'weight-decay': '0.003'}
DTYPES = {'float32': 'f32', 'float64': 'f64'}       # as tutti-train calls them


class Model:
    """A multilayer perceptron and its data: the digits, or as many rows as fill `steps` batches."""

    def __init__(self, name, args):
        self.name, self.digits = name, name == 'digits'
        self.widths = '64-128-64-10' if self.digits else name
        self.epochs = args.epochs or (40 if self.digits else 3)
        self.made_up, self.rate = args.steps * args.batch, '0.05' if self.digits else '0.001'

    def data(self):
        features, *_, classes = self.widths.split('-')
        return DIGITS if self.digits else f'synthetic:{self.made_up}x{features}x{classes}'

    def shared_options(self, args):
        """What both sides call the same."""
        options = {'epochs': self.epochs, 'batch': args.batch, 'lr': self.rate, 'seed': 1, **OPTIMISER}
        return [word for name, value in options.items() for word in (f'--{name}', str(value))]


# ---- runs

def run_ranks(command, ranks, args):
    """Start ranks, of both sides by the same launcher; returns the lines of the file that rank 0 writes."""
    # Gloo looks up the host's name otherwise, which need not be known
    env = {'GLOO_SOCKET_IFNAME': 'lo', **os.environ, 'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1'}
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, 'log')
        status, errors = run_limited([args.run, '-n', str(ranks), '--bind', args.bind, '--', *command, '--json', log],
                                     env, args.limit)
        if status != 0:
            how = f'did not end in {args.limit:g} s (--limit)' if status is None else f'ended with status {status}'
            raise Failure(f'{" ".join(command[:2])} with {ranks} ranks {how}\n{errors}')
        with open(log) as file:
            return [json.loads(line) for line in file]


# ---- contestants

class Tutti:
    """tutti-train, with buckets of a size, or of its own."""

    name = 'tutti'

    def __init__(self, bucket):
        self.bucket = bucket

    def train(self, point, args):
        events = run_ranks([args.train, *self.options(point, args)], point.ranks, args)
        epochs = [event for event in events if event['event'] == 'epoch']
        last = epochs[-1]
        return {'version': events[0]['version'], 'rows': events[0]['train_samples'],
                'seconds': [epoch['seconds'] for epoch in epochs],
                'loss': last['train_loss'], 'accuracy': last['train_accuracy']}

    def options(self, point, args):
        hidden = ','.join(point.model.widths.split('-')[1:-1])
        return ['--data', point.model.data(), '--test-fraction', '0', '--hidden', hidden or 'none',
                '--dtype', DTYPES[point.dtype], '--lr-scaling', 'none', '--schedule', 'constant', '--warmup', '0',
                *point.model.shared_options(args), *(['--bucket', self.bucket] if self.bucket else [])]


class PyTorch:
    """DistributedDataParallel over Gloo, by peers/ddp_rank.py."""

    name, bucket = 'pytorch', None

    def train(self, point, args):
        model = point.model
        options = ['--data', DIGITS if model.digits else str(model.made_up), '--widths', model.widths,
                   '--dtype', point.dtype, *model.shared_options(args)]
        return run_ranks([args.python, RANK, *options], point.ranks, args)[0]


def samples_per_s(result):
    """Without the first epoch."""
    seconds = result['seconds']
    return result['rows'] * (len(seconds) - 1) / (seconds[-1] - seconds[0])


class Series:
    """What a contestant showed over the repetitions."""

    def __init__(self, contestant):
        self.contestant, self.speeds = contestant, []

    def typical(self):
        """That of the lower quartile of the times."""
        return 1 / lower_quartile([1 / speed for speed in self.speeds])

    def cell(self):
        return f'{self.typical():.0f} ({min(self.speeds):.0f}–{max(self.speeds):.0f})'


# ---- a point of the table

class Point:
    """A model in a type on a number of ranks, trained by all contestants."""

    def __init__(self, model, dtype, ranks, contestants):
        self.model, self.dtype, self.ranks = model, dtype, ranks
        self.all = [Series(contestant) for contestant in contestants]
        self.tutti = [series for series in self.all if series.contestant.name == 'tutti']
        self.torch = next((series for series in self.all if series.contestant.name == 'pytorch'), None)

    def __str__(self):
        return f'{self.model.name}, {self.dtype}, {self.ranks} rank{"s" if self.ranks > 1 else ""}'

    def measure(self, args):
        for repetition in range(args.repeats):
            results = []
            for series in in_turn(self.all, repetition):
                result = series.contestant.train(self, args)
                self.check(series.contestant.name, result, results)
                series.speeds.append(samples_per_s(result))
                results.append(result)
                self.write(series, repetition, result, args)

    def check(self, name, result, before):
        """Both sides trained, on as many samples, and came to about the same loss."""
        loss, accuracy = result['loss'], result['accuracy']
        guessing = math.log(int(self.model.widths.split('-')[-1]))
        if not 0 <= loss <= DIVERGED * guessing:
            raise Failure(f'{self}: {name} ends with a loss of {loss:.3g}, expected one below that of guessing, '
                          f'{guessing:.3g}, or not far above it')
        if self.model.digits and not accuracy >= LEAST_ACCURACY:
            raise Failure(f'{self}: {name} ends with an accuracy of {accuracy:.3f}, expected {LEAST_ACCURACY} at '
                          'least; try more --epochs or a smaller --batch')
        for other in before:
            if result['rows'] != other['rows'] or len(result['seconds']) != len(other['seconds']):
                raise Failure(f'{self}: one run has {len(other["seconds"])} epochs of {other["rows"]} samples, and '
                              f'another {len(result["seconds"])} of {result["rows"]}; expected the same of all')
            if self.model.digits and abs(loss - other['loss']) > TOLERANCE * max(loss, other['loss']):
                raise Failure(f'{self}: one run ends with a loss of {other["loss"]:.4g}, and another with '
                              f'{loss:.4g}; expected no more than {TOLERANCE:.0%} between them')

    def write(self, series, repetition, result, args):
        args.lines.write({
            'library': series.contestant.name, 'version': result['version'], 'model': self.model.name,
            'dtype': self.dtype, 'ranks': self.ranks, 'bucket': series.contestant.bucket, 'batch': args.batch,
            'repetition': repetition, 'samples_per_s': samples_per_s(result), 'seconds': result['seconds'],
            'train_loss': result['loss'], 'train_accuracy': result['accuracy']})

    def ratio(self, series):
        return series.typical() / self.torch.typical()

    def show(self):
        for series in self.tutti:
            row = f'{self.model.name:<20} {self.dtype:>8} {self.ranks:>6} {series.contestant.bucket or "default":>8}'
            row += f' {series.cell():>26}'
            if self.torch:
                ratios = [mine / other for mine, other in zip(series.speeds, self.torch.speeds)]
                row += f' {self.torch.cell():>26}  {self.ratio(series):.2f} ({min(ratios):.2f}–{max(ratios):.2f})'
            print(row, flush=True)


def show_heading(args):
    print('# samples/s, by the lower quartile of the step times of all repetitions (slowest–fastest)\n'
          f'# {args.repeats} repetition{"s" if args.repeats > 1 else ""}, batches of {args.batch}, '
          f'{len(os.sched_getaffinity(0))} cores' + (f', PyTorch {args.torch}' if args.torch else ''))
    print(f'{"model":<20} {"dtype":>8} {"ranks":>6} {"bucket":>8} {"tutti":>26}' +
          (f' {"PyTorch":>26}  tutti / PyTorch' if args.torch else ''), flush=True)


def named(points, least):
    """The points and buckets at which the ratio is less than that."""
    found = []
    for point in points:
        for series in point.tutti:
            if point.ratio(series) < least:
                bucket = f', bucket {series.contestant.bucket}' if series.contestant.bucket else ''
                found.append(f'{point}{bucket}: {point.ratio(series):.2f}')
    return '; '.join(found) or 'nowhere'


def show_summary(points, args):
    if len(args.bucket) > 1:
        print()
    for number, bucket in enumerate(args.bucket if len(args.bucket) > 1 else []):
        losses = [max(series.typical() for series in point.tutti) / point.tutti[number].typical() for point in points]
        print(f'# bucket {bucket}: {math.prod(losses) ** (1 / len(losses)):.3f} times as long as the best bucket '
              f'(geometric mean), at most {max(losses):.3f}')
    if args.torch:
        print(f'\n# slower than PyTorch: {named(points, 1)}')
        two = [point for point in points if point.ranks == 2 and point.dtype == 'float32']
        if two:
            print(f'# less than {GOAL} times as fast with 2 ranks in float32: {named(two, GOAL)}')


# ---- the command line

def parse_arguments():
    parser = Parser(description=__doc__.split('\n')[0])
    add = parser.add_argument
    add('-m', '--models', type=words('digits|[1-9][0-9]*(-[1-9][0-9]*)+', 'digits, or the widths of all layers, '
                                     'such as 784-4096-4096-10'), default=['digits', '784-4096-4096-10'],
        help='digits, or the widths of all layers, for which data are made up (digits,784-4096-4096-10)')
    add('-d', '--dtype', type=some_of(DTYPES), default=list(DTYPES), help='some of float32,float64 (both)')
    add('-r', '--ranks', type=numbers(1, 64), default=[1, 2, 4], help='such as 1,2,4 (1,2,4)')
    add('-n', '--repeats', type=number(1, 10000), default=7, help='runs of every contestant (7)')
    add('--bucket', type=words('[1-9][0-9]*[KM]?', 'bytes, such as 64K or 1M'), default=[None],
        help="sizes of tutti-train's buckets to compare, such as 64K,1M (its default)")
    add('--epochs', type=number(2, 100000), help='of every run, the first not timed (40 on the digits, 3 otherwise)')
    add('--steps', type=number(1, 100000), default=8, help='in an epoch on data that are made up (8)')
    add('--batch', type=number(1, 100000), default=64, help='samples in a step, of all ranks together (64)')
    add('--no-torch', dest='with_torch', action='store_false', help='only tutti-train')
    add('--python', default=sys.executable, help='the interpreter that has PyTorch (the one that runs this)')
    add('--bind', default='share', choices=['share', 'core', 'numa', 'none'],
        help="of both sides' ranks to cores, by tutti-run (share)")
    add('--limit', type=float, default=600, help='seconds after which a run has failed (600)')
    add('--build', default=os.path.join(HERE, '..', 'build'), help='build directory (build)')
    add('--json', help='write every run, one object per line')
    args = parser.parse_args()
    if max(args.ranks) > args.batch:
        parser.error(f'--batch: found {args.batch} for {max(args.ranks)} ranks, expected a sample for each rank')
    return args


def find_torch(args):
    """Its version, or None, after a line that says what is missing."""
    if not shutil.which(args.python):
        raise Failure(f'--python: {args.python} was not found, expected an interpreter that has PyTorch')
    asked = subprocess.run([args.python, RANK, '--version'], capture_output=True, text=True)
    if asked.returncode == SKIPPED:
        print(asked.stdout.strip())
        return None
    if asked.returncode:
        raise Failure(f'{args.python} cannot import PyTorch:\n{asked.stderr[-600:]}')
    return asked.stdout.strip()


def main():
    args = parse_arguments()
    args.torch = find_torch(args) if args.with_torch else None
    if args.with_torch and not args.torch:
        return SKIPPED
    args.run, args.train = built(args, 'tools/run/tutti-run'), built(args, 'trainer/tutti-train')
    args.lines = Lines(args.json)
    points = []
    show_heading(args)
    for model in args.models:
        for dtype in args.dtype:
            for ranks in args.ranks:
                points.append(Point(Model(model, args), dtype, ranks, [Tutti(bucket) for bucket in args.bucket] +
                                    ([PyTorch()] if args.torch else [])))
                points[-1].measure(args)
                points[-1].show()
    show_summary(points, args)
    return 0


if __name__ == '__main__':
    run_main('ddp.py', main)
