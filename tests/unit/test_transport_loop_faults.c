/* SPDX-License-Identifier: BSD-3-Clause */
/* What TUTTI_LOOP asks for happens, and nonsense in it is refused with an error message. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "log.h"
#include "loop.h"
#include "transport_suite.h"

static void play(const char *faults, const char *name, int size, void (*body)(struct suite_rank *))
{
	const struct suite_options options = { .threads = true, .shares = true };
	const struct suite_claim claim = { name, size, SUITE_NOTHING, body };
	char text[4096];

	tt_loop_set_faults(faults);
	const bool passed =
		suite_run_claim(&claim, &tt_transport_loop, &options, false, text, sizeof(text));
	tt_loop_set_faults(NULL);
	if (!passed)
		fail_msg("%s", text);
}

/* What ranks do, so many, where TUTTI_LOOP says what is to happen. */
#define SCENE(name, faults, size)                                                                  \
	static void name##_played(struct suite_rank *rank);                                        \
	TEST(name)                                                                                 \
	{                                                                                          \
		play(faults, #name, size, name##_played);                                          \
	}                                                                                          \
	static void name##_played(struct suite_rank *rank)

static const struct tt_fault aborted = { TUTTI_ERR_ABORTED, 1, "rank 1 aborts" };

/* One byte: what the link says. */
struct touching {
	int peer;
	bool writing;
	ssize_t result;
};

static bool touch(struct suite_rank *rank, void *context)
{
	struct touching *touching = context;
	struct tt_link *link = rank->links[touching->peer][TT_CHANNEL_COLLECTIVE];
	uint8_t byte = 1;
	const struct iovec iov = { &byte, 1 };

	touching->result = touching->writing ? rank->ops->write(link, &iov, 1)
					     : rank->ops->read(link, &iov, 1);
	return touching->result != 0;
}

static void require_error(struct suite_rank *rank, struct touching touching, const char *words)
{
	while (touching.result >= 0) {
		suite_at(rank, "waiting for an error of the link with rank %d", touching.peer);
		suite_sleep(rank, touch, &touching, false, "a link that must fail");
	}
	suite_require_failed(rank, touching.result, TUTTI_ERR_PEER_LOST, words,
			     "a link that must fail");
}

/* 0 writes the 1000 bytes that arrive; then both ends know, and the link of 0 with 2 is untouched.
 */
SCENE(cut_link_fails_on_both_ends_and_nowhere_else, "cut=0-1@1000", 3)
{
	const int peer = 1 - rank->rank;

	suite_connect_all(rank);
	if (rank->rank < 2) {
		suite_exchange(rank, peer, TT_CHANNEL_COLLECTIVE, rank->rank == 0 ? 1000 : 0,
			       rank->rank == 0 ? 0 : 1000, "up to the cut");
		require_error(rank, (struct touching){ .peer = peer },
			      rank->rank == 0 ? "with rank 1" : "with rank 0");
		require_error(rank, (struct touching){ .peer = peer, .writing = true }, "cut");
		suite_require(rank, !rank->ops->ready(rank->links[peer][TT_CHANNEL_COLLECTIVE]),
			      "a link that was cut is ready");
	}
	suite_barrier(rank);
	if (rank->rank != 1) {
		suite_exchange(rank, 2 - rank->rank, TT_CHANNEL_COLLECTIVE, 5000, 5000,
			       "beside the cut");
		suite_require(rank, rank->endpoint->fault.result == 0, "fault: %s",
			      rank->endpoint->fault.text);
	}
	suite_barrier(rank);
}

SCENE(refused_connection_names_the_rank_that_refuses, "refuse=0-1", 3)
{
	struct tt_link *link = NULL;

	if (rank->rank == 0) {
		const tutti_result_t result =
			rank->ops->connect(rank->endpoint, 1, TT_CHANNEL_COLLECTIVE, &link);

		suite_require_failed(rank, result, TUTTI_ERR_PEER_LOST, "rank 1 refused",
				     "connect() of a refused pair");
		suite_require(rank, !link, "a link came of it");
		suite_connect(rank, 2, TT_CHANNEL_COLLECTIVE);
	} else {
		suite_connect(rank, 0, TT_CHANNEL_COLLECTIVE);
	}
	suite_barrier(rank);
}

static void learn_of_a_death(struct suite_rank *rank)
{
	suite_await_fault(rank, "a death");
	suite_require_fault(rank, TUTTI_ERR_PEER_LOST, 1, "rank 1");
}

/* Rank 1 dies of its 500th byte; rank 0 gets them all, and ranks 0 and 2 learn of the death. */
SCENE(dead_rank_is_named_by_the_others, "die=1@500", 3)
{
	suite_connect_all(rank);
	if (rank->rank == 1) {
		suite_exchange(rank, 0, TT_CHANNEL_COLLECTIVE, 500, 0, "the last words");
		require_error(rank, (struct touching){ .peer = 2 }, "rank 1 is dead");
		rank->ops->control->revoke(rank->endpoint, &aborted);
		suite_barrier(rank);
		return;
	}
	learn_of_a_death(rank);
	struct touching reading = { .peer = 1 };

	for (int i = 0; i < 500 && rank->rank == 0; i++)
		suite_require(rank, touch(rank, &reading) && reading.result == 1,
			      "byte %d of 500 is missing", i);
	suite_barrier(rank);
}

SCENE(delayed_bytes_come_late_and_wake, "delay=50000", 2)
{
	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
	suite_barrier(rank);
	const uint64_t began = tt_now();

	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 10, 10, "late bytes");
	suite_barrier(rank);
	suite_require(rank, tt_now() - began >= 50000000u, "50 ms of delay took %u ms",
		      (unsigned)((tt_now() - began) / 1000000));
}

SCENE(bytes_keep_their_order_on_a_link_whatever_their_delays, "jitter=3000,short=50", 2)
{
	suite_connect_all(rank);
	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 2000, 2000,
		       "bytes that come at any time");
	suite_barrier(rank);
}

/* Rank 1 is killed, in this and in every other communicator that its thread has entered. */
static void kill_body(struct suite_rank *rank)
{
	suite_connect_all(rank);
	if (rank->rank == 1) {
		tt_loop_kill(pthread_self());
		require_error(rank, (struct touching){ .peer = 0 }, "rank 1 is dead");
		suite_barrier(rank);
		return;
	}
	learn_of_a_death(rank);
	suite_barrier(rank);
}

TEST(killed_thread_is_gone_from_all_its_ranks)
{
	const struct tt_endpoint_config config = { .comm_id = 3, .rank = 0, .size = 1 };
	struct tt_endpoint *endpoint;
	struct tt_link *link;

	play(NULL, __func__, 3, kill_body);
	assert_ok(tt_transport_loop.open(&config, &endpoint));
	tt_loop_kill(pthread_self());
	assert_int_equal(tt_transport_loop.connect(endpoint, 0, TT_CHANNEL_P2P, &link),
			 TUTTI_ERR_PEER_LOST);
	tt_transport_loop.destroy(endpoint);
}

/* Ranks 0 and 1 find different faults at once; all end with the one that comes first in the
 * order. */
SCENE(news_reach_each_rank_and_the_best_fault_counts, "news=50000", 4)
{
	const struct tt_fault lost = { .result = TUTTI_ERR_PEER_LOST,
				       .rank = 2,
				       .text = "rank 2 is lost" };

	suite_require(rank, rank->ops->control->fd(rank->endpoint) >= 0, "nothing tells of news");
	if (rank->rank < 2)
		rank->ops->control->revoke(rank->endpoint, rank->rank == 0 ? &lost : &aborted);
	suite_require(rank, rank->rank != 0 || rank->endpoint->fault.result != 0,
		      "a rank forgets its own fault");
	while (rank->endpoint->fault.result != TUTTI_ERR_ABORTED) {
		struct pollfd control = { rank->ops->control->fd(rank->endpoint), POLLIN, 0 };

		suite_at(rank, "waiting for news");
		suite_require(rank, poll(&control, 1, 10000) == 1, "no news");
		rank->ops->progress(rank->endpoint, true);
	}
	suite_barrier(rank);
}

/* Rank 1 tells, and rank 0 looks only when it is woken. */
/* With this seed it takes no time from rank 1 to rank 0. */
SCENE(news_that_come_at_once_wake_the_rank, "news=1,seed=174", 2)
{
	struct pollfd control = { rank->ops->control->fd(rank->endpoint), POLLIN, 0 };

	if (rank->rank == 1)
		rank->ops->control->revoke(rank->endpoint, &aborted);
	else
		suite_require(rank, poll(&control, 1, 10000) == 1, "no news");
	suite_barrier(rank);
}

TEST(nonsense_is_refused_with_what_was_expected)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "shrt=5", "\"shrt=5\": expected a KEY=VALUE" },
		{ "short=0", "\"short=0\": expected short=N" },
		{ "short=5x", "expected short=N" },
		{ "stall=1", "expected stall=N with N from 2" },
		{ "seed=2,capacity=100", "\"capacity=100\": expected capacity=BYTES from 4096" },
		{ "delay=-1", "expected delay=US" },
		{ "jitter=60000001", "expected jitter=US" },
		{ "news=soon", "expected news=US" },
		{ "cut=0-1", "expected cut=RANK-RANK@BYTES" },
		{ "cut=0-1@99999999999999999999999", "expected cut=RANK-RANK@BYTES" },
		{ "refuse=0-1@5", "expected refuse=RANK-RANK" },
		{ "die=1", "expected die=RANK@BYTES" },
		{ "seed=", "expected seed=N" },
		{ "refuse=0-1,refuse=0-2,refuse=0-3,refuse=0-4,refuse=0-5,refuse=0-6,refuse=0-7,"
		  "refuse=0-8,refuse=0-9",
		  "\"refuse=0-9\": expected refuse=RANK-RANK, 8 times at most" },
	};
	const struct tt_endpoint_config config = { .comm_id = 1, .size = 1 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tt_endpoint *endpoint = NULL;

		tt_loop_set_faults(cases[i].text);
		assert_fails(tt_transport_loop.open(&config, &endpoint), TUTTI_ERR_INVALID,
			     cases[i].words);
		assert_null(endpoint);
	}
	tt_loop_set_faults(NULL);
}

TEST(environment_is_read)
{
	const struct tt_endpoint_config config = { .comm_id = 1, .size = 1 };
	struct tt_endpoint *endpoint;

	setenv("TUTTI_LOOP", "stall=none", 1);
	assert_int_equal(tt_transport_loop.open(&config, &endpoint), TUTTI_ERR_INVALID);
	setenv("TUTTI_LOOP", "stall=10", 1);
	assert_ok(tt_transport_loop.open(&config, &endpoint));
	tt_transport_loop.destroy(endpoint);
	unsetenv("TUTTI_LOOP");
}

TEST(rank_enters_a_communicator_once_and_with_its_size)
{
	const struct tt_endpoint_config config = { .comm_id = 2, .rank = 0, .size = 2 };
	const struct tt_endpoint_config larger = { .comm_id = 2, .rank = 1, .size = 3 };
	const struct tt_endpoint_config outside = { .comm_id = 2, .rank = 2, .size = 2 };
	struct tt_endpoint *first, *other;

	assert_ok(tt_transport_loop.open(&config, &first));
	assert_fails(tt_transport_loop.open(&config, &other), TUTTI_ERR_INVALID,
		     "rank 0 has entered");
	assert_fails(tt_transport_loop.open(&larger, &other), TUTTI_ERR_INVALID,
		     "3 ranks, others said 2");
	assert_fails(tt_transport_loop.open(&outside, &other), TUTTI_ERR_INVALID, "rank 2 of 2");
	tt_transport_loop.destroy(first);
}

/* The n-th call of one rank meets the n-th of the others, and must say the same. */
SCENE(ranks_share_as_often_as_they_agree, NULL, 2)
{
	uint8_t *first = rank->ops->memory->share(rank->endpoint, 100, rank->stage->deadline);
	uint8_t *second = rank->ops->memory->share(rank->endpoint, 200, rank->stage->deadline);

	suite_require(rank, first && second && first != second, "two shares: %p and %p",
		      (void *)first, (void *)second);
	suite_require(rank,
		      rank->ops->memory->share(rank->endpoint, 300 + (size_t)rank->rank,
					       tt_now() + 100000000u) == NULL,
		      "ranks that say different sizes share memory");
	suite_require(rank,
		      strstr(tt_thread_error(), "all must say the same") != NULL ||
			      strstr(tt_thread_error(), "1 of the 2 ranks") != NULL,
		      "different sizes: \"%s\"", tt_thread_error());
	suite_barrier(rank);
}
