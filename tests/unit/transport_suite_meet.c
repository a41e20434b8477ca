/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on how ranks meet: reach, join, connect, and the memory that they share. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../patience.h"
#include "log.h"
#include "transport_suite.h"

#define LONG_TIME_NS 300000000u /* by which one side connects first */
#define DECLINE_MS   3000	/* for all to be told that one does not join */

static void require_symmetric(struct suite_rank *rank, const struct tt_peer *a,
			      const struct tt_peer *b, const char *what)
{
	suite_require(rank, rank->ops->reach(a, b) == rank->ops->reach(b, a),
		      "reach() of ranks %d and %d (%s) depends on which comes first", a->rank,
		      b->rank, what);
}

SUITE_CLAIM(reach_is_symmetric, 3, SUITE_NOTHING)
{
	for (int a = 0; a < rank->size; a++)
		for (int b = 0; b < rank->size; b++) {
			struct tt_peer other = rank->peers[b];

			if (a == b)
				continue;
			suite_require(rank, rank->ops->reach(&rank->peers[a], &other),
				      "reach() says that rank %d cannot reach rank %d", a, b);
			other.host = 1;
			require_symmetric(rank, &rank->peers[a], &other, "another host");
			other.address_length = 0;
			suite_require(rank, !rank->ops->reach(&rank->peers[a], &other),
				      "reach() of a rank without an address is true");
			require_symmetric(rank, &rank->peers[a], &other, "no address");
		}
	suite_barrier(rank);
}

/* A program may have nothing to do: it joins and is gone while the others are still joining. */
SUITE_CLAIM(rank_may_leave_once_it_has_joined, 4, SUITE_NOTHING)
{
}

/* Rank 0 comes first on one channel and last on the next, and tries to write and read all the
 * while. */
SUITE_CLAIM(either_side_may_connect_first, 2, SUITE_NOTHING)
{
	const int peer = 1 - rank->rank;

	for (int channel = 0; channel < TT_CHANNELS; channel++) {
		const uint64_t began = tt_now();

		if (channel % 2 == rank->rank) {
			struct tt_link *link = suite_connect(rank, peer, (enum tt_channel)channel);
			const void *data;

			while (tt_now() - began < LONG_TIME_NS) {
				rank->ops->progress(rank->endpoint, true);
				suite_require(rank, rank->ops->peek(link, 1, 1, &data) == 0,
					      "peek() before the peer connected: %s",
					      tt_thread_error());
			}
			suite_post(rank, SUITE_EVENT);
		} else {
			suite_await(rank, SUITE_EVENT, (uint64_t)channel + 1);
			suite_connect(rank, peer, (enum tt_channel)channel);
		}
		suite_exchange(rank, peer, (enum tt_channel)channel, 10000, 10000,
			       "a link that one side connected late");
		suite_require(rank, rank->ops->ready(rank->links[peer][channel]),
			      "a link that has moved bytes is not ready");
	}
	suite_barrier(rank);
}

static void all_pairs_talk_at_once(struct suite_rank *rank)
{
	struct suite_stream streams[SUITE_RANKS_MAX * TT_CHANNELS];
	int n = 0;

	suite_connect_all(rank);
	for (int peer = 0; peer < rank->size; peer++)
		for (int channel = 0; channel < TT_CHANNELS && peer != rank->rank; channel++)
			streams[n++] = suite_stream(rank, peer, (enum tt_channel)channel,
						    40000 + 1000 * (size_t)(rank->rank + channel),
						    40000 + 1000 * (size_t)(peer + channel));
	suite_pump(rank, streams, n, "all pairs at once");
	suite_barrier(rank);
}

SUITE_CLAIM_OF(all_pairs_of_3_ranks_talk_at_once, 3, SUITE_NOTHING, all_pairs_talk_at_once(rank))
SUITE_CLAIM_OF(all_pairs_of_8_ranks_talk_at_once, 8, SUITE_NOTHING, all_pairs_talk_at_once(rank))

SUITE_CLAIM(join_ends_at_its_deadline, 2, SUITE_UNMET)
{
	suite_open(rank);
	if (rank->rank == 1) {
		suite_await(rank, SUITE_EVENT, 1);
		return;
	}
	const uint64_t began = tt_now();
	/* a transport that meets its peers only later may succeed */
	const tutti_result_t result =
		rank->ops->join(rank->endpoint, rank->peers, rank->size, began + 300000000u);
	const unsigned ms = (unsigned)((tt_now() - began) / 1000000);

	suite_require(rank, ms < 1000 * bound_s(3), "join() with 300 ms to its deadline took %u ms",
		      ms);
	suite_require(rank, result == TUTTI_OK || tt_thread_error()[0] != '\0',
		      "join() failed with %d and without a sentence", (int)result);
	suite_post(rank, SUITE_EVENT);
}

/* The others are told, or see it: nobody waits for its deadline. */
static void decline(struct suite_rank *rank, int who)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = who };

	suite_open(rank);
	snprintf(fault.text, sizeof(fault.text), "rank %d could not join", who);
	if (rank->rank == who) {
		rank->ops->control->reject(rank->endpoint, rank->peers, rank->size, &fault);
		return;
	}
	const uint64_t began = tt_now();
	const tutti_result_t result = suite_try_join(rank);
	while (result == TUTTI_OK && !rank->endpoint->fault.result) {
		suite_at(rank, "waiting to be told of a rank that declined");
		rank->ops->progress(rank->endpoint, true);
	}
	const unsigned ms = (unsigned)((tt_now() - began) / 1000000);

	suite_require(rank,
		      result == TUTTI_ERR_PEER_LOST ||
			      rank->endpoint->fault.result == TUTTI_ERR_PEER_LOST,
		      "join() with a rank that declines: %d (%s)", (int)result, tt_thread_error());
	suite_require(rank, ms < DECLINE_MS * patience(),
		      "told of a rank that declines after %u ms", ms);
	if (result == TUTTI_OK)
		return;
	/* as the runtime does */
	memcpy(fault.text, tt_thread_error(), strnlen(tt_thread_error(), sizeof(fault.text) - 1));
	rank->ops->control->reject(rank->endpoint, rank->peers, rank->size, &fault);
}

SUITE_CLAIM_OF(first_rank_declines, 7, SUITE_UNMET, decline(rank, 0))
SUITE_CLAIM_OF(rank_in_the_middle_declines, 7, SUITE_UNMET, decline(rank, rank->size / 2))
SUITE_CLAIM_OF(last_rank_declines, 7, SUITE_UNMET, decline(rank, rank->size - 1))

SUITE_CLAIM(what_was_not_made_can_be_destroyed, 2, SUITE_UNMET)
{
	rank->ops->close(NULL);
	rank->ops->destroy(NULL);
	suite_open(rank);
	suite_barrier(rank); /* opened, not joined: destroyed by the end of the claim */
}

/* Zero at first; then each rank writes its part and sees those of the others. */
static void share_and_compare(struct suite_rank *rank, size_t bytes)
{
	const size_t size = (size_t)rank->size;

	suite_at(rank, "in share() of %zu bytes", bytes);
	volatile uint8_t *memory =
		rank->ops->memory->share(rank->endpoint, bytes, rank->stage->deadline);

	suite_require(rank, memory != NULL, "share() of %zu bytes: %s", bytes, tt_thread_error());
	suite_require(rank, (uintptr_t)memory % 64 == 0,
		      "shared memory at %p begins within a cache line", (void *)memory);
	for (size_t at = 0; at < bytes; at++)
		suite_require(rank, memory[at] == 0, "byte %zu of %zu is not zero", at, bytes);
	suite_barrier(rank);
	for (size_t at = (size_t)rank->rank; at < bytes; at += size)
		memory[at] = (uint8_t)(rank->rank + 1);
	suite_barrier(rank);
	for (size_t at = 0; at < bytes; at++)
		suite_require(rank, memory[at] == at % size + 1,
			      "byte %zu of %zu is not what rank %zu wrote", at, bytes, at % size);
	suite_barrier(rank);
}

SUITE_CLAIM_OF(a_cache_line_is_shared_zeroed, 4, SUITE_SHARES, share_and_compare(rank, 64))
SUITE_CLAIM_OF(an_odd_number_of_bytes_is_shared_zeroed, 3, SUITE_SHARES,
	       share_and_compare(rank, 100001))
SUITE_CLAIM_OF(two_mebibytes_are_shared_zeroed, 2, SUITE_SHARES, share_and_compare(rank, 2u << 20))

#define EXPORTED_BYTES 100000

/* Each rank looks at, and changes, what the next one exports. */
SUITE_CLAIM(exported_memory_is_the_peers_own, 3, SUITE_EXPORTS)
{
	const int next = (rank->rank + 1) % rank->size;
	uint8_t *mine = rank->options->allocate(EXPORTED_BYTES);
	uint64_t token;

	suite_require(rank, mine != NULL, "allocate memory to export: %s", tt_thread_error());
	memset(mine, 10 + rank->rank, EXPORTED_BYTES);
	suite_require(
		rank,
		rank->ops->memory->export(rank->endpoint, mine + 100, EXPORTED_BYTES - 100, &token),
		"export(): false for memory that was allocated for it");
	suite_set(rank, SUITE_FIRST_FREE + rank->rank, token);
	suite_barrier(rank);
	token = suite_value(rank, SUITE_FIRST_FREE + next);
	const volatile uint8_t *theirs =
		rank->ops->memory->import(rank->endpoint, next, token, EXPORTED_BYTES - 100);

	suite_require(rank, theirs != NULL, "import() of rank %d gave NULL: %s", next,
		      tt_thread_error());
	for (size_t i = 0; i < EXPORTED_BYTES - 100; i++)
		suite_require(rank, theirs[i] == 10 + next, "byte %zu of rank %d is %u, not %d", i,
			      next, theirs[i], 10 + next);
	suite_barrier(rank);
	mine[105] = 200;
	suite_barrier(rank);
	suite_require(rank, theirs[5] == 200, "what the peer writes later is not seen");
	suite_barrier(rank);
	rank->options->release(mine);
	suite_barrier(rank);
}

/* From now on this process runs on one processor, and ranks on several where it may use as many. */
static int settle(const struct suite_rank *rank)
{
	cpu_set_t allowed, one;
	int cpu = -1;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int left = rank->rank % CPU_COUNT(&allowed); left >= 0;)
		left -= CPU_ISSET(++cpu, &allowed) != 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	return cpu;
}

/* After a message from there: does this rank know where the other one runs, and the other likewise? */
static bool know_each_other(struct suite_rank *rank, int cpu, int of[2])
{
	const int peer = 1 - rank->rank, mine = SUITE_FIRST_FREE + rank->rank,
		  theirs = SUITE_FIRST_FREE + peer;

	suite_set(rank, mine, (uint64_t)cpu);
	suite_exchange(rank, peer, TT_CHANNEL_COLLECTIVE, 1000, 1000,
		       "what tells where a rank runs");
	rank->ops->locate(rank->endpoint, cpu, of);
	suite_barrier(rank);
	rank->ops->locate(rank->endpoint, cpu, of);
	const bool known = of[peer] == (int)suite_value(rank, theirs);

	suite_barrier(rank);
	suite_set(rank, mine, known);
	suite_barrier(rank);
	const bool both = known && suite_value(rank, theirs);

	suite_barrier(rank);
	return both;
}

/* They say so, or what comes from them tells. An acknowledgement comes from where the data went, so that
 * not each message does. */
SUITE_CLAIM(ranks_know_where_the_others_run, 2, SUITE_PROCESSES | SUITE_LOCATES)
{
	const int cpu = settle(rank);
	int of[2] = { -1, -1 }, tries = 0;

	suite_connect_all(rank);
	while (tries < 100 && !know_each_other(rank, cpu, of))
		tries++;
	suite_require(rank, tries < 100, "rank 0 runs on processor %d, rank 1 on processor %d",
		      of[0], of[1]);
	suite_barrier(rank);
}
