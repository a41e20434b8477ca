/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that outlive failed ranks: with fewer of them, or with replacements. Ranks are shells that
 * say what they are and then wait for a signal, so that each test decides who fails and when. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launched.h"

enum { MOST = 32 };

static const char *tutti_run;
static const char *store_rank;	  /* store_rank.c */
static const char *left_out_rank; /* left_out_rank.c */

/* "[2] pid 17 join= restart=1 min=2 size=4", and then nothing before a signal; SIGUSR1 is a good
 * end, SIGUSR2 a bad one. It waits in short sleeps: of the shells at hand not all take a signal
 * while they wait for a child. */
#define RANK                                                                                       \
	"trap 'exit 0' USR1; trap 'echo broken >&2; exit 7' USR2; "                                \
	"echo pid $$ join=$TUTTI_JOIN restart=$TUTTI_RESTART min=$TUTTI_MIN_RANKS "                \
	"size=$TUTTI_SIZE "                                                                        \
	"local=$TUTTI_LOCAL_RANK; while :; do sleep 0.02; done"

static void start(struct launched *l, const char *ranks, const char *least, const char *restarts,
		  const char *script)
{
	const char *argv[] = { tutti_run, "-n",	     ranks, "--min-ranks", least, "--restart",
			       restarts,  "/bin/sh", "-c",  script,	   NULL };

	launched_start(l, argv);
}

/* The process that takes the part of rank `rank` for the `time`-th time, once it has said so. */
static pid_t pid_of(struct launched *l, int rank, int time)
{
	char key[32];
	long pids[MOST];

	snprintf(key, sizeof(key), "[%d] pid ", rank);
	launched_await(l, 0, key, time);
	/* the line is whole when the next number has come, or its newline: lines never mix */
	assert_int_equal(numbers_after(launched_out(l), key, pids, MOST), time);
	return (pid_t)pids[time - 1];
}

static void tell(struct launched *l, int rank, int time, int sig)
{
	assert_int_equal(kill(pid_of(l, rank, time), sig), 0);
}

static void tell_all(struct launched *l, int ranks, int sig)
{
	for (int i = 0; i < ranks; i++)
		tell(l, i, 1, sig);
}

static int finish(struct launched *l)
{
	const int status = launched_finish(l);
	long pids[MOST];
	const int count = numbers_after(launched_out(l), "pid ", pids, MOST);

	for (int i = 0; i < count; i++)
		if (kill((pid_t)pids[i], 0) == 0)
			fail_msg("process %ld is still there", pids[i]);
	return status;
}

/* Ended and waited for. */
static void await_gone(pid_t pid)
{
	const time_t start = time(NULL);

	while (kill(pid, 0) == 0) {
		if (time(NULL) - start > 20)
			fail_msg("process %d is still there", (int)pid);
		sched_yield();
	}
}

static void a_job_goes_on_while_enough_ranks_do(void **state)
{
	struct launched l;

	start(&l, "4", "2", "0", RANK);
	tell(&l, 2, 1, SIGKILL);
	launched_await(&l, 1, "; 3 ranks go on\n", 1);
	tell(&l, 0, 1, SIGUSR2);
	launched_await(&l, 1, "; 2 ranks go on\n", 1);
	tell(&l, 1, 1, SIGUSR1);
	tell(&l, 3, 1, SIGUSR1);
	assert_int_equal(finish(&l), 0);
	assert_contains(launched_err(&l), "tutti-run: rank 2 (pid ");
	assert_contains(launched_err(&l), ") was killed by signal 9 (Killed) after ");
	assert_contains(launched_err(&l), ") exited with status 7 after ");
	assert_contains(launched_err(&l), "its last words on stderr:\ntutti-run:     broken\n");
	assert_lacks(launched_err(&l), "restarts left");
	assert_int_equal(count_of(launched_out(&l), "join= restart=0 min=2 size=4"), 4);
	launched_free(&l);
}

static void the_failure_below_the_least_ends_the_job_and_gives_the_status(void **state)
{
	struct launched l;

	start(&l, "4", "3", "0", RANK);
	tell(&l, 1, 1, SIGKILL);
	launched_await(&l, 1, "; 3 ranks go on\n", 1);
	pid_of(&l, 0, 1);
	pid_of(&l, 2, 1);
	tell(&l, 3, 1, SIGUSR2);
	assert_int_equal(finish(&l), 7);
	assert_contains(launched_err(&l),
			"; 2 ranks are left where at least 3 must go on; ending ranks 0, 2\n");
	launched_free(&l);
}

static void a_replacement_takes_the_part_of_the_failed_rank(void **state)
{
	struct launched l;

	start(&l, "3", "3", "2", RANK);
	tell(&l, 1, 1, SIGKILL);
	launched_await(&l, 1, "; 2 ranks go on, 2 restarts left\n", 1);
	pid_of(&l, 1, 2);
	launched_await(&l, 1, "rank 1 is replaced (pid ", 1);
	launched_await(&l, 1, "), 1 restart left\n", 1);
	tell(&l, 1, 2, SIGUSR2);
	launched_await(&l, 1, "rank 1 is replaced (pid ", 2);
	launched_await(&l, 1, "), 0 restarts left\n", 1);
	tell_all(&l, 1, SIGUSR1);
	tell(&l, 1, 3, SIGUSR1);
	tell(&l, 2, 1, SIGUSR1);
	assert_int_equal(finish(&l), 0);
	assert_int_equal(count_of(launched_out(&l), "join= restart=2 min=3 size=3"), 3);
	assert_contains(launched_out(&l), " join=1 restart=1 min=3 size=3 local=1\n");
	assert_contains(launched_out(&l), " join=1 restart=0 min=3 size=3 local=1\n");
	launched_free(&l);
}

static void more_failures_than_restarts_end_the_job(void **state)
{
	struct launched l;

	start(&l, "2", "2", "1", RANK);
	pid_of(&l, 0, 1);
	tell(&l, 1, 1, SIGUSR2);
	pid_of(&l, 1, 2);
	tell(&l, 0, 1, SIGKILL);
	assert_int_equal(finish(&l), 128 + SIGKILL);
	assert_int_equal(count_of(launched_err(&l), " is replaced "), 1);
	assert_contains(
		launched_err(&l),
		"; 1 rank is left where at least 2 must go on, 0 restarts left; ending rank 1\n");
	launched_free(&l);
}

/* Stopped, tutti-run finds both dead when it goes on. */
static void await_death(pid_t pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'Z') {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
		fclose(file);
		sched_yield();
	}
}

static void kill_at_once(struct launched *l, int a, int b, int sig)
{
	const pid_t pids[2] = { pid_of(l, a, 1), pid_of(l, b, 1) };

	kill(l->pid, SIGSTOP);
	for (int i = 0; i < 2; i++)
		kill(pids[i], sig);
	for (int i = 0; i < 2; i++)
		await_death(pids[i]);
	kill(l->pid, SIGCONT);
}

static void several_failures_at_once_are_all_told_and_replaced(void **state)
{
	struct launched l;

	start(&l, "4", "1", "2", RANK);
	kill_at_once(&l, 0, 3, SIGKILL);
	launched_await(&l, 1, "; 2 ranks go on, 2 restarts left\n", 2);
	pid_of(&l, 0, 2);
	pid_of(&l, 3, 2);
	launched_await(&l, 1, "), 0 restarts left\n", 1);
	tell(&l, 0, 2, SIGUSR1);
	tell(&l, 1, 1, SIGUSR1);
	tell(&l, 2, 1, SIGUSR1);
	tell(&l, 3, 2, SIGUSR1);
	assert_int_equal(finish(&l), 0);
	launched_free(&l);
}

/* A replacement would find nobody to join. */
static void nobody_is_replaced_when_all_fail(void **state)
{
	struct launched l;

	start(&l, "2", "1", "5", RANK);
	kill_at_once(&l, 0, 1, SIGKILL);
	assert_int_equal(finish(&l), 128 + SIGKILL);
	assert_contains(launched_err(&l),
			"; 0 ranks are left where at least 1 must go on, 5 restarts left\n");
	assert_int_equal(count_of(launched_err(&l), "was killed by signal 9"), 2);
	assert_lacks(launched_err(&l), " is replaced ");
	launched_free(&l);
}

static void a_failure_after_a_good_end_is_not_replaced_and_gives_the_status(void **state)
{
	struct launched l;

	start(&l, "3", "1", "2", RANK);
	pid_of(&l, 2, 1);
	tell(&l, 0, 1, SIGUSR1);
	/* its end must be known: nothing says so but that the process is gone */
	await_gone(pid_of(&l, 0, 1));
	tell(&l, 1, 1, SIGUSR2);
	launched_await(&l, 1, "; 1 rank goes on, 1 ended well before\n", 1);
	tell(&l, 2, 1, SIGUSR1);
	assert_int_equal(finish(&l), 7);
	assert_lacks(launched_err(&l), " is replaced ");
	launched_free(&l);
}

/* What a shell has started must not go on when the shell is lost: it may be the rank itself. */
static void a_lost_rank_takes_its_process_group_along(void **state)
{
	struct launched l;
	long pids[MOST];

	start(&l, "2", "1", "0", "sleep 1000 & echo pid $!; echo shell $$; wait");
	launched_await(&l, 0, "shell ", 2);
	launched_await(&l, 0, "pid ", 2);
	assert_int_equal(numbers_after(launched_out(&l), "[1] shell ", pids, MOST), 1);
	kill((pid_t)pids[0], SIGKILL);
	launched_await(&l, 1, "; 1 rank goes on\n", 1);
	assert_int_equal(numbers_after(launched_out(&l), "[1] pid ", pids, MOST), 1);
	await_gone((pid_t)pids[0]);
	kill(l.pid, SIGTERM);
	assert_int_equal(finish(&l), 128 + SIGTERM);
	launched_free(&l);
}

static void ranks_meet_in_the_store_of_a_job_that_lost_one(void **state)
{
	struct launched l;
	char script[512];

	/* two wait in the store already when the third is killed */
	snprintf(script, sizeof(script),
		 "echo pid $$; [ $TUTTI_RANK = 0 ] && [ -z \"$TUTTI_JOIN\" ] && read x; exec %s",
		 store_rank);
	start(&l, "3", "3", "1", script);
	pid_of(&l, 1, 1);
	pid_of(&l, 2, 1);
	tell(&l, 0, 1, SIGKILL);
	assert_int_equal(finish(&l), 0);
	assert_int_equal(count_of(launched_out(&l), "met 3\n"), 3);
	launched_free(&l);
}

static void a_signal_while_a_replacement_starts_ends_the_job(void **state)
{
	/* it comes from the replacement itself, as soon as that runs, or before it is started */
	static const char script[] = "echo pid $$; [ $TUTTI_RANK = 1 ] || exec sleep 1000; "
				     "[ \"$TUTTI_JOIN\" ] && kill -INT $PPID; kill -KILL $$";

	for (int i = 0; i < 20; i++) {
		struct launched l;

		start(&l, "3", "1", "1000", script);
		if (i % 2) {
			launched_await(&l, 1, "2 ranks go on", 1);
			kill(l.pid, SIGINT);
		}
		assert_int_equal(finish(&l), 128 + SIGINT);
		launched_free(&l);
	}
}

static void the_time_limit_holds_for_replacements(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run, "-n", "2",	   "--restart", "1",  "--timeout",
			       "2",	  "--", "/bin/sh", "-c",	RANK, NULL };

	launched_start(&l, argv);
	tell(&l, 0, 1, SIGKILL);
	pid_of(&l, 0, 2);
	assert_int_equal(finish(&l), 124);
	assert_contains(launched_err(&l),
			"the job is not done after the 2 s of --timeout; ending ranks 0, 1\n");
	launched_free(&l);
}

/* The program is gone when a replacement is to be started. */
static void a_replacement_that_cannot_start_counts_as_lost(void **state)
{
	char program[] = "/tmp/tutti-run-lost-XXXXXX";
	const int fd = mkstemp(program);
	static const char script[] = "#!/bin/sh\n" RANK "\n";
	struct launched l;
	const char *argv[] = { tutti_run, "-n", "2", "--restart", "1", "--", program, NULL };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	launched_start(&l, argv);
	pid_of(&l, 0, 1);
	pid_of(&l, 1, 1);
	assert_int_equal(unlink(program), 0);
	tell(&l, 1, 1, SIGKILL);
	assert_int_equal(finish(&l), 127);
	assert_contains(launched_err(&l), "does not exist");
	assert_contains(launched_err(&l), "rank 1 cannot be replaced; ending rank 0\n");
	launched_free(&l);
}

static void a_replacement_in_a_job_inside_a_replacement_is_none(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "1",
			       "--env",
			       "TUTTI_JOIN=1",
			       "/bin/sh",
			       "-c",
			       "echo join=$TUTTI_JOIN.",
			       NULL };

	setenv("TUTTI_JOIN", "1", 1);
	assert_int_equal(launched_run(&l, argv), 0);
	unsetenv("TUTTI_JOIN");
	assert_contains(launched_out(&l), "join=.\n");
	launched_free(&l);
}

/* Ranks that left_out_rank.c leaves behind; `script` has it as $0. */
static void start_hanging(struct launched *l, const char *ranks, const char *script)
{
	const char *argv[] = {
		tutti_run, "-n", ranks,	 "--min-ranks", "2", "--env", "TUTTI_TIMEOUT=3", "--",
		"/bin/sh", "-c", script, left_out_rank, NULL
	};

	launched_start(l, argv);
}

/* One of them is what a script has started. */
static void start_two_hanging(struct launched *l)
{
	start_hanging(l, "4",
		      "[ $TUTTI_RANK = 2 ] || exec $0 2 3; echo script $$; $0 2 3; exit $?");
}

static void start_too_few_with_one_hanging(struct launched *l)
{
	start_hanging(l, "3", "$0 2 && [ $TUTTI_RANK = 0 ] || exit 7");
}

/* Rank 1 works on by itself. */
static void start_one_hanging_and_one_busy(struct launched *l)
{
	start_hanging(l, "3", "[ $TUTTI_RANK = 0 ] && exec $0 2; $0 2; " RANK);
	launched_await(l, 0, "[0] left 2 of 3\n", 1);
	await_gone(pid_of(l, 0, 1));
	pid_of(l, 1, 2);
}

static void ranks_that_were_left_out_do_not_keep_the_job(void **state)
{
	struct launched busy, enough, few;
	char words[128];
	long pid;

	start_one_hanging_and_one_busy(&busy);
	start_two_hanging(&enough);
	start_too_few_with_one_hanging(&few);
	assert_int_equal(finish(&enough), 0);
	assert_int_equal(numbers_after(launched_out(&enough), "[2] script ", &pid, 1), 1);
	snprintf(words, sizeof(words),
		 "tutti-run: rank 2 (pid %ld) has not ended 10 s after the others, which went on "
		 "without it; ending it\n",
		 pid);
	assert_contains(launched_err(&enough), words);
	assert_contains(launched_err(&enough), "tutti-run: rank 3 (pid ");
	assert_int_equal(count_of(launched_err(&enough), "; ending it\n"), 2);
	assert_int_equal(finish(&few), 7);
	assert_contains(launched_err(&few), "; ending it\n");
	/* whose others have ended before those of the two above */
	kill(busy.pid, SIGTERM);
	assert_int_equal(finish(&busy), 128 + SIGTERM);
	assert_lacks(launched_err(&busy), "; ending it\n");
	launched_free(&busy);
	launched_free(&enough);
	launched_free(&few);
}

static void assert_refused(const char *option, const char *value, const char *message)
{
	struct launched l;
	const char *argv[] = { tutti_run, option, value, "-n", "2", "true", NULL };

	assert_int_equal(launched_run(&l, argv), 125);
	assert_contains(launched_err(&l), message);
	launched_free(&l);
}

static void wrong_values_say_what_is_expected(void **state)
{
	assert_refused("--min-ranks", "0",
		       "--min-ranks has \"0\": expected a number of ranks from 1 to 4096");
	assert_refused("--min-ranks", "3", "--min-ranks has 3: expected at most the 2 ranks of -n");
	assert_refused("-m", "x", "--min-ranks has \"x\": expected");
	assert_refused("--restart", "-1",
		       "--restart has \"-1\": expected a number of replacements from 0 to 1000000");
	assert_refused("-r", "many", "--restart has \"many\": expected");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_goes_on_while_enough_ranks_do),
		cmocka_unit_test(the_failure_below_the_least_ends_the_job_and_gives_the_status),
		cmocka_unit_test(a_replacement_takes_the_part_of_the_failed_rank),
		cmocka_unit_test(more_failures_than_restarts_end_the_job),
		cmocka_unit_test(several_failures_at_once_are_all_told_and_replaced),
		cmocka_unit_test(nobody_is_replaced_when_all_fail),
		cmocka_unit_test(a_failure_after_a_good_end_is_not_replaced_and_gives_the_status),
		cmocka_unit_test(a_lost_rank_takes_its_process_group_along),
		cmocka_unit_test(ranks_meet_in_the_store_of_a_job_that_lost_one),
		cmocka_unit_test(a_signal_while_a_replacement_starts_ends_the_job),
		cmocka_unit_test(the_time_limit_holds_for_replacements),
		cmocka_unit_test(a_replacement_that_cannot_start_counts_as_lost),
		cmocka_unit_test(a_replacement_in_a_job_inside_a_replacement_is_none),
		cmocka_unit_test(ranks_that_were_left_out_do_not_keep_the_job),
		cmocka_unit_test(wrong_values_say_what_is_expected),
	};

	tutti_run = argc > 1 ? argv[1] : "tutti-run";
	store_rank = argc > 2 ? argv[2] : "store_rank";
	left_out_rank = argc > 3 ? argv[3] : "left_out_rank";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
