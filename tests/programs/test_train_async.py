#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train --sync async: what one rank makes of the journal has the same bits, and workers that are lost, stopped or
replaced stop nobody.

Servers are the first ranks, workers those behind them. So that a worker surely gets a task, others wait at a gate."""
import json
import os
import time
import unittest

from launched import ends_of
from training import EPOCHS, STEPS, TrainingTest

TIMEOUT_S = 2      # of those who wait for a rank that has stopped
LONG_S = 140       # no deadline passes in a test


def updates_of_epochs(journal):
    """Of a server's journal: entries that are part of an update."""
    with open(journal) as file:
        lines = [json.loads(line) for line in file]
    epochs = [[]]
    for line in lines[1:]:
        if 'epoch' in line:
            epochs.append([])
        elif line['update'] > 0:
            epochs[-1].append(line)
    return epochs[:-1]


class AsyncTest(TrainingTest):
    def start_async(self, ranks, options='', at='', **more):
        return self.train(ranks, f'--sync async {options}', at, **more)

    def run_async(self, ranks, options='', **more):
        job = self.start_async(ranks, options, **more)
        self.finish(job)
        return self.log()

    def journal(self, options):
        return f'{options} --journal {self.path("journal")}'

    def expect_the_same_bits(self, options, log, epochs=EPOCHS):
        """As the training that wrote journal and log, of one rank that has the journal alone."""
        job = self.start_async(1, f'{options} --replay {self.path("journal")}', log='replayed', epochs=epochs)
        self.finish(job)
        replayed = self.log('replayed')
        self.assertEqual(replayed.end['weights'][0], log.end['weights'][0])
        self.assertEqual(replayed.train_losses, log.train_losses)
        self.assertEqual(len(log.epochs), epochs)

    def start_together(self, ranks, options, at, **more):
        """A job, and its processes. They join at once: their short deadlines begin when all are there."""
        gate = self.gate()
        first = [rank for rank in range(ranks) if f'{rank}@join1' not in at]
        at += ''.join(f' {rank}@join1={gate}' for rank in first)
        job = self.start_async(ranks, options, at, TUTTI_TIMEOUT=TIMEOUT_S, **more)
        pids = {rank: self.await_moment(job, rank, 'join1', gate if rank in first else 'STOP') for rank in range(ranks)}
        gate.open()
        return job, pids


class Async(AsyncTest):
    def test_one_rank_makes_the_same_bits_of_the_journal(self):
        for ranks, options in ((2, ''),
                               (4, '--batch 53 --dtype f64 --slow 2:4'),
                               (3, '--optimizer adagrad --lr 0.02 --dtype bf16'),
                               (4, '--push-every 3'),
                               (4, '--batch 53 --push-every 2 --fetch-every 6 --lr 0.03'),
                               (5, '--servers 2 --transport tcp'),
                               (5, '--servers 2 --batch 53 --fetch-every 4 --slow 3:3 --lr 0.03'),
                               (5, '--servers 3 --staleness 1'),
                               (3, '--batch all --lr-scaling none --transport tcp'),
                               (4, '--batch-per-rank 16 --servers 2')):
            with self.subTest(options):
                log = self.run_async(ranks, self.journal(options), epochs=3)
                self.assertEqual(log.end['ranks'], ranks)
                self.expect_the_same_bits(options, log, epochs=3)

    def test_without_staleness_it_is_the_synchronous_server(self):
        """Nobody is ahead of anybody."""
        for servers in 1, 2:
            for workers in 1, 3:
                options = f'--batch 53 --dtype f64 --servers {servers}'
                self.finish(self.train(servers + workers, f'--sync ps {options}', epochs=3))
                ps = self.log()
                log = self.run_async(servers + workers, f'{options} --staleness 0', epochs=3)
                for is_now, was in zip(log.train_losses, ps.train_losses):
                    self.assertAlmostEqual(is_now, was, delta=1e-9 * was)
                self.assertEqual(log.end['staleness'][0], 3 * 28 * workers)

    def test_gradients_are_no_older_than_was_said_on_any_server(self):
        """And what is held at the end of an epoch belongs to it: the second one who has a task waits for the update, as
        the first does."""
        for ranks, servers, more in (7, 3, ''), (6, 2, '--hidden 256 --slow 3:60'):
            options = f'--servers {servers} --staleness 1 {more}'
            log = self.run_async(ranks, self.journal(options))
            self.assertEqual(sum(log.end['staleness'][2:]), 0)
            self.assertGreater(log.end['test_accuracy'], 0.9)
            tasks = STEPS * (ranks - servers)
            for server in range(servers):
                updates = updates_of_epochs(self.path(f'journal.{server}'))
                self.assertEqual(len(updates), EPOCHS)
                for epoch, some in enumerate(updates):
                    self.assertEqual(sorted(update['task'] for update in some),
                                     list(range(epoch * tasks, (epoch + 1) * tasks)))
                    self.assertLessEqual(max(update['update'] - 1 - update['versions'][server] for update in some), 1)
            self.expect_the_same_bits(options, log)

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
        options = f'--servers 2 --save {self.path("saved")} --resume'
        self.run_async(4, options)
        log = self.run_async(4, options)   # has nothing left to do
        self.assertEqual(len(log.epochs), EPOCHS)
        self.assertGreater(log.end['test_accuracy'], 0.9)

    # ---- losses

    def start_three_workers(self, gate, servers, at, run, options='', **more):
        """A job of these servers and of workers that, unless `at` has them, wait at the gate with their second task."""
        at += ''.join(f' {rank}@task2={gate}' for rank in range(servers, servers + 3) if f'{rank}@' not in at)
        return self.start_async(servers + 3, self.journal(f'--servers {servers} {options}'), at, run=run, **more)

    def expect_nothing_stopped(self, servers, losses, ranks, options=''):
        log = self.log()
        self.assertEqual([loss['lost'] for loss in log.losses], losses)
        self.assertEqual(log.end['ranks'], ranks)
        self.assertGreater(log.end['test_accuracy'], 0.9)
        self.expect_the_same_bits(f'--servers {servers} {options}', log)
        return log

    def test_a_killed_worker_stops_nobody(self):
        """Who waited for a dead one would wait for the deadline, longer than the test."""
        for servers, options in (1, ''), (2, '--staleness 1'):
            gate = self.gate()
            job = self.start_three_workers(gate, servers, f'{servers + 1}@task1', '--min-ranks 3', options)
            # else the launcher would see the others end well before it hears of that
            job.await_text(f'tutti-run: rank {servers + 1} (pid ', err=True)
            gate.open()
            self.finish(job)
            self.assertIn(f'lost rank {servers + 1} ', job.out)
            self.expect_nothing_stopped(servers, [[servers + 1]], servers + 3, options)

    def test_a_newcomer_takes_its_place(self):
        """Also behind one that has died before it joined, or at its first task. It is a worker like the others."""
        for servers, dies, losses, options in ((1, '', 1, ''), (2, '', 1, ''), (1, '1.1@join1', 1, '--transport tcp'),
                                               (2, '2.1@task1', 2, '')):
            gate, number = self.gate(), 2 + losses
            job = self.start_three_workers(gate, servers, f'{servers}@task2 {dies} {servers}.0@task2={gate}',
                                           f'--min-ranks 3 --restart {2 if dies else 1}', options)
            self.await_moment(job, servers, 'task2', gate)
            gate.open()
            self.finish(job)
            self.assertIn(f'as worker {number}', job.err)
            log = self.expect_nothing_stopped(servers, [[servers]] * losses, servers + number + 1)
            self.assertGreater(log.end['each_rank'][servers + number]['share'], 0)

    def test_a_stopped_worker_stops_nobody(self):
        gate = self.gate()
        job = self.start_three_workers(gate, 1, '2@task2=STOP', '--min-ranks 2', TUTTI_TIMEOUT=LONG_S)
        pid = self.await_moment(job, 2, 'task2')
        gate.open()
        job.await_text('  loss ', EPOCHS - 1)
        self.wake(pid)
        self.finish(job)
        self.expect_nothing_stopped(1, [], 4)

    def test_a_lost_server_ends_the_training_by_name(self):
        """And nobody waits for a deadline."""
        for servers, victim in (1, 0), (2, 1):
            job = self.start_async(servers + 2, f'--servers {servers}', f'{victim}@step10',
                                   run=f'--min-ranks {servers + 1}')
            pid = self.await_moment(job, victim, 'step10', 'KILL')
            self.assertNotEqual(job.finish(), 0)
            self.assertIn(f'rank {victim} (pid {pid}) died', job.err)

    def test_too_few_workers_end_the_training(self):
        """With somebody to say that it ended them, and with nobody."""
        for ranks, at in (3, '2@task2'), (4, '1@task2 2@task2 3@task2'):
            job = self.start_async(ranks, '', at, run=f'--min-ranks {5 - len(at.split())}')
            self.assertNotEqual(job.finish(), 0)

    # ---- refusals

    def expect_refusal(self, ranks, options, because):
        job = self.train(ranks, options)
        self.assertNotEqual(job.finish(), 0)
        self.assertIn(because, job.err)

    def test_what_cannot_be_is_refused(self):
        for ranks, options, because in (
                (1, '--sync async', 'expected one worker at least'),
                (2, '--sync async --replay none', 'none cannot be read'),
                (2, '--sync async --journal /no/such/file', 'cannot be written')):
            self.expect_refusal(ranks, options, because)

    def test_journals_of_others_are_refused(self):
        self.run_async(3, self.journal(''))
        for options, because in (('--lr 0.2', 'other options that shape the curve'),
                                 ('--servers 2', 'journal.0 cannot be read'),
                                 ('--test-fraction 0.3', 'other options that shape the curve')):
            self.expect_refusal(1, f'--sync async {options} --replay {self.path("journal")}', because)

    def test_journals_of_two_trainings_are_refused(self):
        """One goes on from a checkpoint, and has fewer epochs."""
        options = self.journal('--servers 2')
        resumed = f'{options} --save {self.path("saved")} --resume'
        job = self.start_async(3, resumed, f'2@task{2 * STEPS}')
        self.assertNotEqual(job.finish(), 0)
        self.run_async(3, resumed)
        os.rename(self.path('journal.1'), self.path('other'))
        self.run_async(3, options)
        os.rename(self.path('other'), self.path('journal.1'))
        self.expect_refusal(1, f'--sync async --servers 2 --replay {self.path("journal")}',
                            'of server 1 begins after step')


class Stuck(AsyncTest):
    """Several jobs wait for their deadlines at once."""

    def test_a_stuck_worker_is_lost_and_a_stuck_server_ends_the_training(self):
        worker, pids = self.start_together(4, self.journal(''), '2@task2=STOP', run='--min-ranks 2')
        servers = [(victim, *self.start_together(count + 2, f'--servers {count}', f'{victim}@step10=STOP',
                                                 log=f'log{count}', run=f'--min-ranks {count + 1}'))
                   for count, victim in ((1, 0), (2, 1))]
        worker.await_text('lost rank 2 ')
        self.wake(pids[2])
        self.assertLessEqual(worker.finish(), 1)   # the others ended well before it
        log = self.log()
        self.assertEqual([(loss['lost'], loss['how']) for loss in log.losses], [([2], 'deadline')])
        self.assertGreater(log.end['test_accuracy'], 0.9)
        self.expect_the_same_bits('', log)
        for victim, job, pids in servers:
            # it is waited for by the launcher, when the others have ended
            job.await_text(f'rank {victim} is stopped (state T)', err=True)
            self.wake(pids[victim])
            self.assertNotEqual(job.finish(), 0)


class Phases(AsyncTest):
    """While ranks join and settle, at the first step or task, between an epoch and the next with a checkpoint, at the
    end. Whatever becomes of the training: nobody hangs."""
    MOMENTS = [(victim, moment) for victim in (0, 1) for moment in ('join1', 'settle1', 'step1', 'save2', 'end1')]
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
    """Claims about time, ten times as long as what may disturb them, and about shares of the processors' time."""
    TIMEOUT_S = 10

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

    def test_a_worker_that_stops_for_a_while_is_not_lost(self):
        """In the midst of a message, over one deadline and less than three."""
        job = self.start_async(3, '--hidden 512,512 --batch 14', '1@wait21=STOP 2@wait41=STOP', run='--min-ranks 2',
                               TUTTI_TIMEOUT=self.TIMEOUT_S)
        for rank, moment in (1, 'wait21'), (2, 'wait41'):
            pid = self.await_moment(job, rank, moment)
            time.sleep(1.5 * self.TIMEOUT_S)
            self.wake(pid)
        self.finish(job)
        self.assertEqual(self.log().losses, [])

    def test_who_waits_for_a_task_knows_that_the_server_is_there(self):
        """An epoch is one task. Nobody knows how fast the other worker is: it gets no task as a backup, and has nothing
        to do for more than two deadlines, after which it would give up the server. The one that has the task would be
        lost after three."""
        gate = self.gate()
        tasks = f'--push-every {2 * STEPS} --fetch-every {2 * STEPS}'
        job = self.start_async(3, tasks, f'1@task1={gate} 2@task1={gate}', run='--min-ranks 2',
                               TUTTI_TIMEOUT=self.TIMEOUT_S)
        job.await_text(' at task1: ')
        time.sleep(2.5 * self.TIMEOUT_S)
        gate.open()
        self.finish(job)
        self.assertEqual(self.log().losses, [])


if __name__ == '__main__':
    unittest.main()
