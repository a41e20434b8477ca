/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds the cost functions to the schedules: no rank moves or combines more bytes, or talks in more
 * rounds, than the algorithm says its longest path does; and what it says is not idle talk: some
 * rank comes near. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "test_schedules_all.h"

enum { MOST_RANKS = 33 };

static const double vector = 1e6; /* bytes */

/* What one rank does. */
struct work {
	double sent, received, reduced, rounds;
	double staged; /* copied first where peers cannot map the buffer */
};

static const uint32_t vectors = TT_BIT(TT_BROADCAST) | TT_BIT(TT_REDUCE) | TT_BIT(TT_ALL_REDUCE) |
				TT_BIT(TT_SCAN) | TT_BIT(TT_EXSCAN);

static void add_step(struct work *work, const struct tt_step *step, double block, int rank)
{
	const double bytes = step->n * block;

	switch (step->kind) {
	case TT_STEP_SEND: work->sent += bytes; break;
	case TT_STEP_RECV: work->received += bytes; break;
	case TT_STEP_RECV_REDUCE:
		work->received += bytes;
		work->reduced += bytes;
		break;
	case TT_STEP_REDUCE: work->reduced += (step->sources - 1) * bytes; break;
	case TT_STEP_SOURCE: work->received += step->peer == rank ? 0 : bytes; break;
	case TT_STEP_EXPOSE: /* what was put into scratch for others */
		work->received += step->a.buffer == TT_BUF_SCRATCH ? bytes : 0;
		work->staged += step->a.buffer == TT_BUF_SEND ? bytes : 0;
		break;
	default: break;
	}
}

static struct work work_of(const struct tt_algorithm *algorithm, const struct tt_group *group,
			   enum tt_collective collective)
{
	struct work work = { 0 };
	struct tt_sched s;
	double block;

	assert_int_equal(tt_sched_build(&s, algorithm, group, collective), TUTTI_OK);
	block = TT_BIT(collective) & vectors ? vector / s.blocks : vector / group->size;
	if (collective == TT_BARRIER)
		block = 0;
	for (uint32_t k = 0; k < s.nrounds; k++) {
		bool talks = false;

		for (uint32_t i = s.round[k]; i < s.round[k + 1]; i++) {
			add_step(&work, &s.steps[i], block, group->rank);
			talks |= s.steps[i].kind <= TT_STEP_RECV_REDUCE;
		}
		work.rounds += talks;
	}
	tt_sched_fini(&s);
	return work;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void check_case(const struct tt_algorithm *algorithm, struct tt_group group,
		       enum tt_collective collective)
{
	const struct tt_cost cost = algorithm->cost(&group, collective, vector);
	const double bytes = cost.bytes[0] + cost.bytes[1] + 1e-3;
	const double messages = cost.messages[0] + cost.messages[1] + 1e-9;
	struct work most = { 0 };

	for (group.rank = 0; group.rank < group.size; group.rank++) {
		const struct work work = work_of(algorithm, &group, collective);

		most.sent = larger(most.sent, larger(work.sent, work.received));
		most.staged = larger(most.staged, work.staged);
		most.reduced = larger(most.reduced, work.reduced);
		most.rounds = larger(most.rounds, work.rounds);
	}
	if (most.sent > bytes || most.reduced > cost.reduced + 1e-3 || most.rounds > messages)
		fail_msg("%s, collective %d, %d ranks: moves %g of %g bytes, reduces %g of %g, "
			 "talks in %g of %g rounds",
			 algorithm->name, collective, group.size, most.sent, bytes, most.reduced,
			 cost.reduced, most.rounds, messages);
	if (bytes > 2.5 * most.sent + most.staged + 1 || cost.reduced > 2.5 * most.reduced + 1)
		fail_msg("%s, collective %d, %d ranks: moves only %g of %g bytes, reduces %g of %g",
			 algorithm->name, collective, group.size, most.sent, bytes, most.reduced,
			 cost.reduced);
}

static void cost_is_that_of_the_busiest_rank(void **state)
{
	const struct tt_algorithm *algorithm = *state;
	int host[MOST_RANKS];

	for (int size = 2; size <= MOST_RANKS; size++) {
		for (int c = 0; c < TT_SEND_RECV; c++) {
			const enum tt_collective collective = (enum tt_collective)c;
			struct tt_group group = { 0, size, 0, host, 1 };

			if (!tt_algorithm_can(algorithm, collective))
				continue;
			if (strstr(algorithm->name, "hierarchical"))
				group.hosts = (size + 3) / 4;
			for (int r = 0; r < size; r++)
				host[r] = group.hosts > 1 ? r / 4 : 0;
			if (algorithm->fits(&group, collective))
				check_case(algorithm, group, collective);
		}
	}
}

int main(void)
{
	static struct CMUnitTest tests[ALGORITHMS];
	static char names[ALGORITHMS][96];

	for (int i = 0; i < ALGORITHMS; i++) {
		snprintf(names[i], sizeof(names[i]), "%s_cost_is_that_of_the_busiest_rank",
			 all[i]->name);
		tests[i].name = names[i];
		tests[i].test_func = cost_is_that_of_the_busiest_rank;
		tests[i].initial_state = (void *)(uintptr_t)all[i];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
