/* SPDX-License-Identifier: BSD-3-Clause */
/* Which instruction set is used. The choice is made once in a process, so each test makes it in a
 * child and the parent makes none before the last. */
#include "tests.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels_check.h"
#include "log.h"

/* What a child is asked for, and what it found out. */
struct choice {
	const char *wanted; /* NULL: none */
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

static int choose(void *argument)
{
	struct choice *choice = argument;

	if (choice->wanted)
		setenv("TUTTI_ISA", choice->wanted, 1);
	else
		unsetenv("TUTTI_ISA");
	tutti_log_set_sink(keep_warning, choice);
	snprintf(choice->isa, sizeof(choice->isa), "%s", tutti_kernel_isa());
	choice->available = choice->wanted && tt_kernels_by_isa(choice->wanted);
	return 0;
}

/* The choice with `wanted` in TUTTI_ISA, or without it. */
static struct choice choose_in_child(const char *wanted)
{
	struct choice *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(shared != MAP_FAILED);
	shared->wanted = wanted;
	in_child(choose, shared);
	const struct choice choice = *shared;

	munmap(shared, sizeof(*shared));
	return choice;
}

TEST(the_named_instruction_set_is_used_or_warned_of)
{
	const struct choice best = choose_in_child(NULL), abacus = choose_in_child("abacus");

	for (int i = 0; i <= ISAS; i++) {
		const char *name = i < ISAS ? isas[i].name : "abacus";
		const struct choice choice = i < ISAS ? choose_in_child(name) : abacus;

		if (choice.available) {
			assert_string_equal(choice.isa, name);
			assert_string_equal(choice.warning, "");
		} else {
			assert_string_equal(choice.isa, best.isa);
			assert_says(choice.warning, name);
			assert_says(choice.warning, best.isa);
		}
	}
	assert_true(choose_in_child("c").available);
	assert_false(abacus.available);
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
