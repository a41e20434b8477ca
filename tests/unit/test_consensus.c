/* SPDX-License-Identifier: BSD-3-Clause */
/* The consensus transport of a rank whose leader is gone, and its words have all come; or that was
 * stopped itself, and they have not yet. */
#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "consensus.h"

#include "../fake_transport.h"

#define SECOND_NS UINT64_C(1000000000)
#define ROOM	  1024

enum { RANKS = 2, ME = 1 };
enum { HERE = 1, PROPOSE = 5, DECIDED = 7 };

/* What the leader said, and how often this rank tried to tell it something. */
static struct {
	uint8_t words[ROOM];
	size_t length, read;
	int refused;
	bool gone; /* what it said is all */
} leader;

static int notes;

/* Looks at which nothing has come yet; before the last of them this process was stopped. */
static int silent;
static uint64_t stopped_ns; /* so far */

uint64_t __real_tt_now(void);
uint64_t __wrap_tt_now(void);

uint64_t __wrap_tt_now(void)
{
	return __real_tt_now() + stopped_ns;
}

static ssize_t write_to_leader(struct tt_link *link, const struct iovec *iov, int n)
{
	leader.refused++;
	return TUTTI_ERR_PEER_LOST;
}

static ssize_t read_from_leader(struct tt_link *link, const struct iovec *iov, int n)
{
	const size_t left = leader.length - leader.read;
	const size_t bytes = left < iov[0].iov_len ? left : iov[0].iov_len;

	if (silent > 0) {
		silent--;
		stopped_ns += silent == 1 ? 1000 * SECOND_NS : 0;
		return 0;
	}
	if (leader.gone && left == 0)
		return TUTTI_ERR_PEER_LOST;
	memcpy(iov[0].iov_base, leader.words + leader.read, bytes);
	leader.read += bytes;
	return (ssize_t)bytes;
}

static bool is_ready(const struct tt_link *link)
{
	return true;
}

static bool nobody_is_lost(struct tt_endpoint *endpoint, int peer)
{
	return false;
}

static void send_note(struct tt_endpoint *endpoint, const void *note)
{
	notes++;
}

static bool is_given_up; /* others say, once, that this rank is gone */

static bool receive_note(struct tt_endpoint *endpoint, void *note)
{
	const struct {
		uint32_t magic, kind;
		int32_t rank;
	} gone = { 0x636f756eu, 1, ME };

	if (!is_given_up)
		return false;
	is_given_up = false;
	memset(note, 0, TT_NOTE_BYTES);
	memcpy(note, &gone, sizeof(gone));
	return true;
}

static const struct tt_transport_control control = {
	.lost = nobody_is_lost,
	.send = send_note,
	.receive = receive_note,
};

static const struct tt_transport transport = {
	FAKE_TRANSPORT,	   .write = write_to_leader, .read = read_from_leader,
	.ready = is_ready, .control = &control,
};

static void leader_says(uint32_t kind, uint64_t ballot, const void *body, size_t length)
{
	const struct tt_agree_head head = { 0x61677265u, kind, 1, (uint32_t)length, ballot, 0 };

	assert_true(leader.length + sizeof(head) + length <= ROOM);
	memcpy(leader.words + leader.length, &head, sizeof(head));
	leader.length += sizeof(head);
	if (length)
		memcpy(leader.words + leader.length, body, length);
	leader.length += length;
}

/* Both are in it, and neither said anything. */
static void leader_decides(void)
{
	const uint32_t value[] = { 0, 0, ME, 0 };
	const uint8_t sets[] = { 3, 0 };

	memset(&leader, 0, sizeof(leader));
	leader_says(HERE, 0, NULL, 0);
	leader_says(PROPOSE, 1, value, sizeof(value));
	leader_says(DECIDED, 1, sets, sizeof(sets));
}

/* Communicators of two, and what came of an agreement in the first. */
static struct tt_endpoint endpoint = { .ops = &transport };
static struct tutti_comm *comm, *before;
static struct tt_agree *agreed;

static struct tutti_comm *make(void)
{
	struct tutti_comm *one = calloc(1, sizeof(*one));

	assert_non_null(one);
	pthread_mutex_init(&one->lock, NULL);
	one->rank = ME;
	one->size = RANKS;
	one->settings.timeout_ns = 100 * SECOND_NS;
	one->endpoints[0] = &endpoint;
	one->nendpoints = 1;
	one->routes.via = calloc(RANKS, sizeof(*one->routes.via));
	one->routes.connections = calloc(RANKS, sizeof(*one->routes.connections));
	assert_true(one->routes.via && one->routes.connections);
	return one;
}

static void unmake(struct tutti_comm *one)
{
	tt_consensus_free(one);
	pthread_mutex_destroy(&one->lock);
	free(one->routes.via);
	for (int rank = 0; rank < RANKS; rank++)
		free(one->routes.connections[rank]);
	free(one->routes.connections);
	free(one);
}

static int make_comms(void **state)
{
	comm = make();
	before = make();
	return 0;
}

static int free_comms(void **state)
{
	tt_agree_close(agreed);
	agreed = NULL;
	unmake(comm);
	unmake(before);
	return 0;
}

static void agree_of(int members)
{
	static const bool among[RANKS] = { true, true };

	assert_ok(tt_consensus_agree(comm, among, 100 * SECOND_NS, NULL, 0, &agreed));
	assert_int_equal(tt_agree_count(agreed), members);
}

/* The decision is heard, and nobody waits until the leader takes what it cannot take any more. */
TEST_WITH(a_link_that_takes_nothing_is_tried_once, make_comms, free_comms)
{
	leader_decides();
	agree_of(RANKS);
	assert_int_equal(leader.read, leader.length);
	assert_int_equal(leader.refused, 1);
}

/* A thousand seconds pass between two looks, and the link gives nothing at the first one after that. */
TEST_WITH(a_rank_that_was_stopped_takes_nobody_for_late_before_it_has_read, make_comms, free_comms)
{
	leader_decides();
	silent = 3;
	agree_of(RANKS);
	assert_true(stopped_ns > 0);
}

/* It may be this rank's own connections that have ended: the others are to look at theirs. */
TEST_WITH(of_new_ranks_nobody_is_told_who_is_gone, make_comms, free_comms)
{
	memset(&leader, 0, sizeof(leader));
	leader.gone = true;
	notes = 0;
	assert_ok(tt_consensus_complete(comm, NULL, &agreed));
	assert_int_equal(tt_agree_count(agreed), 1);
	assert_int_equal(notes, 0);
	/* of others everybody is */
	free_comms(state);
	make_comms(state);
	agree_of(1);
	assert_int_equal(notes, 1);
}

/* Of a decision without it this rank knows that nobody has the new communicator. Of one for which it
 * has no value it knows nothing: others may have gone on in the new one, and wait in it. */
TEST_WITH(who_knows_that_it_was_left_out_stays_in_the_communicator_before, make_comms, free_comms)
{
	for (int told = 0; told < 2; told++) {
		const uint8_t sets[] = { told ? 1 : 3, told ? 2 : 0 };

		memset(&leader, 0, sizeof(leader));
		leader_says(DECIDED, 1, sets, sizeof(sets));
		notes = 0;
		assert_int_equal(tt_consensus_complete(comm, before, &agreed), TUTTI_ERR_TIMEOUT);
		assert_int_equal(notes, told ? 0 : 1);
		free_comms(state);
		make_comms(state);
	}
}

/* What was decided before comes after that news. If it does not come, others may wait in the new
 * communicator. */
TEST_WITH(who_is_taken_for_gone_hears_out_what_was_decided_before, make_comms, free_comms)
{
	leader_decides();
	is_given_up = true;
	silent = 1;
	notes = 0;
	assert_ok(tt_consensus_complete(comm, before, &agreed));
	assert_int_equal(tt_agree_count(agreed), RANKS);
	assert_int_equal(notes, 0);
	/* it takes part in nothing later */
	tt_agree_close(agreed);
	assert_int_equal(tt_consensus_complete(comm, before, &agreed), TUTTI_ERR_TIMEOUT);
	agreed = NULL;
	free_comms(state);
	make_comms(state);
	memset(&leader, 0, sizeof(leader));
	leader.gone = is_given_up = true;
	assert_int_equal(tt_consensus_complete(comm, before, &agreed), TUTTI_ERR_TIMEOUT);
	assert_int_equal(notes, 1);
}
