#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare-hosts, with real ranks in network namespaces where they can be made; its path and the build directory are
the arguments."""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from launched import bound_s

BUILD, COMPARE = sys.argv.pop(), sys.argv.pop()
QUICK = ['--limit', str(bound_s(60)), '--hosts', '2', '-b', '64', '-e', '64', '-n', '1', '--seconds', '0.001',
         '--delay', '50', '--rate', '1000']
ENDLESS = QUICK[:-6] + ['-n', '1000000', '--seconds', '1']


def command(*words):
    return [sys.executable, COMPARE, '--build', BUILD, *words]


def run(*words, **more):
    return subprocess.run(command(*words), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as file:
        return [int(child) for child in file.read().split()]


def interfaces():
    return sorted(os.listdir('/sys/class/net'))


class CompareHosts(unittest.TestCase):
    def skip_without_hosts(self, status, errors):
        if status and 'cannot make hosts: ' in errors:
            self.skipTest(errors.strip())

    def test_what_is_measured_stands_beside_what_is_predicted(self):
        before = interfaces()
        with tempfile.NamedTemporaryFile('r') as file:
            done = run(*QUICK, '--json', file.name)
            self.skip_without_hosts(done.returncode, done.stderr)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            points = [json.loads(line) for line in file]
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
        self.assertEqual(len([line for line in done.stdout.splitlines() if line.split()[:1] == ['64']]), 1)
        self.assertEqual(interfaces(), before)

    def test_what_hides_behind_a_computation_is_measured_between_hosts(self):
        with tempfile.NamedTemporaryFile('r') as file:
            done = run(*QUICK, '-r', '1', '--overlap', '--json', file.name)
            self.skip_without_hosts(done.returncode, done.stderr)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            points = [json.loads(line) for line in file]
        self.assertEqual([(p['hosts'], p['ranks_per_host'], p['bytes'], p['wrong']) for p in points], [(2, 1, 64, 0)])
        self.assertGreaterEqual(points[0]['overlap']['alone_us'], 50)
        self.assertEqual(len([line for line in done.stdout.splitlines() if line.split()[:1] == ['64']]), 1)

    def end_by(self, number):
        """Start, wait until all ranks are there, send a signal; returns the status when all are gone."""
        with tempfile.TemporaryFile('w+') as errors, subprocess.Popen(
                command(*ENDLESS), stdout=subprocess.DEVNULL, stderr=errors) as process:
            gone = []
            while len(gone) < 5:        # four ranks and who carries their frames
                if process.poll() is not None:
                    errors.seek(0)
                    text = errors.read()
                    self.skip_without_hosts(process.returncode, text)
                    self.fail(text)
                for fd in gone:
                    os.close(fd)
                gone = []
                for child in children(process.pid):
                    try:
                        gone.append(os.pidfd_open(child))
                    except ProcessLookupError:
                        pass
            process.send_signal(number)
            for fd in gone:
                self.assertTrue(select.select([fd], [], [], bound_s(20))[0])
                os.close(fd)
            return process.wait(bound_s(20))

    def test_nothing_is_left_of_one_that_is_interrupted_ended_or_killed(self):
        self.assertEqual(self.end_by(signal.SIGINT), 130)
        self.assertEqual(self.end_by(signal.SIGTERM), 143)
        self.assertEqual(self.end_by(signal.SIGKILL), -signal.SIGKILL)

    def test_an_algorithm_that_cannot_is_named(self):
        done = run(*QUICK, '--algorithms', 'ring,board')
        self.skip_without_hosts(done.returncode, done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertIn('board cannot do all_reduce with 2 hosts of 2 ranks', done.stderr)

    def test_what_is_missing_is_named(self):
        done = run(*QUICK, env=dict(os.environ, PATH='/dev/null'))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'cannot make hosts: (there is no ip\(8\)|network namespaces need root)')
        done = run(*QUICK, '--build', '/dev/null')
        self.assertIn('/dev/null/bench/tutti-bench was not found', done.stderr)

    def test_a_number_of_ranks_that_is_not_simulated_is_refused(self):
        done = run('--hosts', '3')
        self.assertEqual(done.returncode, 2)
        self.assertIn('3 hosts of 2 ranks', done.stderr)


if __name__ == '__main__':
    unittest.main()
