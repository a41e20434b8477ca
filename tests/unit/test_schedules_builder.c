/* SPDX-License-Identifier: BSD-3-Clause */
/* The builder refuses what makes no sense, and keeps the first error. That it writes what it is told is
 * for test_schedules.c to show: what an algorithm's builder wrote is what is proved. */

#include "tutti_asserts.h"
#include "schedule.h"

static struct tt_sched s;

TEST(a_copy_onto_itself_and_an_empty_message_are_nothing)
{
	tt_sched_init(&s, 0, 2);
	tt_copy(&s, tt_tmp(1, 0), tt_tmp(1, 0), 1);
	tt_send(&s, 1, tt_in(0), 0);
	assert_ok(tt_sched_finish(&s));
	assert_int_equal(s.nsteps, 0);
	tt_sched_fini(&s);
	tt_sched_fini(&s); /* zeroed is fine */
}

static void check_error(tutti_result_t expected)
{
	const uint32_t steps = s.nsteps;

	tt_send(&s, 1, tt_in(0), 1);
	tt_source(&s, 0, tt_in(0));
	tt_round(&s);
	assert_int_equal(tt_sched_finish(&s), expected);
	assert_int_equal(s.nsteps, steps);
	tt_sched_fini(&s);
}

TEST(a_message_to_oneself_is_refused)
{
	tt_sched_init(&s, 0, 2);
	tt_send(&s, 0, tt_in(0), 1);
	check_error(TUTTI_ERR_INVALID);
}

TEST(a_peer_that_does_not_exist_is_refused)
{
	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 2, tt_out(0), tt_in(0), 1);
	check_error(TUTTI_ERR_INVALID);
}

TEST(a_negative_block_is_refused)
{
	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(-1), 1);
	check_error(TUTTI_ERR_INVALID);
}

TEST(a_source_without_a_reduction_is_refused)
{
	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(0), 1);
	tt_source(&s, 0, tt_in(0));
	check_error(TUTTI_ERR_INVALID);
}

TEST(only_what_was_received_and_combined_has_weights)
{
	tt_sched_init(&s, 0, 2);
	tt_recv_reduce(&s, 1, tt_out(0), tt_in(0), 1);
	tt_weigh(&s, 2, 3);
	assert_int_equal(s.steps[0].mine, 2);
	assert_int_equal(s.steps[0].theirs, 3);
	tt_copy(&s, tt_out(0), tt_in(0), 1);
	tt_weigh(&s, 1, 1);
	check_error(TUTTI_ERR_INVALID);
}

TEST(more_sources_than_a_step_counts_are_unsupported)
{
	tt_sched_init(&s, 0, 2);
	tt_reduce(&s, tt_out(0), 1);
	for (int i = 0; i <= UINT16_MAX; i++)
		tt_source(&s, 0, tt_in(0));
	check_error(TUTTI_ERR_UNSUPPORTED);
}

TEST(memory_is_zeroed_and_ends_with_the_building)
{
	tt_sched_init(&s, 0, 2);
	const uint8_t *memory = tt_sched_memory(&s, 100);
	assert_non_null(memory);
	for (int i = 0; i < 100; i++)
		assert_int_equal(memory[i], 0);
	assert_ok(tt_sched_finish(&s));
	assert_null(s.memory);
	tt_sched_fini(&s);
}

TEST(memory_is_given_once)
{
	tt_sched_init(&s, 0, 2);
	assert_non_null(tt_sched_memory(&s, 1));
	assert_null(tt_sched_memory(&s, 1));
	check_error(TUTTI_ERR_INVALID);
}

TEST(the_first_error_is_kept)
{
	tt_sched_init(&s, 0, 2);
	s.error = TUTTI_ERR_NO_MEMORY;
	tt_sched_blocks(&s, 0);
	check_error(TUTTI_ERR_NO_MEMORY);
}
