#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault matrix: every way in which a rank can be lost, at every phase of a job, over every transport,
for every place of the victim. Without --all or --only it plays a selection in which every two values of
two axes meet: most defects of a table with several axes show in some pair of values."""
import argparse
import concurrent.futures
import itertools
import random
import subprocess
import sys
import tempfile
import time

OUTPUT_MAX = 20000   # bytes of a failed case's output that are shown


def pairs(case):
    return set(itertools.combinations(enumerate(case.split('/')), 2))


def selection(cases, seed):
    """Greedy: the case that holds most pairs not yet seen comes next; among equals the seed decides."""
    cases = random.Random(seed).sample(cases, len(cases))
    wanted = set().union(*map(pairs, cases))
    while wanted:
        best = max(cases, key=lambda case: len(pairs(case) & wanted))
        wanted -= pairs(best)
        yield best


def play(options, case):
    """Its exit status, and what it has said, of which the last line is the verdict. Into a file: what a case
    leaves behind would keep a pipe open."""
    command = [options.program, case, str(options.seed)]
    with tempfile.TemporaryFile() as output:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
        output.seek(0, 2)
        output.seek(max(0, output.tell() - OUTPUT_MAX))
        return status, output.read().decode(errors='replace').rstrip('\n').split('\n')


def read_options():
    parser = argparse.ArgumentParser(prog='fault_matrix', description=__doc__)
    parser.add_argument('program', help=argparse.SUPPRESS)
    parser.add_argument('--all', action='store_true', help='every case')
    parser.add_argument('--faults', metavar='A,B', help='these faults alone, such as kill,abort')
    parser.add_argument('--only', metavar='TEXT', help='of all cases those whose names contain TEXT, such as kill/large')
    parser.add_argument('--part', metavar='K/N', default='1/1', help='of what is chosen the Kth of N parts')
    parser.add_argument('--seed', metavar='N', type=int, default=1, help='of the selection, and of what is random in a case')
    parser.add_argument('--jobs', metavar='N', type=int, default=4, help='cases at a time')
    parser.add_argument('--list', action='store_true', help='print the names of the cases, play none')
    return parser.parse_args()


def choose(options):
    cases = subprocess.run([options.program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if options.faults:
        cases = [case for case in cases if case.split('/')[0] in options.faults.split(',')]
    if options.all or options.only:
        return [case for case in cases if (options.only or '') in case]
    return list(selection(cases, options.seed))


def part_of(cases, part):
    number, of = map(int, part.split('/'))
    return cases[number - 1::of]


def main():
    options = read_options()
    cases = part_of(choose(options), options.part)
    start = time.monotonic()
    count = {'ok': 0, 'skipped': 0, 'FAILED': 0}

    if options.list or not cases:
        print('\n'.join(cases) or 'no case of these faults has such a name; --all --list shows them')
        return 0 if cases else 2
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, (status, said) in zip(cases, pool.map(lambda case: play(options, case), cases)):
            outcome = {0: 'ok', 77: 'skipped'}.get(status, 'FAILED')
            count[outcome] += 1
            print(f'{outcome} {case}: {said[-1]}')
            if outcome == 'FAILED':
                print(f'    | status {status}', *said[:-1], sep='\n    | ')
            sys.stdout.flush()
    print('fault matrix: cases', *(f'{n} {outcome},' for outcome, n in count.items()),
          f'in {time.monotonic() - start:.0f} s; seed {options.seed}')
    return 1 if count['FAILED'] else 0


sys.exit(main())
