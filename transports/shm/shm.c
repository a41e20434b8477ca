/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory between the ranks of a host: the transport's table, and the life and health of
 * an endpoint. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "endpoint.h"
#include "file.h"
#include "fork.h"
#include "log.h"
#include "shm.h"

#define POLL_TURNS 256 /* yields between looks at who died */

static void forget_descriptors(struct shm_endpoint *ep)
{
	ep->listen_fd = ep->bell = ep->waiting = ep->alarm = -1;
}

static tutti_result_t shm_open_endpoint(const struct tt_endpoint_config *config,
					struct tt_endpoint **out)
{
	struct shm_endpoint *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for an endpoint");
	ep->base.ops = &tt_transport_shm;
	ep->config = *config;
	forget_descriptors(ep);
	tutti_result_t result = tt_machine_here(&ep->address.machine);
	if (!result)
		result = shm_listen(ep);
	if (result) {
		tt_transport_shm.destroy(&ep->base);
		return result;
	}
	*out = &ep->base;
	return TUTTI_OK;
}

static size_t shm_address(const struct tt_endpoint *endpoint, void *out)
{
	const struct shm_endpoint *ep = (const struct shm_endpoint *)endpoint;

	memcpy(out, &ep->address, sizeof(ep->address));
	return sizeof(ep->address);
}

static bool shm_reach(const struct tt_peer *a, const struct tt_peer *b)
{
	struct shm_address one, other;

	if (a->host != b->host || a->address_length != sizeof(one) ||
	    b->address_length != sizeof(other))
		return false;
	memcpy(&one, a->address, sizeof(one));
	memcpy(&other, b->address, sizeof(other));
	return one.machine.processes && one.machine.network &&
	       memcmp(&one.machine, &other.machine, sizeof(one.machine)) == 0;
}

static void shm_explain(const struct tt_peer *a, const struct tt_peer *b, char *text, size_t size)
{
	struct shm_address one = { 0 }, other = { 0 };
	const char *why = "another container: their namespaces of process numbers differ";

	memcpy(&one, a->address, a->address_length < sizeof(one) ? a->address_length : sizeof(one));
	memcpy(&other, b->address,
	       b->address_length < sizeof(other) ? b->address_length : sizeof(other));
	if (a->host != b->host)
		why = "another host id (TUTTI_HOST_ID)";
	else if (one.machine.boot != other.machine.boot)
		why = "one host id (TUTTI_HOST_ID), but two machines";
	else if (!one.machine.processes || !other.machine.processes)
		why = "/proc, which tells the namespaces of processes, cannot be read";
	else if (one.machine.network != other.machine.network)
		why = "another container: their network namespaces differ";
	snprintf(text, size, "%s", why);
}

/* The peers watch this rank's sockets, and join() has said on them what there was to say. The
 * one that is left ends now: it may be long until the endpoint is destroyed. */
static void shm_reject(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
		       const struct tt_fault *fault)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	tt_fd_close(ep->listen_fd);
	ep->listen_fd = -1;
}

static bool shm_lost(struct tt_endpoint *endpoint, int peer)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	const int i = ep->local_peer_of[peer];

	return shm_left(ep, i) || shm_died(ep, i);
}

static bool shm_said_good_bye(struct tt_endpoint *endpoint, int peer)
{
	const struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	return shm_left(ep, ep->local_peer_of[peer]);
}

static void *map_shared(const struct shm_arena *arena, size_t bytes)
{
	/* every rank grows the file to the same length, whoever is first */
	const off_t total = (off_t)(arena->bytes + bytes);
	struct stat info;

	if (fstat(arena->fd, &info) < 0 ||
	    (info.st_size < total && tt_file_resize(arena->fd, (uint64_t)total) < 0)) {
		tt_fail_errno(SHM, "grow the arena to %lld bytes", (long long)total);
		return NULL;
	}
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd,
			    (off_t)arena->bytes);
	if (shared == MAP_FAILED) {
		tt_fail_errno(SHM, "map %zu shared bytes", bytes);
		return NULL;
	}
	shm_keep_from_children(shared, bytes);
	return shared;
}

/* Decide for a member that has not. Gives what is decided: once, and the same for all who look. */
static uint32_t decide(const struct shm_endpoint *ep, int member, uint32_t shares)
{
	uint32_t before = SHM_UNDECIDED;

	/* release: pairs with the acquire in await_decision() */
	if (atomic_compare_exchange_strong_explicit(&shm_member(&ep->arena, member)->shares,
						    &before, shares, memory_order_acq_rel,
						    memory_order_acquire))
		return shares;
	return before;
}

/* What the member decided; for one that dies or is late over it that is done here. */
static uint32_t await_decision(struct shm_endpoint *ep, int member, uint64_t deadline)
{
	for (uint32_t turn = 1;; turn++) {
		/* acquire: pairs with the release in decide() */
		const uint32_t shares = atomic_load_explicit(
			&shm_member(&ep->arena, member)->shares, memory_order_acquire);

		if (shares != SHM_UNDECIDED)
			return shares;
		if (turn % POLL_TURNS == 0)
			shm_check_deaths(ep);
		if (ep->base.fault.result || tt_now() > deadline)
			return decide(ep, member, SHM_SHARES_NOT);
		sched_yield();
	}
}

static void *shm_share(struct tt_endpoint *endpoint, size_t bytes, uint64_t deadline)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base || ep->shared)
		return NULL;
	void *shared = map_shared(&ep->arena, bytes);
	decide(ep, ep->me, shared ? SHM_SHARES : SHM_SHARES_NOT);
	/* all or none: a rank without the region would choose other algorithms than the rest */
	for (int i = 0; i < ep->arena.members && shared; i++) {
		if (await_decision(ep, i, deadline) == SHM_SHARES)
			continue;
		tt_fail(TUTTI_ERR_SYSTEM, SHM, "rank %d does not map it; see its own log",
			ep->local_peers[i].rank);
		munmap(shared, bytes);
		shared = NULL;
	}
	ep->shared = shared;
	ep->shared_bytes = bytes;
	return shared;
}

static void shm_progress(struct tt_endpoint *endpoint, bool thorough)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base)
		return;
	/* acquire: pairs with the release in shm_revoke() */
	if (__builtin_expect(atomic_load_explicit(&shm_header(&ep->arena)->faults,
						  memory_order_acquire) != ep->base.faults_seen,
			     0))
		shm_take_faults(ep);
	/* who goes once there is a fault goes because of it */
	if (thorough && !ep->base.fault.result)
		shm_check_deaths(ep);
}

static void shm_destroy(struct tt_endpoint *endpoint)
{
	if (!endpoint)
		return;
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (ep->arena.base) {
		/* release: pairs with the acquire in shm_left() */
		atomic_store_explicit(&shm_member(&ep->arena, ep->me)->state, SHM_LEFT,
				      memory_order_release);
		shm_interrupt(endpoint); /* who waits for this rank looks at its state */
	}
	for (int i = 0; ep->local_peers && i < ep->arena.members; i++)
		shm_heap_unmap(&ep->local_peers[i]);
	if (ep->shared)
		munmap(ep->shared, ep->shared_bytes);
	shm_arena_close(&ep->arena);
	tt_fd_close(ep->alarm);
	tt_fd_close(ep->waiting);
	tt_fd_close(ep->bell);
	tt_fd_close(ep->listen_fd);
	free(ep->local_peers);
	free(ep->local_peer_of);
	free(ep);
}

static void shm_forget(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	for (int i = 0; ep->local_peers && i < ep->arena.members; i++)
		ep->local_peers[i] = (struct shm_local_peer){ 0 };
	ep->arena.base = ep->shared = NULL;
	forget_descriptors(ep);
}

static void shm_locate(struct tt_endpoint *endpoint, int cpu, int *of)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	for (int place = 0; place < ep->arena.members; place++) {
		_Atomic uint32_t *word = &shm_member(&ep->arena, place)->cpu;
		const uint32_t theirs = atomic_load_explicit(word, memory_order_relaxed);

		if (place != ep->me && theirs)
			of[ep->local_peers[place].rank] = (int)theirs - 1;
		else if (place == ep->me && theirs != (uint32_t)cpu + 1)
			atomic_store_explicit(word, (uint32_t)cpu + 1, memory_order_relaxed);
	}
}

static const struct tt_transport_control control = {
	.reject = shm_reject,
	.revoke = shm_revoke,
	.fd = shm_control_fd,
	.looks_for_deaths = true,
	.lost = shm_lost,
	.send = shm_send_note,
	.receive = shm_receive_note,
};

static const struct tt_transport_doorbell doorbell = {
	.arm = shm_arm,
	.disarm = shm_disarm,
	.fd = shm_fd,
	.sleep = shm_sleep,
	.interrupt = shm_interrupt,
};

static const struct tt_transport_paths paths = {
	.explain = shm_explain,
};

static const struct tt_transport_memory memory = {
	.share = shm_share,
	.wake = shm_wake,
	.export = shm_export_memory,
	.import = shm_import_memory,
	.left = shm_said_good_bye,
	.grants_writes = shm_grants_writes,
};

const struct tt_transport tt_transport_shm = {
	.name = "shm",
	.preference = 20,
	.shares_memory = true,
	.control = &control,
	.doorbell = &doorbell,
	.paths = &paths,
	.memory = &memory,
	.open = shm_open_endpoint,
	.address = shm_address,
	.reach = shm_reach,
	.join = shm_join,
	.connect = shm_connect,
	.write = shm_write,
	.read = shm_read,
	.peek = shm_peek,
	.release = shm_release,
	.ready = shm_ready,
	.close = shm_close,
	.progress = shm_progress,
	.locate = shm_locate,
	.destroy = shm_destroy,
	.forget = shm_forget,
};
