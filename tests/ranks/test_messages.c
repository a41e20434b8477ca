/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives with tags: which receive takes which message, whatever their order, from one
 * rank or any; buffers longer than the message.
 *
 *   test_messages shm|tcp|mixed */
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "calls/random.h"
#include "harness.h"

#define LONG  (1u << 18) /* elements: more than a link holds */
#define RANKS 4
#define TAGS  5
#define EACH  40 /* messages from each rank to each other */

static void fill(uint32_t *out, size_t n, uint32_t first)
{
	for (size_t i = 0; i < n; i++)
		out[i] = first + (uint32_t)i;
}

static int check(tutti_comm_t comm, const uint32_t *found, size_t n, uint32_t first)
{
	for (size_t i = 0; i < n; i++)
		CLAIM(found[i] == first + (uint32_t)i, "element %zu of %zu is %u, expected %u", i,
		      n, found[i], first + (uint32_t)i);
	return 0;
}

/* ---- one pair */

/* The last that was sent is received first, with long messages in the way. */
static int backwards(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	uint32_t *data = malloc(LONG * sizeof(*data));
	tutti_request_t requests[TAGS] = { NULL };
	int failed = 0;

	if (rank == 0) {
		fill(data, LONG, 7);
		for (int tag = 0; tag < TAGS; tag++)
			SUCCEEDS(tutti_send_tagged(comm, data, tag % 2 ? 3 : LONG, TUTTI_UINT32, 1,
						   tag, &requests[tag]));
		SUCCEEDS(tutti_wait_all(requests, TAGS));
	} else if (rank == 1) {
		for (int tag = TAGS - 1; tag >= 0; tag--) {
			const size_t n = tag % 2 ? 3 : LONG;

			memset(data, 0, n * sizeof(*data));
			SUCCEEDS(
				tutti_recv_tagged(comm, data, n, TUTTI_UINT32, 0, tag, NULL, NULL));
			failed |= check(comm, data, n, 7);
		}
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	free(data);
	return failed;
}

/* A receive that was called first is behind another that has its message. */
static int receives_wait_together(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	uint32_t values[3] = { 0 }, sent[3] = { 10, 20, 30 };
	tutti_request_t requests[3] = { NULL };
	int failed = 0;

	if (rank == 1)
		for (int i = 0; i < 3; i++) /* tags 2, 0, 2 */
			SUCCEEDS(tutti_recv_tagged(comm, &values[i], 1, TUTTI_UINT32, 0,
						   i == 1 ? 0 : 2, NULL, &requests[i]));
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (rank == 0) {
		SUCCEEDS(tutti_send(comm, &sent[1], 1, TUTTI_UINT32, 1, NULL));
		SUCCEEDS(tutti_send_tagged(comm, &sent[0], 1, TUTTI_UINT32, 1, 2, NULL));
		SUCCEEDS(tutti_send_tagged(comm, &sent[2], 1, TUTTI_UINT32, 1, 2, NULL));
	}
	SUCCEEDS(tutti_wait_all(requests, 3));
	for (int i = 0; i < 3 && rank == 1; i++)
		failed |= check(comm, &values[i], 1, sent[i]);
	return failed;
}

static int longer_buffers(tutti_comm_t comm, void *argument)
{
	static const size_t lengths[] = { 0, 1, 5, 3000, LONG };
	const int rank = tutti_comm_rank(comm);
	uint32_t *data = calloc(LONG + 1, sizeof(*data));
	int failed = 0;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && rank < 2; i++) {
		tutti_message_t message = { .size = sizeof(message) };
		tutti_request_t request;

		if (rank == 0) {
			fill(data, lengths[i], 1);
			SUCCEEDS(tutti_send_tagged(comm, data, lengths[i], TUTTI_UINT32, 1, 9,
						   NULL));
			continue;
		}
		memset(data, 0, (LONG + 1) * sizeof(*data));
		SUCCEEDS(tutti_recv_tagged(comm, data, LONG + 1, TUTTI_UINT32, 0, 9, &message,
					   &request));
		SUCCEEDS(tutti_wait(&request));
		CLAIM(message.count == lengths[i] && message.peer == 0,
		      "%zu elements from rank %d, expected %zu", message.count, message.peer,
		      lengths[i]);
		failed |= check(comm, data, lengths[i], 1);
		CLAIM(data[lengths[i]] == 0, "what lies behind the message was changed");
	}
	free(data);
	return failed;
}

/* ---- all pairs, in any order */

struct letter {
	int peer, tag;
	size_t count;
};

static size_t length_of(struct random *random)
{
	switch (random_below(random, 8)) {
	case 0: return 0;
	case 1: return random_between(random, 20000, 28999);
	default: return random_below(random, 100);
	}
}

/* What rank `from` sends to `to`, the same on both. */
static void letters_of(int from, int to, struct letter *out)
{
	struct random random = random_stream((uint64_t)from, (uint64_t)to);

	for (int i = 0; i < EACH; i++) {
		const int tag = (int)random_below(&random, TAGS);

		out[i] = (struct letter){ to, tag, length_of(&random) };
	}
}

/* Its elements say who sent it, and which of those of a tag it is. */
static uint32_t first_of(int from, int tag, int place)
{
	return (uint32_t)(from << 24 | tag << 20 | place << 12);
}

static int send_all(tutti_comm_t comm, tutti_request_t *requests, uint32_t **kept)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	int n = 0;

	for (int to = 0; to < size; to++) {
		struct letter letters[EACH];
		int place[TAGS] = { 0 };

		letters_of(rank, to, letters);
		for (int i = 0; i < EACH && to != rank; i++, n++) {
			const struct letter *l = &letters[i];

			kept[n] = malloc((l->count + 1) * sizeof(**kept));
			fill(kept[n], l->count, first_of(rank, l->tag, place[l->tag]++));
			SUCCEEDS(tutti_send_tagged(comm, kept[n], l->count, TUTTI_UINT32, to,
						   l->tag, &requests[n]));
		}
	}
	return 0;
}

/* From each rank, tag by tag, the tags in an order of this rank's own. */
static int receive_all(tutti_comm_t comm, uint32_t *data)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);

	for (int step = 1; step < size; step++) {
		const int from = (rank + step) % size;
		struct letter letters[EACH];

		letters_of(from, rank, letters);
		for (int t = 0; t < TAGS; t++) {
			const int tag = (t * 2 + rank) % TAGS;

			for (int i = 0, place = 0; i < EACH; i++) {
				if (letters[i].tag != tag)
					continue;
				SUCCEEDS(tutti_recv_tagged(comm, data, letters[i].count,
							   TUTTI_UINT32, from, tag, NULL, NULL));
				if (check(comm, data, letters[i].count,
					  first_of(from, tag, place++)))
					return 1;
			}
		}
	}
	return 0;
}

/* Of whichever rank, tag by tag. Those of a rank come in its order. */
static int receive_any(tutti_comm_t comm, uint32_t *data)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	struct letter letters[RANKS][EACH];

	for (int from = 0; from < size; from++)
		letters_of(from, rank, letters[from]);
	for (int tag = TAGS - 1; tag >= 0; tag--) {
		int left = 0, at[RANKS] = { 0 }, place[RANKS] = { 0 };

		for (int from = 0; from < size; from++)
			for (int i = 0; i < EACH; i++)
				left += from != rank && letters[from][i].tag == tag;
		for (; left > 0; left--) {
			tutti_message_t m = { .size = sizeof(m) };

			SUCCEEDS(tutti_recv_tagged(comm, data, LONG, TUTTI_UINT32, TUTTI_ANY_PEER,
						   tag, &m, NULL));
			CLAIM(m.peer >= 0 && m.peer < size && m.peer != rank, "from rank %d",
			      m.peer);
			while (letters[m.peer][at[m.peer]].tag != tag)
				at[m.peer]++;
			CLAIM(m.count == letters[m.peer][at[m.peer]].count,
			      "%zu elements of rank %d, expected %zu", m.count, m.peer,
			      letters[m.peer][at[m.peer]].count);
			at[m.peer]++;
			if (check(comm, data, m.count, first_of(m.peer, tag, place[m.peer]++)))
				return 1;
		}
	}
	return 0;
}

static int all_pairs(tutti_comm_t comm, void *argument)
{
	static tutti_request_t requests[2][RANKS * EACH];
	static uint32_t *kept[2][RANKS * EACH];
	uint32_t *data = malloc(LONG * sizeof(*data));
	int failed = 0;

	for (int round = 0; round < 2; round++)
		failed |= send_all(comm, requests[round], kept[round]);
	failed = failed || receive_all(comm, data) || receive_any(comm, data);
	for (int round = 0; round < 2 && !failed; round++)
		SUCCEEDS(tutti_wait_all(requests[round], RANKS * EACH));
	for (int i = 0; i < RANKS * EACH; i++)
		free(kept[0][i]), free(kept[1][i]);
	free(data);
	return failed;
}

static int to_oneself_in_a_group(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	const uint32_t sent[2] = { 5, 6 };
	uint32_t came[4] = { 0 };
	tutti_message_t message = { .size = sizeof(message) };

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_send_tagged(comm, &sent[0], 1, TUTTI_UINT32, rank, 1, NULL));
	SUCCEEDS(tutti_send_tagged(comm, &sent[1], 1, TUTTI_UINT32, rank, 2, NULL));
	SUCCEEDS(tutti_recv_tagged(comm, &came[0], 3, TUTTI_UINT32, rank, 2, &message, NULL));
	SUCCEEDS(tutti_recv_tagged(comm, &came[3], 1, TUTTI_UINT32, rank, 1, NULL, NULL));
	SUCCEEDS(tutti_group_end(comm, NULL));
	CLAIM(came[0] == 6 && came[1] == 0 && came[3] == 5, "%u, %u and %u came", came[0], came[1],
	      came[3]);
	CLAIM(message.count == 1 && message.peer == rank, "%zu from rank %d", message.count,
	      message.peer);
	return 0;
}

/* ---- errors */

struct wrong {
	size_t sent, room;
	bool told;
	const char *says;
};

static int wrong_length(tutti_comm_t comm, void *argument)
{
	const struct wrong *wrong = argument;
	const int rank = tutti_comm_rank(comm);
	uint32_t data[8] = { 0 };
	tutti_message_t message = { .size = sizeof(message) };

	if (rank == 0)
		tutti_send_tagged(comm, data, wrong->sent, TUTTI_UINT32, 1, 4, NULL);
	if (rank == 1)
		FAILS(tutti_recv_tagged(comm, data, wrong->room, TUTTI_UINT32, 0, 4,
					wrong->told ? &message : NULL, NULL),
		      TUTTI_ERR_MISMATCH, wrong->says);
	while (tutti_comm_error(comm, NULL) == TUTTI_OK) {
	}
	CLAIM(strstr(tutti_last_error(comm), wrong->says), "%s", tutti_last_error(comm));
	return 0;
}

static int nobody_sends(tutti_comm_t comm, void *argument)
{
	const char *says = argument;
	const tutti_call_t soon = { .size = sizeof(soon), .timeout_s = 0.3 };
	tutti_message_t message = { .size = sizeof(message) };
	uint32_t value = 1;

	if (tutti_comm_rank(comm) == 0) {
		SUCCEEDS(tutti_send_tagged(comm, &value, 1, TUTTI_UINT32, 1, 3, NULL));
	} else if (tutti_comm_rank(comm) == 1) {
		SUCCEEDS(tutti_next_call(comm, &soon));
		FAILS(tutti_recv_tagged(comm, &value, 1, TUTTI_UINT32, TUTTI_ANY_PEER, 8, &message,
					NULL),
		      TUTTI_ERR_TIMEOUT, says);
	}
	while (tutti_comm_error(comm, NULL) == TUTTI_OK) {
	}
	CLAIM(strstr(tutti_last_error(comm), says), "%s", tutti_last_error(comm));
	return 0;
}

/* Those who leave have sent nothing. */
static int others_leave(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	tutti_message_t message = { .size = sizeof(message) };
	uint32_t value;
	int left;

	SUCCEEDS(tutti_barrier(comm, NULL));
	if (rank != 1)
		return 0;
	const tutti_result_t result =
		tutti_recv_tagged(comm, &value, 1, TUTTI_UINT32, TUTTI_ANY_PEER, 8, &message, NULL);
	tutti_comm_error(comm, &left);
	CLAIM(result == TUTTI_ERR_PEER_LOST && left >= 0 && left < size && left != rank,
	      "%d, rank %d: %s", result, left, tutti_last_error(comm));
	return 0;
}

/* ---- the parent */

JOB(messages_that_are_in_the_way_are_put_aside, .ranks = 2, .body = backwards)
JOB(the_first_receive_with_the_tag_takes_the_message, .ranks = 3, .body = receives_wait_together)
JOB(a_buffer_may_be_longer_than_the_message, .ranks = 2, .body = longer_buffers)
JOB(all_pairs_send_and_receive_in_orders_of_their_own, .ranks = RANKS, .body = all_pairs)
JOB(tags_count_for_messages_to_oneself, .ranks = 1, .body = to_oneself_in_a_group)
JOB(when_all_others_have_left_no_message_can_come, .ranks = 3, .body = others_leave)

TEST(messages_of_other_lengths_are_refused)
{
	struct wrong wrong[] = {
		{ 8, 4, true, "called send(uint32 × 8, tag 4), rank 1 called recv(uint32 × 4" },
		{ 2, 4, false, "called send(uint32 × 2, tag 4), rank 1 called recv(uint32 × 4" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		HOLDS(.ranks = 3, .body = wrong_length, .argument = &wrong[i]);
}

JOB(a_receive_of_what_nobody_sends_says_so, .ranks = 3, .body = nobody_sends,
    .argument = (void *)"rank 1's receive from any rank, send/recv(uint32 × 1, tag 8), missed its "
			"deadline of 0.3 s: no rank has called a send to rank 1 with tag 8")
