/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of operations in flight, looked at when the test says: what counts towards them, when
 * one has passed, how long a thread may sleep. No clock is read, but where ranks hand each other
 * descriptors: there clock and sleep are the test's, too. */
#include <poll.h>
#include <string.h>

#include "tutti_asserts.h"
#include "agreement.h"
#include "deadline.h"
#include "cuda/descriptors.h"
#include "fault.h"
#include "log.h"
#include "notes.h"
#include "progress_state.h"

#define MS    1000000ull
#define BEGIN (1000000 * MS) /* of a test; any moment */
#define RANKS 4
#define OPS   2

uint64_t __real_tt_now(void);

static struct tt_peer peers[RANKS];
static int hosts[RANKS];
static struct tt_progress progress;
static struct tutti_comm comm;
static struct tt_op ops[OPS];

/* Rank 1 of four, with a deadline of 10 s and collectives 1 and 2 in flight. */
static int setup(void **state)
{
	memset(ops, 0, sizeof(ops));
	memset(&progress, 0, sizeof(progress));
	comm = (struct tutti_comm){ .rank = 1,
				    .size = RANKS,
				    .next_seq = 1 + OPS,
				    .progress = &progress,
				    .settings.timeout_ns = 10000 * MS,
				    .topology.host = hosts,
				    .routes.peers = { peers },
				    .first = &ops[0],
				    .last = &ops[OPS - 1] };
	for (int i = 0; i < OPS; i++)
		ops[i] = (struct tt_op){ .comm = &comm,
					 .next = i + 1 < OPS ? &ops[i + 1] : NULL,
					 .header = { .seq = (uint64_t)i + 1 } };
	return tt_comm_fault_open(&comm) && tt_notes_open(&comm) ? 0 : -1;
}

static int teardown(void **state)
{
	tt_comm_fault_free(&comm);
	tt_notes_free(&comm);
	return 0;
}

/* Look every 100 ms, as waits do, up to `end`; gives the first look that found a deadline missed,
 * 0 if none did. */
static uint64_t look_until(uint64_t now, uint64_t end)
{
	for (; now <= end; now += 100 * MS) {
		tt_deadlines_check(&comm, now);
		if (comm.fault.result)
			return now;
	}
	return 0;
}

TEST_WITH(a_quarter_of_a_second_counts_between_two_looks, setup, teardown)
{
	assert_int_equal(tt_uncounted(BEGIN, BEGIN, TT_LOOK_NS), 0);
	assert_int_equal(tt_uncounted(BEGIN, BEGIN + 250 * MS, TT_LOOK_NS), 0);
	assert_int_equal(tt_uncounted(BEGIN, BEGIN + 250 * MS + 1, TT_LOOK_NS), 1);
	assert_int_equal(tt_uncounted(BEGIN, BEGIN + 5000 * MS, TT_LOOK_NS), 4750 * MS);
}

TEST_WITH(the_first_look_starts_the_clock, setup, teardown)
{
	/* however long the last look is ago, and the operation in flight */
	progress.checked_at = BEGIN - 3600000 * MS;
	tt_deadlines_check(&comm, BEGIN);
	for (int i = 0; i < OPS; i++)
		assert_int_equal(ops[i].started, BEGIN);
	assert_int_equal(progress.next_deadline, BEGIN + 10000 * MS);
	assert_int_equal(comm.fault.result, TUTTI_OK);
}

TEST_WITH(a_later_operation_has_a_clock_of_its_own, setup, teardown)
{
	ops[0].next = NULL;
	look_until(BEGIN, BEGIN + 3000 * MS);
	ops[0].next = &ops[1];
	look_until(BEGIN + 3100 * MS, BEGIN + 3100 * MS);
	assert_int_equal(ops[0].started, BEGIN);
	assert_int_equal(ops[1].started, BEGIN + 3100 * MS);
	/* the first is done: what is left has its time */
	comm.first = &ops[1];
	assert_int_equal(look_until(BEGIN + 3200 * MS, BEGIN + 20000 * MS), BEGIN + 13100 * MS);
	assert_int_equal(comm.fault.seq, 2);
}

TEST_WITH(it_passes_at_its_time_and_not_before, setup, teardown)
{
	look_until(BEGIN, BEGIN + 9900 * MS);
	tt_deadlines_check(&comm, BEGIN + 10000 * MS - 1);
	assert_int_equal(comm.fault.result, TUTTI_OK);
	tt_deadlines_check(&comm, BEGIN + 10000 * MS);
	assert_int_equal(comm.fault.result, TUTTI_ERR_TIMEOUT);
	assert_int_equal(comm.fault.seq, 1);
}

TEST_WITH(time_in_which_the_process_did_not_run_does_not_count, setup, teardown)
{
	look_until(BEGIN, BEGIN + 2000 * MS);
	/* stopped for an hour, which counts as 250 ms; then for five times two seconds */
	uint64_t now = BEGIN + 3602000 * MS;

	for (int i = 0; i < 6; i++, now += 2000 * MS) {
		tt_deadlines_check(&comm, now);
		assert_int_equal(comm.fault.result, TUTTI_OK);
	}
	assert_int_equal(now - 2000 * MS - ops[0].started, 2000 * MS + 6 * 250 * MS);
	/* and each time next_deadline has gone with it */
	assert_int_equal(progress.next_deadline, ops[0].started + 10000 * MS);
	/* 3.5 s have counted, and 0.25 s do in what follows */
	now -= 50 * MS;
	assert_int_equal(look_until(now, now + 10000 * MS), now + 6300 * MS);
}

TEST_WITH(a_call_has_a_deadline_of_its_own, setup, teardown)
{
	ops[1].timeout_ns = 500 * MS;
	look_until(BEGIN, BEGIN);
	assert_int_equal(progress.next_deadline, BEGIN + 500 * MS);
	assert_int_equal(look_until(BEGIN + 100 * MS, BEGIN + 1000 * MS), BEGIN + 500 * MS);
	assert_int_equal(comm.fault.seq, 2);
	/* TUTTI_TIMEOUT has nothing to do with it */
	assert_says(comm.fault.text, "missed its deadline of 0.5 s");
	assert_null(strstr(comm.fault.text, "TUTTI_TIMEOUT"));
}

TEST_WITH(a_call_may_wait_longer_than_others, setup, teardown)
{
	ops[0].timeout_ns = 60000 * MS;
	comm.first = &ops[0];
	ops[0].next = NULL;
	assert_int_equal(look_until(BEGIN, BEGIN + 70000 * MS), BEGIN + 60000 * MS);
}

TEST_WITH(who_has_not_called_is_told_the_one_furthest_behind_first, setup, teardown)
{
	comm.first = &ops[1];
	for (int rank = 0; rank < RANKS; rank++)
		tt_notes_heard(&comm, rank, rank == 3 ? 0 : rank == 0 ? 2 : 1);
	look_until(BEGIN, BEGIN + 10000 * MS);
	assert_int_equal(comm.fault.rank, 3);
	assert_says(comm.fault.text, "ranks 0, 1 have called it, "
				     "ranks 2, 3 are alive but have not called operation 2");
	assert_says(comm.fault.text, "; TUTTI_TIMEOUT sets the deadline");
}

/* The other may wait for it. */
TEST_WITH(a_stopped_one_is_blamed_before_one_that_is_further_behind, setup, teardown)
{
	const pid_t child = child_that(NULL, NULL);

	stop_child(child);
	peers[2].pid = child;
	comm.first = &ops[1];
	for (int rank = 0; rank < RANKS; rank++)
		tt_notes_heard(&comm, rank, rank < 2 ? 2 : rank == 2);
	look_until(BEGIN, BEGIN + 10000 * MS);
	assert_int_equal(comm.fault.rank, 2);
	assert_says(comm.fault.text, "rank 2 is stopped (state T) and has not called operation 2");
	peers[2].pid = 0;
	end_child(child);
}

TEST_WITH(a_sleep_ends_when_the_next_deadline_passes, setup, teardown)
{
	ops[1].timeout_ns = 500 * MS;
	look_until(BEGIN, BEGIN);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN, 100), 100);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN, 1000), 501);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 433 * MS, 100), 68);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 433 * MS + 1, 100), 67);
	/* it has passed: the shortest sleep, not none that spins */
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 500 * MS, 100), 1);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 600 * MS, 100), 1);
}

TEST_WITH(a_sleep_is_as_long_as_it_may_be_where_nothing_has_a_deadline, setup, teardown)
{
	comm.first = NULL;
	look_until(BEGIN, BEGIN);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN, 100), 100);
	/* the deadline of what has ended is nobody's */
	comm.first = &ops[0];
	look_until(BEGIN + 100 * MS, BEGIN + 100 * MS);
	comm.first = NULL;
	look_until(BEGIN + 200 * MS, BEGIN + 200 * MS);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 10090 * MS, 100), 100);
}

TEST_WITH(a_revoked_communicator_has_no_deadlines, setup, teardown)
{
	look_until(BEGIN, BEGIN);
	comm.fault = (struct tt_fault){ .result = TUTTI_ERR_ABORTED, .rank = 2 };
	assert_int_equal(look_until(BEGIN + 100 * MS, BEGIN + 20000 * MS), BEGIN + 100 * MS);
	tt_deadlines_check(&comm, BEGIN + 20000 * MS);
	assert_int_equal(comm.fault.result, TUTTI_ERR_ABORTED);
	assert_int_equal(comm.fault.rank, 2);
	/* who sleeps is to be up when the ranks have agreed on the fault */
	comm.agreement->at = BEGIN + 140 * MS;
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN + 100 * MS, 100), 41);
	assert_int_equal(tt_deadlines_sleep_ms(&comm, BEGIN, 100), 100);
}

/* ---- of several, the one that counts */

static struct tt_fault late(int rank, uint32_t chain, uint64_t seq)
{
	return (struct tt_fault){ TUTTI_ERR_TIMEOUT, rank, "late", chain, seq };
}

TEST(of_missed_deadlines_that_of_a_stopped_rank_counts_and_then_the_end_of_a_chain)
{
	const struct tt_fault in_order[] = {
		{ TUTTI_ERR_PEER_LOST, 3, "died" },
		late(3, TT_CHAIN_STOPPED, 0),
		late(2, 2, 0),
		late(0, 1, 7),
		late(1, 1, 7),
		late(0, 1, 8),
		late(0, 1, 0),
		late(0, 0, 0),
	};
	const size_t count = sizeof(in_order) / sizeof(in_order[0]);

	for (size_t a = 0; a < count; a++)
		for (size_t b = 0; b < count; b++)
			assert_int_equal(tt_fault_before(&in_order[a], &in_order[b]), a < b);
}

/* Rank 0 missed a deadline and blames this one, which has waited in operation 1 since BEGIN, for rank
 * 3 alone; the ranks have not agreed yet. */
static void be_blamed(uint32_t chain)
{
	comm.waiters = 1;
	comm.agreement->ns = 200 * MS;
	comm.agreement->at = UINT64_MAX;
	comm.fault = late(comm.rank, chain, 0);
	for (int rank = 0; rank < RANKS; rank++)
		tt_notes_heard(&comm, rank, rank == 3 ? 0 : 2);
}

TEST_WITH(a_blamed_rank_that_waits_itself_says_for_whom, setup, teardown)
{
	look_until(BEGIN, BEGIN + 6000 * MS);
	be_blamed(1);
	tt_deadlines_check(&comm, BEGIN + 6100 * MS);
	assert_int_equal(comm.fault.rank, 3);
	assert_int_equal(comm.fault.chain, 2);
	assert_says(comm.fault.text, ", has waited 6.1 s, and others for rank 1: "
				     "ranks 0-2 have called it, rank 3 is alive");
	/* that has its time to reach everybody */
	assert_true(comm.agreement->at <= __real_tt_now() + 200 * MS);
	/* a circle of ranks is gone round once */
	comm.fault = late(comm.rank, 3, 0);
	tt_deadlines_check(&comm, BEGIN + 6200 * MS);
	assert_int_equal(comm.fault.chain, 3);
}

static void stays_blamed(uint64_t now, uint32_t chain)
{
	tt_deadlines_check(&comm, now);
	assert_int_equal(comm.fault.rank, comm.rank);
	assert_int_equal(comm.fault.chain, chain);
}

TEST_WITH(a_rank_that_is_late_itself_stays_blamed, setup, teardown)
{
	/* it waits since a moment ago */
	look_until(BEGIN, BEGIN + 4000 * MS);
	be_blamed(1);
	stays_blamed(BEGIN + 4100 * MS, 1);
	/* no thread of it waits */
	look_until(BEGIN + 4100 * MS, BEGIN + 6000 * MS);
	comm.waiters = 0;
	stays_blamed(BEGIN + 6000 * MS, 1);
	/* it was stopped */
	comm.waiters = 1;
	stays_blamed(BEGIN + 7000 * MS, 1);
	/* what is known for sure, or found by something else than an operation's deadline */
	comm.fault.chain = TT_CHAIN_STOPPED;
	stays_blamed(BEGIN + 7100 * MS, TT_CHAIN_STOPPED);
}

/* ---- a clock of the test's */

static uint64_t clock_now; /* 0: the real one */
static uint64_t stop_ns;   /* of the next sleep */

uint64_t __wrap_tt_now(void);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size);

uint64_t __wrap_tt_now(void)
{
	return clock_now ? clock_now : __real_tt_now();
}

/* Its peers may have found a better fault at the same time. */
TEST_WITH(a_rank_that_was_stopped_while_ranks_agreed_listens_once_more, setup, teardown)
{
	const struct tt_fault fault = late(3, 1, 0);

	comm.agreement->ns = 200 * MS;
	clock_now = BEGIN;
	tt_comm_revoke(&comm, &fault);
	for (int i = 0; i < 2; i++) {
		clock_now += 90 * MS;
		assert_false(tt_comm_is_settled(&comm));
	}
	clock_now += 3600000 * MS;
	assert_false(tt_comm_is_settled(&comm));
	clock_now += 199 * MS;
	assert_false(tt_comm_is_settled(&comm));
	/* who looks seldom is told, too */
	clock_now += 3600000 * MS;
	assert_true(tt_comm_is_settled(&comm));
	clock_now = 0;
}

/* What the others told meanwhile is what they have returned by then, though this rank's own counts for
 * more where both are found at once. */
static void learn_of_one(struct tt_endpoint *endpoint, bool thorough)
{
	endpoint->fault = late(3, 1, 0);
}

static void tell_nobody(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
}

TEST_WITH(a_rank_that_finds_a_fault_reads_first_what_others_have_told, setup, teardown)
{
	static const struct tt_transport_control control = { .revoke = tell_nobody };
	static const struct tt_transport transport = { .progress = learn_of_one,
						       .control = &control };
	const struct tt_fault told = late(3, 1, 0),
			      found = { .result = TUTTI_ERR_MISMATCH, .rank = -1 };
	struct tt_endpoint endpoint = { .ops = &transport };

	assert_true(tt_fault_before(&found, &told));
	comm.agreement->ns = 200 * MS;
	comm.endpoints[0] = &endpoint;
	comm.nendpoints = 1;
	tt_comm_revoke(&comm, &found);
	assert_int_equal(comm.fault.result, TUTTI_ERR_TIMEOUT);
	assert_int_equal(comm.fault.rank, told.rank);
}

/* Nothing comes. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	clock_now += (uint64_t)timeout_ms * MS + stop_ns;
	stop_ns = 0;
	return 0;
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
	return __wrap_poll(fds, n, timeout_ms);
}

/* How long it waits for a rank that never connects. */
static uint64_t wait_for_descriptors(void)
{
	struct tt_cuda_sockets sockets;
	uint64_t number;

	clock_now = BEGIN;
	tt_cuda_sockets_begin(&sockets, &comm);
	assert_ok(tt_cuda_sockets_listen(&sockets, &number));
	assert_fails(tt_cuda_sockets_accept(&sockets, 2), TUTTI_ERR_TIMEOUT, "rank 2 does not ask");
	tt_cuda_sockets_close(&sockets);

	const uint64_t waited = clock_now - BEGIN;
	clock_now = 0;
	return waited;
}

TEST_WITH(a_rank_waits_for_descriptors_until_its_deadline, setup, teardown)
{
	assert_in_range(wait_for_descriptors(), 10000 * MS, 10001 * MS);
}

TEST_WITH(a_stop_while_a_rank_waits_for_descriptors_does_not_count, setup, teardown)
{
	stop_ns = 3600000 * MS;
	assert_in_range(wait_for_descriptors(), 3600000 * MS + 9750 * MS,
			3600000 * MS + 10001 * MS);
}
