#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs PyTorch's own distributed tests, which its wheel carries, on tutti or on Gloo.

    pytorch_own.py --backend tutti --ranks 2 [--sample] [--json FILE] [TEST…]
    pytorch_own.py --table FILE…                the counts of several runs, and what differs

The tests ask for the name of the backend in many places, to skip what a backend has not. So tutti is
run in Gloo's place: every group that a test makes over "gloo" is one of tutti's, and the tests that
run are those that run over Gloo. The package tutti is installed, or PYTHONPATH names that of a build
(BUILD/bindings/python/package). Ranks are forked from this process, which has loaded PyTorch. Exit
status 77: PyTorch, or expecttest, which its tests need, is not there.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import time
import unittest
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
LIMIT_S = 120   # of one test
NOT_OURS = {    # with tutti
    'test_ddp_logging_data_cpu': "DDP's log has the name and the threads of Gloo's own class",
}


def prepare(ranks: int) -> None:
    """The environment that the tests read when they are imported."""
    os.environ.update(BACKEND='gloo', WORLD_SIZE=str(ranks), MASTER_ADDR='127.0.0.1', OMP_NUM_THREADS='1',
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT_S))
    os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
    os.environ.setdefault('TUTTI_TRACE', 'off')


def put_in_place_of_gloo() -> None:
    import torch.distributed as dist
    import tutti.torch
    from torch.testing._internal.distributed import distributed_test

    tutti.torch._extension()     # built, and loaded before ranks are forked
    dist.Backend._plugins['GLOO'] = dist.Backend._plugins['TUTTI']
    # or DDP would read members of Gloo's class
    dist.Backend.backend_type_map['gloo'] = dist.Backend.backend_type_map['tutti']
    events_named = distributed_test.get_profiling_event

    def renamed(name: str, *args, **kwargs):
        events = events_named(name.replace('gloo:', 'tutti:'), *args, **kwargs)
        for event in events:
            event.name = event.name.replace('tutti:', 'gloo:')
        return events
    distributed_test.get_profiling_event = renamed


def make_tests(backend: str):
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test

    if backend == 'tutti':
        put_in_place_of_gloo()

    class Distributed(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            start = common_distributed.torch.multiprocessing.get_context('fork').Process
            self._start_processes(start)

    for name, reason in NOT_OURS.items() if backend == 'tutti' else ():
        setattr(Distributed, name, unittest.skip(reason)(getattr(Distributed, name)))
    common_distributed.TIMEOUT_OVERRIDE.clear()
    return Distributed


class Result(unittest.TextTestResult):
    """One line for each test, when it ends."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.found = {}

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()

    def note(self, test, outcome, reason=''):
        name = test._testMethodName
        self.found[name] = {'outcome': outcome, 'reason': reason, 'seconds': round(time.monotonic() - self.begun, 2)}
        print(f'{outcome} {name} {self.found[name]["seconds"]} s {reason.splitlines()[-1] if reason else ""}', flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, 'passed')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, 'skipped', reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, 'failed', self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, 'failed', self._exc_info_to_string(err, test))


def sample() -> list[str]:
    with open(os.path.join(HERE, 'sample')) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith('#')]


def run(args) -> int:
    prepare(args.ranks)
    try:
        tests = make_tests(args.backend)
    except ModuleNotFoundError as error:
        if error.name not in ('torch', 'expecttest', 'numpy', 'tutti'):
            raise
        print(f'skipped: PyTorch\'s tests need {error.name} (pip install {error.name})')
        return SKIPPED
    names = args.tests or (sample() if args.sample else unittest.defaultTestLoader.getTestCaseNames(tests))
    result = unittest.TextTestRunner(resultclass=Result, stream=open(os.devnull, 'w')).run(
        unittest.TestSuite(map(tests, names)))
    counts = Counter(one['outcome'] for one in result.found.values())
    for name, one in result.found.items():
        if one['outcome'] == 'failed':
            print(f'---- {name}\n{one["reason"][-3000:]}')
    if args.json:
        with open(args.json, 'w') as file:
            json.dump({'backend': args.backend, 'ranks': args.ranks, 'tests': result.found}, file, indent=1)
    print(f'{args.backend}, {args.ranks} ranks: {counts["passed"]} passed, {counts["failed"]} failed, '
          f'{counts["skipped"]} skipped')
    return 1 if counts['failed'] or not result.found else 0


def table(files: list[str]) -> int:
    """Counts of each run; reasons of skips; tests that pass with Gloo and not with tutti."""
    runs = []
    for name in files:
        with open(name) as file:
            runs.append(json.load(file))
    print('| backend | ranks | passed | failed | skipped |\n|---|---|---|---|---|')
    for one in runs:
        counts = Counter(test['outcome'] for test in one['tests'].values())
        print(f'| {one["backend"]} | {one["ranks"]} | {counts["passed"]} | {counts["failed"]} | {counts["skipped"]} |')
    worse = 0
    for ranks in sorted({one['ranks'] for one in runs}):
        found = {one['backend']: one['tests'] for one in runs if one['ranks'] == ranks}
        for name, test in sorted(found.get('tutti', {}).items()):
            other = found.get('gloo', {}).get(name)
            if other and other['outcome'] != test['outcome']:
                worse += other['outcome'] == 'passed'
                print(f'{ranks} ranks, {name}: {test["outcome"]} with tutti, {other["outcome"]} with gloo')
        print(f'\n{ranks} ranks, reasons of skips with tutti:')
        for reason, number in Counter(test['reason'] for test in found.get('tutti', {}).values()
                                      if test['outcome'] == 'skipped').most_common():
            print(f'{number:4} {reason}')
    return 1 if worse else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--backend', choices=['tutti', 'gloo'], default='tutti')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--sample', action='store_true', help='only the tests that the file sample names')
    parser.add_argument('--json', help='where to write the outcome of each test')
    parser.add_argument('--table', nargs='+', help='files of --json: print a table instead')
    parser.add_argument('tests', nargs='*')
    args = parser.parse_args()
    return table(args.table) if args.table else run(args)


if __name__ == '__main__':
    sys.exit(main())
