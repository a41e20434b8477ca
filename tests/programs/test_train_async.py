#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train --sync async: from what the servers made updates of NumPy makes the same weights, and ranks may be lost,
stopped or replaced.

Servers are the first ranks, workers those behind them. So that a worker surely gets a task, others wait at a gate."""
import os
import shutil
import subprocess
import sys
import unittest

from launched import ends_of
from training import DIGITS, EPOCHS, LONG_S, STEPS, TIMEOUT_S, TrainingTest

REPLAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'replay.py')


def python_with_numpy():
    for python in os.environ.get('TEST_PYTHON'), sys.executable, '/usr/bin/python3':
        if python and subprocess.run([python, '-c', 'import numpy'], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class AsyncTest(TrainingTest):
    def start_async(self, ranks, options='', at='', log='log', **more):
        return self.train(ranks, f'--sync async {options}', at, log=log, TRAIN_UPDATES=self.path(f'{log}-updates'), **more)

    def run_async(self, ranks, options='', **more):
        self.finish(self.start_async(ranks, options, **more))
        return self.log()

    def updates(self, servers):
        """Of each server: its updates, as the epoch and the pairs of what they were made of: task, version of weights."""
        def parse(line):
            epoch, *words = map(int, line.split())
            return epoch, list(zip(words[::2], words[1::2]))
        found = []
        for server in range(servers):
            with open(self.path(f'log-updates.{server}')) as file:
                found.append([parse(line) for line in file])
        return found

    def expect_each_task_once(self, servers, tasks):
        for lines in self.updates(servers):
            self.assertEqual(sorted((epoch, task) for epoch, pairs in lines for task, _ in pairs),
                             [(epoch + 1, task) for epoch in range(EPOCHS) for task in range(tasks)])

    def expect_the_weights_of_a_replay(self, servers):
        python = python_with_numpy() or self.skipTest('no Python here has NumPy')
        job = self.start(python, REPLAY, self.path('log-updates'), servers, self.path('log'), DIGITS)
        self.finish(job)
        self.assertLess(float(job.out), 1e-9)
        for path in os.listdir(self.dir):   # the next training appends
            os.unlink(self.path(path))

    def start_together(self, ranks, options, at, **more):
        return self.start_joined(ranks, at, lambda at: self.start_async(ranks, options, at, TUTTI_TIMEOUT=TIMEOUT_S, **more))


class Async(AsyncTest):
    def test_numpy_makes_the_same_weights_of_the_updates(self):
        for ranks, servers, options in ((2, 1, ''),
                                        (4, 1, '--batch 53 --slow 2:4'),
                                        (3, 1, '--optimizer adagrad --weight-decay 0.01'),
                                        (3, 1, '--optimizer sgd --batch all --lr-scaling linear --transport tcp'),
                                        (5, 2, '--transport tcp --warmup 0.5'),
                                        (5, 3, '--staleness 1'),
                                        (4, 2, '--batch-per-rank 16')):
            with self.subTest(options):
                log = self.run_async(ranks, f'--dtype f64 --hidden 16,12 --servers {servers} {options}', epochs=3)
                self.assertEqual(log.end['ranks'], ranks)
                self.expect_the_weights_of_a_replay(servers)

    def test_without_staleness_it_is_the_synchronous_server(self):
        """Nobody is ahead of anybody: weights have the same bits, where the parts of a batch add up to 1."""
        for workers, servers, dtype in (1, 1, 'f32'), (2, 2, 'f64'), (3, 1, 'f64'), (3, 2, 'f64'):
            options = f'--dtype {dtype} --servers {servers}'
            self.finish(self.train(servers + workers, f'--sync ps {options}', epochs=3))
            ps = self.log()
            log = self.run_async(servers + workers, f'{options} --staleness 0', epochs=3)
            self.assert_losses(log, ps, 1e-9 if dtype == 'f64' else 1e-6)
            if workers < 3:
                self.assertEqual(log.end['weights'], ps.end['weights'])
            self.assertEqual(log.end['staleness'], [3 * STEPS * workers])

    def test_gradients_are_no_older_than_was_said_on_any_server(self):
        for ranks, servers, more in (7, 3, ''), (6, 2, '--slow 3:60'):
            log = self.run_async(ranks, f'--servers {servers} --staleness 1 {more}')
            self.assertEqual(sum(log.end['staleness'][2:]), 0)
            self.assertGreater(log.end['test_accuracy'], 0.9)
            for lines in self.updates(servers):
                self.assertLessEqual(max(number - version for number, (_, pairs) in enumerate(lines)
                                         for _, version in pairs), 1)
            self.expect_each_task_once(servers, STEPS * (ranks - servers))
            for server in range(servers):
                os.unlink(self.path(f'log-updates.{server}'))

    def test_without_a_bound_gradients_may_be_old(self):
        """A worker waits with its second task while others do twenty, and they for it until it has the third one."""
        first, late, others = self.gate(), self.gate(), self.gate()
        job = self.start_async(4, '', f'1@task2={first} 1@task12={others} 2@task2={late} 2@task3={others} '
                                      f'3@task2={first} 3@task12={others}')
        self.await_moment(job, 2, 'task2', late)
        first.open()
        self.await_moment(job, 1, 'task12', others)
        self.await_moment(job, 3, 'task12', others)
        late.open()
        self.await_moment(job, 2, 'task3', others)
        others.open()
        self.finish(job)
        self.assertGreater(sum(self.log().end['staleness'][20:]), 0)

    def test_a_checkpoint_goes_on(self):
        """With the same bits, where workers wait for each other."""
        options = '--servers 2 --staleness 0 --verify'
        whole = self.run_async(4, options)
        options += f' --save {self.path("saved")} --every-epochs 2'
        self.assertNotEqual(self.start_async(4, options, f'3@task{4 * STEPS}').finish(), 0)
        self.assertEqual(self.run_async(4, f'{options} --resume').bits, whole.bits)

    # ---- losses

    def lose(self, servers, at, losses, left, run, options='', gate=None):
        """What happens at `at` leaves so many ranks of three workers and these servers, and a model that has learnt.
        Workers that `at` has not wait with their second task until the launcher has told of the first loss."""
        gate = gate or self.gate()
        at += ''.join(f' {rank}@task2={gate}' for rank in range(servers, servers + 3) if f'{rank}@' not in at)
        job = self.start_async(servers + 3, f'--servers {servers} {options}', at, run=run)
        job.await_text(f'tutti-run: rank {losses[0]} (pid ', err=True)
        gate.open()
        self.finish(job)
        log = self.log()
        self.assertEqual([loss['lost'] for loss in log.losses], [[rank] for rank in losses])
        self.assertEqual(log.end['ranks'], left)
        self.assertGreater(log.end['test_accuracy'], 0.9)
        return log

    def test_others_do_what_a_lost_worker_had(self):
        for bound in '', '--staleness 0':
            self.lose(1, '2@task1', [2], 3, '--min-ranks 2', f'--dtype f64 --hidden 16,12 {bound}')
            self.expect_each_task_once(1, STEPS * 3)
            self.expect_the_weights_of_a_replay(1)

    def test_what_one_server_had_of_a_lost_worker_is_done_for_the_other(self):
        """The worker dies when server 0 has answered, and server 1 is about to take its gradients."""
        gate = self.gate()
        self.lose(2, f'1@wait1={gate} 2@wait5 3@wait1={gate} 4@wait1={gate}', [2], 4, '--min-ranks 3', gate=gate)
        self.expect_each_task_once(2, STEPS * 3)

    def test_a_slow_worker_gets_no_task_that_others_would_wait_for(self):
        """It is about to push its second one when the other is at its fortieth, and both have 46 in an epoch."""
        first, slow, fast = self.gate(), self.gate(), self.gate()
        job = self.start_async(3, '', f'1@task2={slow} 1@wait8={fast} 2@task2={first} 2@task40={fast}', epochs=1)
        self.await_moment(job, 1, 'task2', slow)    # else it may be so slow that it has none
        first.open()
        self.await_moment(job, 2, 'task40', fast)
        slow.open()
        self.await_moment(job, 1, 'wait8', fast)    # it has its answer
        fast.open()
        self.finish(job)
        self.assertAlmostEqual(self.log().end['each_rank'][1]['share'], 2 * 32 / 1438)

    def test_a_replacement_takes_part(self):
        """Also one of a replacement."""
        for at, losses, restarts in ('2@task2', [2], 1), ('2@task2 2.1@task1', [2, 2], 2):
            log = self.lose(1, at, losses, 4, f'--min-ranks 2 --restart {restarts}')
            self.assertGreater(log.end['each_rank'][3]['share'], 0)
            self.assertAlmostEqual(sum(log.of_ranks('share')), 1)

    def test_a_lost_server_has_the_epoch_begin_again(self):
        """Another rank is server in its place."""
        for servers, victim, restarts in (1, 0, 0), (2, 0, 1), (2, 1, 0):
            job = self.start_async(servers + 3, f'--servers {servers}', f'{victim}@step{STEPS + 9}',
                                   run=f'--min-ranks {servers + 1} --restart {restarts}')
            self.finish(job)
            self.assertIn('the velocity of all weights was lost with a rank, and begins anew', job.err)
            log = self.log()
            self.assertEqual([loss['lost'] for loss in log.losses], [[victim]])
            self.assertEqual(log.end['ranks'], servers + 2 + restarts)
            self.assertEqual(len(log.epochs), EPOCHS)
            self.assertGreater(log.end['test_accuracy'], 0.9)

    def lose_at_the_end_of(self, moment, there, options, at='', lost=(), late=1):
        """The last of the ranks that are there is lost at the end of a collective: it makes no difference whether one of
        them has come to that before. Trainings go on from a checkpoint if there is one. What tutti-train says."""
        logs, saved, used = [], self.path('saved'), self.path('used')
        for misses in None, late:
            gate = self.gate()
            actions = {rank: 'MISS' if rank == misses else gate for rank in there}
            if os.path.exists(saved):
                shutil.copy(saved, used)
            job = self.start_async(there[-1] + 1, f'{options} --save {used} --resume --staleness 0 --dtype f64',
                                   at + ''.join(f' {rank}@{moment}={action}' for rank, action in actions.items()),
                                   run='--min-ranks 3', epochs=4)
            self.lose_last(job, gate, moment, actions)
            self.finish(job)
            logs.append(self.log())
            os.unlink(used)
            self.assertEqual([loss['lost'] for loss in logs[-1].losses], [*lost, [there[-1]]])
        self.assert_losses(*logs, 1e-9)
        return job.said

    def test_servers_begin_anew_from_one_state(self):
        """One is lost, and all find that another rank is server now but for the one that was server before."""
        for victim, late in (0, 1), (1, 0):
            there = [rank for rank in range(5) if rank != victim]
            self.lose_at_the_end_of('add-end6', there, '--servers 2 --momentum 0', f'{victim}@step{STEPS + 9}',
                                    [[victim]], late)

    def test_velocity_of_a_checkpoint_is_kept_until_all_servers_have_theirs(self):
        """Rank 0 has sent it, and server 1 has not got its part."""
        options = f'--servers 2 --staleness 0 --dtype f64 --save {self.path("saved")} --every-epochs 2'
        self.assertNotEqual(self.start_async(4, options, f'3@task{3 * STEPS}', epochs=4).finish(), 0)
        said = self.lose_at_the_end_of('share-end1', range(4), '--servers 2')
        self.assertIn('resumed after epoch 2', said)
        self.assertNotIn('begins anew', said)

    def test_a_lost_server_that_ends_the_training_is_named(self):
        """By ranks that the launcher leaves alone."""
        for way in 'ps', 'async':
            job = self.start('sh', '-c', 'for rank in 0 1 2; do TUTTI_RANK=$rank "$@" & done; wait', 'sh',
                             os.environ['TEST_TRAIN'], '--data', DIGITS, '--sync', way, '--epochs', EPOCHS,
                             TRAIN_MOMENTS=' 0@step30=KILL', TUTTI_SIZE=3, TUTTI_STORE=f'file:{self.path(way)}')
            self.finish(job)
            for rank in 1, 2:
                self.assertRegex(job.err, fr'tutti-train: rank {rank}: parameter server 0 was lost, and its weights with it: '
                                          r'.*rank 0 .*; start the training again, with --resume if there is a checkpoint')


class Stuck(AsyncTest):
    """Several jobs wait for their deadlines at once."""

    def test_a_stuck_worker_or_server_is_lost(self):
        jobs = [(victim, *self.start_together(4, f'--servers {servers} {options}', f'{victim}@{moment}=STOP',
                                              log=f'log{number}', run=f'--min-ranks {servers + 1}'))
                for number, (servers, victim, moment, options) in enumerate(
                    ((1, 2, 'task2', ''), (1, 2, 'task2', '--staleness 1'), (1, 0, 'step10', ''), (2, 1, 'step10', '')))]
        for number, (victim, job, pids) in enumerate(jobs):
            log = self.expect_left_out(job, victim, pids[victim], f'log{number}')
            self.assertGreater(log.end['test_accuracy'], 0.9)


class Phases(AsyncTest):
    """While ranks join and settle, at the first step or task, between an epoch and the next with a checkpoint, at the
    end. Whatever becomes of the training: nobody hangs."""
    MOMENTS = [(victim, moment) for victim in (0, 1) for moment in ('join1', 'settle1', 'step1', 'save2', 'leave1')]
    MOMENTS += [(3, moment) for moment in ('join1', 'settle1', 'task1', 'leave1')]

    def disturbances(self, action, start):
        """Jobs of which a rank has come to its moment: so that a worker does, the other one waits for that."""
        for number, (victim, moment) in enumerate(self.MOMENTS):
            gate = self.gate()
            options = f'--servers 2 --save {self.path(f"saved{number}")} {"--staleness 1" if number % 2 else ""}'
            at = f'{victim}@{moment}={action}' + (f' 2@task1={gate}' if moment == 'task1' else '')
            job, *pids = start(4, options, at, log=f'log{number}', run='--min-ranks 3', epochs=3)
            self.await_moment(job, victim, moment, action)
            gate.open()
            yield job, victim, moment, *pids

    def test_nobody_hangs_when_a_rank_dies_in_any_phase(self):
        """Nor waits for a deadline, but of those who join for one who has not come yet."""
        def start(ranks, options, at, **more):
            return self.start_async(ranks, options, at, TUTTI_TIMEOUT=TIMEOUT_S if 'join' in at else LONG_S, **more),
        for job, victim, moment in self.disturbances('KILL', start):
            with self.subTest(victim=victim, moment=moment):
                job.finish()

    def test_nobody_hangs_when_a_rank_stops_in_any_phase(self):
        for job, victim, moment, pids in list(self.disturbances('STOP', self.start_together)):
            with self.subTest(victim=victim, moment=moment):
                with ends_of([pid for rank, pid in pids.items() if rank != victim], 60):
                    pass    # they end by themselves
            self.wake(pids[victim])
            job.finish()


class Clock(AsyncTest):
    """Claims about shares of the processors' time."""

    def test_workers_take_turns_at_a_busy_server(self):
        """Two could keep it busy, and nothing would be left to the last."""
        log = self.run_async(8, '--batch 14 --hidden 512,512 --transport tcp', epochs=2)
        for account in log.end['each_rank'][1:]:
            self.assertGreater(account['share'], 0.07)   # half of what is equal

    def test_a_slow_worker_does_less(self):
        """Each takes as much as it can: 1 to 20, if nothing else runs."""
        log = self.run_async(3, '--hidden 512,512 --slow 1:20', epochs=4)
        shares = [account['share'] for account in log.end['each_rank']]
        self.assertLess(shares[1], 0.4)
        self.assertAlmostEqual(shares[1] + shares[2], 1, delta=1e-6)


if __name__ == '__main__':
    unittest.main()
