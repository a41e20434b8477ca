#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare-hosts, with real ranks in network namespaces where they can be made; its path and the build directory are
the arguments."""
import contextlib
import os
import signal
import sys
import unittest

from launched import ProgramTest, arguments, bound_s, children_of, ends_of

COMPARE, BUILD = arguments(2)
QUICK = ['--limit', str(bound_s(60)), '--hosts', '2', '-b', '64', '-e', '64', '-n', '1', '--seconds', '0.001',
         '--delay', '50', '--rate', '1000']
ENDLESS = QUICK[:-6] + ['-n', '1000000', '--seconds', '1']


def interfaces():
    return sorted(os.listdir('/sys/class/net'))


class CompareHosts(ProgramTest):
    def begin(self, *words, **env):
        return self.start(sys.executable, COMPARE, '--build', BUILD, *words, **env)

    def finish(self, launched, status=0):
        """Where there can be no hosts the test is skipped."""
        found = launched.finish()
        if found and 'cannot make hosts: ' in launched.err:
            self.skipTest(launched.err.strip())
        self.assertEqual(found, status, launched.err)
        return launched

    def measure(self, *words):
        """The points of a run that ends well, and has a row for each."""
        done = self.finish(self.begin(*QUICK, *words, '--json', self.path('points')))
        self.assertEqual(done.err, '')
        self.assertEqual(len([line for line in done.out.splitlines() if line.split()[:1] == ['64']]), 1)
        return self.objects_of('points')

    def test_what_is_measured_stands_beside_what_is_predicted(self):
        before = interfaces()
        points = self.measure()
        self.assertEqual([(p['hosts'], p['ranks_per_host'], p['bytes']) for p in points], [(2, 2, 64)])
        point = points[0]
        self.assertEqual(set(point['times_us']), {'chosen', 'ring', 'hierarchical', 'hierarchical_split'})
        self.assertTrue(all(len(times) == 1 and times[0] > 0 for times in point['times_us'].values()))
        self.assertGreaterEqual(point['times_us']['hierarchical'][0], 50)
        far = point['cluster']['between_hosts']
        self.assertGreaterEqual(far['latency_us'] + far['overhead_us'], 50)
        self.assertLess(far['bandwidth_gbs'] * 8, 1.0)
        # three of the ring's messages go between hosts one after another, and one of the leaders'
        predicted = point['predicted_us']
        self.assertGreater(predicted['ring'] / predicted['hierarchical'], 1)
        self.assertEqual(interfaces(), before)

    def test_what_hides_behind_a_computation_is_measured_between_hosts(self):
        points = self.measure('-r', '1', '--overlap')
        self.assertEqual([(p['hosts'], p['ranks_per_host'], p['bytes'], p['wrong']) for p in points], [(2, 1, 64, 0)])
        self.assertGreaterEqual(points[0]['overlap']['alone_us'], 50)

    def end_by(self, number, status):
        """It ends so by a signal when all ranks are there, and so does what it has started."""
        run, ranks = self.begin(*ENDLESS), []
        while len(ranks) < 5:       # four ranks and who carries their frames
            if run.process.poll() is not None:
                self.finish(run)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                ranks = children_of(run.pid)
        with ends_of(ranks):
            run.send(number)
        self.finish(run, status)

    def test_nothing_is_left_of_one_that_is_interrupted_ended_or_killed(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            self.end_by(number, 128 + number)

    def test_an_algorithm_that_cannot_is_named(self):
        done = self.finish(self.begin(*QUICK, '--algorithms', 'ring,board'), 1)
        self.assertIn('board cannot do all_reduce with 2 hosts of 2 ranks', done.err)

    def test_what_is_missing_is_named(self):
        done = self.begin(*QUICK, PATH='/dev/null')
        self.assertEqual(done.finish(), 1)
        self.assertRegex(done.err, r'cannot make hosts: (there is no ip\(8\)|network namespaces need root)')
        done = self.begin(*QUICK, '--build', '/dev/null')
        done.finish()
        self.assertIn('/dev/null/bench/tutti-bench was not found', done.err)

    def test_a_number_of_ranks_that_is_not_simulated_is_refused(self):
        self.assertIn('3 hosts of 2 ranks', self.finish(self.begin('--hosts', 3), 2).err)


if __name__ == '__main__':
    unittest.main()
