/* SPDX-License-Identifier: BSD-3-Clause */
/* Which instruction set is used. The choice is made once in a process, so each test makes it in a
 * child and the parent makes none before the last. */
#include "tests.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"
#include "log.h"

/* What a child found out. */
struct choice {
	char isa[32];
	bool available; /* the one wanted */
	char warning[400];
};

static void keep_warning(tutti_log_level_t level, const char *subsystem, const char *line,
			 void *context)
{
	struct choice *choice = context;

	if (level == TUTTI_LOG_WARN && strcmp(subsystem, "kernel") == 0)
		snprintf(choice->warning, sizeof(choice->warning), "%s", line);
}

/* Runs in the child: chooses, and reports into the pipe; the exit status. */
static int report(const char *wanted, int pipe_end)
{
	struct choice choice = { 0 };

	if (wanted)
		setenv("TUTTI_ISA", wanted, 1);
	else
		unsetenv("TUTTI_ISA");
	tutti_log_set_sink(keep_warning, &choice);
	snprintf(choice.isa, sizeof(choice.isa), "%s", tutti_kernel_isa());
	choice.available = wanted && tt_kernels_by_isa(wanted);
	return write(pipe_end, &choice, sizeof(choice)) != (ssize_t)sizeof(choice);
}

/* The choice with `wanted` in TUTTI_ISA, or without it. */
static struct choice choose_in_child(const char *wanted)
{
	struct choice choice = { 0 };
	int ends[2], status;

	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(report(wanted, ends[1]));
	while (waitpid(child, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &choice, sizeof(choice)), sizeof(choice));
	close(ends[0]);
	close(ends[1]);
	return choice;
}

TEST(the_named_instruction_set_is_used_or_warned_of)
{
	static const char *const names[] = { "c",	    "avx2", "avx512", "avx512_bf16",
					     "avx512_fp16", "neon", "abacus" };
	const struct choice best = choose_in_child(NULL);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct choice choice = choose_in_child(names[i]);

		if (choice.available) {
			assert_string_equal(choice.isa, names[i]);
			assert_string_equal(choice.warning, "");
		} else {
			assert_string_equal(choice.isa, best.isa);
			assert_non_null(strstr(choice.warning, names[i]));
			assert_non_null(strstr(choice.warning, best.isa));
		}
	}
}

TEST(plain_c_is_always_there_and_an_unknown_name_never)
{
	assert_true(choose_in_child("c").available);
	assert_false(choose_in_child("abacus").available);
}

TEST(no_wish_gives_the_best_without_a_warning)
{
	const struct choice unset = choose_in_child(NULL), empty = choose_in_child("");

	assert_string_equal(unset.warning, "");
	assert_string_equal(empty.warning, "");
	assert_string_equal(unset.isa, empty.isa);
}

static void *ask(void *table)
{
	*(const struct tt_kernels **)table = tt_kernels();
	return NULL;
}

TEST(all_threads_get_the_same_table)
{
	const struct tt_kernels *tables[8];
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &tables[i]), 0);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_non_null(tables[i]);
		assert_true(tables[i] == tables[0]);
	}
}
