/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the endpoints: who meets whom, shared memory, sleep, faults. Links are in link.c. Every op
 * that looks at what ranks share holds the lock of the fabric; only sleep() waits without it. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "log.h"
#include "loop.h"
#include "news.h"

struct loop_endpoint *tt_loop_endpoint_of(struct tt_endpoint *endpoint)
{
	assert(endpoint->ops == &tt_transport_loop);
	return (struct loop_endpoint *)endpoint;
}

static tutti_result_t loop_open(const struct tt_endpoint_config *config, struct tt_endpoint **out)
{
	struct loop_endpoint *self = calloc(1, sizeof(*self));
	tutti_result_t result;

	if (!self)
		return tt_fail(TUTTI_ERR_NO_MEMORY, LOOP, "no memory for the endpoint of rank %d",
			       config->rank);
	self->base.ops = &tt_transport_loop;
	self->rank = config->rank;
	result = tt_loop_fabric_enter(config, &self->fabric, &self->entry);
	if (result != TUTTI_OK) {
		free(self);
		return result;
	}
	*out = &self->base;
	return TUTTI_OK;
}

/* Peers in this process find the fabric by the communicator; the address shows that there is one.
 */
static size_t loop_address(const struct tt_endpoint *endpoint, void *out)
{
	const struct loop_endpoint *self = (const struct loop_endpoint *)endpoint;

	memcpy(out, &self->fabric->comm_id, sizeof(self->fabric->comm_id));
	return sizeof(self->fabric->comm_id);
}

static void loop_explain(const struct tt_peer *a, const struct tt_peer *b, char *text, size_t size)
{
	snprintf(text, size, "another process");
}

static bool loop_reach(const struct tt_peer *a, const struct tt_peer *b)
{
	return a->process == b->process && a->address_length == sizeof(uint64_t) &&
	       b->address_length == sizeof(uint64_t) &&
	       memcmp(a->address, b->address, sizeof(uint64_t)) == 0;
}

/* The first rank that this one has to meet and that has not come, -1 if all have. */
static int missing_rank(const struct loop_endpoint *self, const struct tt_peer *peers, int size)
{
	for (int rank = 0; rank < size; rank++)
		if (rank != self->rank && peers[rank].use && !self->fabric->ranks[rank].joined)
			return rank;
	return -1;
}

/* What stands in the way of meeting `rank`; TUTTI_OK: nothing but time. Under the lock. */
static tutti_result_t should_abort(const struct loop_fabric *fabric, int rank)
{
	switch (fabric->ranks[rank].state) {
	case LOOP_LEFT:
		return tt_fail(TUTTI_ERR_PEER_LOST, LOOP, "rank %d left the communicator", rank);
	case LOOP_DEAD: return tt_fail(TUTTI_ERR_PEER_LOST, LOOP, "rank %d died", rank);
	case LOOP_ABSENT:
	case LOOP_HERE: break;
	}
	if (fabric->fault.result != 0)
		return tt_fail((tutti_result_t)fabric->fault.result, LOOP, "%s",
			       fabric->fault.text);
	return TUTTI_OK;
}

static tutti_result_t loop_join(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
				uint64_t deadline)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;
	tutti_result_t result = TUTTI_OK;
	bool in_time = true;
	int missing;

	self->peers = peers;
	self->host = peers[self->rank].host;
	tt_loop_fabric_lock(fabric);
	if (tt_loop_fabric_has(fabric, &self->entry)) {
		fabric->ranks[self->rank].host = self->host;
		fabric->ranks[self->rank].joined = true;
		pthread_cond_broadcast(&fabric->changed);
	} else {
		result = tt_fail(TUTTI_ERR_TIMEOUT, LOOP,
				 "rank %d joins too late: another has its place", self->rank);
	}
	while ((missing = missing_rank(self, peers, size)) >= 0 && result == TUTTI_OK) {
		result = should_abort(fabric, missing);
		if (result == TUTTI_OK && !in_time)
			result = tt_fail(TUTTI_ERR_TIMEOUT, LOOP,
					 "rank %d has not joined in time: is it running?", missing);
		if (result == TUTTI_OK)
			in_time = tt_loop_fabric_wait(fabric, deadline);
	}
	tt_loop_fabric_unlock(fabric);
	return result;
}

/* Those that wait look at who has left. */
static void loop_reject(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			const struct tt_fault *fault)
{
}

static int host_ranks(const struct loop_endpoint *self)
{
	int count = 0;

	for (int rank = 0; rank < self->fabric->size; rank++)
		count += self->peers[rank].host == self->host &&
			 (rank == self->rank || self->peers[rank].use);
	return count;
}

/* A rank of the host that is gone will not share: the first such, -1 if there is none. */
static int gone_host_rank(const struct loop_endpoint *self)
{
	for (int rank = 0; rank < self->fabric->size; rank++)
		if (self->peers[rank].host == self->host && self->peers[rank].use &&
		    self->fabric->ranks[rank].state != LOOP_HERE)
			return rank;
	return self->rank;
}

/* Under the lock: wait until all of the host have come for the segment. */
static tutti_result_t meet_at(struct loop_endpoint *self, struct loop_segment *segment,
			      uint64_t deadline)
{
	const int expected = host_ranks(self);
	tutti_result_t result = TUTTI_OK;
	bool in_time = true;

	segment->arrived++;
	pthread_cond_broadcast(&self->fabric->changed);
	while (segment->arrived < expected && result == TUTTI_OK) {
		result = should_abort(self->fabric, gone_host_rank(self));
		if (result == TUTTI_OK && !in_time)
			result =
				tt_fail(TUTTI_ERR_TIMEOUT, LOOP,
					"%d of the %d ranks of the host came to share %zu bytes in "
					"time: are the others running?",
					segment->arrived, expected, segment->bytes);
		if (result == TUTTI_OK)
			in_time = tt_loop_fabric_wait(self->fabric, deadline);
	}
	return result;
}

static void *loop_share(struct tt_endpoint *endpoint, size_t bytes, uint64_t deadline)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;
	struct loop_segment *segment;
	void *memory = NULL;

	tt_loop_fabric_lock(fabric);
	segment = tt_loop_fabric_segment(fabric, self->host, self->shares++, bytes);
	if (!segment)
		tt_fail_errno(LOOP, "share %zu bytes among the ranks of the host", bytes);
	else if (segment->bytes != bytes)
		tt_fail(TUTTI_ERR_INVALID, LOOP,
			"rank %d shares %zu bytes, another of its host %zu: all must say the same",
			self->rank, bytes, segment->bytes);
	else if (meet_at(self, segment, deadline) == TUTTI_OK)
		memory = segment->memory;
	tt_loop_fabric_unlock(fabric);
	return memory;
}

/* The lock is the barrier: whoever sleeps on has yet to take it. */
static void loop_wake(struct tt_endpoint *endpoint)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;

	tt_loop_fabric_lock(fabric);
	for (int rank = 0; rank < fabric->size; rank++)
		if (fabric->ranks[rank].host == self->host)
			tt_loop_fabric_ring(fabric, rank, 0);
	tt_loop_fabric_unlock(fabric);
}

/* All ranks live in one process: a pointer is its own name. */
static bool loop_export_memory(struct tt_endpoint *endpoint, const void *pointer, size_t bytes,
			       uint64_t *token)
{
	*token = (uint64_t)(uintptr_t)pointer;
	return true;
}

static void *loop_import_memory(struct tt_endpoint *endpoint, int peer, uint64_t token,
				size_t bytes)
{
	const struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	return self->peers[peer].host == self->host ? (void *)(uintptr_t)token : NULL;
}

/* A thread that is late writes by the same addresses as its peers. */
static bool loop_grants_writes(struct tt_endpoint *endpoint, const void *pointer, size_t bytes)
{
	return false;
}

/* Keep the first fault; the result last, for those who look at it without a lock. */
static void set_fault(struct tt_fault *to, const struct tt_fault *fault)
{
	if (to->result != 0)
		return;
	to->rank = fault->rank;
	to->chain = fault->chain;
	to->seq = fault->seq;
	memcpy(to->text, fault->text, sizeof(to->text));
	/* release: pairs with an acquire of whoever reads the fault without the communicator's lock
	 */
	__atomic_store_n(&to->result, fault->result, __ATOMIC_RELEASE);
}

/* A rank that finds one tells everybody. */
static void find_dead(struct loop_endpoint *self)
{
	for (int rank = 0; self->peers && rank < self->fabric->size; rank++) {
		struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = rank };

		if (rank == self->rank || !self->peers[rank].use ||
		    self->fabric->ranks[rank].state != LOOP_DEAD)
			continue;
		snprintf(fault.text, sizeof(fault.text), "rank %d died", rank);
		set_fault(&self->fabric->fault, &fault);
	}
}

static void loop_progress(struct tt_endpoint *endpoint, bool thorough)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;

	tt_loop_fabric_lock(fabric);
	if (fabric->faults.news_ns)
		tt_loop_news_receive(self, thorough);
	else if (fabric->fault.result == 0 && thorough)
		find_dead(self);
	if (fabric->fault.result != 0 && !fabric->faults.news_ns)
		set_fault(&endpoint->fault, &fabric->fault);
	tt_loop_fabric_unlock(fabric);
}

/* The dead tell nobody. Those who are in join() are told at once, in any case. */
static void loop_revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;

	tt_loop_fabric_lock(fabric);
	if (fabric->ranks[self->rank].state == LOOP_HERE) {
		set_fault(&fabric->fault, fault);
		if (fabric->faults.news_ns)
			tt_loop_news_send(self, fault);
		else
			set_fault(&endpoint->fault, &fabric->fault);
		pthread_cond_broadcast(&fabric->changed);
		tt_loop_fabric_ring_all(fabric);
	}
	tt_loop_fabric_unlock(fabric);
}

/* What is still on its way can be read later. */
static bool is_silent(struct loop_endpoint *self, int peer)
{
	const uint64_t now = tt_now();

	for (int channel = 0; channel < TT_CHANNELS; channel++) {
		struct loop_pipe *pipe =
			self->fabric->pipes[(peer * self->fabric->size + self->rank) * TT_CHANNELS +
					    channel];

		if (pipe && tt_loop_pipe_next_due(pipe, now) > 0)
			return false;
	}
	return true;
}

static bool loop_lost(struct tt_endpoint *endpoint, int peer)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	tt_loop_fabric_lock(self->fabric);
	const bool lost = tt_loop_news_knows_gone(self, peer) && is_silent(self, peer);
	tt_loop_fabric_unlock(self->fabric);
	return lost;
}

static int loop_control_fd(const struct tt_endpoint *endpoint)
{
	return ((const struct loop_endpoint *)endpoint)->entry.alarm_fd;
}

/* The dead tell nothing. */
static void loop_send_note(struct tt_endpoint *endpoint, const void *note)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;

	tt_loop_fabric_lock(fabric);
	if (fabric->ranks[self->rank].state == LOOP_HERE) {
		const uint64_t place = fabric->told++ % (4 * TT_NOTES_KEPT);

		memcpy(fabric->notes[place], note, TT_NOTE_BYTES);
		fabric->noted_at[place] = tt_now();
		tt_loop_news_spread(fabric, fabric->noted_at[place]);
		if (!fabric->faults.news_ns)
			tt_loop_fabric_ring_all(fabric);
	}
	tt_loop_fabric_unlock(fabric);
}

/* A rank hears its own notes, too: the runtime passes over them. */
/* Its ranks are threads, and their waits tests of waiting. */
static void loop_locate(struct tt_endpoint *endpoint, int cpu, int *of)
{
}

static bool loop_receive_note(struct tt_endpoint *endpoint, void *note)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);
	struct loop_fabric *fabric = self->fabric;

	tt_loop_fabric_lock(fabric);
	if (fabric->told - self->heard > 4 * TT_NOTES_KEPT)
		self->heard = fabric->told - 4 * TT_NOTES_KEPT;
	const bool some = self->heard < fabric->told && tt_loop_news_has_come(self, self->heard);
	if (some)
		memcpy(note, fabric->notes[self->heard++ % (4 * TT_NOTES_KEPT)], TT_NOTE_BYTES);
	tt_loop_fabric_unlock(fabric);
	return some;
}

static void loop_arm(struct tt_endpoint *endpoint)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	tt_loop_fabric_lock(self->fabric);
	tt_loop_fabric_arm(self->fabric, self->rank);
	tt_loop_fabric_unlock(self->fabric);
}

static void loop_disarm(struct tt_endpoint *endpoint)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	tt_loop_fabric_lock(self->fabric);
	tt_loop_fabric_disarm(self->fabric, self->rank);
	tt_loop_fabric_unlock(self->fabric);
}

static int loop_fd(struct tt_endpoint *endpoint)
{
	return ((const struct loop_endpoint *)endpoint)->entry.bell_fd;
}

/* A signal ends the sleep early, which callers expect of any sleep. */
static void loop_sleep(struct tt_endpoint *endpoint, int timeout_ms)
{
	struct pollfd bell = { .fd = loop_fd(endpoint), .events = POLLIN };

	poll(&bell, 1, timeout_ms);
}

static void loop_interrupt(struct tt_endpoint *endpoint)
{
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	tt_loop_fabric_lock(self->fabric);
	tt_loop_fabric_ring(self->fabric, self->rank, 0);
	tt_loop_fabric_unlock(self->fabric);
}

static void loop_destroy(struct tt_endpoint *endpoint)
{
	if (!endpoint)
		return;
	struct loop_endpoint *self = tt_loop_endpoint_of(endpoint);

	if (self->fabric)
		tt_loop_fabric_leave(self->fabric, &self->entry);
	free(self);
}

/* The fabric stays: other ranks of the process, threads that are not here, may have been
 * changing it. */
static void loop_forget(struct tt_endpoint *endpoint)
{
	tt_loop_endpoint_of(endpoint)->fabric = NULL;
}

static const struct tt_transport_control control = {
	.reject = loop_reject,
	.revoke = loop_revoke,
	.fd = loop_control_fd,
	.lost = loop_lost,
	.send = loop_send_note,
	.receive = loop_receive_note,
};

static const struct tt_transport_doorbell doorbell = {
	.arm = loop_arm,
	.disarm = loop_disarm,
	.fd = loop_fd,
	.sleep = loop_sleep,
	.interrupt = loop_interrupt,
};

static const struct tt_transport_paths paths = {
	.explain = loop_explain,
};

static const struct tt_transport_memory memory = {
	.share = loop_share,
	.wake = loop_wake,
	.export = loop_export_memory,
	.import = loop_import_memory,
	.left = loop_lost,
	.grants_writes = loop_grants_writes,
};

const struct tt_transport tt_transport_loop = {
	.name = "loop",
	.preference = 0,
	.for_tests = true,
	.control = &control,
	.doorbell = &doorbell,
	.paths = &paths,
	.memory = &memory,
	.open = loop_open,
	.address = loop_address,
	.reach = loop_reach,
	.join = loop_join,
	.connect = tt_loop_connect,
	.write = tt_loop_write,
	.read = tt_loop_read,
	.peek = tt_loop_peek,
	.release = tt_loop_release,
	.ready = tt_loop_ready,
	.close = tt_loop_close,
	.progress = loop_progress,
	.locate = loop_locate,
	.destroy = loop_destroy,
	.forget = loop_forget,
};
