#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""As many ranks of one host as clusters have: they join, their sums are right, and each holds little.

test_bench_many.py TUTTI_BENCH"""
import unittest

from bench_runs import BenchTest

MIB = 1 << 20


class Many(BenchTest):
    def test_each_of_512_ranks_holds_little(self):
        start, = self.bench('init -r 512 -n 1 --transport shm --json -').objects
        self.assertEqual((start['ranks'], start['wrong']), (512, 0))
        self.assertLessEqual(start['memory']['rss'], 3 * MIB)
        self.assertLessEqual(start['memory']['descriptors'], 64)


if __name__ == '__main__':
    unittest.main()
