/* SPDX-License-Identifier: BSD-3-Clause */
/* The prover must be able to refuse: each schedule below is wrong in one way, and the reason given
 * must be that one. All are for four ranks. */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "test_schedules_prover.h"

enum { RANKS = 4 };

typedef void build_fn(struct tt_sched *s, const struct tt_group *g);

static int right(const struct tt_group *g)
{
	return (g->rank + 1) % RANKS;
}

static int left(const struct tt_group *g)
{
	return (g->rank + RANKS - 1) % RANKS;
}

/* ---- messages */

static void send_nobody_receives(struct tt_sched *s, const struct tt_group *g)
{
	if (g->rank == 0)
		tt_send(s, 1, tt_in(0), 1);
}

static void receive_from_the_wrong_rank(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, right(g), tt_tmp(0, 0), 1);
}

static void receive_a_round_late(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_round(s);
	tt_recv(s, left(g), tt_tmp(0, 0), 1);
}

static void receive_more_than_was_sent(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_tmp(0, 0), 2);
}

static void cut_unlike_the_others(struct tt_sched *s, const struct tt_group *g)
{
	tt_sched_blocks(s, 1 + g->rank);
}

/* ---- places */

static void send_what_is_being_received(struct tt_sched *s, const struct tt_group *g)
{
	tt_copy(s, tt_out(0), tt_in(0), 1);
	tt_send(s, right(g), tt_out(0), 1);
	tt_recv(s, left(g), tt_out(0), 1);
}

static void receive_two_into_one_place(struct tt_sched *s, const struct tt_group *g)
{
	for (int k = 1; k < 3; k++) {
		tt_send(s, (g->rank + k) % RANKS, tt_in(0), 1);
		tt_recv(s, (g->rank + RANKS - k) % RANKS, tt_tmp(0, 0), 1);
	}
}

static void send_what_nobody_wrote(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_tmp(0, 0), 1);
	tt_recv(s, left(g), tt_tmp(1, 0), 1);
}

static void read_the_input_after_the_output(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv_reduce(s, left(g), tt_out(0), tt_in(0), 1);
	tt_weigh(s, 1, 1);
	tt_round(s);
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_tmp(0, 0), 1);
}

static void write_the_input(struct tt_sched *s, const struct tt_group *g)
{
	tt_reduce(s, tt_in(0), 1);
	tt_source(s, g->rank, tt_in(0));
	tt_source(s, g->rank, tt_in(0));
}

static void receive_into_the_input(struct tt_sched *s, const struct tt_group *g)
{
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 1);
	tt_send(s, right(g), tt_tmp(0, 0), 1);
	tt_recv(s, left(g), tt_in(0), 1);
}

static void copy_to_recv(struct tt_sched *s, const struct tt_group *g)
{
	tt_copy(s, tt_out(0), tt_in(0), 1);
}

static void take_one_block_for_another(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(g->rank), 1);
	tt_recv(s, left(g), tt_out(right(g)), 1);
}

static void collect_in_scratch(struct tt_sched *s, const struct tt_group *g)
{
	if (g->rank == 1)
		tt_send(s, 0, tt_in(1), 1);
	if (g->rank == 0)
		tt_recv(s, 1, tt_tmp(0, 1), 1);
}

static void shift_within_scratch(struct tt_sched *s, const struct tt_group *g)
{
	tt_sched_blocks(s, RANKS);
	tt_copy(s, tt_tmp(0, 0), tt_in(0), 3);
	tt_copy(s, tt_tmp(1, 0), tt_tmp(0, 0), 3);
}

/* ---- values */

static void leave_the_output(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_tmp(0, 0), 1);
}

static void sum_two_only(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_tmp(0, 0), 1);
	tt_round(s);
	tt_reduce(s, tt_out(0), 1);
	tt_source(s, g->rank, tt_in(0));
	tt_source(s, g->rank, tt_tmp(0, 0));
}

static void count_a_rank_twice(struct tt_sched *s, const struct tt_group *g)
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

static void never_complete(struct tt_sched *s, const struct tt_group *g)
{
	fold_from(s, g, 0, 0);
}

static void complete_too_early(struct tt_sched *s, const struct tt_group *g)
{
	sum_two_only(s, g);
	tt_final(s);
}

static void combine_what_is_complete(struct tt_sched *s, const struct tt_group *g)
{
	fold_from(s, g, 0, 1);
	tt_reduce(s, tt_tmp(0, 0), 1);
	tt_source(s, g->rank, tt_out(0));
	tt_source(s, g->rank, tt_tmp(1, 0));
}

static void complete_twice(struct tt_sched *s, const struct tt_group *g)
{
	fold_from(s, g, 0, 1);
	tt_copy(s, tt_tmp(0, 0), tt_out(0), 1);
	tt_copy(s, tt_out(0), tt_tmp(0, 0), 1);
	tt_final(s);
}

static void fold_from_the_own_rank(struct tt_sched *s, const struct tt_group *g)
{
	fold_from(s, g, g->rank, 1);
}

static void fold_from_rank_1(struct tt_sched *s, const struct tt_group *g)
{
	fold_from(s, g, 1, 1);
}

static void take_one_rank_for_two(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv_reduce(s, left(g), tt_out(0), tt_in(0), 1);
	tt_weigh(s, 1, 2);
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

static void scan_backwards(struct tt_sched *s, const struct tt_group *g)
{
	scan_along(s, g, false);
}

static void scan_forwards(struct tt_sched *s, const struct tt_group *g)
{
	scan_along(s, g, true);
}

static void combine_what_only_moves(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(g->rank), 1);
	tt_recv_reduce(s, left(g), tt_out(g->rank), tt_in(g->rank), 1);
}

static void signal_the_neighbour_only(struct tt_sched *s, const struct tt_group *g)
{
	tt_send(s, right(g), tt_in(0), 1);
	tt_recv(s, left(g), tt_out(0), 1);
}

/* ---- shared memory */

static void read_a_peer(struct tt_sched *s, const struct tt_group *g)
{
	tt_round(s);
	tt_copy_from(s, tt_out(right(g)), right(g), tt_in(right(g)), 1);
}

static void read_in_the_round_of_exposing(struct tt_sched *s, const struct tt_group *g)
{
	tt_round(s);
	tt_expose(s, tt_in(g->rank), 1);
	tt_copy_from(s, tt_out(left(g)), left(g), tt_in(left(g)), 1);
}

static void write_what_is_exposed(struct tt_sched *s, const struct tt_group *g)
{
	for (int k = 0; k < 2; k++) {
		tt_copy(s, tt_tmp(0, g->rank), tt_in(g->rank), 1);
		tt_expose(s, tt_tmp(0, g->rank), 1);
	}
}

static void write_while_peers_read(struct tt_sched *s, const struct tt_group *g)
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

static void read_a_peer_that_has_ended(struct tt_sched *s, const struct tt_group *g)
{
	tt_expose(s, tt_in(g->rank), 1);
	if (g->rank > 0)
		return;
	tt_round(s);
	tt_round(s);
	tt_copy_from(s, tt_out(1), 1, tt_in(1), 1);
}

static void take_four_rounds(struct tt_sched *s, const struct tt_group *g)
{
	for (int k = 0; k < 4; k++)
		tt_round(s);
}

static void await_before_the_first_round(struct tt_sched *s, const struct tt_group *g)
{
	tt_await(s, right(g));
}

/* Every rank combines all of it for itself, and exposes its part to nobody. */
static void expose_a_part_of_what_all_combine(struct tt_sched *s, const struct tt_group *g)
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
static void copy_a_result_elsewhere(struct tt_sched *s, const struct tt_group *g)
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

static const struct broken {
	const char *claim;
	enum tt_collective collective;
	build_fn *build;
	const char *reason;
	bool in_place, shared, ordered, one_fold;
} cases[] = {
	{ "a_send_without_a_receive", TT_ALL_REDUCE, send_nobody_receives, "1 sends meet 0" },
	{ "a_receive_from_the_wrong_rank", TT_ALL_REDUCE, receive_from_the_wrong_rank,
	  "meets a receive at" },
	{ "a_receive_in_another_round", TT_ALL_REDUCE, receive_a_round_late, "4 sends meet 0" },
	{ "a_receive_of_another_length", TT_ALL_REDUCE, receive_more_than_was_sent,
	  "meet a receive of 2" },
	{ "vectors_cut_differently", TT_ALL_REDUCE, cut_unlike_the_others, "cuts the vector into" },
	{ "sending_what_is_being_written", TT_ALL_REDUCE, send_what_is_being_received,
	  "read and written at once" },
	{ "sending_in_place_what_is_being_written", TT_ALL_REDUCE, read_the_input_after_the_output,
	  "read and written at once", .in_place = true },
	{ "two_writes_of_one_place_at_once", TT_ALL_REDUCE, receive_two_into_one_place,
	  "written twice at once" },
	{ "reading_what_nobody_wrote", TT_ALL_REDUCE, send_what_nobody_wrote,
	  "before anything was written" },
	{ "reading_the_input_after_the_output_was_written", TT_ALL_REDUCE,
	  read_the_input_after_the_output, "is read after recv block 0 was written" },
	{ "writing_the_input", TT_ALL_REDUCE, receive_into_the_input, "send block 0 is written" },
	{ "combining_the_input_with_itself", TT_ALL_REDUCE, write_the_input, "counted twice" },
	{ "an_output_where_the_rank_has_none", TT_REDUCE, copy_to_recv, "has no recv block" },
	{ "an_input_where_the_rank_has_none", TT_BROADCAST, copy_to_recv, "has no send block" },
	{ "a_block_in_the_place_of_another", TT_ALL_GATHER, take_one_block_for_another,
	  "is taken for block" },
	{ "scratch_for_blocks_of_unknown_length", TT_GATHER_V, collect_in_scratch,
	  "does not go straight" },
	{ "a_copy_that_overtakes_itself", TT_ALL_REDUCE, shift_within_scratch,
	  "a step reads what it wrote" },
	{ "an_output_that_is_never_written", TT_ALL_REDUCE, leave_the_output, "is never written" },
	{ "missing_contributions", TT_ALL_REDUCE, sum_two_only, "ends with 2 contributions" },
	{ "a_contribution_counted_twice", TT_ALL_REDUCE, count_a_rank_twice, "counted twice" },
	{ "a_total_never_completed", TT_ALL_REDUCE, never_complete, "completed 0 times" },
	{ "a_part_called_final", TT_ALL_REDUCE, complete_too_early, "is called final" },
	{ "combining_after_completion", TT_ALL_REDUCE, combine_what_is_complete,
	  "a completed block is combined" },
	{ "a_total_completed_twice", TT_ALL_REDUCE, complete_twice, "completed 2 times" },
	{ "totals_that_round_differently", TT_ALL_REDUCE, fold_from_the_own_rank,
	  "combined unlike that of rank 0" },
	{ "an_order_that_is_promised_and_not_kept", TT_ALL_REDUCE, fold_from_rank_1,
	  "not folded in the order", .ordered = true },
	{ "one_fold_that_is_promised_and_not_kept", TT_SCAN, scan_forwards, "combined in 2 steps",
	  .one_fold = true },
	{ "an_average_of_other_weights", TT_ALL_REDUCE, take_one_rank_for_two,
	  "1 and 1 contributions are combined as if they were 1 and 2" },
	{ "a_prefix_out_of_order", TT_SCAN, scan_backwards, "not combined in the order" },
	{ "an_exclusive_prefix_at_rank_0", TT_EXSCAN, copy_to_recv, "left alone is written" },
	{ "combining_in_an_all_gather", TT_ALL_GATHER, combine_what_only_moves, "only moves" },
	{ "a_barrier_of_neighbours", TT_BARRIER, signal_the_neighbour_only, "without knowing" },
	{ "reading_a_peer_without_shared_memory", TT_ALL_GATHER, read_a_peer, "is not shared" },
	{ "reading_a_peer_that_exposed_nothing", TT_ALL_GATHER, read_a_peer,
	  "was not exposed in a round before", .shared = true },
	{ "reading_in_the_round_of_exposing", TT_ALL_GATHER, read_in_the_round_of_exposing,
	  "was not exposed in a round before", .shared = true },
	{ "writing_what_is_exposed", TT_ALL_GATHER, write_what_is_exposed, "is written again",
	  .shared = true },
	{ "writing_in_place_while_peers_read", TT_ALL_REDUCE, write_while_peers_read,
	  "may still be reading", .shared = true, .in_place = true },
	{ "exposing_a_part_of_what_all_combine", TT_ALL_REDUCE, expose_a_part_of_what_all_combine,
	  "inputs go elsewhere", .shared = true },
	{ "copying_a_result_elsewhere", TT_ALL_REDUCE, copy_a_result_elsewhere,
	  "not just copied to the same place", .shared = true },
	{ "reading_a_peer_that_has_ended", TT_ALL_GATHER, read_a_peer_that_has_ended,
	  "a round that rank 1 does not have", .shared = true },
	{ "a_shared_schedule_of_four_rounds", TT_BARRIER, take_four_rounds,
	  "more than a shared schedule may have", .shared = true },
	{ "awaiting_before_the_first_round", TT_BARRIER, await_before_the_first_round,
	  "nothing to end", .shared = true },
	{ "sending_in_a_shared_schedule", TT_ALL_REDUCE, leave_the_output, "but is shared",
	  .shared = true },
};

static void check_refused(void **state)
{
	static const int host[RANKS] = { 0 };
	const struct broken *broken = *state;
	struct tt_algorithm algorithm = { .name = broken->claim,
					  .shared = broken->shared,
					  .ordered = broken->ordered,
					  .one_fold = broken->one_fold };
	const bool is_rooted = broken->collective == TT_REDUCE ||
			       broken->collective == TT_BROADCAST ||
			       broken->collective == TT_GATHER_V;
	const struct claim claim = { .algorithm = &algorithm,
				     .collective = broken->collective,
				     .size = RANKS,
				     .root = is_rooted ? 0 : -1,
				     .host = host,
				     .hosts = 1,
				     .in_place = broken->in_place };
	char why[256];

	algorithm.build[broken->collective] = broken->build;
	if (prove(&claim, why, sizeof(why)))
		fail_msg("nothing was found wrong; expected \"%s\"", broken->reason);
	if (!strstr(why, broken->reason))
		fail_msg("found \"%s\"; expected \"%s\"", why, broken->reason);
}

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

int main(void)
{
	static struct CMUnitTest tests[CASES];
	static char names[CASES][96];

	for (int i = 0; i < CASES; i++) {
		snprintf(names[i], sizeof(names[i]), "prover_refuses_%s", cases[i].claim);
		tests[i].name = names[i];
		tests[i].test_func = check_refused;
		tests[i].initial_state = (void *)(uintptr_t)&cases[i];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
