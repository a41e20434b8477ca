#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare-rdma makes of figures, and what it says where it cannot measure; its path is the argument. That it
measures takes hosts with RDMA."""
import json
import sys
import unittest

from launched import ProgramTest, arguments

COMPARE, = arguments(1)
STREAM, LATENCY = ('stream of 64 KiB', 'MB/s'), ('one way of 8 B', 'µs')


def samples(row, by, values):
    return [{'row': row[0], 'unit': row[1], 'by': by, 'round': number, 'value': value}
            for number, value in enumerate(values)]


class CompareRdma(ProgramTest):
    def table(self, *files):
        """The lines of rows that were measured, as lists of columns. The other rows are not reached."""
        names = [self.write(str(number), ''.join(json.dumps(sample) + '\n' for sample in of_run))
                 for number, of_run in enumerate(files)]
        done = self.run_to_end(sys.executable, COMPARE, '--show', *names, status=1)
        lines = [[cell.strip() for cell in line.split('  ') if cell.strip()] for line in done.out.splitlines()]
        return [line for line in lines if len(line) == 8 and line[-1] != 'not measured']

    def test_more_bytes_a_second_are_better(self):
        lines = self.table(samples(STREAM, 'ib_write_bw', [100, 200, 100]) +
                           samples(STREAM, 'tutti rdma', [96, 180, 98]) + samples(STREAM, 'tutti tcp', [48, 200, 49]))
        self.assertEqual(lines, [
            [*STREAM, 'ib_write_bw', '100.0 (100.0–200.0)', '98.0 (96.0–180.0)', '0.96 (0.90–0.98)', '≥ 0.95', 'reached'],
            [*STREAM, 'tutti over TCP', '49.0 (48.0–200.0)', '98.0 (96.0–180.0)', '2.00 (0.90–2.00)', '> 1', 'reached']])

    def test_less_time_is_better_and_the_faster_peer_counts(self):
        lines = self.table(samples(LATENCY, 'ib_write_lat', [2.2]) + samples(LATENCY, 'ib_send_lat', [2.0]) +
                           samples(LATENCY, 'tutti rdma', [2.4]) + samples(LATENCY, 'tutti tcp', [1.2]))
        self.assertEqual(lines, [
            [*LATENCY, 'ib_send_lat', '2.0 (2.0–2.0)', '2.4 (2.4–2.4)', '1.20 (1.20–1.20)', '≤ 1.1', 'not reached'],
            [*LATENCY, 'tutti over TCP', '1.2 (1.2–1.2)', '2.4 (2.4–2.4)', '0.50 (0.50–0.50)', '> 1', 'not reached']])

    def test_a_round_without_one_of_the_figures_has_no_ratio(self):
        lines = self.table(samples(STREAM, 'ib_write_bw', [100, 200]) + samples(STREAM, 'tutti rdma', [50]))
        self.assertEqual([line[5] for line in lines], ['0.50 (0.50–0.50)'])

    def test_rounds_of_several_runs_do_not_mix(self):
        each = [samples(STREAM, 'ib_write_bw', [bandwidth]) + samples(STREAM, 'tutti rdma', [bandwidth / 2])
                for bandwidth in (100, 400)]
        self.assertEqual([line[5] for line in self.table(*each)], ['0.50 (0.50–0.50)'])

    def test_a_host_says_what_it_lacks(self):
        done = self.run_to_end(sys.executable, COMPARE, '--host', 0, '--build', '/nowhere', status=1, PATH='/nowhere')
        self.assertEqual(done.out, '')
        self.assertRegex(done.err, r'^compare-rdma: ib_write_bw was not found: .*perftest.*\n$')

    def test_what_cannot_be_read_or_written_is_said(self):
        saved = self.write('saved', json.dumps(*samples(LATENCY, 'tutti rdma', [1])))
        self.assert_output_is_missed(sys.executable, COMPARE, '--show', saved)
        for words, status, said in ((['--show', '/nowhere'], 1, 'compare-rdma: --show: /nowhere cannot be read: '),
                                    (['--show', self.write('list', '[]')], 1, 'list: expected results that --json wrote'),
                                    (['--show', saved, '--json', saved], 2, '--json was found with --show'),
                                    (['--json', '/nowhere/it'], 1, '--json: cannot write "/nowhere/it": No such file')):
            run = self.run_to_end(sys.executable, COMPARE, *words, status=status)
            self.assertIn(said, run.err)
            self.assertNotIn('Traceback', run.err)

    def test_a_host_that_does_not_come_is_missed(self):
        for program in 'ib_write_bw', 'ib_write_lat', 'ib_send_lat', 'bench/tutti-bench':
            self.write(program, '#!/bin/sh\n', 0o700)
        run = self.run_to_end(sys.executable, COMPARE, '--host', 0, '--server', '127.0.0.1', '--device', 'any', '--limit',
                              '0.01', '--port', 0, '--build', self.dir, status=1, PATH=self.dir, TUTTI_KEY='any')
        self.assertIn('compare-rdma: port 0, where the other host should come: timed out', run.err)


if __name__ == '__main__':
    unittest.main()
