#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How jobs end: failed ranks, signals, time limits, and what is left behind: nothing. test_run_end.py TUTTI_RUN

TEST_UNDER names a program that starts tutti-run."""
import glob
import os
import signal
import unittest

from launched import ProgramTest, arguments, await_state, bound_s, ends_of

RUN, = arguments(1)
STARTER = os.environ['TEST_UNDER'].split() if 'TEST_UNDER' in os.environ else []
PATIENT = ('--grace', 1000)  # whatever a busy machine needs to act on a signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so in what is started


def ranks(count, script, *options):
    return *STARTER, RUN, '-n', count, *options, '--', '/bin/sh', '-c', script


class End(ProgramTest):
    def ends_with(self, status, processes, *argv):
        """Rank 0 fails when it is told to: all `processes` have written who they are. Then none is left."""
        job = self.start(*argv)
        job.await_numbers('pid ', processes)
        job.write('go\n')
        self.finish(job, status)
        self.assert_all_gone(job, processes)
        return job

    def test_what_a_test_leaves_over_ends_with_it(self):
        for argv in ('/bin/sh', '-c', 'sleep 1000 & echo pid $!; wait'), ranks(2, 'sleep 1000 & echo pid $!; wait'):
            job = self.start(*argv)
            with ends_of([job.pid, *job.await_numbers('pid ', 1 + ('-n' in argv))]):
                job.close()

    def test_the_failing_rank_gives_the_exit_status(self):
        job = self.ends_with(3, 3, *ranks(3, 'echo pid $$; [ $TUTTI_RANK = 0 ] && read x && exit 3; exec sleep 1000'))
        for words in 'tutti-run: rank 0 (pid ', ') exited with status 3 after ', '; ending ranks 1, 2\n':
            self.assertIn(words, job.err)

    def test_a_signal_is_told_by_number_and_name(self):
        job = self.run_to_end(*ranks(2, '[ $TUTTI_RANK = 0 ] && kill -SEGV $$; exec sleep 1000'),
                              status=128 + signal.SIGSEGV)
        for words in 'rank 0 (pid ', 'was killed by signal 11 (Segmentation fault', 'it wrote nothing\n':
            self.assertIn(words, job.err)

    def test_last_words_come_from_stderr_before_stdout(self):
        job = self.run_to_end(*ranks(2, '[ $TUTTI_RANK = 1 ] || exec sleep 1000; echo out; '
                                        'for i in 1 2 3 4 5 6 7; do echo word $i >&2; done; exit 9'), status=9)
        words = ''.join(f'tutti-run:     word {i}\n' for i in range(3, 8))
        self.assertIn(f'its last words on stderr:\n{words}', job.err)

    def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(self):
        job = self.ends_with(4, 2, *ranks(2, "trap '' TERM; echo pid $$; [ $TUTTI_RANK = 0 ] && read x && exit 4; "
                                             'while :; do sleep 1000; done', '--grace', 0.3))
        self.assertIn('rank 1 did not end within 0.3 s of signal 15 (Terminated): killed\n', job.err)

    def test_grandchildren_end_with_a_failed_job(self):
        self.ends_with(5, 4, *ranks(2, 'sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; '
                                       '[ $TUTTI_RANK = 0 ] && read x && exit 5; wait'))

    def test_what_successful_ranks_leave_is_ended_and_told(self):
        job = self.run_to_end(*ranks(2, 'setsid sleep 1000 & echo pid $!'), TUTTI_TRACE=self.dir)
        self.assertIn('all ranks are done, but left 2 processes running', job.err)
        self.assertFalse(glob.glob(self.path('*.exits.flight.json')))   # all ended well
        self.assert_all_gone(job, 2)

    def test_what_ends_by_itself_after_the_ranks_is_not_told(self):
        """As Python's resource tracker, which ends when the pipe from its process closes."""
        fifo = self.path('pipe') + '$TUTTI_RANK'
        job = self.run_to_end(*ranks(4, f'mkfifo {fifo}; cat {fifo} & echo pid $!; exec 9>{fifo}'))
        self.assert_all_gone(job, 4)
        self.assertEqual(job.err, '')

    def limit_ends(self, who, processes, script, *options):
        """After --timeout the ranks that run are ended, which are `who` once `processes` have started: how long a limit
        that takes on a busy machine nobody knows, so longer ones are tried."""
        for limit in 0.3, 2, bound_s(5):
            job = self.run_to_end(*ranks(2, script, '--timeout', limit, *options), status=124)
            words = f'the job is not done after the {limit:g} s of --timeout; ending {who}\n'
            if words in job.err and len(job.numbers_after('pid ')) == processes:
                break
        self.assertIn(words, job.err)
        self.assert_all_gone(job, processes)

    def test_the_time_limit_ends_the_job_with_124(self):
        self.limit_ends('rank 1', 2, 'echo pid $$; [ $TUTTI_RANK = 0 ] && exit 0; exec sleep 1000')

    def test_the_time_limit_holds_for_replacements(self):
        self.limit_ends('ranks 0, 1', 3, 'echo pid $$; [ $TUTTI_RANK$TUTTI_JOIN = 0 ] && kill -KILL $$; '
                                         'exec sleep 1000', '--restart', 1)

    def signalled(self, number, status, count, script):
        """The end of ranks to which a signal was sent when all were ready."""
        job = self.start(*ranks(count, script, *PATIENT))
        job.await_text('ready', count)
        job.send(number)
        self.finish(job, status)
        return job

    def test_sigint_reaches_every_rank(self):
        job = self.signalled(signal.SIGINT, 0, 2, "trap 'echo int; exit 0' INT; sleep 1000 & echo ready; wait")
        self.assertEqual(job.out.count('] int\n'), 2)

    def test_ranks_that_die_of_a_forwarded_signal_are_no_failure(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            self.assertEqual(self.signalled(number, 128 + number, 2, 'echo ready; exec sleep 1000').err, '')

    def test_sigusr1_goes_to_whoever_expects_it_and_ends_nothing_by_itself(self):
        """Rank 0 expects it, and what the script of rank 1 has started; rank 2 does not."""
        waits = "trap 'echo usr; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
        job = self.start(*ranks(3, f'[ $TUTTI_RANK = 1 ] && sh -c "{waits}" && echo after && exit; '
                                   f'[ $TUTTI_RANK = 0 ] && {{ {waits}; }}; echo ready; until [ -e go ]; do sleep 0.01; done'),
                         cwd=self.dir)
        job.await_text('ready', 3)
        job.send(signal.SIGUSR1)
        for rank in 0, 1:
            job.await_text(f'[{rank}] usr\n')
        job.await_text('[1] after\n')
        job.await_text('rank 2 does not handle signal 10', err=True)
        self.write('go')
        self.finish(job)

    def test_a_second_sigint_kills(self):
        job = self.start(*ranks(2, "trap 'echo int' INT; echo pid $$; while :; do sleep 0.01; done", *PATIENT))
        job.await_text('pid ', 2)
        job.send(signal.SIGINT)
        job.await_text('] int\n', 2)
        job.send(signal.SIGINT)
        self.finish(job, 128 + signal.SIGINT)
        self.assert_all_gone(job, 2)

    def test_a_stopped_job_goes_on_when_told(self):
        job = self.start(*ranks(2, 'echo pid $$; [ $TUTTI_RANK = 1 ] || read x; echo done'))
        job.await_text('done\n')
        rank, = job.await_numbers('[0] pid ', 1)
        job.send(signal.SIGTSTP)
        for pid in job.pid, rank:
            await_state(pid, 'T')
        job.send(signal.SIGCONT)
        await_state(rank, 'R', 'S')
        self.finish(job)
        self.assertEqual(job.out.count('] done\n'), 2)

    def test_a_killed_tutti_run_leaves_no_process(self):
        job = self.start(*ranks(2, 'echo pid $$; sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; wait'))
        with ends_of(job.await_numbers('pid ', 6), 10):
            job.send(signal.SIGKILL)
        self.finish(job, 128 + signal.SIGKILL)


if __name__ == '__main__':
    unittest.main()
