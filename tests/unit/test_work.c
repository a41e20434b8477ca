/* SPDX-License-Identifier: BSD-3-Clause */
/* What many ranks do together is told by a few of them. */
#include <stdlib.h>

#include "tutti_asserts.h"
#include "comm.h"
#include "plan_cache.h"
#include "planning.h"
#include "registry.h"

#define RANKS 200

static double messages_of_all(const struct tt_algorithm *algorithm, enum tt_collective collective,
			      const int *host, int size)
{
	double messages = 0;

	for (int rank = 0; rank < size; rank++) {
		const struct tt_group group = { rank, size, 0, host, 1 };
		struct tt_sched sched;

		assert_ok(tt_sched_build(&sched, algorithm, &group, collective));
		for (uint32_t i = 0; i < sched.nsteps; i++)
			messages += sched.steps[i].kind == TT_STEP_SEND;
		tt_sched_fini(&sched);
	}
	return messages;
}

static void check(int number, enum tt_collective collective, int size)
{
	static int host[RANKS];
	struct tutti_comm comm = { .size = size, .topology = { .host = host, .hosts = 1 } };
	const struct tt_algorithm *algorithm = tt_algorithms[number];
	const struct tt_group group = { 0, size, 0, host, 1 };
	const struct tt_work *work;

	if (algorithm->shared || !tt_algorithm_can(algorithm, collective) ||
	    !algorithm->fits(&group, collective))
		return;
	assert_ok(tt_work_of(&comm, number, collective, &work));
	const double all = messages_of_all(algorithm, collective, host, size);
	if (work->messages[0] < all / 2 || work->messages[0] > all * 2)
		fail_msg("%s, collective %d, %d ranks: %.0f messages counted of %.0f",
			 algorithm->name, (int)collective, size, work->messages[0], all);
	tt_plans_free(&comm);
}

TEST(few_ranks_stand_for_many)
{
	static const int sizes[] = { 64, 65, 100, 128, 199, RANKS };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int number = 0; tt_algorithms[number]; number++)
			for (int collective = 0; collective < TT_COLLECTIVE_COUNT; collective++)
				check(number, (enum tt_collective)collective, sizes[i]);
}

/* What the tuner takes for an all-reduce of float32 on a machine whose every rank has a core, or
 * whose ranks share cores. */
static const char *chosen(int ranks, int domains, double per_core, size_t bytes)
{
	static int host[RANKS], domain[RANKS], rank_lines[1];
	struct tutti_comm comm = { .size = ranks,
				   .topology = { .host = host,
						 .hosts = 1,
						 .domain = domain,
						 .domains = domains,
						 .oversubscription = per_core,
						 .model = tt_model_builtin },
				   .control_area.base = (void *)rank_lines };
	const struct tt_group group = { .size = ranks,
					.root = -1,
					.host = host,
					.hosts = 1,
					.domain = domain,
					.domains = domains };
	const struct tt_call call = { .collective = TT_ALL_REDUCE,
				      .dtype = TUTTI_FLOAT32,
				      .op = TUTTI_SUM,
				      .root = -1,
				      .count = bytes / sizeof(float) };
	struct tt_choice choice;

	for (int rank = 0; rank < ranks; rank++)
		domain[rank] = rank * domains / ranks;
	assert_ok(tt_tuner_choose(&comm, &group, &call, (double)bytes, &choice));
	tt_plans_free(&comm);
	return choice.algorithm->name;
}

TEST(of_many_cores_each_reads_few)
{
	assert_string_equal(chosen(64, 8, 1, 8), "two_level");
	assert_string_equal(chosen(64, 2, 1, 1024), "two_level");
	assert_string_equal(chosen(64, 1, 1, 8), "two_level"); /* nothing is known of them */
	assert_string_equal(chosen(16, 4, 1, 8), "two_level");
	assert_string_equal(chosen(16, 1, 1, 8), "board");
	assert_string_equal(chosen(61, 1, 1, 8), "board"); /* rows cannot be of the same length */
	assert_string_equal(chosen(64, 8, 1, 16 << 20), "direct");
	assert_string_equal(chosen(64, 8, 32, 8), "board"); /* a wait costs more than the lines */
}
