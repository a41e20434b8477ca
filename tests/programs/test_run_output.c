/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-run does with the streams of its ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launched.h"

static const char *tutti_run;

static void each_line_carries_the_label_of_its_rank(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run, "-n", "3", "--", "/bin/sh", "-c", "echo a$TUTTI_RANK; echo b", NULL
	};

	assert_int_equal(launched_run(&l, argv), 0);
	assert_contains(launched_out(&l), "[0] a0\n");
	assert_contains(launched_out(&l), "[1] a1\n");
	assert_contains(launched_out(&l), "[2] a2\n");
	assert_int_equal(count_of(launched_out(&l), "] b\n"), 3);
	assert_string_equal(launched_err(&l), "");
	launched_free(&l);
}

static void stdout_and_stderr_stay_apart(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run, "-n", "2", "--", "/bin/sh", "-c", "echo out; echo err >&2", NULL
	};

	assert_int_equal(launched_run(&l, argv), 0);
	assert_int_equal(count_of(launched_out(&l), "] out\n"), 2);
	assert_int_equal(count_of(launched_err(&l), "] err\n"), 2);
	assert_lacks(launched_out(&l), "err");
	assert_lacks(launched_err(&l), "out");
	launched_free(&l);
}

static void lines_of_eight_ranks_stay_whole_and_in_order(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,	  "-n",	  "8", "--", "/usr/bin/seq", "-f",
			       "line %g of many", "1000", NULL };
	int next[8] = { 0 };

	assert_int_equal(launched_run(&l, argv), 0);
	for (char *line = strtok(launched_out(&l), "\n"); line; line = strtok(NULL, "\n")) {
		int rank, number, end = 0;

		assert_int_equal(sscanf(line, "[%d] line %d of many%n", &rank, &number, &end), 2);
		assert_int_equal(end, strlen(line));
		assert_in_range(rank, 0, 7);
		assert_int_equal(number, ++next[rank]);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(next[i], 1000);
	launched_free(&l);
}

static void pieces_of_a_line_are_put_together(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "4",
			       "--",
			       "/bin/sh",
			       "-c",
			       "for i in 1 2 3 4 5 6 7 8; do printf '<%s>' $i; done; echo",
			       NULL };

	assert_int_equal(launched_run(&l, argv), 0);
	assert_int_equal(count_of(launched_out(&l), "] <1><2><3><4><5><6><7><8>\n"), 4);
	launched_free(&l);
}

static void a_last_line_without_newline_gets_one(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run, "-n", "2", "--", "/bin/sh", "-c", "printf end", NULL };

	assert_int_equal(launched_run(&l, argv), 0);
	assert_int_equal(count_of(launched_out(&l), "] end\n"), 2);
	launched_free(&l);
}

static void a_very_long_line_is_cut_into_labelled_pieces(void **state)
{
	struct launched l;
	/* 2^21 + 2^20 / 2 letters: two pieces of 1 MiB and a half */
	const char *argv[] = { tutti_run,
			       "-n",
			       "1",
			       "--",
			       "/bin/sh",
			       "-c",
			       "head -c 2621440 /dev/zero | tr '\\0' x; echo",
			       NULL };

	assert_int_equal(launched_run(&l, argv), 0);
	assert_int_equal(count_of(launched_out(&l), "[0] x"), 3);
	assert_int_equal(strlen(launched_out(&l)), 2621440 + 3 * strlen("[0] \n"));
	launched_free(&l);
}

static void of_a_progress_bar_a_file_gets_the_last_state(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,
		"-n",
		"1",
		"--",
		"/bin/sh",
		"-c",
		"printf '10%%\\r50%%\\r100%%\\n'; printf 'dos\\r\\n'; printf 'left\\r'",
		NULL
	};

	assert_int_equal(launched_run(&l, argv), 0);
	assert_string_equal(launched_out(&l), "[0] 100%\n[0] dos\n[0] left\n");
	launched_free(&l);
}

static void no_label_leaves_lines_as_they_are(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run, "-n", "2",	      "--no-label",
			       "/bin/sh", "-c", "echo plain", NULL };

	assert_int_equal(launched_run(&l, argv), 0);
	assert_string_equal(launched_out(&l), "plain\nplain\n");
	launched_free(&l);
}

static void one_file_for_both_streams_gets_whole_lines(void **state)
{
	struct launched l;
	char command[512];
	const char *argv[] = { "/bin/sh", "-c", command, NULL };

	snprintf(command, sizeof(command),
		 "exec %s -n 4 -- sh -c 'seq -f out%%g 2000 & seq -f err%%g 2000 >&2; wait' 2>&1",
		 tutti_run);
	assert_int_equal(launched_run(&l, argv), 0);
	for (char *line = strtok(launched_out(&l), "\n"); line; line = strtok(NULL, "\n")) {
		int rank, number, end = 0;
		char kind[4];

		assert_int_equal(sscanf(line, "[%d] %3[a-z]%d%n", &rank, kind, &number, &end), 3);
		assert_int_equal(end, strlen(line));
	}
	launched_free(&l);
}

static void rank_0_alone_reads_the_input(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run, "-n", "3", "--", "/bin/sh", "-c", "sed s/^/got:/; echo end", NULL
	};

	launched_start(&l, argv);
	assert_int_equal(write(l.in, "one\ntwo\n", 8), 8);
	assert_int_equal(launched_finish(&l), 0);
	assert_contains(launched_out(&l), "[0] got:one\n");
	assert_contains(launched_out(&l), "[0] got:two\n");
	assert_int_equal(count_of(launched_out(&l), "got:"), 2);
	assert_int_equal(count_of(launched_out(&l), "] end\n"), 3);
	launched_free(&l);
}

static void a_reader_that_leaves_ends_the_job(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run, "-n", "2", "--", "/usr/bin/yes", NULL };

	launched_start(&l, argv);
	launched_await(&l, 0, "] y\n", 10);
	close(l.fds[0]);
	l.fds[0] = -1;
	assert_int_equal(launched_finish(&l), 128 + 13);
	assert_contains(launched_err(&l), "was killed by signal 13 (Broken pipe)");
	launched_free(&l);
}

static void a_full_disk_is_a_failure(void **state)
{
	struct launched l;
	char command[512];
	const char *argv[] = { "/bin/sh", "-c", command, NULL };

	snprintf(command, sizeof(command), "exec %s -n 2 -- echo text > /dev/full", tutti_run);
	assert_int_equal(launched_run(&l, argv), 125);
	assert_contains(launched_err(&l),
			"cannot write the standard output of the ranks: No space left");
	launched_free(&l);
}

static void a_slow_reader_loses_nothing(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run,	    "-n",     "2", "--", "/usr/bin/seq", "-f",
			       "a line of text %g", "200000", NULL };

	launched_start(&l, argv);
	/* nothing is read until one rank has filled every queue: then it waits in a full pipe */
	launched_await(&l, 0, "\n", 1);
	assert_int_equal(launched_finish(&l), 0);
	assert_int_equal(count_of(launched_out(&l), "\n"), 400000);
	assert_int_equal(count_of(launched_out(&l), "a line of text 200000\n"), 2);
	launched_free(&l);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_carries_the_label_of_its_rank),
		cmocka_unit_test(stdout_and_stderr_stay_apart),
		cmocka_unit_test(lines_of_eight_ranks_stay_whole_and_in_order),
		cmocka_unit_test(pieces_of_a_line_are_put_together),
		cmocka_unit_test(a_last_line_without_newline_gets_one),
		cmocka_unit_test(a_very_long_line_is_cut_into_labelled_pieces),
		cmocka_unit_test(of_a_progress_bar_a_file_gets_the_last_state),
		cmocka_unit_test(no_label_leaves_lines_as_they_are),
		cmocka_unit_test(one_file_for_both_streams_gets_whole_lines),
		cmocka_unit_test(rank_0_alone_reads_the_input),
		cmocka_unit_test(a_reader_that_leaves_ends_the_job),
		cmocka_unit_test(a_full_disk_is_a_failure),
		cmocka_unit_test(a_slow_reader_loses_nothing),
	};

	tutti_run = argc > 1 ? argv[1] : "tutti-run";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
