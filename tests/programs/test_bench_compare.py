#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare, with programs that answer what a test wants; and tutti-bound; their paths are the
arguments."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BOUND, COMPARE = sys.argv.pop(), sys.argv.pop()

ANSWER = '''#!/usr/bin/env python3
import json, sys
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with open(words['--json'], 'w') as file:
    for size, time in {times}.items():
        print(json.dumps(dict(bytes=size, wrong={wrong}, ranks=int(words['-r']),
                              collective=sys.argv[1], dtype='float32', op='sum', version='0.1.0',
                              machine='Processor, 2 cores', date='2026-01-31',
                              time_us=dict(median=time))), file=file)
{end}
'''
HANG = '''
import os, subprocess
child = subprocess.Popen(["tail", "-f", "/dev/null"])
with open(sys.argv[0] + '.pids', 'a') as file:
    print(os.getpid(), child.pid, file=file)
child.wait()
'''


class Compare(unittest.TestCase):
    def setUp(self):
        self.build = tempfile.TemporaryDirectory()
        self.addCleanup(self.build.cleanup)
        os.makedirs(self.path('bench', 'peers'))

    def path(self, *words):
        return os.path.join(self.build.name, *words)

    def program(self, name, times, wrong=0, end=''):
        with open(self.path('bench', name), 'w') as file:
            file.write(ANSWER.format(times=times, wrong=wrong, end=end))
        os.chmod(file.name, 0o755)

    def compare(self, *words):
        return subprocess.run([sys.executable, COMPARE, '-r', '2', '-t', 'tcp', '-p', 'gloo',
                               '-n', '2', '--build', self.build.name, *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def row(self, run, size):
        text = run if isinstance(run, str) else run.stdout
        return [line for line in text.splitlines() if line.split()[:1] == [str(size)]][0]

    def test_slower_points_are_named_and_others_are_not(self):
        self.program('tutti-bench', {8: 10.0, 64: 10.0, 512: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 5.0, 64: 9.5, 512: 20.0})
        run = self.compare()
        summary = run.stdout.splitlines()[-1]
        self.assertEqual(run.returncode, 0)
        self.assertIn(' 2 ranks, 8 B: 2.00 × gloo', summary)
        self.assertNotIn(' 64 B', summary)
        self.assertNotIn(' 512 B', summary)
        self.assertIn(' 2.00 gloo', self.row(run, 512))

    def test_nccl_takes_part_over_gpus_alone(self):
        self.program('tutti-bench', {8: 1.0})
        run = self.compare('-p', 'nccl', '-t', 'cuda', '--json', self.path('raw'))
        self.assertEqual((run.returncode, run.stderr), (0, ''))
        with open(self.path('raw')) as file:
            found = {(r['library'], r['variant']) for r in map(json.loads, file)}
        self.assertEqual(found, {('tutti', 'plain'), ('tutti', 'graph'), ('tutti', 'windows'),
                                 ('tutti', 'windows,graph'), ('nccl', 'plain'), ('nccl', 'graph')})

    @unittest.skipUnless(os.environ.get('TEST_BUILD'), 'the stand-in for GPUs has no kernels')
    def test_nccl_alone_is_compared_on_gpus_and_refuses_to_share_one(self):
        run = subprocess.run([sys.executable, COMPARE, '--build', os.environ['TEST_BUILD'],
                              '-p', 'nccl', '-b', '64', '-e', '64', '-n', '1', '--seconds', '0.01'],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 0)
        one, two = run.stdout.split('cuda, 1 ranks')[1].split('cuda, 2 ranks')
        self.assertIn(' nccl/', self.row(one, 64))
        self.assertIn(' fails', self.row(two, 64))
        self.assertIn('# nccl (plain), 2 ranks: fails\nrank 0: NCCL: invalid usage: Duplicate GPU detected',
                      run.stderr)

    def test_a_picture_that_cannot_be_made_is_refused_before_anything_runs(self):
        for name in 'picture', 'picture.pdf', '.svg':
            run = self.compare('--plot', self.path(name))
            self.assertEqual(run.returncode, 2)
            self.assertIn('expected a file name that ends in .svg or .png', run.stderr)
            self.assertEqual(run.stdout, '')

    def test_a_peer_that_hangs_is_ended_and_keeps_what_it_measured(self):
        self.program('tutti-bench', {8: 1.0, 64: 1.0})
        self.program('peers/tutti-peer-gloo', {8: 2.0}, end=HANG)
        run = self.compare('--limit', '5')
        self.assertEqual(run.returncode, 0)
        self.assertIn('2.00 (2.00–2.00)', self.row(run, 8))
        self.assertIn('hangs', self.row(run, 64))
        with open(self.path('bench', 'peers', 'tutti-peer-gloo.pids')) as file:
            for pid in file.read().split():
                self.assertFalse(os.path.exists(f'/proc/{pid}'))

    def test_wrong_results_of_tutti_do_not_count_and_fail(self):
        self.program('tutti-bench', {8: 1.0}, wrong=3)
        self.program('peers/tutti-peer-gloo', {8: 2.0})
        run = self.compare()
        self.assertEqual(run.returncode, 1)
        self.assertIn('wrong', self.row(run, 8))

    def test_raw_results_name_variant_and_repetition(self):
        self.program('tutti-bench', {8: 1.0})
        self.program('peers/tutti-peer-gloo', {8: 2.0})
        self.compare('--json', self.path('raw'))
        with open(self.path('raw')) as file:
            results = [json.loads(line) for line in file]
        self.assertEqual(len(results), 2 * 4)    # tutti and three variants of Gloo, twice
        self.assertEqual({r['repetition'] for r in results}, {0, 1})
        self.assertIn('bcube', {r['variant'] for r in results})

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_a_picture_has_times_and_ratios_and_is_drawn_again_from_saved_results(self):
        self.program('tutti-bench', {8: 10.0, 64: 10.0, 512: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 15.0, 64: 12.0, 512: 20.0})
        raw, first, second = self.path('raw'), self.path("it's.svg"), self.path('second.svg')
        measured = self.compare('--json', raw, '--plot', first)
        self.assertEqual((measured.returncode, measured.stderr), (0, ''))
        shown = self.compare('--show', raw, '--plot', second)
        self.assertEqual((shown.returncode, shown.stderr), (0, ''))
        self.assertEqual(shown.stdout, measured.stdout.split('\n', 1)[1])     # all but what the network is
        with open(first) as a, open(second) as b:
            picture = a.read()
            self.assertEqual(b.read(), picture)
        for text in ['all_reduce, float32, sum', 'tcp, 2 ranks', 'tutti', 'Gloo', 'time', '10 µs', '64 B',
                     'time ÷ that of tutti', '1', '1.5', '2', 'Processor, 2 cores · tutti 0.1.0 · 2026-01-31']:
            self.assertIn(f'>{text}<', picture)
        self.assertIn('width="900"', picture)
        png = self.compare('--show', raw, '--plot', self.path('third.png'))
        self.assertEqual((png.returncode, png.stderr), (0, ''))
        with open(self.path('third.png'), 'rb') as file:
            self.assertEqual(file.read(20)[16:], (900).to_bytes(4, 'big'))

    def test_what_cannot_be_shown_or_drawn_is_refused(self):
        with open(self.path('other'), 'w') as file:
            print('{"bytes": 8}', file=file)
        for words, sentence in [(['init', '--plot', 'x.svg'], 'init, which has no sizes to draw over'),
                                (['--show', '/nowhere'], '--show: /nowhere cannot be read'),
                                (['--show', self.path('other')], 'expected results that --json wrote')]:
            run = self.compare(*words)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(sentence, run.stderr)

    def test_a_missing_program_is_named(self):
        self.program('tutti-bench', {8: 1.0})
        run = self.compare()
        self.assertNotEqual(run.returncode, 0)
        self.assertIn('tutti-peer-gloo was not found', run.stderr)

    def test_the_bound_is_no_peer(self):
        os.makedirs(self.path('bench', 'bounds'))
        self.program('tutti-bench', {8: 10.0})
        self.program('peers/tutti-peer-gloo', {8: 15.0})
        self.program('bounds/tutti-bound', {8: 8.0})
        run = self.compare('--bounds')
        self.assertIn(' 0.80     1.50 gloo', self.row(run, 8))
        self.assertIn('geometric mean of fastest peer / tutti: 1.50, least 1.50', run.stdout)

    def test_a_start_is_one_run_of_a_program_each_time(self):
        said = self.path('said')
        tell = f"open({said!r}, 'a').write(' '.join(sys.argv[1:4]) + chr(10))"
        self.program('tutti-bench', {8: 10.0}, end=tell)
        self.program('peers/tutti-peer-gloo', {8: 50.0}, end=tell)
        run = self.compare('init')
        self.assertEqual(run.returncode, 0)
        self.assertIn('# init, tcp, 2 ranks', run.stdout)
        self.assertIn(' 5.00 gloo', self.row(run, 8))
        with open(said) as file:
            self.assertEqual(set(file.read().splitlines()), {'init -n 1'})

    def test_an_unknown_peer_is_refused(self):
        self.assertEqual(self.compare('-p', 'ucc').returncode, 2)
        run = self.compare('-p', 'nccl')
        self.assertEqual(run.returncode, 2)
        self.assertIn('takes part over cuda alone', run.stderr)


    def test_the_shortest_message_is_held_against_a_line_or_a_switch(self):
        os.makedirs(self.path('bench', 'bounds'))
        self.program('tutti-bench', {8: 3.0})
        self.program('bounds/tutti-bound', {8: 0.5})
        cores = len(os.sched_getaffinity(0))
        run = self.compare('--bounds', '-t', 'shm', '-r', str(2 * cores))
        self.assertIn('# 8 B: tutti takes 3.00 × 2 × the time in which a core goes', run.stdout)
        if cores > 1:
            run = self.compare('--bounds', '-t', 'shm')
            self.assertIn('# 8 B: tutti takes 6.00 × the way of a line', run.stdout)


class Bound(unittest.TestCase):
    def bound(self, *words):
        return subprocess.run([BOUND, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_a_line_and_a_switch_carry_what_is_sent(self):
        for name in ['line', 'switch'] if len(os.sched_getaffinity(0)) > 1 else ['switch']:
            run = self.bound('latency', '-b', '4', '-e', '128', '-n', '64', '--algorithm', name, '--json', '-')
            self.assertEqual((run.returncode, run.stderr), (0, ''))
            results = [json.loads(line) for line in run.stdout.splitlines()]
            self.assertEqual([r['bytes'] for r in results], [4, 8, 16, 32])     # more is no line
            self.assertTrue(all(r['wrong'] == 0 for r in results))

    def test_every_way_gives_the_right_sums(self):
        for words in (['--transport', 'shm', '--algorithm', 'exchange'],
                      ['--transport', 'shm', '--algorithm', 'halves'],
                      ['--transport', 'shm', '--algorithm', 'line'],
                      ['--transport', 'shm', '-m', 'tutti'], ['--transport', 'tcp', '-p', 'out']):
            for ranks in [2] if 'tcp' in words else [1, 2, 3, 5]:
                run = subprocess.run([BOUND, 'all_reduce', '-b', '4', '-e', '300K', '-f', '7', '-n', '3',
                                      '-r', str(ranks), '--json', '-', *words], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual((run.returncode, run.stderr), (0, ''), words)
                results = [json.loads(line) for line in run.stdout.splitlines()]
                self.assertTrue(results and all(r['wrong'] == 0 for r in results), (words, ranks))


if __name__ == '__main__':
    unittest.main()
