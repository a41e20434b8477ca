/* SPDX-License-Identifier: BSD-3-Clause */
/* What TCP claims of a link beside what every transport does: when it comes up, what closing
 * leaves, what wakes a sleeping thread and what does not. */
#include <poll.h>

#include "test_tcp_fabric.h"

#define AT_ONCE 0
#define LONG	(-1) /* until woken: the test's time limit tells if never */

static int poll_fd(struct tt_endpoint *e, int timeout_ms)
{
	struct pollfd fd = { tcp->doorbell->fd(e), POLLIN, 0 };

	return poll(&fd, 1, timeout_ms);
}

/* ---- connections */

TEST(ranks_meet_and_go_on_over_ipv6)
{
	fabric_start(&fabric, 2, 6);
	fabric_goes_on(&fabric);
	fabric_stop(&fabric);
}

/* Rank 0's end comes up, though rank 1 has not asked for its own. */
static void connect_early(void)
{
	fabric_ask(&fabric, 0);
	assert_int_equal(fabric_put(&fabric, 0, "early", 5), 0);
	assert_false(tcp->ready(fabric.ends[0]));
	while (!tcp->ready(fabric.ends[0])) {
		tcp->progress(fabric.endpoint[0], false);
		tcp->progress(fabric.endpoint[1], true);
	}
}

TEST_WITH(a_connection_is_kept_until_its_link_is_asked_for, two_ranks, no_ranks)
{
	char bytes[5];

	connect_early();
	assert_int_equal(fabric_put(&fabric, 0, "early", 5), 5);
	fabric_close(&fabric, 0);
	fabric_ask(&fabric, 1);
	assert_true(tcp->ready(fabric.ends[1]));
	while (fabric_get(&fabric, 1, bytes, 5) == 0)
		;
	assert_memory_equal(bytes, "early", 5);
	fabric_close(&fabric, 1);
	connect_early(); /* and one that is never asked for is closed in the end */
}

TEST_WITH(a_link_may_be_closed_before_it_is_up, two_ranks, no_ranks)
{
	for (int i = 0; i < 2; i++)
		fabric_ask(&fabric, i);
}

/* The kernel would reset the connection, and drop what was written, if unread bytes were left. */
TEST_WITH(written_bytes_arrive_although_unread_ones_were_there, two_ends, no_ranks)
{
	static uint8_t bytes[60000];
	size_t put = 0;
	ssize_t n;

	assert_int_equal(fabric_put(&fabric, 1, "unread", 6), 6);
	/* as much as the kernel takes: some of it is still to be sent */
	while ((n = fabric_put(&fabric, 0, bytes, sizeof(bytes))) > 0)
		put += (size_t)n;
	fabric_close(&fabric, 0);
	fabric_leave(&fabric, 0);
	for (size_t got = 0; got < put; got += (size_t)n) {
		n = fabric_get(&fabric, 1, bytes, sizeof(bytes));
		assert_true(n >= 0);
	}
}

/* ---- sleep */

TEST_WITH(bytes_wake_only_who_waits_for_them, two_ends, no_ranks)
{
	struct tt_endpoint *const sleeper = fabric.endpoint[1];
	char bytes[8];

	assert_int_equal(fabric_put(&fabric, 0, "xyz", 3), 3);
	tcp->doorbell->arm(sleeper);
	assert_int_equal(poll_fd(sleeper, AT_ONCE), 0);
	while (fabric_get(&fabric, 1, bytes, 3) == 0)
		;
	assert_int_equal(fabric_get(&fabric, 1, bytes, 3), 0);
	/* the read that found nothing took effect although the thread is armed already */
	assert_int_equal(fabric_put(&fabric, 0, "abc", 3), 3);
	assert_int_equal(poll_fd(sleeper, LONG), 1);
	tcp->doorbell->sleep(sleeper, LONG);
	assert_int_equal(fabric_get(&fabric, 1, bytes, 3), 3);
	tcp->doorbell->disarm(sleeper);
	/* the read got all it wanted: what comes next is not waited for */
	assert_int_equal(fabric_put(&fabric, 0, "def", 3), 3);
	tcp->doorbell->arm(sleeper);
	assert_int_equal(poll_fd(sleeper, AT_ONCE), 0);
	tcp->doorbell->disarm(sleeper);
}

/* The end of a stream is believed after a while in which nothing else happens. */
TEST_WITH(the_end_of_a_stream_wakes_when_it_is_believed, two_ends, no_ranks)
{
	ssize_t n = 0;
	char byte;

	assert_int_equal(fabric_get(&fabric, 1, &byte, 1), 0);
	fabric_close(&fabric, 0);
	while (n == 0) {
		tcp->doorbell->arm(fabric.endpoint[1]);
		n = fabric_get(&fabric, 1, &byte, 1);
		if (n == 0)
			assert_int_equal(poll_fd(fabric.endpoint[1], LONG), 1);
		tcp->doorbell->disarm(fabric.endpoint[1]);
	}
	assert_int_equal(n, TUTTI_ERR_PEER_LOST);
	assert_string_equal(tt_thread_error(), "rank 0 closed its connection with rank 1");
}

TEST_WITH(the_bell_is_quiet_after_who_was_rung_for_is_up, two_ranks, no_ranks)
{
	for (int rings = 1; rings >= 0; rings--) {
		tcp->doorbell->arm(fabric.endpoint[0]);
		if (rings)
			tcp->doorbell->interrupt(fabric.endpoint[0]);
		assert_int_equal(poll_fd(fabric.endpoint[0], AT_ONCE), rings);
		tcp->doorbell->disarm(fabric.endpoint[0]);
	}
}
