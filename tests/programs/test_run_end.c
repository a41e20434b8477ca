/* SPDX-License-Identifier: BSD-3-Clause */
/* How jobs end: failed ranks, signals, time limits, and what is left behind: nothing. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launched.h"

enum { MOST = 16 };

static const char *tutti_run;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every process that printed "pid N" is gone already. */
static void assert_all_gone(const struct launched *l, int expected)
{
	long pids[MOST];
	const int count = numbers_after(l->texts[0].bytes, "pid ", pids, MOST);

	assert_int_equal(count, expected);
	for (int i = 0; i < count; i++)
		if (kill((pid_t)pids[i], 0) == 0)
			fail_msg("process %ld is still there", pids[i]);
}

/* Rank 0 fails when it is told to, which is when all `processes` have told who they are; then
 * none is left. */
static void ends_with(struct launched *l, const char *const argv[], int processes, int status)
{
	launched_start(l, argv);
	launched_await(l, 0, "pid ", processes);
	assert_int_equal(write(l->in, "go\n", 3), 3);
	assert_int_equal(launched_finish(l), status);
	assert_all_gone(l, processes);
}

static void the_failing_rank_gives_the_exit_status(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,
		"-n",
		"3",
		"--",
		"/bin/sh",
		"-c",
		"echo pid $$; [ $TUTTI_RANK = 0 ] && read x && exit 3; exec sleep 1000",
		NULL
	};

	ends_with(&l, argv, 3, 3);
	assert_contains(launched_err(&l), "tutti-run: rank 0 (pid ");
	assert_contains(launched_err(&l), ") exited with status 3 after ");
	assert_contains(launched_err(&l), "; ending ranks 1, 2\n");
	launched_free(&l);
}

static void a_signal_is_told_by_number_and_name(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "--",
			       "/bin/sh",
			       "-c",
			       "[ $TUTTI_RANK = 0 ] && kill -SEGV $$; exec sleep 1000",
			       NULL };

	assert_int_equal(launched_run(&l, argv), 128 + SIGSEGV);
	assert_contains(launched_err(&l), "rank 0 (pid ");
	assert_contains(launched_err(&l), "was killed by signal 11 (Segmentation fault");
	assert_contains(launched_err(&l), "it wrote nothing\n");
	launched_free(&l);
}

static void last_words_come_from_stderr_before_stdout(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "--",
			       "/bin/sh",
			       "-c",
			       "[ $TUTTI_RANK = 1 ] || exec sleep 1000; echo out; "
			       "for i in 1 2 3 4 5 6 7; do echo word $i >&2; done; exit 9",
			       NULL };

	assert_int_equal(launched_run(&l, argv), 9);
	assert_contains(launched_err(&l), "its last words on stderr:\n"
					  "tutti-run:     word 3\ntutti-run:     word 4\n"
					  "tutti-run:     word 5\ntutti-run:     word 6\n"
					  "tutti-run:     word 7\n");
	launched_free(&l);
}

static void a_rank_that_ignores_sigterm_is_killed_after_the_grace(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,
		"-n",
		"2",
		"--grace",
		"0.3",
		"--",
		"/bin/sh",
		"-c",
		"trap '' TERM; echo pid $$; [ $TUTTI_RANK = 0 ] && read x && exit 4; "
		"while :; do sleep 1000; done",
		NULL
	};
	const double start = now();

	ends_with(&l, argv, 2, 4);
	assert_true(now() - start < 10);
	assert_contains(launched_err(&l), "rank 1 did not end within 0.3 s of SIGTERM: killed\n");
	launched_free(&l);
}

static void grandchildren_end_with_a_failed_job(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "--",
			       "/bin/sh",
			       "-c",
			       "sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; "
			       "[ $TUTTI_RANK = 0 ] && read x && exit 5; wait",
			       NULL };

	ends_with(&l, argv, 4, 5);
	launched_free(&l);
}

static void what_successful_ranks_leave_is_ended_and_told(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run, "-n", "2", "--", "/bin/sh", "-c", "setsid sleep 1000 & echo pid $!", NULL
	};

	assert_int_equal(launched_run(&l, argv), 0);
	assert_contains(launched_err(&l), "all ranks are done, but left 2 processes running");
	assert_all_gone(&l, 2);
	launched_free(&l);
}

static void the_time_limit_ends_the_job_with_124(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,   "-n",  "2",
		"--timeout", "1.5", "--",
		"/bin/sh",   "-c",  "echo pid $$; [ $TUTTI_RANK = 0 ] && exit 0; exec sleep 1000",
		NULL
	};

	assert_int_equal(launched_run(&l, argv), 124);
	assert_contains(launched_err(&l),
			"the job is not done after the 1.5 s of --timeout; ending rank 1\n");
	assert_all_gone(&l, 2);
	launched_free(&l);
}

/* Start two ranks that print what they trap, send `sig` when both are ready. */
static int run_with_signal(struct launched *l, const char *script, int sig)
{
	const char *argv[] = { tutti_run, "-n", "2", "--", "/bin/sh", "-c", script, NULL };

	launched_start(l, argv);
	launched_await(l, 0, "ready", 2);
	kill(l->pid, sig);
	return launched_finish(l);
}

static void sigint_reaches_every_rank(void **state)
{
	struct launched l;

	assert_int_equal(
		run_with_signal(&l, "trap 'echo int; exit 0' INT; sleep 1000 & echo ready; wait",
				SIGINT),
		0);
	assert_int_equal(count_of(launched_out(&l), "] int\n"), 2);
	launched_free(&l);
}

static void ranks_that_die_of_a_forwarded_signal_are_no_failure(void **state)
{
	struct launched l;

	assert_int_equal(run_with_signal(&l, "echo ready; exec sleep 1000", SIGTERM),
			 128 + SIGTERM);
	assert_string_equal(launched_err(&l), "");
	launched_free(&l);
	assert_int_equal(run_with_signal(&l, "echo ready; exec sleep 1000", SIGHUP), 128 + SIGHUP);
	launched_free(&l);
}

static void sigusr1_is_forwarded_and_ends_nothing_by_itself(void **state)
{
	struct launched l;
	const char *script =
		"trap 'echo usr; exit 0' USR1; echo ready; while :; do sleep 0.01; done";

	assert_int_equal(run_with_signal(&l, script, SIGUSR1), 0);
	assert_int_equal(count_of(launched_out(&l), "] usr\n"), 2);
	launched_free(&l);
}

static void sigusr1_goes_to_the_program_that_a_script_starts(void **state)
{
	struct launched l;
	const char *script =
		"sh -c \"trap 'echo usr; exit 0' USR1; echo ready; while :; do sleep 0.01; done\"; echo after";

	assert_int_equal(run_with_signal(&l, script, SIGUSR1), 0);
	assert_int_equal(count_of(launched_out(&l), "] usr\n"), 2);
	assert_int_equal(count_of(launched_out(&l), "] after\n"), 2);
	launched_free(&l);
}

static void sigusr1_does_not_end_who_does_not_expect_it(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "--",
			       "/bin/sh",
			       "-c",
			       "[ $TUTTI_RANK = 1 ] && { echo ready; exec sleep 1000; }; "
			       "trap 'echo usr' USR1; echo ready; while :; do sleep 0.01; done",
			       NULL };

	launched_start(&l, argv);
	launched_await(&l, 0, "ready", 2);
	kill(l.pid, SIGUSR1);
	launched_await(&l, 0, "usr", 1);
	launched_await(&l, 1, "rank 1 does not handle signal 10", 1);
	kill(l.pid, SIGTERM);
	assert_int_equal(launched_finish(&l), 128 + SIGTERM);
	launched_free(&l);
}

static void a_second_sigint_kills(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run, "-n",   "2",
		"--grace", "1000", "--",
		"/bin/sh", "-c",   "trap 'echo int' INT; echo pid $$; while :; do sleep 0.01; done",
		NULL
	};

	launched_start(&l, argv);
	launched_await(&l, 0, "pid ", 2);
	kill(l.pid, SIGINT);
	launched_await(&l, 0, "] int\n", 2);
	kill(l.pid, SIGINT);
	assert_int_equal(launched_finish(&l), 128 + SIGINT);
	assert_all_gone(&l, 2);
	launched_free(&l);
}

/* Wait until the kernel says that `pid` is (or is not) stopped. */
static void await_stopped(long pid, bool stopped)
{
	const double start = now();
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	do {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
		fclose(file);
		sched_yield();
	} while ((state == 'T') != stopped && now() - start < 10);
	assert_int_equal(state == 'T', stopped);
}

static void a_stopped_job_goes_on_when_told(void **state)
{
	struct launched l;
	long pids[2];
	int status;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "--",
			       "/bin/sh",
			       "-c",
			       "echo pid $$; [ $TUTTI_RANK = 1 ] || read x; echo done",
			       NULL };

	launched_start(&l, argv);
	launched_await(&l, 0, "pid ", 2);
	launched_await(&l, 0, "done\n", 1);
	assert_true(numbers_after(launched_out(&l), "[0] pid ", pids, 2) == 1);
	kill(l.pid, SIGTSTP);
	assert_int_equal(waitpid(l.pid, &status, WUNTRACED), l.pid);
	assert_true(WIFSTOPPED(status));
	await_stopped(pids[0], true);
	kill(l.pid, SIGCONT);
	await_stopped(pids[0], false);
	assert_int_equal(launched_finish(&l), 0);
	assert_int_equal(count_of(launched_out(&l), "] done\n"), 2);
	launched_free(&l);
}

static void a_killed_tutti_run_leaves_no_process(void **state)
{
	struct launched l;
	struct pollfd ends[MOST];
	long pids[MOST];
	const char *argv[] = {
		tutti_run,
		"-n",
		"2",
		"--",
		"/bin/sh",
		"-c",
		"echo pid $$; sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; "
		"wait",
		NULL
	};

	launched_start(&l, argv);
	launched_await(&l, 0, "pid ", 6);
	launched_await(&l, 0, "\n", 6);
	assert_int_equal(numbers_after(launched_out(&l), "pid ", pids, MOST), 6);
	for (int i = 0; i < 6; i++) {
		ends[i] = (struct pollfd){ .fd = pidfd_open((pid_t)pids[i], 0), .events = POLLIN };
		assert_true(ends[i].fd >= 0);
	}
	kill(l.pid, SIGKILL);
	for (int i = 0; i < 6; i++) {
		if (poll(&ends[i], 1, 10000) != 1)
			fail_msg("process %ld survives tutti-run", pids[i]);
		close(ends[i].fd);
	}
	assert_int_equal(launched_finish(&l), 128 + SIGKILL);
	launched_free(&l);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_failing_rank_gives_the_exit_status),
		cmocka_unit_test(a_signal_is_told_by_number_and_name),
		cmocka_unit_test(last_words_come_from_stderr_before_stdout),
		cmocka_unit_test(a_rank_that_ignores_sigterm_is_killed_after_the_grace),
		cmocka_unit_test(grandchildren_end_with_a_failed_job),
		cmocka_unit_test(what_successful_ranks_leave_is_ended_and_told),
		cmocka_unit_test(the_time_limit_ends_the_job_with_124),
		cmocka_unit_test(sigint_reaches_every_rank),
		cmocka_unit_test(ranks_that_die_of_a_forwarded_signal_are_no_failure),
		cmocka_unit_test(sigusr1_is_forwarded_and_ends_nothing_by_itself),
		cmocka_unit_test(sigusr1_goes_to_the_program_that_a_script_starts),
		cmocka_unit_test(sigusr1_does_not_end_who_does_not_expect_it),
		cmocka_unit_test(a_second_sigint_kills),
		cmocka_unit_test(a_stopped_job_goes_on_when_told),
		cmocka_unit_test(a_killed_tutti_run_leaves_no_process),
	};

	signal(SIGHUP, SIG_DFL); /* under nohup it is ignored, and stays so in what is started */
	tutti_run = argc > 1 ? argv[1] : "tutti-run";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
