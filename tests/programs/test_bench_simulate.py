#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-bench --simulate as its users run it: what it shows of clusters, and what it says of files that describe none.

test_bench_simulate.py TUTTI_BENCH EXAMPLE_OF_A_CLUSTER"""
import json
import shutil
import unittest

from bench_runs import BENCH, BenchTest
from launched import arguments

EXAMPLE, = arguments(1)
NAME, RANKS = '"name": "mine"', '"ranks_per_host": 4'
WITHIN = ('"within_host": {"latency_us": 0.5, "overhead_us": 0.5, "bandwidth_gbs": 4, "shared_gbs": 8, "sync_us": 1, '
          '"reduce_gbs": 10}')
BETWEEN = '"between_hosts": {"latency_us": 5, "overhead_us": 1, "bandwidth_gbs": 1, "host_bandwidth_gbs": 2}'
A_NAME = 'expected a string of 1 to 127 bytes without control characters\n'
A_COUNT = 'expected a whole number from 1 to 65536\n'
FIGURES = 'expected an object with its figures\n'
MICROSECONDS = 'expected microseconds, a number of 0 or more\n'
A_SPEED = 'expected 10^9 bytes per second, a number above 0\n'
COLLECTIVES = ('all_reduce', 'broadcast', 'reduce', 'reduce_scatter', 'all_gather', 'gather', 'scatter', 'all_to_all',
               'scan', 'exscan', 'barrier')


def between(**figures):
    """With the figures that are given, in microseconds and 10^9 bytes per second."""
    return f'"between_hosts": {json.dumps(figures)}'


def cluster(*parts):
    return '{' + ', '.join(parts) + '}'


class Simulate(BenchTest):
    def simulate(self, line, ranks=4, name='mine'):
        """On hosts with so many ranks."""
        path = self.write('cluster', cluster(f'"name": "{name}"', f'"ranks_per_host": {ranks}', WITHIN, BETWEEN))
        run = self.bench(f'--simulate {path} {line}')
        self.assertEqual(run.err, '')
        return run

    def expect(self, run, **columns):
        """What stands in lines of the table that begin with some bytes and ranks. Title lines have "# size (B)" for
        bytes, and as many algorithms as fit."""
        found, titles = {}, []
        for row in map(str.split, run.out.splitlines()):
            if row[1:2] == ['size'] and len(row) > 4:
                titles = row[3:]
            elif titles and len(row) > 2:
                found.update({(title, row[0], row[1]): cell for title, cell in zip(titles, row[1:])})
        for column, cells in columns.items():
            for (size, ranks), cell in cells.items():
                self.assertEqual(found.get((column, str(size), str(ranks))), cell, (column, size, ranks, run.out))

    # ---- the table

    def test_a_table_shows_what_is_worked_out_by_hand(self):
        """A ring sends 2(p-1) messages of 6 µs, 2n(p-1)/p bytes of 1 ns, and adds up n(p-1)/p of 0.1 ns."""
        run = self.simulate('all_reduce -b 4000 -e 4000', ranks=1)
        self.assertIn('mine, 1 ranks a host', run.out)
        self.expect(run, ring={(4000, 2): '16.20', (4000, 4): '42.30', (4000, 65536): '786428.40'},
                    hosts={(4000, 1024): '1024'},
                    doubling={(4000, 4): '20.80*'},     # 2 × (6 + 4 + 0.4)
                    flat={(4000, 4): '21.20'})          # 6 + 2 × 1 + 3 × 4.4

    def test_ranks_of_a_host_share_memory_and_its_network(self):
        run = self.simulate('all_reduce -b 4000 -e 4000 --most-ranks 8')
        self.expect(run, board={(4000, 4): '4.20*', (4000, 8): '-'},    # 1 + 4 × 0.5 + 3 × 0.4
                    hierarchical={(4000, 4): '-'},
                    doubling={(4000, 8): '43.20'},      # 3 × (6 + 4 × 2 + 0.4): four ranks, 2 GB/s
                    hosts={(4000, 8): '2'})
        self.assertNotIn(' 16 ', run.out)

    def test_what_does_not_fit_is_a_dash(self):
        run = self.simulate('all_reduce -b 8 -e 8', ranks=1)
        self.expect(run, flat={(8, 65536): '-'}, star={(8, 65536): '-'})
        self.assertNotIn('board', run.out)      # fits nowhere: no column

    def test_sizes_are_those_of_measurements(self):
        """One element of each rank at least; a barrier has no sizes."""
        self.expect(self.simulate('all_gather -b 8 -e 16 -d float64 --most-ranks 4', ranks=8),
                    ranks={(16, 2): '2', (32, 4): '4'})
        run = self.simulate('barrier --most-ranks 8', ranks=8)
        self.expect(run, board={(0, 8): '1.00*'})
        self.assertEqual(run.out.count('\n'), 5 + 3)
        self.assertIn('formulas: ', run.out)

    def test_each_collective_has_a_table(self):
        out = self.simulate('all -f 1024', ranks=8).out
        self.assertEqual([out.count(f' {name}, ') for name in COLLECTIVES], [1] * len(COLLECTIVES))

    # ---- files

    def check_objects(self, objects):
        self.assertEqual([one['ranks'] for one in objects], [2 ** power for power in range(1, 17)])
        for one in objects:
            expected = {'ranks_per_host': 8, 'hosts': (one['ranks'] + 7) // 8, 'bytes': 64, 'cluster': 'mine',
                        'collective': 'all_reduce'}
            self.assertEqual({**one, **expected}, one)
            times = one['time_us']
            # the chosen one takes least
            self.assertTrue(0 < times[one['chosen']] == min(time for time in times.values() if time is not None), one)
            self.assertIsNone(times['chain'])       # has no all_reduce
            self.assertIsInstance(times['ring'], float)

    def test_json_has_an_object_for_each_line(self):
        self.check_objects(self.simulate('all_reduce -b 64 -e 64 --json -', ranks=8).objects)
        run = self.simulate(f'all_reduce -b 64 -e 64 --json {self.path("json")}', ranks=8)
        self.assertIn('simulated: mine', run.out)
        self.check_objects(self.objects_of('json'))

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_a_picture_has_a_graph_for_each_size(self):
        self.simulate(f'all_reduce -b 64 -e 4096 -f 64 --plot {self.path("x.svg")}', name="it's `mine`")
        text = self.read('x.svg')
        for words in (">it's `mine`, simulated; circles: chosen<", '>all_reduce, 64 B<', '>all_reduce, 4 KiB<',
                      '>ranks, 4 a host<', '>costs of algorithms, no measurement · tutti '):
            self.assertIn(words, text)
        self.assertEqual(text.count('>hierarchical_split<'), 1)     # one legend for all

    # ---- what is wrong

    def refuse_all(self, cases):
        for text, words in cases.items():
            path = self.write('cluster', text)
            self.refuse(f'--simulate {path} all_reduce', f'--simulate: {path}: {words}')

    def test_unknown_and_missing_keys_are_named(self):
        self.refuse_all({
            cluster(NAME, RANKS, WITHIN, BETWEEN, '"ranks": 3'):
            'the key "ranks" is unknown, expected only name, note, ranks_per_host, within_host and between_hosts\n',
            cluster(NAME, RANKS, between(latency_ms=1), WITHIN):
            'the key "between_hosts.latency_ms" is unknown, expected only latency_us, overhead_us, bandwidth_gbs, '
            'host_bandwidth_gbs\n',
            cluster(RANKS, WITHIN, BETWEEN): f'"name" is missing, {A_NAME}',
            cluster(NAME, WITHIN, BETWEEN): f'"ranks_per_host" is missing, {A_COUNT}',
            cluster(NAME, RANKS, BETWEEN): f'"within_host" is missing, {FIGURES}',
            cluster(NAME, RANKS, WITHIN): f'"between_hosts" is missing, {FIGURES}',
            cluster(NAME, RANKS, WITHIN, between(latency_us=1, bandwidth_gbs=1)):
            f'"between_hosts.overhead_us" is missing, {MICROSECONDS}',
            cluster(NAME, RANKS, WITHIN, between(latency_us=1, overhead_us=1)):
            f'"between_hosts.bandwidth_gbs" is missing, {A_SPEED}'})

    def test_wrong_types_are_named(self):
        self.refuse_all({
            '[1]': 'holds an array, expected an object that describes a cluster\n',
            '{"name": 3}': f'"name" is 3, {A_NAME}',
            cluster(NAME, '"note": [1]'): '"note" is an array, expected a string\n',
            cluster(NAME, '"ranks_per_host": "4"'): f'"ranks_per_host" is a string, {A_COUNT}',
            cluster(NAME, '"ranks_per_host": 1.5'): f'"ranks_per_host" is 1.5, {A_COUNT}',
            cluster(NAME, RANKS, '"within_host": 7'): f'"within_host" is 7, {FIGURES}',
            **{cluster(NAME, RANKS, f'"within_host": {{"latency_us": {value}}}'):
               f'"within_host.latency_us" is {words}, {MICROSECONDS}'
               for value, words in (('null', 'null'), ('{}', 'an object'), ('true', 'true'))}})

    def test_numbers_out_of_range_are_named(self):
        self.refuse_all({
            '{"name": ""}': '"name" has 0 bytes, expected a string',
            '{"name": "a\\nb"}': '"name" has a control character, expected a string',
            cluster(NAME, '"ranks_per_host": 0'): f'"ranks_per_host" is 0, {A_COUNT}',
            cluster(NAME, '"ranks_per_host": 65537'): f'"ranks_per_host" is 65537, {A_COUNT}',
            cluster(NAME, RANKS, '"within_host": {"latency_us": -0.5}'):
            f'"within_host.latency_us" is -0.5, {MICROSECONDS}',
            **{cluster(NAME, RANKS, WITHIN, between(latency_us=1, overhead_us=1, bandwidth_gbs=value)):
               f'"between_hosts.bandwidth_gbs" is {value}, {A_SPEED}' for value in (0, -2)}})

    def test_files_that_are_not_json_are_named(self):
        self.refuse_all({'': 'line 1, column 0 is not JSON: ', '{\n"name": }': 'line 2, column 9 is not JSON: ',
                         '\ufeff{}': "line 1, column 1 is not JSON: '[' or '{' expected near '???",
                         '{"name": "a",\n"name": "b"}': 'line 2, column 6 is not JSON: duplicate object key'})
        self.refuse('--simulate /dev/null/cluster.json all_reduce',
                    '/dev/null/cluster.json: cannot be read (Not a directory)')
        self.refuse('--simulate / all_reduce', 'tutti-bench: --simulate: /: cannot be read (Is a directory)')

    def test_command_lines_that_run_something_are_refused(self):
        for line, words in (('latency', '--simulate has no latency'), ('all_reduce -r 4', 'leave out -r'),
                            ('all_reduce -n 4', 'leave out -r, -n'), ('all_reduce -w 0', 'leave out -r, -n, -w'),
                            ('all_reduce --transport tcp', '--transport'), ('all_reduce --tune', '--tune'),
                            ('all_reduce --overlap', 'and --overlap'), ('all_reduce --algorithm ring', '--algorithm'),
                            ('all_reduce --most-ranks 1', '--most-ranks "1" is not a whole number from 2 to 65536'),
                            ('all_reduce --most-ranks 65537', 'from 2 to 65536')):
            self.refuse(f'--simulate {EXAMPLE} {line}', words)
        self.refuse('all_reduce --most-ranks 8', '--most-ranks is said without --simulate')

    def test_a_file_that_cannot_be_written_is_said(self):
        self.refuse(f'--simulate {EXAMPLE} all_reduce --json /dev/null/x.json',
                    '--json: cannot write "/dev/null/x.json"', status=1)
        path = self.write('cluster', cluster(NAME, RANKS, WITHIN, BETWEEN))
        self.refuse(f'--simulate {path} all_reduce --json {path}', '--json and --simulate are the same file')

    def test_the_example_is_one(self):
        """Also that 24 sizes of 16 numbers of ranks by 11 collectives are soon done: the test has a limit of time."""
        run = self.run_to_end(BENCH, '--simulate', EXAMPLE, 'all')
        self.assertEqual(run.err, '')
        self.assertIn('65536', run.out)


if __name__ == '__main__':
    unittest.main()
