/* SPDX-License-Identifier: BSD-3-Clause */
/* The prover must be able to refuse: each schedule below is wrong in one way, and the reason given
 * must be that one. All are for four ranks. */
#include <string.h>

#include "tests.h"
#include "calls/rules.h"
#include "test_schedules_prover.h"

enum { RANKS = 4 };

typedef void build_fn(struct tt_sched *s, const struct tt_group *g);

struct broken {
	build_fn *build;
	enum tt_collective collective;
	const char *reason;
	bool in_place, shared, ordered, one_fold;
};

static void check_refused(const struct broken *broken)
{
	static const int host[RANKS] = { 0 };
	const struct rule *rule = &rules[broken->collective];
	struct tt_algorithm algorithm = { .name = "broken",
					  .shared = broken->shared,
					  .ordered = broken->ordered,
					  .one_fold = broken->one_fold };
	const struct claim claim = { .algorithm = &algorithm,
				     .collective = broken->collective,
				     .size = RANKS,
				     .root = rule->sends == ROOTS || rule->receives == ROOTS ? 0
											     : -1,
				     .host = host,
				     .hosts = 1,
				     .in_place = broken->in_place };
	char why[256];

	algorithm.build[broken->collective] = broken->build;
	if (prove(&claim, why, sizeof(why)))
		fail_msg("nothing was found wrong; expected \"%s\"", broken->reason);
	assert_says(why, broken->reason);
}

/* The claim that this schedule is refused; behind its name the collective, the reason, and what else a
 * struct broken says. */
#define REFUSED_AS(name, build, ...)                                                               \
	TEST(name)                                                                                 \
	{                                                                                          \
		check_refused(&(const struct broken){ build, __VA_ARGS__ });                       \
	}
/* Its body follows. */
#define REFUSED(name, ...)                                                                         \
	static build_fn build_##name;                                                              \
	REFUSED_AS(name, build_##name, __VA_ARGS__)                                                \
	static void build_##name(struct tt_sched *s, const struct tt_group *g)

static int right(const struct tt_group *g)
{
	return (g->rank + 1) % RANKS;
}

static int left(const struct tt_group *g)
{
	return (g->rank + RANKS - 1) % RANKS;
}

/* Each rank to the next. */
static void pass_on(struct tt_sched *s, const struct tt_group *g, struct tt_ref from,
		    struct tt_ref to)
{
	tt_send(s, right(g), from, 1);
	tt_recv(s, left(g), to, 1);
}

/* ---- messages */

REFUSED(a_send_without_a_receive, TT_ALL_REDUCE, "1 sends meet 0")
{
	if (g->rank == 0)
		tt_send(s, 1, tt_in(0), 1);
}

REFUSED(a_receive_from_the_wrong_rank, TT_ALL_REDUCE, "meets a receive at")
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, right(g), tt_tmp(0, 0), 1);
}

REFUSED(a_receive_in_another_round, TT_ALL_REDUCE, "4 sends meet 0")
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_round(s);
	tt_recv(s, left(g), tt_tmp(0, 0), 1);
}

REFUSED(a_receive_of_another_length, TT_ALL_REDUCE, "meet a receive of 2")
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_tmp(0, 0), 2);
}

REFUSED(vectors_cut_differently, TT_ALL_REDUCE, "cuts the vector into")
{
	tt_sched_blocks(s, 1 + g->rank);
}

/* ---- places */

REFUSED(sending_what_is_being_written, TT_ALL_REDUCE, "read and written at once")
{
	tt_copy(s, tt_out(0), tt_in(0), 1);
	pass_on(s, g, tt_out(0), tt_out(0));
}

REFUSED(two_writes_of_one_place_at_once, TT_ALL_REDUCE, "written twice at once")
{
	for (int k = 1; k < 3; k++) {
		tt_send(s, (g->rank + k) % RANKS, tt_in(0), 1);
		tt_recv(s, (g->rank + RANKS - k) % RANKS, tt_tmp(0, 0), 1);
	}
}

REFUSED(reading_what_nobody_wrote, TT_ALL_REDUCE, "before anything was written")
{
	pass_on(s, g, tt_tmp(0, 0), tt_tmp(1, 0));
}

static void read_the_input_after_the_output(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv_reduce(s, left(g), tt_out(0), tt_in(0), 1);
	tt_weigh(s, 1, 1);
	tt_round(s);
	pass_on(s, g, tt_in(0), tt_tmp(0, 0));
}

REFUSED_AS(sending_in_place_what_is_being_written, read_the_input_after_the_output, TT_ALL_REDUCE,
	   "read and written at once", .in_place = true)

REFUSED_AS(reading_the_input_after_the_output_was_written, read_the_input_after_the_output,
	   TT_ALL_REDUCE, "is read after recv block 0 was written")

REFUSED(combining_the_input_with_itself, TT_ALL_REDUCE, "counted twice")
{
	tt_reduce(s, tt_in(0), 1);
	tt_source(s, g->rank, tt_in(0));
	tt_source(s, g->rank, tt_in(0));
}

REFUSED(writing_the_input, TT_ALL_REDUCE, "send block 0 is written")
{
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 1);
	pass_on(s, g, tt_tmp(0, 0), tt_in(0));
}

static void copy_to_recv(struct tt_sched *s, const struct tt_group *g)
{
	tt_copy(s, tt_out(0), tt_in(0), 1);
}

REFUSED_AS(an_output_where_the_rank_has_none, copy_to_recv, TT_REDUCE, "has no recv block")

REFUSED_AS(an_input_where_the_rank_has_none, copy_to_recv, TT_BROADCAST, "has no send block")

REFUSED_AS(an_exclusive_prefix_at_rank_0, copy_to_recv, TT_EXSCAN, "left alone is written")

REFUSED(a_block_in_the_place_of_another, TT_ALL_GATHER, "is taken for block")
{
	pass_on(s, g, tt_in(g->rank), tt_out(right(g)));
}

REFUSED(scratch_for_blocks_of_unknown_length, TT_GATHER_V, "does not go straight")
{
	if (g->rank == 1)
		tt_send(s, 0, tt_in(1), 1);
	if (g->rank == 0)
		tt_recv(s, 1, tt_tmp(0, 1), 1);
}

REFUSED(a_copy_that_overtakes_itself, TT_ALL_REDUCE, "a step reads what it wrote")
{
	tt_sched_blocks(s, RANKS);
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 3);
	tt_copy(s, tt_tmp(1, 0), tt_tmp(0, 0), 3);
}

/* ---- values */

static void leave_the_output(struct tt_sched *s, const struct tt_group *g)
{
	pass_on(s, g, tt_in(0), tt_tmp(0, 0));
}

REFUSED_AS(an_output_that_is_never_written, leave_the_output, TT_ALL_REDUCE, "is never written")

REFUSED_AS(sending_in_a_shared_schedule, leave_the_output, TT_ALL_REDUCE, "but is shared",
	   .shared = true)

static void sum_two_only(struct tt_sched *s, const struct tt_group *g)
{
	pass_on(s, g, tt_in(0), tt_tmp(0, 0));
	tt_round(s);
	tt_reduce(s, tt_out(0), 1);
	tt_source(s, g->rank, tt_in(0));
	tt_source(s, g->rank, tt_tmp(0, 0));
}

REFUSED_AS(missing_contributions, sum_two_only, TT_ALL_REDUCE, "ends with 2 contributions")

REFUSED(a_contribution_counted_twice, TT_ALL_REDUCE, "counted twice")
{
	sum_two_only(s, g);
	tt_source(s, g->rank, tt_in(0));
}

/* Everyone to everyone, folded beginning with rank `from`; how often it is called final. */
static void fold_from(struct tt_sched *s, const struct tt_group *g, int from, int finals)
{
	for (int r = 0; r < RANKS; r++) {
		if (r == g->rank)
			continue;
		tt_send(s, r, tt_in(0), 1);
		tt_recv(s, r, tt_tmp(r, 0), 1);
	}
	tt_round(s);
	tt_copy(s, tt_tmp(g->rank, 0), tt_in(0), 1);
	tt_reduce(s, tt_out(0), 1);
	for (int k = 0; k < RANKS; k++)
		tt_source(s, g->rank, tt_tmp((from + k) % RANKS, 0));
	if (finals)
		tt_final(s);
}

REFUSED(a_total_never_completed, TT_ALL_REDUCE, "completed 0 times")
{
	fold_from(s, g, 0, 0);
}

REFUSED(a_part_called_final, TT_ALL_REDUCE, "is called final")
{
	sum_two_only(s, g);
	tt_final(s);
}

REFUSED(combining_after_completion, TT_ALL_REDUCE, "a completed block is combined")
{
	fold_from(s, g, 0, 1);
	tt_reduce(s, tt_tmp(0, 0), 1);
	tt_source(s, g->rank, tt_out(0));
	tt_source(s, g->rank, tt_tmp(1, 0));
}

REFUSED(a_total_completed_twice, TT_ALL_REDUCE, "completed 2 times")
{
	fold_from(s, g, 0, 1);
	tt_copy(s, tt_tmp(0, 0), tt_out(0), 1);
	tt_copy(s, tt_out(0), tt_tmp(0, 0), 1);
	tt_final(s);
}

REFUSED(totals_that_round_differently, TT_ALL_REDUCE, "combined unlike that of rank 0")
{
	fold_from(s, g, g->rank, 1);
}

REFUSED(an_order_that_is_promised_and_not_kept, TT_ALL_REDUCE, "not folded in the order",
	.ordered = true)
{
	fold_from(s, g, 1, 1);
}

REFUSED(an_average_of_other_weights, TT_ALL_REDUCE,
	"1 and 1 contributions are combined as if they were 1 and 2")
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv_reduce(s, left(g), tt_out(0), tt_in(0), 1);
	tt_weigh(s, 1, 2);
}

REFUSED(an_average_of_parts_that_differ, TT_ALL_REDUCE,
	"2 and 1 contributions are combined as if they were as many", .shared = true)
{
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 1);
	tt_expose(s, tt_tmp(0, 0), 1);
	tt_round(s);
	tt_reduce(s, tt_tmp(1, 0), 1);
	tt_source(s, 0, tt_tmp(0, 0));
	tt_source(s, 1, tt_tmp(0, 0));
	tt_reduce(s, tt_out(0), 1);
	tt_source(s, g->rank, tt_tmp(1, 0));
	tt_source(s, 2, tt_tmp(0, 0));
}

REFUSED(scratch_that_one_rank_alone_knows_of, TT_ALL_REDUCE,
	"knows of 1 places in scratch, rank 0 of 2", .shared = true, .one_fold = true)
{
	for (int slot = 0; slot < (g->rank == 0 ? 2 : 1); slot++) {
		tt_copy(s, tt_tmp(slot, 0), tt_in(0), 1);
		tt_expose(s, tt_tmp(slot, 0), 1);
	}
	tt_round(s);
	tt_reduce(s, tt_out(0), 1);
	for (int r = 0; r < g->size; r++)
		tt_source(s, r, r == g->rank ? tt_in(0) : tt_tmp(0, 0));
	tt_final(s);
}

static void scan_along(struct tt_sched *s, const struct tt_group *g, bool forwards)
{
	if (g->rank == 0) {
		tt_copy(s, tt_out(0), tt_in(0), 1);
	} else {
		for (int k = 1; k < g->rank; k++)
			tt_round(s);
		if (forwards)
			tt_recv_reduce_left(s, g->rank - 1, tt_out(0), tt_in(0), 1);
		else
			tt_recv_reduce(s, g->rank - 1, tt_out(0), tt_in(0), 1);
		tt_round(s);
	}
	if (g->rank + 1 < RANKS)
		tt_send(s, g->rank + 1, tt_out(0), 1);
}

REFUSED(a_prefix_out_of_order, TT_SCAN, "not combined in the order")
{
	scan_along(s, g, false);
}

REFUSED(one_fold_that_is_promised_and_not_kept, TT_SCAN, "combined in 2 steps", .one_fold = true)
{
	scan_along(s, g, true);
}

REFUSED(combining_in_an_all_gather, TT_ALL_GATHER, "only moves")
{
	tt_send(s, right(g), tt_in(g->rank), 1);
	tt_recv_reduce(s, left(g), tt_out(g->rank), tt_in(g->rank), 1);
}

REFUSED(a_barrier_of_neighbours, TT_BARRIER, "without knowing")
{
	pass_on(s, g, tt_in(0), tt_out(0));
}

/* ---- shared memory */

static void read_a_peer(struct tt_sched *s, const struct tt_group *g)
{
	tt_round(s);
	tt_copy_from(s, tt_out(right(g)), right(g), tt_in(right(g)), 1);
}

REFUSED_AS(reading_a_peer_without_shared_memory, read_a_peer, TT_ALL_GATHER, "is not shared")

REFUSED_AS(reading_a_peer_that_exposed_nothing, read_a_peer, TT_ALL_GATHER,
	   "was not exposed in a round before", .shared = true)

REFUSED(reading_in_the_round_of_exposing, TT_ALL_GATHER, "was not exposed in a round before",
	.shared = true)
{
	tt_round(s);
	tt_expose(s, tt_in(g->rank), 1);
	tt_copy_from(s, tt_out(left(g)), left(g), tt_in(left(g)), 1);
}

REFUSED(writing_what_is_exposed, TT_ALL_GATHER, "is written again", .shared = true)
{
	for (int k = 0; k < 2; k++) {
		tt_copy(s, tt_tmp(0, g->rank), tt_in(g->rank), 1);
		tt_expose(s, tt_tmp(0, g->rank), 1);
	}
}

REFUSED(writing_in_place_while_peers_read, TT_ALL_REDUCE, "may still be reading", .shared = true,
	.in_place = true)
{
	tt_expose(s, tt_in(0), 1);
	tt_round(s);
	if (g->rank == 0)
		tt_copy_from(s, tt_tmp(0, 0), 1, tt_in(0), 1);
	if (g->rank != 1)
		return;
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 1);
	tt_copy(s, tt_out(0), tt_tmp(0, 0), 1);
}

REFUSED(reading_a_peer_that_has_ended, TT_ALL_GATHER, "a round that rank 1 does not have",
	.shared = true)
{
	tt_expose(s, tt_in(g->rank), 1);
	if (g->rank > 0)
		return;
	tt_round(s);
	tt_round(s);
	tt_copy_from(s, tt_out(1), 1, tt_in(1), 1);
}

REFUSED(a_shared_schedule_of_four_rounds, TT_BARRIER, "more than a shared schedule may have",
	.shared = true)
{
	for (int k = 0; k < 4; k++)
		tt_round(s);
}

REFUSED(awaiting_before_the_first_round, TT_BARRIER, "nothing to end", .shared = true)
{
	tt_await(s, right(g));
}

/* Every rank combines all of it for itself, and exposes its part to nobody. */
REFUSED(exposing_a_part_of_what_all_combine, TT_ALL_REDUCE, "inputs go elsewhere", .shared = true)
{
	tt_sched_blocks(s, g->size);
	tt_expose(s, tt_in(0), g->size);
	tt_round(s);
	tt_reduce(s, tt_out(0), g->size);
	for (int r = 0; r < g->size; r++)
		tt_source(s, r, tt_in(0));
	tt_final(s);
	tt_expose(s, tt_out(g->rank), 1);
}

/* As above; the parts are copied, but from one rank's result to another place of one's own. */
REFUSED(copying_a_result_elsewhere, TT_ALL_REDUCE, "not just copied to the same place",
	.shared = true)
{
	tt_sched_blocks(s, g->size);
	tt_expose(s, tt_in(0), g->size);
	tt_round(s);
	tt_reduce(s, tt_out(g->rank), 1);
	for (int r = 0; r < g->size; r++)
		tt_source(s, r, tt_in(g->rank));
	tt_final(s);
	tt_expose(s, tt_out(g->rank), 1);
	tt_round(s);
	tt_copy_from(s, tt_tmp(0, right(g)), right(g), tt_out(right(g)), 1);
}
