/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims that only RDMA makes: what becomes of links whose queue pairs fail, and of callers'
 * memory. They reach into links to break them. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "transport_suite.h"

#define LONG_BYTES ((size_t)2 << 20) /* several messages */
#define TRY_NS	   300000000u	     /* for which a rank goes on writing what nobody may take */
#define FILLER	   0x5a

static struct rdma_link *link_of(const struct suite_rank *rank)
{
	return (struct rdma_link *)rank->links[1 - rank->rank][TT_CHANNEL_P2P];
}

static struct rdma_link *connect_up(struct suite_rank *rank)
{
	suite_connect_up(rank, TT_CHANNEL_P2P);
	suite_require(rank, link_of(rank)->state == RDMA_UP, "the link goes by TCP");
	return link_of(rank);
}

/* What a read from the link says, and that it says so of a loss; 0: nothing yet. */
static bool is_lost(struct suite_rank *rank, const char *words)
{
	uint8_t byte;
	const struct iovec iov = { &byte, 1 };

	suite_at(rank, "waiting for the link to fail");
	rank->ops->progress(rank->endpoint, true);
	const ssize_t result = rank->ops->read(&link_of(rank)->base, &iov, 1);

	if (result != 0)
		suite_require_failed(rank, result, TUTTI_ERR_PEER_LOST, words, "read()");
	return result != 0;
}

static void break_paths(struct suite_rank *rank)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	struct rdma_link *link = link_of(rank);

	for (int i = 0; i < link->paths; i++)
		link->path[i].rail->adapter->verbs->modify_qp(link->path[i].qp, &attributes,
							      IBV_QP_STATE);
}

static void break_paths_of_rank_0(struct suite_rank *rank)
{
	if (rank->rank == 0)
		break_paths(rank);
}

static void go_on_after(struct suite_rank *rank, void (*what)(struct suite_rank *rank))
{
	struct rdma_link *link = connect_up(rank);

	for (int again = 0; again < 3; again++) {
		const uint32_t before = link->id;

		suite_exchange_long(rank, LONG_BYTES + 4099, what);
		suite_exchange_long(rank, 100, NULL);
		suite_barrier(rank);
		suite_require(rank, link->id != before && link->state == RDMA_UP,
			      "the link did not reconnect, or is not up");
	}
}

SUITE_CLAIM_OF(queue_pair_that_fails_is_replaced, 2, SUITE_NOTHING,
	       go_on_after(rank, break_paths_of_rank_0))
SUITE_CLAIM_OF(queue_pairs_that_fail_at_both_ends_are_replaced, 2, SUITE_NOTHING,
	       go_on_after(rank, break_paths))

/* Those that soft-RoCE keeps: it has no service levels. */
SUITE_CLAIM(settings_reach_the_queue_pair, 2, SUITE_NOTHING)
{
	struct rdma_settings *settings = &((struct rdma_endpoint *)rank->endpoint)->settings;
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr found = { 0 };
	int (*query)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	/* which the transport has opened */
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL),
	     *symbol = library ? dlsym(library, "ibv_query_qp") : NULL;

	suite_require(rank, symbol != NULL, "no ibv_query_qp");
	memcpy(&query, &symbol, sizeof(query));
	settings->tc = 96;
	settings->timeout = 17;
	settings->retry = 5;
	const struct rdma_link *link = connect_up(rank);

	suite_require(rank,
		      query(link->path[0].qp, &found, IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT,
			    &unused) == 0,
		      "the queue pair does not tell");
	suite_require(rank, found.ah_attr.grh.traffic_class == 96, "traffic class %u",
		      found.ah_attr.grh.traffic_class);
	suite_require(rank, found.timeout == 17, "timeout %u", found.timeout);
	suite_require(rank, found.retry_cnt == 5, "%u retries", found.retry_cnt);
	dlclose(library);
}

/* Without progress. */
static void await_event(struct suite_rank *rank, uint64_t value)
{
	while (suite_value(rank, SUITE_EVENT) < value)
		suite_at(rank, "waiting for the other rank");
}

static bool packets_arrived(const struct rdma_link *link)
{
	for (int i = 0; i < link->paths; i++)
		if (link->path[i].sends != link->path[i].sends_done)
			return false;
	return true;
}

/* Both know that packets arrive, and rank 0 has said so, when its queue pair fails. */
SUITE_CLAIM(queue_pair_may_fail_while_it_is_introduced, 2, SUITE_NOTHING)
{
	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_P2P);
	struct rdma_link *link = link_of(rank);

	while (link->state != RDMA_PROVING || (rank->rank == 0 && !link->decided)) {
		suite_at(rank, "waiting for the proof");
		suite_require(rank, link->state < RDMA_UP, "the link came up in between");
		rank->ops->progress(rank->endpoint, true);
	}
	while (!packets_arrived(link)) {
		suite_at(rank, "waiting for word of the packets");
		/* which tells the other nothing */
		tt_rdma_poll((struct rdma_endpoint *)rank->endpoint);
	}
	suite_post(rank, SUITE_EVENT);
	await_event(rank, rank->rank == 0 ? 2 : 3);
	if (rank->rank == 0) {
		break_paths(rank);
		suite_post(rank, SUITE_EVENT);
	}
	suite_exchange_long(rank, LONG_BYTES, NULL);
	suite_require(rank, link->state == RDMA_UP, "the link goes by TCP");
	suite_barrier(rank);
}

/* What the device of rank 1 refuses. */
SUITE_CLAIM(write_to_memory_that_is_not_registered_is_told, 2, SUITE_NOTHING)
{
	struct rdma_link *link = connect_up(rank);
	const struct rdma_verbs *verbs = link->path[0].rail->adapter->verbs;
	static uint8_t other[4096];
	uint8_t byte = 0;
	const struct iovec iov = { &byte, 1 };
	bool written = false;

	((struct rdma_endpoint *)rank->endpoint)->silence_s = 1;
	for (int i = 0; rank->rank == 1 && i < link->paths; i++) {
		struct rdma_path *path = &link->path[i];

		verbs->dereg_mr(path->mr);
		path->mr = verbs->reg_mr(path->rail->adapter->pd, other, sizeof(other),
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		suite_require(rank, path->mr != NULL, "no registration to put in its place");
	}
	suite_barrier(rank);
	while (rank->rank == 0 && !is_lost(rank, "refused a write"))
		written = written || rank->ops->write(&link->base, &iov, 1) == 1;
	if (rank->rank == 0)
		suite_post(rank, SUITE_EVENT);
	while (suite_value(rank, SUITE_EVENT) == 0) {
		suite_at(rank, "waiting for rank 0 to be told");
		rank->ops->progress(rank->endpoint, true);
		rank->ops->read(&link->base, &iov, 1);
	}
	suite_barrier(rank);
}

/* The address of rank 0's ports has gone when their queue pairs fail, and TCP still goes. Who
 * comes to the limit first does not answer any more. */
SUITE_CLAIM(link_that_cannot_be_connected_again_is_lost, 2, SUITE_NOTHING)
{
	struct rdma_endpoint *e = (struct rdma_endpoint *)rank->endpoint;

	connect_up(rank);
	e->silence_s = 1;
	for (int i = 0; rank->rank == 0 && i < e->nports; i++)
		e->ports[i].gid_index = 200;
	suite_barrier(rank);
	if (rank->rank == 0)
		break_paths(rank);
	while (suite_value(rank, SUITE_EVENT) == 0)
		if (is_lost(rank, rank->rank == 0 ? "the queue pair with rank 1"
						  : "found no way to rank 1"))
			suite_post(rank, SUITE_EVENT);
	suite_barrier(rank);
}

/* Rank 1 tells what no writer of this version does. */
static void false_word_is_told(struct suite_rank *rank, uint32_t immediate)
{
	struct rdma_link *link = connect_up(rank);

	if (rank->rank == 1) {
		const struct rdma_post post = {
			.from = &link->memory->ours,
			.bytes = sizeof(link->memory->ours),
			.lkey = link->path[0].mr->lkey,
			.to = link->peer.memory + offsetof(struct rdma_memory, theirs),
			.rkey = link->peer.path[0].key,
			.tells = true,
			.immediate = immediate,
		};

		link->memory->ours.messages = 1;
		suite_require(rank, tt_rdma_post(link, 0, &post), "the message was not posted");
	}
	while (rank->rank == 0 && !is_lost(rank, "not this version"))
		;
	suite_barrier(rank);
}

SUITE_CLAIM_OF(message_of_no_bytes_is_told, 2, SUITE_NOTHING, false_word_is_told(rank, 0))
SUITE_CLAIM_OF(message_of_too_many_bytes_is_told, 2, SUITE_NOTHING,
	       false_word_is_told(rank, RDMA_CHUNK_BYTES + RDMA_REST_BYTES + 1))
SUITE_CLAIM_OF(note_of_what_was_not_sent_is_told, 2, SUITE_NOTHING,
	       false_word_is_told(rank, 1u << 19 | 1))
SUITE_CLAIM_OF(credit_for_what_was_not_sent_is_told, 2, SUITE_NOTHING,
	       false_word_is_told(rank, 2u << 30))
SUITE_CLAIM_OF(offer_of_no_slot_is_told, 2, SUITE_NOTHING,
	       false_word_is_told(rank, 3u << 30 | RDMA_OFFERS))

/* Rank 0 has offered memory, which rank 1 has heard of, and is told of a fault that rank 1 has
 * not heard of. */
SUITE_CLAIM(offered_memory_is_the_callers_after_revoke, 2, SUITE_NOTHING)
{
	const struct tt_fault fault = { .result = TUTTI_ERR_ABORTED, .rank = 0, .text = "enough" };
	struct rdma_link *link = connect_up(rank);
	uint8_t *memory = malloc(LONG_BYTES);
	const struct iovec iov = { memory, LONG_BYTES };

	suite_require(rank, memory != NULL, "no memory");
	memset(memory, rank->rank, LONG_BYTES);
	while (rank->rank == 0 ? !link->ours.open || suite_value(rank, SUITE_EVENT) == 0
			       : link->offered.bytes == 0) {
		suite_at(rank, "waiting for the offer");
		rank->ops->progress(rank->endpoint, true);
		if (rank->rank == 0)
			rank->ops->read(&link->base, &iov, 1);
	}
	if (rank->rank == 0) {
		rank->ops->control->revoke(rank->endpoint, &fault);
		memset(memory, FILLER, LONG_BYTES);
		suite_post(rank, SUITE_EVENT);
		await_event(rank, 3);
		for (size_t i = 0; i < LONG_BYTES; i++)
			suite_require(rank, memory[i] == FILLER,
				      "byte %zu was written after revoke()", i);
	} else {
		suite_post(rank, SUITE_EVENT);
		await_event(rank, 2);
		for (const uint64_t until = tt_now() + TRY_NS; tt_now() < until;)
			rank->ops->write(&link->base, &iov, 1);
		suite_post(rank, SUITE_EVENT);
	}
	suite_leave(rank); /* before the memory goes */
	free(memory);
}
