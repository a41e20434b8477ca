#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How programs get the backend: by its name alone, built once for all ranks, or with a clear error."""
from __future__ import annotations

import fcntl
import glob
import os
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import tutti.torch
from patience import bound_s
from tutti.torch import _build

LIMIT_S = 240
GROUPS_S = 2        # for a hundred groups; alone half of it
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(tutti.torch.__file__))))
SUM = '''
import torch, torch.distributed as dist
dist.init_process_group({backend!r}{how})
x = torch.ones(2)
dist.all_reduce(x)
assert x.sum().item() == 2 * dist.get_world_size(), x
assert dist.get_backend() == "tutti" or "cpu:tutti" in {backend!r}
dist.destroy_process_group()
print("summed")
'''
LEAVE = '''
import torch, torch.distributed as dist
dist.init_process_group("tutti")
def callback(future):
    for _ in range(1000):
        future.value()
    return future.value()[0].sum()
try:
    for _ in range(300):
        dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(callback)
    dist.irecv(torch.ones(1000), 1 - dist.get_rank()).get_future().then(callback)
except dist.DistBackendError as error:      # the other rank has left already
    assert "destroyed" in str(error), error
'''
GROUPS = '''
import time, torch, torch.distributed as dist
dist.init_process_group("tutti")
begun = time.monotonic()
for _ in range(100):
    dist.all_reduce(torch.ones(2), group=dist.new_group())
if dist.get_rank() == 0:
    print("summed", time.monotonic() - begun)
dist.destroy_process_group()
'''
# Ranks die by turns: before they meet, with a group, between groups; then none does. Each attempt makes the
# group three times. The agent's store has the keys of all attempts.
RESTARTS = '''
import os, torch, torch.distributed as dist, tutti.torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
def rank_main():
    torch.set_num_threads(1)
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    dies_at = attempt % 3 if attempt < 10 and rank == attempt % 2 else None
    if dies_at == 0:
        os._exit(1)
    for _ in range(3):
        dist.init_process_group("tutti")
        assert sum_of_ones() == 2
        if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14):
            dist.monitored_barrier()
        if dies_at == 1:
            os._exit(1)
        dist.destroy_process_group()
    if dies_at == 2:
        os._exit(1)
    return attempt
def sum_of_ones():
    found = torch.ones(1)
    dist.all_reduce(found)
    return found.item()
tutti.torch._extension()
config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="restarts", rdzv_backend="c10d",
                      rdzv_endpoint="localhost:0", max_restarts=10, monitor_interval=0.1, start_method="fork")
print(elastic_launch(config, rank_main)())
'''
REPORT = '''
import torch, torch.distributed as dist, tutti.torch
def step():
    dist.all_reduce(torch.ones(2))
options = tutti.torch.Options()
options.callers = {option}
dist.init_process_group("tutti", pg_options=options{how})
step()
dist.group.WORLD.abort()        # it leaves the flight recorder's report
'''
INTERRUPTED = '''
import signal, torch.distributed as dist, tutti.torch
from interrupts import signal_in_a_wait     # of tests/python
tutti.torch._extension()
signal.signal(signal.SIGINT, signal.default_int_handler)
for rank in range(2):
    signal_in_a_wait(signal.SIGINT)
    try:
        dist.init_process_group("tutti", store=dist.HashStore(), rank=rank, world_size=2)
    except KeyboardInterrupt:
        print("interrupted")
'''
ALONE = ', store=dist.HashStore(), rank=0, world_size=1'


class Start(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        # what `pip install` leaves, by which PyTorch finds the backend
        info = os.path.join(self.directory, 'tutti-0.0.0.dist-info')
        os.mkdir(info)
        for name, text in {'METADATA': 'Metadata-Version: 2.1\nName: tutti\nVersion: 0.0.0\n',
                           'entry_points.txt': '[torch.distributed.backends]\ntutti = tutti.torch:register\n'}.items():
            self.write(os.path.join(info, name), text)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.directory, name)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def environment(self, **more):
        path = os.pathsep.join([self.directory, PACKAGES, os.environ.get('PYTHONPATH', '')])
        return {**os.environ, 'PYTHONPATH': path, 'TUTTI_TRACE': 'off', 'GLOO_SOCKET_IFNAME': 'lo',
                'OMP_NUM_THREADS': '1', **more}

    def start(self, *command, **more):
        return subprocess.Popen([sys.executable, *command], env=self.environment(**more), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_python(self, *command, **more):
        process = self.start(*command, **more)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def summed(self, *command, **more):
        status, out, err = self.run_python(*command, **more)
        self.assertEqual((status, 'summed' in out), (0, True), err)
        return out

    def test_the_name_is_enough(self):
        self.summed('-c', SUM.format(backend='tutti', how=ALONE))

    def test_one_backend_for_each_device(self):
        self.summed('-c', SUM.format(backend='cpu:tutti,cuda:gloo', how=ALONE))

    def test_launchers_start_ranks(self):
        script = self.write('sum.py', SUM.format(backend='tutti', how=''))
        for launcher in (['torch.distributed.run', '--standalone', '--nproc-per-node', '2'],
                         ['tutti', 'run', '-n', '2', '--', sys.executable]):
            out = self.summed('-m', *launcher, script)
            self.assertEqual(out.count('summed'), 2)

    def test_programs_may_end_without_destroying_their_group(self):
        script = self.write('leave.py', LEAVE)
        for _ in range(3):
            status, _, err = self.run_python('-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
                                             script)
            self.assertEqual(status, 0, err)

    def test_ten_restarts_by_torchruns_agent(self):
        status, out, err = self.run_python('-c', RESTARTS)
        self.assertEqual((status, out), (0, '{0: 10, 1: 10}\n'), err)

    def test_groups_are_made_at_once_and_without_a_word(self):
        script = self.write('groups.py', GROUPS)
        status, out, err = self.run_python('-W', 'ignore', '-m', 'torch.distributed.run', '--standalone',
                                           '--nproc-per-node', '2', script)
        self.assertEqual((status, err), (0, ''))
        self.assertLess(float(out.split()[1]), bound_s(GROUPS_S))

    def test_a_signal_ends_the_wait_for_who_does_not_come(self):
        status, out, err = self.run_python('-c', INTERRUPTED)
        self.assertEqual((status, out), (0, 'interrupted\n' * 2), err)

    def test_the_option_or_the_variable_has_callers_recorded(self):
        for option, variable, line in ((False, '0', False), (True, '0', True), (False, '1', True)):
            with self.subTest(option=option, variable=variable), tempfile.TemporaryDirectory() as reports:
                script = self.write('report.py', REPORT.format(option=option, how=ALONE))
                status, _, err = self.run_python(script, TUTTI_TRACE=reports, TUTTI_CALLERS=variable)
                self.assertEqual(status, 0, err)
                _, found, err = self.run_python('-m', 'tutti', 'trace', '--json', reports)
                self.assertIn('"collective":"all_reduce"', found, err)
                self.assertEqual('report.py:4 in step < report.py:8 in <module>' in found, line, found)

    def compiler(self):
        """One that takes the binary that is there already, and notes each time it is called."""
        log = os.path.join(self.directory, 'log')
        text = f'#!/bin/sh\necho called >> {log}\nfor last; do :; done\ncp {_build._built()} "$last"\n'
        return self.write('compile', text, 0o755), log

    def test_ranks_that_start_at_once_build_once(self):
        path, log = self.compiler()
        cache = os.path.join(self.directory, 'cache')
        script = 'import tutti.torch; tutti.torch._extension(); print("loaded")'
        ranks = [self.start('-c', script, XDG_CACHE_HOME=cache, CXX=path) for _ in range(3)]
        ends = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in ranks]
        self.assertEqual([(out, status) for (out, _), status in ends], [('loaded\n', 0)] * 3)
        with open(log) as file:
            self.assertEqual(len(file.readlines()), 1)
        self.assertEqual(sum('building' in err for (_, err), _ in ends), 1)

    def stuck_compiler(self):
        """One that never ends, and leaves its number in a file, a FIFO, when it has begun."""
        begun = os.path.join(self.directory, 'begun')
        os.mkfifo(begun)
        return self.write('stuck', f'#!/bin/sh\nsleep 1000 &\necho $! >{begun}\nwait\n', 0o755), begun

    def test_a_build_ends_with_the_last_who_waits(self):
        path, begun = self.stuck_compiler()
        cache = os.path.join(self.directory, 'cache')
        first, second = (self.start('-c', 'import tutti.torch; tutti.torch._extension()', XDG_CACHE_HOME=cache, CXX=path)
                         for _ in range(2))
        with open(begun) as file:
            compiler = os.pidfd_open(int(file.read()))
        told = {process.stderr.readline().split()[1]: process for process in (first, second)}
        self.assertEqual(sorted(told), ['building', 'waiting'])
        told['building'].kill()
        told['building'].communicate()
        self.assertEqual(select.select([compiler], [], [], 0.2)[0], [], 'the other one still waits')
        told['waiting'].kill()
        told['waiting'].communicate()
        self.assertEqual(select.select([compiler], [], [], LIMIT_S)[0], [compiler])
        os.close(compiler)
        for name in glob.glob(os.path.join(cache, 'tutti', '*.lock')):
            with open(name) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)        # when the process that compiled has ended, too
        self.assertEqual(glob.glob(os.path.join(cache, 'tutti', '*.building')), [])

    def refused(self, expected, **more):
        status, _, err = self.run_python('-c', SUM.format(backend='tutti', how=ALONE), **more)
        self.assertNotEqual(status, 0)
        self.assertRegex(err, expected)

    def test_no_compiler_is_told(self):
        self.refused('no C\\+\\+ compiler .*apt-get install', XDG_CACHE_HOME=self.directory, CXX='/nowhere/c++')

    def test_what_the_compiler_says_is_told(self):
        path = self.write('compile', '#!/bin/sh\necho "no room in the inn" >&2\nexit 1\n', 0o755)
        self.refused('no room in the inn', XDG_CACHE_HOME=self.directory, CXX=path)

    def test_a_cache_that_others_can_write_is_refused(self):
        cache = os.path.join(self.directory, 'tutti')
        os.mkdir(cache)
        os.chmod(cache, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        self.refused('nobody else who can write', XDG_CACHE_HOME=self.directory)


if __name__ == '__main__':
    unittest.main()
