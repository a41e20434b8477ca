#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare, with programs that answer what a test wants; and tutti-bound.

test_bench_compare.py COMPARE TUTTI_BOUND"""
import json
import os
import shutil
import sys
import unittest

from launched import ProgramTest, arguments, bound_s, state_of

COMPARE, BOUND = arguments(2)

ANSWER = '''#!/bin/sh
call=$1 words="$1 $2 $3"
while [ $# -gt 0 ]; do
  case $1 in --json) json=$2 ;; -r) ranks=$2 ;; esac
  shift
done
for point in {points}; do
  echo '{{"bytes": '${{point%:*}}', "wrong": {wrong}, "ranks": '$ranks', "collective": "'$call'",' \\
    '"dtype": "float32", "op": "sum", "version": "0.1.0", "machine": "Processor, 2 cores", "date": "2026-01-31",' \\
    '"time_us": {{"median": '${{point#*:}}'}}}}'
done >"$json"
{end}
'''
ANSWER_ALL = '''#!/bin/sh
more=0 odd=$0.$$
if [ {step} != 0 ]; then
  case $* in *bcube*) odd=$0.b ;; *ring*) odd=$0.r ;; *) odd=$0.h ;; esac
  if [ -e "$odd" ]; then rm "$odd"; more={step}; else : >"$odd"; fi
fi
say() {{
  echo '{{"bytes": '$2', "wrong": 0, "ranks": 2, "collective": "'$1'", "time_us": {{"median": '$(($3 + more))'}}}}'
}}
while [ "$1" != --json ]; do shift; done
{{ {lines}; }} >"$2"
'''
HANG = '''
tail -f /dev/null &
echo $$ $! >>"$0.pids"
wait
'''


class Compare(ProgramTest):
    def program(self, name, times, wrong=0, end=''):
        points = ' '.join(f'{size}:{time}' for size, time in times.items())
        self.write(f'bench/{name}', ANSWER.format(points=points, wrong=wrong, end=end), mode=0o755)

    def compare(self, *words, status=0):
        return self.run_to_end(sys.executable, COMPARE, '-r', 2, '-t', 'tcp', '-p', 'gloo', '-n', 2,
                               '--build', self.dir, *words, status=status)

    def row(self, text, size):
        return [line for line in text.splitlines() if line.split()[:1] == [str(size)]][0]

    def test_slower_points_are_named_and_others_are_not(self):
        self.program('tutti-bench', {8: 10.0, 64: 10.0, 512: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 5.0, 64: 9.5, 512: 20.0})
        run = self.compare()
        summary = run.out.splitlines()[-1]
        self.assertIn(' 2 ranks, 8 B: 2.00 × gloo', summary)
        self.assertNotIn(' 64 B', summary)
        self.assertNotIn(' 512 B', summary)
        self.assertIn(' 2.00 gloo', self.row(run.out, 512))

    def answer_all(self, name, tables, step=0):
        """A program that answers for several collectives; every second time it takes `step` longer for each."""
        lines = '; '.join(f'say {call} {size} {time}' for call, times in tables.items() for size, time in times.items())
        self.write(f'bench/{name}', ANSWER_ALL.format(step=step, lines=lines), mode=0o755)

    def test_all_has_a_row_for_each_collective_and_says_what_is_not_decided(self):
        self.answer_all('tutti-bench', {'all_reduce': {8: 10, 64: 10}, 'all_gather': {16: 10, 64: 50}})
        self.answer_all('peers/tutti-peer-gloo', {'all_reduce': {8: 15, 64: 5}, 'all_gather': {16: 20, 64: 20}}, step=8)
        raw, picture = self.path('raw'), self.path('all.svg')
        words = ['--plot', picture] if shutil.which('gnuplot') else []
        measured = self.compare('all', '-n', 6, '--json', raw, *words)
        self.assertEqual(measured.err, '')
        self.assertIn('lower quartiles of 6 runs', measured.out)
        rows = [line.split() for line in measured.out.splitlines() if ' tcp ' in line]
        self.assertEqual(rows, [['all_reduce', 'tcp', '2', '1.50', '0.50?', '0.87', '0.50'],
                                ['all_gather', 'tcp', '2', '2.00', '0.40', '0.89', '0.40']])
        self.assertIn('slower than the fastest peer in 1 of 4 cells, not decided in 1\n', measured.out)
        self.assertEqual(self.compare('--show', raw, *words).out, measured.out.split('\n', 1)[1])
        if words:
            drawn = self.read('all.svg')
            for text in 'all_gather', 'tcp, 2 ranks', 'time ÷ that of tutti':
                self.assertIn(f'>{text}<', drawn)

    def test_all_ends_when_its_time_is_over_and_leaves_out_who_is_slow_beyond_use(self):
        self.answer_all('tutti-bench', {'all_reduce': {8: 10}})
        self.answer_all('peers/tutti-peer-gloo', {'all_reduce': {8: 1000}})
        run = self.compare('all', '-r', 4096, '-n', 9, '--minutes', 0)
        self.assertEqual(run.out.count('8 B takes 1000 µs, 100 times as long as the fastest: left out'), 3)
        self.answer_all('tutti-bench', {'all_reduce': {8: 100000}})     # it is not left out whatever it takes
        self.answer_all('peers/tutti-peer-gloo', {'all_reduce': {8: 1000}})
        run = self.compare('all', '-r', 4096, '--minutes', 0)
        self.assertNotIn('left out', run.out)
        self.assertIn('all_reduce     tcp    4096  0.01 ', run.out)
        self.assertIn('lower quartiles of 1 runs', run.out)

    def test_nccl_takes_part_over_gpus_alone(self):
        self.program('tutti-bench', {8: 1.0})
        run = self.compare('-p', 'nccl', '-t', 'cuda', '--json', self.path('raw'))
        self.assertEqual(run.err, '')
        found = {(r['library'], r['variant']) for r in self.objects_of('raw')}
        self.assertEqual(found, {('tutti', 'plain'), ('tutti', 'graph'), ('tutti', 'windows'),
                                 ('tutti', 'windows,graph'), ('nccl', 'plain'), ('nccl', 'graph')})

    @unittest.skipUnless(os.environ.get('TEST_BUILD'), 'the stand-in for GPUs has no kernels')
    def test_nccl_alone_is_compared_on_gpus_and_refuses_to_share_one(self):
        run = self.run_to_end(sys.executable, COMPARE, '--build', os.environ['TEST_BUILD'],
                              '-p', 'nccl', '-b', 64, '-e', 64, '-n', 1, '--seconds', 0.01)
        one, two = run.out.split('cuda, 1 ranks')[1].split('cuda, 2 ranks')
        self.assertIn(' nccl/', self.row(one, 64))
        self.assertIn(' fails', self.row(two, 64))
        self.assertRegex(run.err, r'# nccl \(plain\), 2 ranks: fails\nrank [01]: NCCL: invalid usage: Duplicate GPU detected')

    def test_a_picture_that_cannot_be_made_is_refused_before_anything_runs(self):
        for name in 'picture', 'picture.pdf', '.svg':
            run = self.compare('--plot', self.path(name), status=2)
            self.assertIn('expected a file name that ends in .svg or .png', run.err)
            self.assertEqual(run.out, '')

    def test_a_peer_that_hangs_is_ended_and_keeps_what_it_measured(self):
        self.program('tutti-bench', {8: 1.0, 64: 1.0})
        self.program('peers/tutti-peer-gloo', {8: 2.0}, end=HANG)
        pids = 'bench/peers/tutti-peer-gloo.pids'
        for limit in 0.2, 2, bound_s(4):    # until all six runs have written something before it
            run = self.compare('--limit', limit)
            hanging = self.read(pids).split()
            if len(hanging) == 2 * 6:
                break
            os.unlink(self.path(pids))
        self.assertEqual(len(hanging), 2 * 6)
        self.assertIn('2.00 (2.00–2.00)', self.row(run.out, 8))
        self.assertIn('hangs', self.row(run.out, 64))
        self.assertEqual([pid for pid in hanging if state_of(pid)], [])

    def test_wrong_results_of_tutti_do_not_count_and_fail(self):
        self.program('tutti-bench', {8: 1.0}, wrong=3)
        self.program('peers/tutti-peer-gloo', {8: 2.0})
        run = self.compare(status=1)
        self.assertIn('wrong', self.row(run.out, 8))

    def test_raw_results_name_variant_and_repetition(self):
        self.program('tutti-bench', {8: 1.0})
        self.program('peers/tutti-peer-gloo', {8: 2.0})
        self.compare('--json', self.path('raw'))
        results = self.objects_of('raw')
        self.assertEqual(len(results), 2 * 4)    # tutti and three variants of Gloo, twice
        self.assertEqual({r['repetition'] for r in results}, {0, 1})
        self.assertIn('bcube', {r['variant'] for r in results})

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_a_picture_has_times_and_ratios_and_is_drawn_again_from_saved_results(self):
        self.program('tutti-bench', {8: 10.0, 64: 10.0, 512: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 15.0, 64: 12.0, 512: 20.0})
        raw = self.path('raw')
        measured = self.compare('--json', raw, '--plot', self.path("it's.svg"))
        self.assertEqual(measured.err, '')
        shown = self.compare('--show', raw, '--plot', self.path('second.svg'))
        self.assertEqual(shown.err, '')
        self.assertEqual(shown.out, measured.out.split('\n', 1)[1])     # all but what the network is
        picture = self.read("it's.svg")
        self.assertEqual(self.read('second.svg'), picture)
        for text in ['all_reduce, float32, sum', 'tcp, 2 ranks', 'tutti', 'Gloo', 'time', '10 µs', '64 B',
                     'time ÷ that of tutti', '1', '1.5', '2', 'Processor, 2 cores · tutti 0.1.0 · 2026-01-31']:
            self.assertIn(f'>{text}<', picture)
        self.assertIn('width="900"', picture)
        png = self.compare('--show', raw, '--plot', self.path('third.png'))
        self.assertEqual(png.err, '')
        self.assertEqual(self.read('third.png', 'rb')[16:20], (900).to_bytes(4, 'big'))

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_a_picture_that_cannot_be_written_is_a_failure(self):
        self.program('tutti-bench', {8: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 15.0})
        os.symlink('/dev/full', self.path('full.svg'))
        run = self.compare('--plot', self.path('full.svg'), status=1)
        self.assertIn('full.svg": No space left on device; make space, or', run.err)

    def test_what_cannot_be_shown_or_drawn_is_refused(self):
        other = self.write('other', '{"bytes": 8}')
        half = self.write('half', json.dumps({'table': ['tcp', 'malloc', 2], 'library': 'gloo', 'variant': 'ring',
                                              'collective': 'all_reduce', 'bytes': 8, 'wrong': 0, 'time_us': {'mean': 1}}))
        for words, sentence in [(['init', '--plot', 'x.svg'], 'init, which has no sizes to draw over'),
                                (['waiting'], 'waiting was found, which has figures of its own'),
                                (['-n', 0], '"0" was found, expected a whole number from 1 to'),
                                (['--minutes', 5], '--minutes 5 was found with all_reduce, expected it with all'),
                                (['all', '--no-tutti'], 'all was found with --no-tutti'),
                                (['barrier', '--plot', 'x.svg'], 'barrier, which has no sizes to draw over'),
                                (['--seconds', 'nan'], '"nan" was found, expected seconds, more than 0'),
                                (['all', '--minutes', 'nan'], '"nan" was found, expected minutes, 0 or more'),
                                (['-f', 1], '"1" was found, expected a whole number from 2 to'),
                                (['-r', '2,0'], '"2,0" was found, expected numbers from 1 to'),
                                (['--json', 'x', '--show', 'y'], '--json was found with --show'),
                                (['--show', '/nowhere'], '--show: /nowhere cannot be read'),
                                (['--show', half], 'expected results that --json wrote'),
                                (['--show', other], 'expected results that --json wrote')]:
            run = self.compare(*words, status=1 if words[0] == '--show' else 2)
            self.assertIn(sentence, run.err)

    def test_what_cannot_be_written_is_a_failure(self):
        self.program('tutti-bench', {8: 1.0})
        self.program('peers/tutti-peer-gloo', {8: 1.0})
        run = self.compare('--json', '/nowhere/raw', status=1)
        self.assertIn('--json: cannot write "/nowhere/raw": No such file', run.err)
        run = self.compare('--json', '/dev/full', status=1)
        self.assertIn('--json: cannot write "/dev/full": No space left', run.err)

    def test_help_that_is_not_written_is_a_failure(self):
        for program in COMPARE, f'{COMPARE}-hosts', f'{COMPARE}-rdma':
            self.assert_output_is_missed(sys.executable, program, '--help')

    def test_options_that_programs_refuse_are_refused_once(self):
        self.program('tutti-bench', {}, end='echo "tutti-bench: -b x" >&2; exit 2')
        self.program('peers/tutti-peer-gloo', {8: 1.0})
        self.assertEqual(self.compare('-b', 'x', status=2).err, 'tutti-bench: -b x\n')

    def test_a_missing_program_is_named(self):
        self.program('tutti-bench', {8: 1.0})
        run = self.compare(status=1)
        self.assertIn('tutti-peer-gloo was not found', run.err)

    def test_the_bound_is_no_peer(self):
        self.program('tutti-bench', {8: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 15.0})
        self.program('bounds/tutti-bound', {8: 8.0})
        run = self.compare('--bounds')
        self.assertIn(' 0.80     1.50 gloo', self.row(run.out, 8))
        self.assertIn('geometric mean of fastest peer / tutti: 1.50, least 1.50', run.out)

    def test_a_start_is_one_run_of_a_program_each_time(self):
        said = self.path('said')
        tell = f'echo $words >>{said}'
        self.program('tutti-bench', {8: 10.0}, end=tell)
        self.program('peers/tutti-peer-gloo', {8: 50.0}, end=tell)
        run = self.compare('init')
        self.assertIn('# init, tcp, 2 ranks', run.out)
        self.assertIn(' 5.00 gloo', self.row(run.out, 8))
        self.assertEqual(set(self.read('said').splitlines()), {'init -n 1'})

    def test_an_unknown_peer_or_collective_is_refused(self):
        self.compare('-p', 'ucc', status=2)
        self.assertIn('"" was found, expected some of malloc,tutti', self.compare('-m', '', status=2).err)
        self.assertIn("invalid choice: 'all_reduc'", self.compare('all_reduc', status=2).err)
        run = self.compare('-p', 'nccl', status=2)
        self.assertIn('takes part over cuda alone', run.err)

    def test_the_shortest_message_is_held_against_a_line_or_a_switch(self):
        self.program('tutti-bench', {8: 3.0})
        self.program('bounds/tutti-bound', {8: 0.5})
        cores = len(os.sched_getaffinity(0))
        run = self.compare('--bounds', '-t', 'shm', '-r', str(2 * cores))
        self.assertIn('# 8 B: tutti takes 3.00 × 2 × the time in which a core goes', run.out)
        if cores > 1:
            run = self.compare('--bounds', '-t', 'shm')
            self.assertIn('# 8 B: tutti takes 6.00 × the way of a line', run.out)


class Bound(ProgramTest):
    def bound(self, *words):
        """What it measured."""
        run = self.run_to_end(BOUND, *words, '--json', '-')
        self.assertEqual(run.err, '', words)
        return run.objects

    def test_output_that_is_not_written_is_a_failure(self):
        for words in ['--help'], ['all_reduce', '-e', 8, '-n', 1]:
            self.assert_output_is_missed(BOUND, *words)

    def test_a_line_and_a_switch_carry_what_is_sent(self):
        for name in ['line', 'switch'] if len(os.sched_getaffinity(0)) > 1 else ['switch']:
            results = self.bound('latency', '-b', '4', '-e', '128', '-n', '64', '--algorithm', name)
            self.assertEqual([r['bytes'] for r in results], [4, 8, 16, 32])     # more is no line
            self.assertTrue(all(r['wrong'] == 0 for r in results))

    def test_formats_for_fewer_bytes_are_of_tutti_alone(self):
        one = 'all_reduce', '-e', 8, '-n', 1
        self.assertNotIn('int8', self.run_to_end(BOUND, *one, TUTTI_WIRE='int8').out)
        run = self.run_to_end(BOUND, *one, '--wire', 'int8', status=1)
        self.assertIn('tutti-bound: --wire is for tutti', run.err)

    def test_ranks_that_are_too_few_and_threads_are_refused(self):
        run = self.run_to_end(BOUND, 'latency', '-r', 1, status=2)
        self.assertIn('tutti-bound: latency needs two ranks, there is one; see --help', run.err)
        run = self.run_to_end(BOUND, 'latency', '--callers', 2, status=2)
        self.assertIn('tutti-bound: --callers was found', run.err)

    def test_every_way_gives_the_right_sums(self):
        for words in (['--transport', 'shm', '--algorithm', 'exchange'],
                      ['--transport', 'shm', '--algorithm', 'halves'],
                      ['--transport', 'shm', '--algorithm', 'line'],
                      ['--transport', 'shm', '-m', 'tutti'], ['--transport', 'tcp', '-p', 'out']):
            for ranks in [2] if 'tcp' in words else [1, 2, 3, 5]:
                results = self.bound('all_reduce', '-b', '4', '-e', '300K', '-f', '7', '-n', '3', '-r', ranks, *words)
                self.assertTrue(results and all(r['wrong'] == 0 for r in results), (words, ranks))


if __name__ == '__main__':
    unittest.main()
