#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare-rdma makes of figures, and what it says where it cannot measure; its path is the argument. That it
measures takes hosts with RDMA."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COMPARE = sys.argv.pop()
STREAM, LATENCY = ('stream of 64 KiB', 'MB/s'), ('one way of 8 B', 'µs')


def run(*words, **environment):
    return subprocess.run([sys.executable, COMPARE, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **environment))


def samples(row, by, values):
    return [{'row': row[0], 'unit': row[1], 'by': by, 'round': number, 'value': value}
            for number, value in enumerate(values)]


def table(*files):
    """The exit status, and the lines of rows that were measured, as lists of columns."""
    names = []
    with tempfile.TemporaryDirectory() as directory:
        for number, of_run in enumerate(files):
            names.append(os.path.join(directory, str(number)))
            with open(names[-1], 'w') as file:
                file.writelines(json.dumps(sample) + '\n' for sample in of_run)
        done = run('--show', *names)
    lines = [[cell.strip() for cell in line.split('  ') if cell.strip()] for line in done.stdout.splitlines()]
    return done.returncode, [line for line in lines if len(line) == 8 and line[-1] != 'not measured']


class CompareRdma(unittest.TestCase):
    def test_more_bytes_a_second_are_better(self):
        status, lines = table(samples(STREAM, 'ib_write_bw', [100, 200, 100]) +
                              samples(STREAM, 'tutti rdma', [96, 180, 98]) + samples(STREAM, 'tutti tcp', [48, 200, 49]))
        self.assertEqual(lines, [
            [*STREAM, 'ib_write_bw', '100.0 (100.0–200.0)', '98.0 (96.0–180.0)', '0.96 (0.90–0.98)', '≥ 0.95', 'reached'],
            [*STREAM, 'tutti over TCP', '49.0 (48.0–200.0)', '98.0 (96.0–180.0)', '2.00 (0.90–2.00)', '> 1', 'reached']])
        self.assertEqual(status, 1)     # the other rows

    def test_less_time_is_better_and_the_faster_peer_counts(self):
        lines = table(samples(LATENCY, 'ib_write_lat', [2.2]) + samples(LATENCY, 'ib_send_lat', [2.0]) +
                      samples(LATENCY, 'tutti rdma', [2.4]) + samples(LATENCY, 'tutti tcp', [1.2]))[1]
        self.assertEqual(lines, [
            [*LATENCY, 'ib_send_lat', '2.0 (2.0–2.0)', '2.4 (2.4–2.4)', '1.20 (1.20–1.20)', '≤ 1.1', 'not reached'],
            [*LATENCY, 'tutti over TCP', '1.2 (1.2–1.2)', '2.4 (2.4–2.4)', '0.50 (0.50–0.50)', '> 1', 'not reached']])

    def test_a_round_without_one_of_the_figures_has_no_ratio(self):
        lines = table(samples(STREAM, 'ib_write_bw', [100, 200]) + samples(STREAM, 'tutti rdma', [50]))[1]
        self.assertEqual([line[5] for line in lines], ['0.50 (0.50–0.50)'])

    def test_rounds_of_several_runs_do_not_mix(self):
        each = [samples(STREAM, 'ib_write_bw', [bandwidth]) + samples(STREAM, 'tutti rdma', [bandwidth / 2])
                for bandwidth in (100, 400)]
        self.assertEqual([line[5] for line in table(*each)[1]], ['0.50 (0.50–0.50)'])

    def test_a_host_says_what_it_lacks(self):
        done = run('--host', '0', '--build', '/nowhere', PATH='/nowhere')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, r'^compare-rdma: ib_write_bw was not found: .*perftest.*\n$')


if __name__ == '__main__':
    unittest.main()
