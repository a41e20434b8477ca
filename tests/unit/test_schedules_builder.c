/* SPDX-License-Identifier: BSD-3-Clause */
/* The builder: what its calls write, and that it keeps the first error. */

#include "tests.h"
#include "schedule.h"

TEST(an_empty_schedule_has_one_empty_round)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 1);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_int_equal(s.nrounds, 1);
	assert_int_equal(s.round[1], 0);
	assert_int_equal(s.blocks, 1);
	tt_sched_fini(&s);
	tt_sched_fini(&s);
}

TEST(finishing_ends_a_round_that_was_begun)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_send(&s, 1, tt_in(0), 1);
	tt_round(&s);
	tt_recv(&s, 1, tt_out(0), 1);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_int_equal(s.nrounds, 2);
	assert_int_equal(s.round[1], 1);
	assert_int_equal(s.round[2], 2);
	tt_sched_fini(&s);
}

TEST(a_wrapped_run_becomes_two)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 5);
	tt_send_wrapped(&s, 1, tt_out(3), 4);
	tt_recv_wrapped(&s, 1, tt_tmp(7, 3), 4);
	tt_send_wrapped(&s, 1, tt_out(1), 4);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_int_equal(s.nsteps, 5);
	assert_int_equal(s.steps[0].a.slot, 3);
	assert_int_equal(s.steps[0].n, 2);
	assert_int_equal(s.steps[1].a.slot, 0);
	assert_int_equal(s.steps[1].n, 2);
	assert_int_equal(s.steps[2].a.slot, 7);
	assert_int_equal(s.steps[3].a.slot, 9);
	assert_int_equal(s.steps[3].a.block, 0);
	assert_int_equal(s.steps[4].n, 4);
	assert_int_equal(s.scratch_slots, 11);
	tt_sched_fini(&s);
}

TEST(sources_are_counted_and_numbered)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 100);
	tt_reduce(&s, tt_out(0), 1);
	for (int r = 0; r < 100; r++)
		tt_source(&s, r, tt_in(0));
	tt_final(&s);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_int_equal(s.steps[0].sources, 100);
	assert_true(s.steps[0].final);
	assert_int_equal(s.steps[100].sources, 100);
	assert_int_equal(s.steps[100].peer, 99);
	tt_sched_fini(&s);
}

TEST(a_copy_onto_itself_and_an_empty_message_are_nothing)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_copy(&s, tt_tmp(1, 0), tt_tmp(1, 0), 1);
	tt_send(&s, 1, tt_in(0), 0);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_int_equal(s.nsteps, 0);
	tt_sched_fini(&s);
}

static void check_error(struct tt_sched *s, tutti_result_t expected)
{
	const uint32_t steps = s->nsteps;

	tt_send(s, 1, tt_in(0), 1);
	tt_source(s, 0, tt_in(0));
	tt_round(s);
	assert_int_equal(tt_sched_finish(s), expected);
	assert_int_equal(s->nsteps, steps);
	tt_sched_fini(s);
}

TEST(a_message_to_oneself_is_refused)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_send(&s, 0, tt_in(0), 1);
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(a_peer_that_does_not_exist_is_refused)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 2, tt_out(0), tt_in(0), 1);
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(a_negative_block_is_refused)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(-1), 1);
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(a_source_without_a_reduction_is_refused)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(0), 1);
	tt_source(&s, 0, tt_in(0));
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(only_what_was_received_and_combined_has_weights)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(0), 1);
	tt_weigh(&s, 2, 3);
	assert_int_equal(s.steps[0].mine, 2);
	assert_int_equal(s.steps[0].theirs, 3);
	tt_copy(&s, tt_out(0), tt_in(0), 1);
	tt_weigh(&s, 1, 1);
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(more_sources_than_a_step_counts_are_unsupported)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	tt_reduce(&s, tt_out(0), 1);
	for (int i = 0; i <= UINT16_MAX; i++)
		tt_source(&s, 0, tt_in(0));
	check_error(&s, TUTTI_ERR_UNSUPPORTED);
}

TEST(memory_is_zeroed_and_ends_with_the_building)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	const uint8_t *memory = tt_sched_memory(&s, 100);
	assert_non_null(memory);
	for (int i = 0; i < 100; i++)
		assert_int_equal(memory[i], 0);
	assert_int_equal(tt_sched_finish(&s), TUTTI_OK);
	assert_null(s.memory);
	tt_sched_fini(&s);
}

TEST(memory_is_given_once)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	assert_non_null(tt_sched_memory(&s, 1));
	assert_null(tt_sched_memory(&s, 1));
	check_error(&s, TUTTI_ERR_INVALID);
}

TEST(the_first_error_is_kept)
{
	struct tt_sched s;

	tt_sched_init(&s, 0, 2);
	s.error = TUTTI_ERR_NO_MEMORY;
	tt_sched_blocks(&s, 0);
	check_error(&s, TUTTI_ERR_NO_MEMORY);
}
