#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train loses ranks: it goes on with fewer of them or with replacements, and ends as if nothing had been.

Names of tests may follow; without them, all that the device has."""
import os
import random
import re
import shutil
import signal
import unittest

from training import DEVICE, DIGITS, EPOCHS, LONG_S, NUMBERS, RUN, STEPS, TIMEOUT_S, TRAIN, TrainingTest, host_only

ON_GPUS = DEVICE == 'cuda'
UNDISTURBED = {}   # logs, by whether there is momentum


class LossTest(TrainingTest):
    def lose_ranks(self, at, options='', least=4, restarts=0, ranks=4, log='log', **env):
        bucket = '' if re.search('--sync (ps|local)', options) else '--bucket 64K'
        options = f'--device {DEVICE} --dtype f64 {bucket} {options}'
        return self.train(ranks, options, at, f'--restart {restarts} --min-ranks {least}', log, **env)

    def undisturbed(self, momentum):
        if momentum in UNDISTURBED:
            return UNDISTURBED[momentum]
        job = self.lose_ranks('', '' if momentum else '--momentum 0', log='undisturbed')
        self.finish(job)
        log = self.log_of(job, 4, 'undisturbed')
        self.assertEqual(log.losses, [])
        self.assertEqual(log.end['steps_begun'], EPOCHS * STEPS)
        self.assertGreater(log.end['test_accuracy'], 0.9)
        UNDISTURBED[momentum] = log
        return log

    def log_of(self, job, ranks, name='log'):
        """Of a training that `ranks` ranks have ended, all with the same weights."""
        log = self.log(name)
        self.assertEqual([epoch['epoch'] for epoch in log.epochs], list(range(1, EPOCHS + 1)))
        self.assertEqual((log.end['ranks'], log.end['steps']), (ranks, EPOCHS * STEPS))
        self.assertEqual(log.end['weights'], log.end['weights'][:1] * ranks)
        self.assertEqual(job.out.count('lost rank'), len(log.losses))
        for loss in log.losses:
            self.assertGreater(loss['recovery_s'], 0)
            self.assertTrue(loss['cause'])
            self.assertLessEqual(loss['epoch'], EPOCHS)
            self.assertEqual(len(loss['lost']), loss['lost_count'])
        return log

    def expect_as_if_nothing_had_been(self, log, options=''):
        """The loss of every epoch is that of the undisturbed training but for the order in which numbers of other
        slices add up: a batch that counts twice or not at all changes it by more. The reporting rank was there from the
        start: it has begun no step but those of the training, and again at each loss that in flight, or on a GPU those
        of the epoch. Without velocity none is lost with a rank."""
        undisturbed = self.undisturbed('--momentum 0' not in options)
        # what is sent in shares may not have come everywhere in the step before, either
        again = STEPS if ON_GPUS else 2 if '--sync' in options else 1
        self.assert_close(log.train_losses, undisturbed.train_losses, 1e-6)
        self.assertAlmostEqual(log.end['test_accuracy'], undisturbed.end['test_accuracy'], delta=1e-3)
        self.assertLessEqual(log.end['steps_begun'], EPOCHS * STEPS + len(log.losses) * again)

    def lose(self, at, left, options='', least=2, restarts=0, lost=None):
        """Who dies at these moments is lost, and `left` ranks are there at the end."""
        return self.check_losses(self.lose_ranks(at, options, least, restarts), at, left, options, lost)

    def lose_at_once(self, at, left, options='', least=2, restarts=0, others=''):
        """Who comes to these moments waits for the others, and they die: in one loss, or in two. Those at the moments
        `others` then go on."""
        gate = self.gate()
        job = self.lose_ranks(' '.join(f'{word}={gate}' for word in f'{at} {others}'.split()), options, least, restarts)
        pids = [self.await_moment(job, int(word[0]), word[2:], gate) for word in f'{at} {others}'.split()]
        for pid in pids[:len(at.split())]:
            os.kill(pid, signal.SIGKILL)
        gate.open()
        return job, self.check_losses(job, at, left, options)

    def check_losses(self, job, at, left, options, lost=None):
        lost = lost or sorted(int(word[0]) for word in at.split())
        self.finish(job)
        log = self.log_of(job, left)
        self.assertEqual(sorted(rank for loss in log.losses for rank in loss['lost']), lost, job.out)
        self.assertEqual((log.losses[0]['ranks_before'], log.losses[-1]['ranks_after']), (4, left))
        self.assertEqual({loss['how'] for loss in log.losses}, {'died'})
        self.expect_as_if_nothing_had_been(log, options)
        return log

    def pieces(self):
        """Ways in which a rank has what nobody else has: layers, a part of each, or rows of the data."""
        rows = self.write('rows', ''.join(self.lines_of_digits()))
        return ('--parallel pipeline --hidden 32,32,32 --sync zero1', '--parallel tensor',
                '--parallel data=2,pipeline=2', '--parallel pipeline,tensor=2', f'--data {rows} --shard')

    def go_on(self, options, saved):
        """From the checkpoint of the first epoch, with the bits of a training that nothing happened to."""
        logs = []
        for name, more in ('whole', ''), ('resumed', f'--save {saved} --resume'):
            job = self.lose_ranks('', f'{options} {more}', log=name)
            self.finish(job)
            logs.append(self.log(name))
        self.assertIn('resumed after epoch 1', job.out)
        self.assertEqual(logs[1].end['steps_begun'], (EPOCHS - 1) * STEPS)
        found, expected = ((log.end['weights'], log.train_losses) for log in logs)
        self.assertEqual(found, expected, options)

    def lose_each(self, at, **more):
        """One after the other: what each loss left."""
        log = self.lose(at, **more)
        self.assertEqual([loss['lost'] for loss in log.losses], [[int(word[0])] for word in at.split()])
        return [(loss['ranks_after'], loss['replaced']) for loss in log.losses]


class Lost(LossTest):
    @host_only
    def test_one_after_the_other_may_be_lost_until_one_is_left(self):
        self.assertEqual(self.lose_each('3@step20 1@step60 0@step100', left=1, least=1), [(3, 0), (2, 0), (1, 0)])

    def test_the_rank_that_reports_and_its_replacement_may_be_lost(self):
        log = self.lose('0@step20 1@step60 0.0@step100', left=2, restarts=1)
        self.assertEqual([(loss['lost'], loss['ranks_after'], loss['replaced']) for loss in log.losses],
                         [([0], 4, 1), ([1], 3, 0), ([0], 2, 0)])
        # the library knows the others by new numbers
        self.assertTrue(log.losses[1]['cause'].endswith('; rank 0 of these is rank 1 of all'), log.losses[1]['cause'])
        # also when one is lost before the loss of another is over; that too few are left the ranks find themselves
        job = self.lose_ranks('0@step20 2@settle2', least='2 -- env TUTTI_MIN_RANKS=3 env')
        self.assertNotEqual(job.finish(), 0)
        self.assertRegex(job.err, 'rank 1 .* died.*; rank 1 of these is rank 2 of all\n')

    @host_only
    def test_two_may_be_lost_at_once_and_replaced_or_one_of_them(self):
        self.lose_at_once('0@step40 2@step40', left=2)
        self.lose_at_once('0@step40 3@step40', left=4, restarts=2)
        self.lose_at_once('1@step69 2@step69', left=3, restarts=1)

    def test_no_rank_of_the_end_was_there_at_the_start(self):
        left = self.lose_each('0@step20 1@step50 2@step80 3@step110', left=4, least=4, restarts=4)
        self.assertEqual(left, [(4, 1)] * 4)

    @host_only
    def test_a_rank_may_be_lost_at_any_moment(self):
        """While others recover, too, or when they have met and not begun. Two gradients are summed in each step."""
        self.lose_at_once('2@settle1', left=3, others='0@settle1 1@settle1 3@settle1')
        self.lose('1@step30 2@settle2', left=2)
        self.lose('1@step30 1.1@settle1', left=4, restarts=2, lost=[1])
        seed = 1 if os.environ.get('TEST_SEEDS') == 'fixed' else random.SystemRandom().randrange(10 ** 6)
        print('seed', seed, flush=True)
        draw = random.Random(seed)
        sums = 2 * STEPS * EPOCHS
        for point, times in ('sum', sums), ('wait', sums), ('epoch', EPOCHS), ('save', EPOCHS - 1):
            at = f'{draw.randrange(4)}@{point}{draw.randint(1, times)}'
            with self.subTest(at):
                self.lose(at, left=3)
        end = f'save{EPOCHS}'   # all have its sums: whoever lacks them is in the last epoch
        job, log = self.lose_at_once(f'2@{end}', left=3, others=f'0@{end} 1@{end} 3@{end}')
        self.assertEqual([(loss['epoch'], loss['step']) for loss in log.losses], [(EPOCHS, EPOCHS * STEPS)])
        self.assertIn('lost rank 2 after the last epoch: ', job.out)

    @host_only
    def test_a_loss_is_counted_once(self):
        """Where another rank is lost before all know of it, too, as the one that tells them."""
        for victim, misses in (2, 0), (0, 1):
            first, then = self.gate(), self.gate()
            job = self.lose_ranks(' '.join(f'{rank}@settle1={first}' for rank in range(4)) +
                                  f' {victim}@broadcast-end1={then} {misses}@broadcast-end1=MISS', least=2)
            self.lose_last(job, first, 'settle1', dict.fromkeys(range(4), first))
            self.lose_last(job, then, 'broadcast-end1', {misses: 'MISS', victim: then})
            self.check_losses(job, '', 2, '', lost=sorted((victim, 3)))

    @host_only
    def test_a_replacement_that_does_not_come_is_gone_on_without(self):
        """And when it has come, it does not wait for those that have ended."""
        gate = self.gate()
        job = self.lose_ranks(f'3@step30 3.0@join1={gate}', '--wait 0.7', least=2, restarts=1, TUTTI_TIMEOUT=LONG_S)
        self.await_moment(job, 3, 'join1', gate)
        job.await_text('tutti-train: going on without 1 replacement: ', err=True)
        job.await_text(f'epoch  {EPOCHS}/{EPOCHS}')
        gate.open()
        self.finish(job)
        self.assertIn('nobody is left to take replacements in; ending rank 3', job.err)
        log = self.log_of(job, 3)
        self.assertEqual([(loss['lost'], loss['replaced']) for loss in log.losses], [([3], 0)])
        self.expect_as_if_nothing_had_been(log)

    @host_only
    def test_a_replacement_does_not_wait_for_the_dead(self):
        gate = self.gate()
        job = self.lose_ranks(f'1@step30 1.0@join1={gate} 0@settle2', '--wait 0.7', 1, 1, ranks=2, TUTTI_TIMEOUT=LONG_S)
        self.await_moment(job, 0, 'settle2', 'KILL')
        gate.open()
        self.finish(job, 128 + signal.SIGKILL)
        self.assertIn('nobody is left to take replacements in; ending rank 1', job.err)

    def test_a_replacement_with_other_options_says_so(self):
        """The others go on, and say nothing of what is no error of theirs."""
        options = f'--device {DEVICE} --data {DIGITS} --epochs {EPOCHS}'
        job = self.start(RUN, '-n', 3, '--min-ranks', 2, '--restart', 1, '--', 'sh', '-c',
                         f'[ "$TUTTI_JOIN" = 1 ] && set -- --seed 2; exec "$0" {options} "$@"', TRAIN,
                         TRAIN_MOMENTS=' 1@step30=KILL')
        self.finish(job)
        self.assertIn('[1] tutti-train: rank 1: rank 1 has other options than rank 0; start all ranks alike', job.err)
        self.assertIn('2 of 3 ranks go on', job.out)

    @host_only
    def test_too_few_ranks_end_the_training(self):
        job = self.lose_ranks('1@step30')
        self.finish(job, 128 + signal.SIGKILL)
        self.assertNotIn('lost rank', job.out)

    def test_a_killed_training_is_resumed_on_any_number_of_ranks(self):
        """On as many ranks it is the same bits; on others, as much as those would differ anyway. A checkpoint that rank
        0 did not come to write is written by those who are left."""
        for options, ranks, at, after in (('', 4, '0@step110', 4), ('', 3, '0@save4 1@step100', 4),
                                          ('--sync local --every 1', 2, '1@step60', 2),
                                          ('--sync zero1', 1, '0@epoch4', 2), ('--sync ps', 3, '0@step75', 2)):
            if ON_GPUS and options:
                continue   # there is one way
            options += f' --save {self.path("saved")} --every-epochs 2'
            self.finish(self.lose_ranks(at, options, least=5 - len(at.split())), 128 + signal.SIGKILL)
            job = self.lose_ranks('', options + ' --resume', least=ranks, ranks=ranks)
            self.finish(job)
            self.assertIn(f'resumed after epoch {after}', job.out)
            log = self.log_of(job, ranks)
            self.assertEqual(log.end['steps_begun'], (EPOCHS - after) * STEPS)
            self.assert_close(log.train_losses, self.undisturbed(True).train_losses, 0 if ranks == 4 else 1e-9)
            os.unlink(self.path('saved'))

    def test_a_resumed_training_may_lose_a_rank_before_it_begins(self):
        """Rank 0 keeps what it has read."""
        options = f'--save {self.path("saved")} --every-epochs 2'
        self.finish(self.lose_ranks('1@step60', options), 128 + signal.SIGKILL)
        _, log = self.lose_at_once('1@settle1', left=3, options=f'{options} --resume',
                                   others='0@settle1 2@settle1 3@settle1')
        self.assertEqual([(loss['lost'], loss['step']) for loss in log.losses], [([1], 2 * STEPS)])
        self.assertEqual(log.end['steps_begun'], (EPOCHS - 2) * STEPS)

    def test_a_replacement_may_be_left_alone_before_it_begins(self):
        """It has just taken the state, and is the last to hold it. Whom it replaces, nobody has told yet."""
        gate = self.gate()
        job = self.lose_ranks(f'1@step30 0@broadcast-end4={gate} 1.0@broadcast-end4={gate}', least=1, restarts=1, ranks=2)
        self.lose_last(job, gate, 'broadcast-end4', dict.fromkeys((1, 0), gate))
        self.finish(job)
        log = self.log()
        self.assertEqual([(loss['lost'], loss['epoch']) for loss in log.losses], [([1], 2), ([0], 2)])
        first, last = (loss['step'] for loss in log.losses)
        self.assertEqual((log.end['ranks'], last), (1, first))
        again = log.end['steps_begun'] + first - EPOCHS * STEPS
        self.assertIn(again, (0,) if ON_GPUS else (0, 1))   # a host learns of it in a step
        self.assert_close(log.train_losses, self.undisturbed(True).train_losses, 1e-6)


@host_only
class Ways(LossTest):
    def test_each_way_goes_on(self):
        for way in ('--sync zero1 --momentum 0', '--sync local --every 1'):
            self.lose('0@step30', left=3, options=way)
            self.lose_at_once('2@step70 3@step70', left=3, restarts=1, options=way)

    def test_velocity_in_shares_begins_anew_after_a_loss(self):
        """And is from then on that of one rank which begins with the weights of that moment, and none. It is what the
        checkpoint of that moment has, which those who are left write."""
        gate = self.gate()
        job = self.lose_ranks(f'2@save2 0@step80={gate}', f'--sync zero1 --save {self.path("ck")} --every-epochs 2', 2)
        self.await_moment(job, 0, 'step80', gate)
        shutil.copy(self.path('ck'), self.path('then'))
        gate.open()
        self.finish(job)
        self.assertFalse(any(self.read_by_the_page('then')[1]['velocity']))
        lost, log = self.read_by_the_page('ck')[1], self.log_of(job, 3)
        self.assertEqual([(loss['lost'], loss['step']) for loss in log.losses], [([2], 2 * STEPS)])
        self.finish(self.lose_ranks('', f'--save {self.path("then")} --resume', 1, ranks=1, log='alone'))
        self.assert_close(log.train_losses, self.log('alone').train_losses, 1e-9)
        self.assert_arrays(lost, self.read_by_the_page('then')[1])

    def test_workers_and_servers_may_be_lost(self):
        """Who keeps its shard keeps its velocity."""
        self.lose('2@step30', left=3, options='--sync ps')
        self.lose_at_once('1@step69 3@step69', left=3, restarts=1, options='--sync ps')
        self.lose('0@step30', left=3, options='--sync ps --servers 2 --momentum 0', least=3)
        self.lose('1@wait70', left=4, restarts=1, options='--sync ps --servers 2 --momentum 0', least=4)

    def stays_alike_with_a_replacement(self, options, says=''):
        """Of a curve of its own; the log says that all ranks have the same weights at the end."""
        job = self.lose_ranks('2@step60', options, restarts=1)
        self.finish(job)
        self.assertIn(says, job.err)
        log = self.log_of(job, 4)
        self.assertEqual([(loss['lost'], loss['replaced']) for loss in log.losses], [([2], 1)])
        self.assertGreater(log.end['test_accuracy'], 0.8)

    def test_outer_steps_stay_alike_with_a_replacement(self):
        self.stays_alike_with_a_replacement('--sync local --every 3 --outer nesterov,0.7,0.9 --lr 0.02 --verify')

    def test_bfloat16_stays_alike_with_a_replacement(self):
        """The sums of a step travel by themselves there."""
        self.stays_alike_with_a_replacement('--dtype bf16 --verify')
        self.stays_alike_with_a_replacement('--dtype bf16 --sync zero1 --verify', 'tutti-train: the velocity of all '
                                            'weights was lost with a rank, and begins anew')

    def lose_a_piece(self, victim, moment, options):
        saved = self.path(f'saved{next(NUMBERS)}')
        job = self.lose_ranks(f'{victim}@{moment}', f'{options} --save {saved}')
        pid = self.await_moment(job, victim, moment, 'KILL')
        self.finish(job, 128 + signal.SIGKILL)
        self.assertIn(f'rank {victim} (pid {pid}) was killed', job.err)
        self.go_on(options, saved)

    def test_a_lost_piece_ends_the_training_by_name_and_is_resumed(self):
        for i, options in enumerate(self.pieces()):
            self.lose_a_piece(i % 4, 'step30', options)

    def test_a_stage_that_is_lost_in_a_validation_ends_the_training_likewise(self):
        """In the fourth of the six parts of the second one, each of which is a forward pass of 64 samples at most: more
        than a stage has micro-batches."""
        for order, victim in ('gpipe', 1), ('1f1b', 2):
            self.lose_a_piece(victim, f'forward{2 * (2 * STEPS + 6) - 2}',
                              f'--parallel pipeline --hidden 32,32,32 --accumulate 2 --order {order}')


class Stuck(LossTest):
    """Deadlines begin when all ranks are there. Several jobs wait for theirs at once."""

    def stop(self, jobs):
        """Jobs, each of which has stopped one process: (rank, options, job, pid)."""
        gate, started = self.gate(), []
        waiting = ' '.join(f'{rank}@join1={gate}' for rank in range(4))
        for i, (victim, options) in enumerate(jobs):
            least = 4 if '--save' in options else 2
            started.append(self.lose_ranks(f'{victim}@step30=STOP {waiting}', options, least, log=f'log{i}',
                                           TUTTI_TIMEOUT=TIMEOUT_S))
        for job in started:
            for rank in range(4):
                self.await_moment(job, rank, 'join1', gate)
        gate.open()
        return [(*which, job, self.await_moment(job, which[0], 'step30')) for which, job in zip(jobs, started)]

    def leave_out(self, *jobs):
        for i, (victim, options, job, pid) in enumerate(self.stop(jobs)):
            self.expect_left_out(job, victim, pid, f'log{i}')
            log = self.log_of(job, 3, f'log{i}')
            self.expect_as_if_nothing_had_been(log, options)
            # it learns that the others have gone on, and is a failed rank like any other
            self.assertIn(f'tutti-train: rank {victim}: going on without lost ranks failed', job.err)
            self.assertIn(f'tutti-run: rank {victim} (pid {pid}) ', job.err)

    def test_a_rank_that_is_stuck_is_left_out_in_each_way(self):
        if ON_GPUS:
            return self.leave_out((2, ''))
        self.leave_out((2, ''), (2, '--sync zero1 --momentum 0'), (2, '--sync local --every 1'))
        self.leave_out((3, '--sync ps'), (0, '--sync ps --momentum 0'))

    def lose_joined(self, at, options=''):
        return self.start_joined(4, at, lambda at: self.lose_ranks(at, options, 2, 1, TUTTI_TIMEOUT=TIMEOUT_S))[0]

    @host_only
    def test_a_rank_that_stops_while_it_joins_keeps_nobody(self):
        """Neither those that it was to train with, nor replacements, nor tutti-run."""
        started = [self.lose_joined(f'{rank}@join1=STOP') for rank in (0, 2)]
        replacement = self.lose_joined('2@step30 2.0@join1=STOP', '--wait 0.7')
        for rank, job in zip((0, 2), started):
            self.finish(job, 1)
            self.assertRegex(job.err, rf'joining the other ranks failed: rank {rank} .*has not come to the rendezvous')
        self.finish(replacement)
        self.assertRegex(replacement.err, r'tutti-run: rank 2 \(pid \d+\) is stopped and has not gone on \(kill -CONT\)')

    @host_only
    def test_a_piece_that_is_stuck_ends_the_training_by_name_and_is_resumed(self):
        jobs = [(3, f'{options} --save {self.path(str(i))}') for i, options in enumerate(self.pieces())]
        for i, (_, options, job, pid) in enumerate(self.stop(jobs)):
            # in a grid those who wait for it may have a number of their own for it; and those of its mate's column, whose
            # deadline may pass first, know that one alone
            job.await_match(r'rank 3 is stopped \(state T\)|'
                            r'rank (\d) is stopped \(state T\).*; rank \1 of these is rank 3 of all\n|'
                            r'rank (\d) is alive but has not called .*; rank \2 of these is rank 2 of all\n', err=True)
            self.wake(pid)
            self.assertNotEqual(job.finish(), 0)
            self.go_on(options.split(' --save')[0], self.path(str(i)))


if __name__ == '__main__':
    unittest.main()
