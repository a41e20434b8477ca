#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-bench as its users run it: real ranks, its output, its exit status, and what remains of it.

test_bench.py TUTTI_BENCH"""
import os
import re
import shutil
import signal
import tempfile
import unittest

from bench_runs import BENCH, BenchTest
from launched import children_of, ends_of

TYPES = ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'bfloat16', 'float32',
         'float64', 'float8_e4m3', 'float8_e5m2')
GNUPLOT = unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')


class Runs(BenchTest):
    def check(self, result, ranks):
        """One measurement, nothing of it wrong."""
        times = result['time_us']
        self.assertEqual(result['ranks'], ranks)
        self.assertTrue(0 < times['min'] <= times['median'] <= times['p99'], times)
        self.assertGreater(result['iters'], 0)
        if result['collective'] != 'barrier':
            self.assertEqual(result['wrong'], 0, result)

    def results(self, line, ranks, count=None):
        """They are right, and so many."""
        results = self.bench(f'{line} --json -').objects
        for result in results:
            self.check(result, ranks)
        if count is not None:
            self.assertEqual(len(results), count, line)
        return results


class Results(Runs):
    def test_every_collective_is_right(self):
        """10 with data, in and out of place, of 3 sizes, and the barrier; over TCP and in memory of tutti, too."""
        for ranks, more in (1, ''), (2, ''), (4, ''), (3, '--transport tcp'), (3, '-m tutti'):
            self.results(f'all -r {ranks} -b 64 -e 256K -f 64 -n 3 -w 1 {more}', ranks, 10 * 2 * 3 + 1)

    def test_point_to_point_is_right(self):
        for kind in 'latency', 'bandwidth':
            self.results(f'{kind} -r 3 -e 1M -f 128 -n 4', 3, 3)

    def test_threads_of_a_rank_send_and_receive_side_by_side(self):
        """Each call is verified, and a message of another thread's ping-pong would be wrong."""
        for transport in 'shm', 'tcp':
            for result in self.results(f'latency -r 3 --callers 3 -e 8K -f 32 -n 4 --transport {transport}', 3, 3):
                self.assertEqual((result['callers'], result['iters'] % 3), (3, 0))
        self.assertIn(', 2 ranks of 4 threads', self.bench('latency --callers 4 -e 8 -n 4').out)

    def test_one_sided_calls_are_right(self):
        """Over each way, in memory that peers map and in other."""
        for way in '-m malloc --transport shm', '-m tutti --transport shm', '-m malloc --transport tcp':
            for kind in 'put', 'get', 'put_bandwidth', 'put_signal':
                self.results(f'{kind} -r 3 -e 1M -f 128 -n 4 {way}', 3, 3)
            self.bench(f'fetch_add -r 3 -n 40 {way}')

    def test_every_type_and_operation_is_right(self):
        for number, name in enumerate(TYPES):
            ops = ('prod', 'avg', 'max', 'min') + (() if 'float' in name else ('bxor',))
            self.bench(f'all_reduce -r 3 -b 3K -e 3K -n 1 -w 0 -d {name} -o {ops[number % len(ops)]}')

    def test_a_table_has_the_columns_that_its_test_fills(self):
        out = self.bench('all -e 8 -n 1 -w 0').out
        columns = '#   size (B) place   median      p99      min   algbw   busbw wrong  transport/algorithm\n'
        for words in ('# tutti reduce of float32, sum, root 0, 2 ranks,', columns,
                      '           8   out ', '           8    in ',
                      '#   median      p99      min  transport/algorithm\n'):     # of the barrier
            self.assertIn(words, out)
        self.assertNotIn(' -  ', out)
        for line in 'latency -e 8 -n 1 -w 0', 'bandwidth -e 8 -n 64 -w 0':
            out = self.bench(line).out
            self.assertIn('#   size (B)   median      p99      min   algbw   busbw wrong  transport\n', out)
            self.assertIn('     0  shm\n', out)
            self.assertNotIn('place', out)
        out = self.bench('init -n 1').out
        self.assertIn('transport/algorithm\n', out)
        self.assertIn(' shared\n', out)

    def test_the_transport_is_that_of_what_ran(self):
        """Four ranks that believe to be on hosts, a letter for each."""
        for hosts, line, words in (
                ('aabb', 'latency -e 8 -n 1 -w 0', '  shm\n'),
                ('abab', 'latency -e 8 -n 1 -w 0', '  tcp\n'),
                ('abbb', 'bandwidth -e 8 -n 64 -w 0', '  tcp\n'),
                ('aabb', 'all_reduce --algorithm hierarchical_split -e 8 -n 1 -w 0', '  shm+tcp/hierarchical_split\n'),
                # rank 0 sends over TCP alone, others meet in shared memory
                ('abbb', 'all_reduce --algorithm ring -e 8 -n 1 -w 0', '  shm+tcp/ring\n'),
                ('aabb', 'barrier -n 1 -w 0 --json -', '"transport": "shm+tcp"')):
            store = tempfile.mkdtemp(dir=self.dir)
            ranks = [self.start(BENCH, *line.split(), TUTTI_STORE=f'file:{store}', TUTTI_JOB='hosts', TUTTI_SIZE=4,
                                TUTTI_RANK=rank, TUTTI_HOST_ID=host) for rank, host in enumerate(hosts)]
            for rank in ranks:
                self.finish(rank)
            self.assertIn(words, ''.join(rank.out for rank in ranks))


class Refusals(BenchTest):
    def test_wrong_command_lines_end_with_status_2(self):
        self.bench('broadcast -r 2 -R 2', 2)
        self.bench('latency -r 1', 2)
        self.assertRegex(self.bench('--version').out, '^tutti-bench ')

    def test_misspelt_words_are_explained_before_ranks_start(self):
        """One process prints each error: there are no ranks yet."""
        for line, words in (
                ('allreduce -r 4', '"allreduce" was found (did you mean all_reduce?)'),
                ('bandwidth --callers 2', '--callers was found with bandwidth, expected latency'),
                ('latency --callers 2 -m cuda', '-m cuda was found beside --callers'),
                ('all_reduce -r 4 -d flaot32', '-d "flaot32" is not a type (did you mean float32?): expected int8, '),
                ('all_reduce -r 4 -o summ', '(did you mean sum?)'),
                ('all_reduce -r 4 -o add', 'tutti-bench: -o "add" is not an operation: '
                 'expected sum, prod, min, max, avg, band, bor or bxor'),
                ('all_reduce -r 4 -m mallloc', 'none of malloc, host, tutti and cuda (did you mean malloc?)'),
                ('all_reduce -r 4 --tnue', 'unknown option --tnue (did you mean --tune?)'),
                ('all_reduce -r 4 --tune=3', '--tune takes no value'),
                ('all_reduce -r', '-r needs a value'),
                ('all_reduce -r 4 --transport tpc', 'tutti-bench: --transport has "tpc" (did you mean tcp?)'),
                ('all_reduce -r 4 --algorithm rign', 'tutti-bench: --algorithm is "rign" (did you mean ring?)'),
                ('all_reduce -r 4 --plot x.pdf', '"x.pdf" is not a file name that ends in .svg or .png'),
                ('all_reduce -r 4 --plot x', '"x" is not a file name that ends in .svg or .png')):
            self.assertRegex(self.refuse(line, words).err, r'\A[^\n]*\n\Z')

    def test_wrong_names_are_those_of_what_was_given(self):
        self.refuse('all_reduce', 'tutti-bench: TUTTI_TRANSPORT has "tpc" (did you', TUTTI_TRANSPORT='tpc')

    def test_what_cannot_be_written_is_said_before_measuring(self):
        self.refuse('all_reduce -e 8 --json /dev/null/x', 'tutti-bench: --json: cannot write "/dev/null/x": Not a',
                    status=1)
        self.refuse(f'all_reduce -e 8 --plot {self.path("x.svg")}', 'gnuplot was not found', status=1, PATH='/dev/null')

    def test_lines_of_json_go_through_a_named_pipe_and_behind_a_link(self):
        os.symlink('file', self.path('link'))
        self.bench(f'barrier -n 1 --json {self.path("link")}')
        self.assertEqual((os.readlink(self.path('link')), os.path.getsize(self.path('file')) > 0), ('file', True))
        os.mkfifo(self.path('pipe'))
        reader = self.start('/bin/cat', self.path('pipe'))
        self.bench(f'barrier -n 1 --json {self.path("pipe")}')
        reader.finish()
        self.assertEqual([one['collective'] for one in reader.objects], ['barrier'])

    def test_a_table_that_cannot_be_written_is_a_failure(self):
        for line in 'all_reduce -e 8 -n 1', 'all_reduce -e 8 -n 1 --json -', 'init -n 1', '--help':
            self.assert_output_is_missed(BENCH, *line.split())
        run = self.bench('all_reduce -e 8 -n 1 --json /dev/full', 1)
        self.assertIn('--json: cannot write: No space left on device; make space, or', run.err)


class Pictures(BenchTest):
    @GNUPLOT
    def test_a_picture_is_drawn(self):
        self.bench(f'all -b 64 -e 256 -n 1 -w 0 --plot {self.path("x.svg")}')
        text = self.read('x.svg')
        self.assertTrue(text.startswith('<?xml'))
        for words in ('width="900"', '>all_reduce<', '>exscan<', '>out of place<', '>in place<', '>median time<',
                      '>bus bandwidth in GB/s<', '>128 B<', '>tutti, 2 ranks, shm, float32, barrier in ', ' core',
                      ' · tutti 0.'):
            self.assertIn(words, text)
        for colour in '  0, 114, 178', '213,  94,   0':     # out of place, in place; in the legend
            self.assertEqual(text.count(f"<path stroke='rgb({colour})'"), 20 + 1)

    @GNUPLOT
    def test_a_picture_that_cannot_be_written_is_a_failure(self):
        """What the name stands for has no space. Of a measurement that fails no empty picture is left."""
        os.symlink('/dev/full', self.path('full.svg'))
        run = self.bench(f'all_reduce -e 8 -n 1 --plot {self.path("full.svg")}', 1)
        self.assertIn(f'--plot: cannot write "{self.path("full.svg")}": No space left on device; make space', run.err)
        self.bench(f'all_reduce -e 8 -n 1 --plot {self.path("x.svg")} --json /dev/full', 1)
        self.assertEqual(os.listdir(self.dir), ['full.svg'])

    @GNUPLOT
    def test_a_picture_may_be_a_png(self):
        self.bench(f'latency -b 64 -e 64 -n 1 -w 0 --plot {self.path("x.png")}')
        self.assertEqual(self.read('x.png', 'rb')[:20], b'\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x84')     # 900 wide

    def test_one_of_a_barrier_is_refused(self):
        self.refuse(f'barrier -e 64 --plot {self.path("x.png")}', 'no sizes to draw over')


class Tuning(Runs):
    """--tune: what is chosen against what can be forced."""

    LINE = 'all_reduce --tune -r 2 --transport shm -b 64 -e 4K -f 64 -n 5 -w 1'
    # what can do an all-reduce of two ranks that share memory
    ABLE = ['board', 'direct', 'flat', 'star', 'doubling', 'tree', 'halving_doubling', 'ring', 'pairwise', 'two_shot',
            'double_tree']

    def test_tune_shows_what_is_chosen_beside_all_that_can(self):
        run = self.bench(self.LINE)
        self.assertNotIn('cannot do', run.err)
        self.assertIn('# all_reduce: ', run.out)
        self.assertIn(' of 4 within 10 %', run.out)
        # below each row all that can, each with its time, and nobody else
        forced = re.findall(r'^# board .*\n(?:#(?! all_reduce).*\n)*', run.out, re.MULTILINE)
        self.assertEqual([re.findall('[a-z][a-z_]+', block) for block in forced], [self.ABLE] * 4)
        rows = [line.split() for line in run.out.splitlines() if not line.startswith('#')]
        self.assertEqual(len(rows), 4)
        for _, _, chosen, time, best, least, ratio, *_ in rows:
            self.assertLessEqual({chosen, best}, set(self.ABLE))
            self.assertGreater(min(map(float, (time, least, ratio))), 0)

    def test_tune_writes_an_object_for_each_contestant(self):
        results = self.results(f'{self.LINE} -p out', 2, 2 * (len(self.ABLE) + 1))
        self.assertEqual({result['transport'] for result in results}, {'shm'})
        forced = [result['algorithm'] for result in results if result['forced'] is True]
        self.assertEqual(sorted(forced), sorted(2 * self.ABLE))
        chosen = [result['algorithm'] for result in results if result['forced'] is False]
        self.assertEqual(len(chosen), 2)
        self.assertLessEqual(set(chosen), set(self.ABLE))

    def test_tune_compares_every_collective_over_tcp(self):
        results = self.results('all --tune -r 3 --transport tcp -b 64 -e 64 -n 2 -w 1 -p in', 3)
        self.assertEqual({result['transport'] for result in results}, {'tcp'})
        self.assertFalse({'board', 'direct'} & {result['algorithm'] for result in results})
        self.assertGreaterEqual(len(results), 33)   # 11 collectives, each by choice and by two algorithms at least

    def test_tune_says_what_it_does_not_go_with(self):
        self.refuse('all_reduce --tune --algorithm ring', '--algorithm ring leaves no choice')
        self.refuse('all_reduce --tune --plot x.svg', '--tune was found beside --plot')
        self.refuse('all_reduce --tune -r 1', 'two ranks')
        self.refuse('latency --tune', 'latency')
        self.refuse('all_reduce --tune', 'TUTTI_ALGORITHM is "tree"', TUTTI_ALGORITHM='tree')


class Starts(BenchTest):
    """init: the start of ranks."""

    def check(self, line, runs, **env):
        start, = self.bench(f'{line} --json -', **env).objects
        self.assertEqual([start[key] for key in ('collective', 'iters', 'bytes', 'wrong')], ['init', runs, 8, 0])
        self.assertTrue(0 < start['init_us']['min'] <= start['time_us']['min'])
        # the first rank's own time has all of it
        self.assertTrue(0 < start['all_us']['min'] <= start['time_us']['p99'])
        self.assertGreater(min(start['memory']['rss'], start['split_us']['min']), 0)
        if start['ranks'] > 1:
            self.assertGreater(min(start['memory']['descriptors'], start['shared_memory']), 0)

    def test_a_start_is_measured_with_new_processes_each_time(self):
        """A launcher's only rank has one beginning."""
        self.check('init -r 2 -n 3 --transport shm', 3)
        self.check('init', 1, TUTTI_RANK=0, TUTTI_SIZE=1)

    def test_a_start_that_fails_is_said(self):
        self.refuse('init -r 2 -n 2', '/dev/null is no regular file', status=1, TUTTI_MODEL='/dev/null')
        self.refuse('init --plot x.svg', '--plot was found with init')
        self.refuse('init --tune', '--tune')


class Waits(BenchTest):
    """waiting: what a rank that waits uses."""

    def test_a_long_wait_takes_little_of_the_processor(self):
        waits = self.bench('waiting -r 2 -n 2 --transport shm --json -').objects
        self.assertEqual([round(wait['late_us']) for wait in waits], [100, 1000, 10000, 100000, 1000000])
        for wait in waits:
            self.assertEqual([wait[key] for key in ('collective', 'iters', 'ranks', 'transport')], ['waiting', 2, 2, 'shm'])
            self.assertGreater(min(wait['processor_us']['min'], wait['woken_us']['min']), 0)
        self.assertLess(waits[-1]['processor_us']['median'], 500000)     # it sleeps

    def test_it_says_what_it_does_not_go_with(self):
        self.refuse('waiting -r 1', 'waiting needs two ranks')
        self.refuse('waiting --plot x.svg', '--plot was found with waiting')
        self.refuse('waiting --tune', '--tune was found with waiting')


class Overlaps(Runs):
    """--overlap: what hides behind a computation."""

    LINE = 'all_reduce --overlap -b 64 -e 64K -f 1024 -n 6 -w 1 -p out'

    def test_overlap_shows_call_and_computation_alone_and_together(self):
        out = self.bench(self.LINE).out
        self.assertIn('processor', out)
        self.assertIn('65536', out)
        for result in (self.results(f'{self.LINE} --transport tcp', 2, 2) +
                       self.results('all --overlap -b 4K -e 4K -n 1 -w 1 -p in', 2, 11)):
            overlap = result['overlap']
            alone, computation, processor = (overlap[f'{key}_us'] for key in ('alone', 'computation', 'processor'))
            self.assertGreater(min(alone, computation, processor), 0)
            self.assertGreater(overlap['bound_us'], 0.999 * max(alone, computation + processor))    # they are rounded
            self.assertIsInstance(overlap['hidden'], float)
            self.assertEqual(isinstance(overlap['cause'], str), overlap['hidden'] < 0)  # below 0 there is a reason

    def test_an_overlap_below_0_has_a_reason(self):
        """As many ranks as cores are there four times: the only cause that counts then."""
        out = self.bench(f'all_reduce --overlap -r {4 * os.cpu_count()} -b 64 -e 64 -n 6 -w 1').out
        if '%a ' in out:
            self.assertIn('\n# a: hidden is below 0, as the pair takes longer', out)
        for number, mark in re.findall(r'(\S*)%(.?)', out):
            self.assertEqual(number.startswith('-'), mark == 'a', out)

    def test_overlap_says_what_it_does_not_go_with(self):
        self.refuse('all_reduce --overlap --tune', '--tune')
        self.refuse('all_reduce --overlap --plot x.svg', '--overlap was found beside --plot')
        self.refuse('all_reduce --overlap -r 1', 'two ranks')
        self.refuse('bandwidth --overlap', 'bandwidth')


class Ends(BenchTest):
    """Ranks that end before their time, and those of other launchers."""

    def killed(self, who, status):
        """The end of a run of which rank 1, or the first process, is killed: nothing is left."""
        run = self.start(BENCH, *'all_reduce -r 2 -b 1M -e 1M -n 10000000 -p out'.split())
        ranks = []
        while len(ranks) < 2:   # the second is there a moment after the first
            self.assertIsNone(run.process.poll())
            ranks = children_of(run.pid)
        with ends_of(ranks, 10):
            os.kill(ranks[1] if who == 'rank' else run.pid, signal.SIGKILL)
        self.finish(run, status)
        return run

    def test_a_killed_rank_is_named(self):
        self.assertIn('rank 1 was killed by signal 9', self.killed('rank', 1).err)

    def test_ranks_die_with_their_parent(self):
        self.killed('parent', 128 + signal.SIGKILL)

    @unittest.skipUnless(shutil.which('mpiexec.hydra'), 'mpiexec.hydra is not installed')
    def test_it_joins_the_ranks_of_a_launcher(self):
        def launch(ranks, line, status=0):
            return self.run_to_end('mpiexec.hydra', '-n', ranks, BENCH, *line.split(), status=status)
        self.assertIn('3 ranks', launch(3, 'all_reduce -e 64 -f 8 -n 2').out)
        self.assertIn('# barrier: ', launch(2, 'barrier --tune -n 2').out)
        # one rank complains
        for line, words in (('all_reduce -r 2', '-r is 2, but a launcher started 3 ranks'),
                            ('allreduce', 'did you mean all_reduce?')):
            self.assertEqual(launch(3, line, 2).err.count(words), 1)


if __name__ == '__main__':
    unittest.main()
