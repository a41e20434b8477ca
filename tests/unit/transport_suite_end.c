/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on how it ends: revoked, left in order, or killed. Whoever needs the rank that is gone is
 * told its name; others go on. */
#include <stdio.h>
#include <string.h>

#include "../patience.h"
#include "log.h"
#include "transport_suite.h"

#define DEATH_SLEEP_MS 100 /* between thorough looks, as a runtime would */
#define DEATH_BOUND_NS (1e9 * bound_s(1))

static void revoke_and_compare(struct suite_rank *rank)
{
	struct tt_fault fault = { .result = TUTTI_ERR_MISMATCH, .rank = 1 };

	snprintf(fault.text, sizeof(fault.text), "operation 812: %0300d", 7);
	suite_barrier(rank);
	if (rank->rank == rank->size - 2) {
		rank->ops->control->revoke(rank->endpoint, &fault);
	} else {
		suite_await_fault(rank, "revoke()");
		suite_require_fault(rank, fault.result, fault.rank, fault.text);
	}
	suite_barrier(rank);
}

SUITE_CLAIM_OF(revoke_reaches_every_rank, 8, SUITE_NOTHING, revoke_and_compare(rank))

SUITE_CLAIM(revoke_reaches_every_rank_over_links, 4, SUITE_NOTHING)
{
	suite_connect_all(rank);
	revoke_and_compare(rank);
}

/* Read from rank 1 until that fails, as it must. */
struct farewell {
	struct tt_link *link;
	ssize_t result;
};

static bool read_farewell(struct suite_rank *rank, void *context)
{
	struct farewell *farewell = context;
	uint8_t byte;
	const struct iovec iov = { &byte, 1 };

	farewell->result = rank->ops->read(farewell->link, &iov, 1);
	return farewell->result != 0;
}

static void require_farewell(struct suite_rank *rank, int peer)
{
	struct farewell farewell = { .link = rank->links[peer][TT_CHANNEL_COLLECTIVE] };
	char name[16];

	snprintf(name, sizeof(name), "rank %d", peer);
	while (farewell.result == 0) {
		suite_at(rank, "waiting to be told that rank %d left", peer);
		suite_sleep(rank, read_farewell, &farewell, false, "waiting on a rank that left");
	}
	suite_require_failed(rank, farewell.result, TUTTI_ERR_PEER_LOST, name,
			     "read() from a rank that left");
}

/* Rank 0 reads what rank 1 writes before it leaves, while it does or when it has long gone. */
static void last_words(struct suite_rank *rank, size_t bytes, bool late)
{
	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
	if (rank->rank == 0 && late)
		suite_await(rank, SUITE_EVENT, 1);
	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, rank->rank == 1 ? bytes : 0,
		       rank->rank == 1 ? 0 : bytes, "the last bytes of a rank that leaves");
	if (rank->rank == 0) {
		require_farewell(rank, 1);
	} else {
		suite_leave(rank);
		suite_post(rank, SUITE_EVENT);
	}
	suite_barrier(rank);
}

SUITE_CLAIM_OF(leaver_is_named_after_its_last_byte, 2, SUITE_NOTHING,
	       last_words(rank, 200000, false))
SUITE_CLAIM_OF(bytes_of_a_rank_that_left_arrive, 2, SUITE_NOTHING, last_words(rank, 3000, true))

SUITE_CLAIM(leaving_disturbs_nobody_else, 3, SUITE_NOTHING)
{
	suite_connect_all(rank);
	for (int peer = 0; peer < rank->size; peer++)
		if (peer != rank->rank)
			suite_exchange(rank, peer, TT_CHANNEL_COLLECTIVE, 100, 100,
				       "before a rank leaves");
	suite_barrier(rank);
	if (rank->rank == 2) {
		suite_leave(rank);
		suite_post(rank, SUITE_EVENT);
		suite_barrier(rank);
		return;
	}
	suite_await(rank, SUITE_EVENT, 1);
	for (int pass = 0; pass < 100; pass++)
		rank->ops->progress(rank->endpoint, true);
	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 300000, 300000,
		       "after a rank left");
	suite_require(rank, rank->endpoint->fault.result == 0, "a rank left in order: %s",
		      rank->endpoint->fault.text);
	suite_barrier(rank);
}

/* True when the rank has learnt, by the endpoint's fault or by an error of the link, that rank 1 is
 * gone. */
static bool knows_of_death(struct suite_rank *rank, struct tt_link *link)
{
	struct farewell farewell = { .link = link };

	if (rank->endpoint->fault.result != 0) {
		suite_require_fault(rank, TUTTI_ERR_PEER_LOST, 1, "rank 1");
		return true;
	}
	if (!link || !read_farewell(rank, &farewell))
		return false;
	suite_require_failed(rank, farewell.result, TUTTI_ERR_PEER_LOST, "rank 1",
			     "read() from a rank that was killed");
	return true;
}

/* Rank 0 has a link with the rank that dies, rank 2 has none. */
SUITE_CLAIM(killed_rank_is_named_within_a_second, 3, SUITE_PROCESSES)
{
	struct tt_link *link = NULL;

	if (rank->rank != 2) {
		link = suite_connect(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE);
		suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 100, 100,
			       "before a rank is killed");
	}
	suite_barrier(rank);
	if (rank->rank == 1)
		suite_die(rank);
	while (!knows_of_death(rank, link)) {
		suite_at(rank, "waiting to learn that rank 1 was killed");
		rank->ops->doorbell->arm(rank->endpoint);
		rank->ops->progress(rank->endpoint, true);
		if (!knows_of_death(rank, link))
			rank->ops->doorbell->sleep(rank->endpoint, DEATH_SLEEP_MS);
		rank->ops->doorbell->disarm(rank->endpoint);
	}
	const uint64_t took = tt_now() - suite_value(rank, SUITE_KILLED_AT);

	suite_require(rank, took < DEATH_BOUND_NS, "it took %u ms to learn of a death",
		      (unsigned)(took / 1000000));
}

/* Whoever asks whether a rank is lost tells nobody: that is still to be done. */
SUITE_CLAIM(death_that_was_asked_about_is_told, 3, SUITE_PROCESSES)
{
	suite_barrier(rank);
	if (rank->rank == 1)
		suite_die(rank);
	/* mostly by the question alone, not by a look that would tell */
	for (int asked = 1; !rank->ops->control->lost(rank->endpoint, 1); asked++) {
		suite_at(rank, "asking whether rank 1 is lost");
		if (asked % 1000 == 0)
			rank->ops->progress(rank->endpoint, true);
	}
	while (!knows_of_death(rank, NULL)) {
		suite_at(rank, "waiting to be told of rank 1, which is lost");
		rank->ops->progress(rank->endpoint, true);
	}
}

/* ---- notes */

/* Each rank tells two notes; with four ranks every pair is joined directly. */
SUITE_CLAIM(notes_reach_the_others_in_order, 4, SUITE_NOTHING)
{
	uint8_t last[SUITE_RANKS_MAX] = { 0 }, note[TT_NOTE_BYTES];
	int missing = 2 * (rank->size - 1);

	suite_barrier(rank);
	for (uint8_t number = 1; number <= 2; number++) {
		memset(note, number, sizeof(note));
		note[0] = (uint8_t)rank->rank;
		rank->ops->control->send(rank->endpoint, note);
	}
	while (missing > 0) {
		suite_at(rank, "waiting for %d notes", missing);
		rank->ops->progress(rank->endpoint, true);
		while (rank->ops->control->receive(rank->endpoint, note)) {
			if (note[0] == rank->rank)
				continue; /* allowed, and passed over by the runtime */
			suite_require(rank, note[0] < rank->size, "a note is of rank %d", note[0]);
			suite_require(rank,
				      note[1] == last[note[0]] + 1 &&
					      note[TT_NOTE_BYTES - 1] == note[1],
				      "note %d of rank %d after note %d", note[1], note[0],
				      last[note[0]]);
			last[note[0]] = note[1];
			missing--;
		}
	}
	suite_barrier(rank);
}
