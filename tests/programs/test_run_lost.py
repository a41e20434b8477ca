#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that outlive failed ranks, with fewer of them or with replacements.

test_run_lost.py TUTTI_RUN STORE_RANK LEFT_OUT_RANK SLOW_END_RANK

TUTTI_RUN is tutti-run with the clock of later.c. Ranks are shells that say what they are and then wait for a signal, so
that each test decides who fails and when."""
import os
import signal
import unittest

from launched import Launched, ProgramTest, arguments, await_state

RUN, STORE_RANK, LEFT_OUT_RANK, SLOW_END_RANK = arguments(4)
WELL, BADLY, KILLED = signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL  # how a rank ends

# "[2] pid 17 join= restart=1 min=2 size=4", and then nothing before a signal. It waits in short sleeps: of the
# shells at hand not all take a signal while they wait for a child.
RANK = ("trap 'exit 0' USR1; trap 'echo broken >&2; exit 7' USR2; trap 'echo still here' WINCH; "
        'echo pid $$ join=$TUTTI_JOIN restart=$TUTTI_RESTART min=$TUTTI_MIN_RANKS size=$TUTTI_SIZE local=$TUTTI_LOCAL_RANK; while :; do sleep 0.02; done')


class Job(Launched):
    def pid_of(self, rank, time=1):
        """The process that takes the part of the rank for the `time`-th time."""
        return self.await_numbers(f'[{rank}] pid ', time)[time - 1]

    def tell(self, number, *ranks, time=1):
        for rank in ranks:
            os.kill(self.pid_of(rank, time), number)

    def await_report(self, words, times=1):
        self.await_text(words, times, err=True)

    def let_pass(self):
        """10 s pass for tutti-run, which looks what to do then. It has started when a rank says something."""
        self.await_text('pid ')
        self.send(signal.SIGRTMIN)
        self.send(signal.SIGCHLD)

    def await_late_report(self, words):
        """Nothing says when tutti-run has begun to count the 10 s: let them pass until it has said this."""
        for _ in range(60):
            self.let_pass()
            self.collect(1)
            if words in self.err:
                return
        self.fail(f'"{words}" has not come')

    def spend(self, rank, **which):
        """10 s pass, and tutti-run has acted on that: it passes on what a rank writes behind all that it had to do."""
        for times in 1, 2:  # the first may come before it has begun to count
            self.let_pass()
            self.tell(signal.SIGWINCH, rank, **which)
            self.await_text(f'[{rank}] still here\n', times)

    def kill_at_once(self, *ranks):
        """Stopped, tutti-run finds all dead when it goes on."""
        pids = [self.pid_of(rank) for rank in ranks]
        self.send(signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            await_state(pid, 'Z')
        self.send(signal.SIGCONT)


class Lost(ProgramTest):
    launched = Job

    def job(self, ranks, *options, script=RANK, **env):
        return self.start(RUN, '-n', ranks, *options, '--', '/bin/sh', '-c', script, LEFT_OUT_RANK, **env)

    def finish(self, job, status=0):
        super().finish(job, status)
        self.assert_all_gone(job)

    def test_a_job_goes_on_while_enough_ranks_do(self):
        job = self.job(4, '--min-ranks', 2)
        job.tell(KILLED, 2)
        job.await_report('; 3 ranks go on\n')
        job.tell(BADLY, 0)
        job.await_report('; 2 ranks go on\n')
        job.tell(WELL, 1, 3)
        self.finish(job)
        for words in ('tutti-run: rank 2 (pid ', ') was killed by signal 9 (Killed) after ',
                      ') exited with status 7 after ', 'its last words on stderr:\ntutti-run:     broken\n'):
            self.assertIn(words, job.err)
        self.assertNotIn('restarts left', job.err)
        self.assertEqual(job.out.count('join= restart=0 min=2 size=4'), 4)

    def test_the_failure_below_the_least_ends_the_job_and_gives_the_status(self):
        job = self.job(4, '--min-ranks', 3)
        job.tell(KILLED, 1)
        job.await_report('; 3 ranks go on\n')
        for rank in 0, 2:
            job.pid_of(rank)
        job.tell(BADLY, 3)
        self.finish(job, 7)
        self.assertIn('; 2 ranks are left where at least 3 must go on; ending ranks 0, 2\n', job.err)

    def test_a_replacement_takes_the_part_of_the_failed_rank(self):
        job = self.job(3, '--restart', 2)
        job.tell(KILLED, 1)
        job.await_report('; 2 ranks go on, 2 restarts left\n')
        job.pid_of(1, time=2)
        job.await_report('rank 1 is replaced (pid ')
        job.await_report('), 1 restart left\n')
        job.tell(BADLY, 1, time=2)
        job.await_report('rank 1 is replaced (pid ', 2)
        job.await_report('), 0 restarts left\n')
        job.tell(WELL, 0, 2)
        job.tell(WELL, 1, time=3)
        self.finish(job)
        self.assertEqual(job.out.count('join= restart=2 min=3 size=3'), 3)
        for left in 1, 0:
            self.assertIn(f' join=1 restart={left} min=3 size=3 local=1\n', job.out)

    def test_more_failures_than_restarts_end_the_job(self):
        job = self.job(2, '--min-ranks', 2, '--restart', 1)
        job.pid_of(0)
        job.tell(BADLY, 1)
        job.pid_of(1, time=2)
        job.tell(KILLED, 0)
        self.finish(job, 128 + KILLED)
        self.assertEqual(job.err.count(' is replaced '), 1)
        self.assertIn('; 1 rank is left where at least 2 must go on, 0 restarts left; ending rank 1\n', job.err)

    def test_several_failures_at_once_are_all_told_and_replaced(self):
        job = self.job(4, '--min-ranks', 1, '--restart', 2)
        job.kill_at_once(0, 3)
        job.await_report('; 2 ranks go on, 2 restarts left\n', 2)
        job.await_report('), 0 restarts left\n')
        job.tell(WELL, 0, 3, time=2)
        job.tell(WELL, 1, 2)
        self.finish(job)

    def test_nobody_is_replaced_when_all_fail(self):
        """A replacement would find nobody to join."""
        job = self.job(2, '--min-ranks', 1, '--restart', 5)
        job.kill_at_once(0, 1)
        self.finish(job, 128 + KILLED)
        self.assertIn('; 0 ranks are left where at least 1 must go on, 5 restarts left\n', job.err)
        self.assertEqual(job.err.count('was killed by signal 9'), 2)
        self.assertNotIn(' is replaced ', job.err)

    def test_a_failure_after_a_good_end_is_not_replaced_and_gives_the_status(self):
        job = self.job(3, '--min-ranks', 1, '--restart', 2)
        job.tell(WELL, 0)
        await_state(job.pid_of(0), '')  # its end must be known: nothing says so but that the process is gone
        job.pid_of(2)
        job.tell(BADLY, 1)
        job.await_report('; 1 rank goes on, 1 ended well before\n')
        job.tell(WELL, 2)
        self.finish(job, 7)
        self.assertNotIn(' is replaced ', job.err)

    def test_a_replacement_that_nobody_took_in_has_not_done_the_work(self):
        """It gives up by itself: that is no end of the program, after which nobody is replaced, and no good end."""
        job = self.job(3, '--min-ranks', 1, '--restart', 2,
                       script=f'if [ $TUTTI_JOIN ]; then TUTTI_TIMEOUT=0.2 $0; echo gives up; exit 0; fi; {RANK}')
        for victim, times in (1, 1), (2, 2):
            job.tell(KILLED, victim)
            job.await_text('gives up\n', times)
            await_state(int(job.await_match(fr'rank {victim} is replaced \(pid (\d+)\)', err=True)[1]), '')
        job.tell(BADLY, 0)
        self.finish(job, 7)
        job = self.job(2, '--min-ranks', 1, '--restart', 1, script=f'[ $TUTTI_JOIN ] && TUTTI_TIMEOUT=0.2 $0; {RANK}')
        job.tell(KILLED, 1)
        job.pid_of(1, time=3)   # behind that of $0
        job.tell(BADLY, 0)
        job.await_report(') exited with status 7 after ')
        job.tell(WELL, 1, time=3)
        self.finish(job, 7)

    def test_a_lost_rank_takes_its_process_group_along(self):
        """What a shell has started must not go on when the shell is lost: it may be the rank itself."""
        job = self.job(2, '--min-ranks', 1, script='sleep 1000 & echo pid $!; echo shell $$; wait')
        job.await_numbers('shell ', 2)
        os.kill(job.await_numbers('[1] shell ', 1)[0], signal.SIGKILL)
        job.await_report('; 1 rank goes on\n')
        await_state(job.pid_of(1), '')
        job.send(signal.SIGTERM)
        self.finish(job, 128 + signal.SIGTERM)

    def test_ranks_meet_in_the_store_of_a_job_that_lost_one(self):
        """Two wait in the store already when the third is killed."""
        job = self.job(3, '--restart', 1,
                       script=f'echo pid $$; [ $TUTTI_RANK$TUTTI_JOIN = 0 ] && read x; exec {STORE_RANK}')
        for rank in 1, 2:
            job.pid_of(rank)
        job.tell(KILLED, 0)
        self.finish(job)
        self.assertEqual(job.out.count('met 3\n'), 3)

    def test_a_signal_while_a_replacement_starts_ends_the_job(self):
        """It comes from the replacement itself, as soon as that runs, or before it is started."""
        for number in range(20):
            job = self.job(3, '--min-ranks', 1, '--restart', 1000,
                           script='echo pid $$; [ $TUTTI_RANK = 1 ] || exec sleep 1000; '
                                  '[ "$TUTTI_JOIN" ] && kill -INT $PPID; kill -KILL $$')
            if number % 2:
                job.await_report('2 ranks go on')
                job.send(signal.SIGINT)
            self.finish(job, 128 + signal.SIGINT)

    def test_a_replacement_that_cannot_start_counts_as_lost(self):
        """The program is gone when a replacement is to be started."""
        program = self.write('program', f'#!/bin/sh\n{RANK}\n', mode=0o700)
        job = self.start(RUN, '-n', 2, '--restart', 1, '--', program)
        for rank in 0, 1:
            job.pid_of(rank)
        os.unlink(program)
        job.tell(KILLED, 1)
        self.finish(job, 127)
        self.assertIn('does not exist', job.err)
        self.assertIn('rank 1 cannot be replaced; ending rank 0\n', job.err)

    def test_the_rank_that_died_is_named_however_slowly_it_ends(self):
        """Not one of those that gave up because of it, although its connections end long before it does."""
        for transport in 'shm', 'tcp':
            job = self.run_to_end(RUN, '-n', 3, SLOW_END_RANK, status=128 + KILLED, TUTTI_TRANSPORT=transport)
            self.assertRegex(job.err, r'tutti-run: rank 1 \(pid \d+\) was killed by signal 9 ')
            self.assertNotIn('exited with status', job.err)

    def hanging(self, ranks, script):
        """A job of which left_out_rank.c, which is $0, leaves some ranks behind."""
        return self.job(ranks, '--min-ranks', 2, script=script, TUTTI_TRANSPORT='tcp')

    def test_ranks_that_were_left_out_do_not_keep_the_job(self):
        # one hangs, and rank 1 works on by itself
        busy = self.hanging(3, f'[ $TUTTI_RANK = 0 ] && exec $0 2; $0 2; {RANK}')
        # two hang, of which one is what a script has started
        enough = self.hanging(4, '[ $TUTTI_RANK = 2 ] || exec $0 2 3; echo script $$; $0 2 3; exit $?')
        # one hangs, and one fails
        few = self.hanging(3, '$0 2 && [ $TUTTI_RANK = 0 ] || exit 7')
        enough.await_late_report('tutti-run: rank 3 (pid ')
        self.finish(enough)
        script, = enough.numbers_after('[2] script ')
        self.assertIn(f'tutti-run: rank 2 (pid {script}) has not ended 10 s after the others, which '
                      'went on without it; ending it\n', enough.err)
        self.assertEqual(enough.err.count('; ending it\n'), 2)
        few.await_late_report('; ending it\n')
        self.finish(few, 7)
        busy.await_text('[0] left 2 of 3\n')
        await_state(busy.pid_of(0), '')
        busy.spend(1, time=2)
        busy.send(signal.SIGTERM)
        self.finish(busy, 128 + signal.SIGTERM)
        self.assertNotIn('; ending it\n', busy.err)

    def stopping(self, ranks, *options, **more):
        """A job whose last rank has stopped."""
        job = self.job(ranks, *options, **more)
        pid = job.pid_of(ranks - 1)
        os.kill(pid, signal.SIGSTOP)
        await_state(pid, 'T')
        return job

    def test_ranks_that_are_stopped_do_not_keep_the_job(self):
        """Nor is a rank replaced that only they could take in."""
        enough = self.stopping(3, '--min-ranks', 2)
        enough.tell(WELL, 0, 1)
        few = self.stopping(2, '--min-ranks', 1, '--restart', 1)
        few.tell(BADLY, 0)
        script = self.stopping(2, script='[ $TUTTI_RANK = 0 ] && exit; sleep 1000 & echo shell $$; echo pid $!; wait')
        too_few = self.stopping(2, '--restart', 1)
        too_few.tell(BADLY, 0)
        self.finish(too_few, 7)
        self.assertIn('; 1 rank is left where at least 2 must go on, 1 restart left; ending rank 1\n', too_few.err)
        for job, status, rank, pid in ((enough, 0, 2, enough.pid_of(2)), (few, 7, 1, few.pid_of(1)),
                                       (script, 128 + signal.SIGTERM, 1, script.numbers_after('[1] shell ')[0])):
            job.await_late_report('; ending it\n')
            self.finish(job, status)
            self.assertIn(f'tutti-run: rank {rank} (pid {pid}) is stopped and has not gone on (kill -CONT) 10 s after '
                          'the others ended; ending it\n', job.err)
            self.assertNotIn(' is replaced ', job.err)

    def test_what_is_stopped_together_with_tutti_run_goes_on(self):
        job = self.stopping(2, '--min-ranks', 1)
        job.tell(WELL, 0)
        await_state(job.pid_of(0), '')
        await_state(job.pid, 'S')   # it has acted on that
        job.send(signal.SIGSTOP)
        await_state(job.pid, 'T')
        job.let_pass()
        job.send(signal.SIGCONT)
        job.tell(signal.SIGWINCH, 1)
        job.await_text('[1] still here\n')
        job.tell(WELL, 1)
        self.finish(job)
        self.assertNotIn('; ending it\n', job.err)


if __name__ == '__main__':
    unittest.main()
