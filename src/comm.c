/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of communicators: making, aborting, destroying. (split.c, shrink.c and grow.c make them out of others.) */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "council.h"
#include "cuda/bound.h"
#include "cuda/staged.h"
#include "group.h"
#include "launch.h"
#include "log.h"
#include "monitor.h"
#include "next_call.h"
#include "op.h"
#include "plan_cache.h"
#include "recorder.h"
#include "rendezvous.h"
#include "request.h"
#include "store.h"

tutti_result_t tt_comm_new(const struct tt_settings *settings, int rank, int size, uint64_t id,
			   struct tutti_comm **out)
{
	static _Atomic uint64_t made;
	struct tutti_comm *comm = calloc(1, sizeof(*comm));
	pthread_condattr_t monotonic;

	if (!comm)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for a communicator");
	comm->maker = tt_maker_here();
	comm->settings = *settings;
	comm->rank = rank;
	comm->size = size;
	comm->id = id;
	comm->serial = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
	comm->failed_peer = -1;
	comm->next_seq = 1; /* a board of zeros has posted nothing */
	comm->kernels = tt_kernels();
	tt_cuda_look();
	pthread_mutex_init(&comm->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&comm->progress_wanted, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = comm;
	return TUTTI_OK;
}

tutti_result_t tt_comm_refuse(const struct tutti_comm *comm, const char *call)
{
	if (comm)
		return tt_fail_inherited(&comm->maker, call, "communicator");
	return tt_fail(TUTTI_ERR_INVALID, COMM, "%s: comm is NULL", call);
}

/* Others may wait for what is unfinished here; for what this rank has not called, they find out themselves. */
static void take_leave(struct tutti_comm *comm)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = comm->rank };

	if (comm->first && !comm->fault.result) {
		snprintf(fault.text, sizeof(fault.text),
			 "rank %d left the communicator (tutti_comm_destroy) with requests unfinished", comm->rank);
		tt_comm_revoke(comm, &fault);
	}
	tt_comm_settle_now(comm);
	tt_board_leave(comm);
}

/* In a child of fork(): descriptors are closed and shared memory is gone. False: a thread that is not here was inside, so
 * that nothing in it can be relied on. */
static bool forget_peers(struct tutti_comm *comm)
{
	if (pthread_mutex_trylock(&comm->lock) != 0)
		return false;
	for (struct tt_op *op = comm->first; op; op = op->next) {
		tt_recorder_forget(op);
		op->request = NULL; /* on the stack of such a thread, or freed by now */
	}
	comm->requests = NULL; /* the child may still test them, which ends them */
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->forget(comm->endpoints[i]);
	return true;
}

static void free_all(struct tutti_comm *comm)
{
	tt_group_drop(comm);
	tt_ops_free(comm);
	tt_requests_free(comm);
	tt_plans_free(comm);
	tt_next_calls_free(comm);
	tt_recorder_close(comm);
	for (int i = 0; comm->wires && i < comm->size * TT_LANES; i++)
		if (comm->wires[i].link)
			comm->wires[i].link->ops->close(comm->wires[i].link);
	for (int i = 0; i < comm->nendpoints; i++) {
		comm->endpoints[i]->ops->destroy(comm->endpoints[i]);
		free(comm->peers[i]);
	}
	tt_staging_free(comm); /* links may have had it registered */
	tt_council_free(comm);
	free(comm->wires);
	free(comm->via);
	free(comm->host);
	free(comm->p2p_seq[0]);
	free(comm->p2p_seq[1]);
	free(comm->board.seen);
	free(comm->records);
	free(comm->user_ops);
	free(comm->work);
	free(comm->heard);
	free(comm->cpus);
	free(comm->bytes_read);
	free(comm->cuda); /* left in a child of fork() alone: CUDA is not there */
	tt_key_wipe(&comm->settings.key);
	free(comm);
}

TUTTI_API void tutti_comm_destroy(tutti_comm_t comm)
{
	if (!comm)
		return;
	if (tt_comm_usable(comm)) {
		tt_cuda_unbind(comm);
		tt_monitor_leave(comm);
		tt_progress_thread_stop(comm);
		take_leave(comm);
		pthread_cond_destroy(&comm->progress_wanted);
		pthread_mutex_destroy(&comm->lock);
		free_all(comm);
	} else if (forget_peers(comm)) {
		free_all(comm); /* but for the lock and the condition: threads may have waited for them */
	}
}

tutti_result_t tt_comm_wire(struct tutti_comm *comm, int peer, enum tt_lane lane,
			    struct tt_wire **out)
{
	struct tt_wire *wire = &comm->wires[peer * TT_LANES + lane];

	if (!wire->link) {
		struct tt_endpoint *endpoint = comm->endpoints[comm->via[peer]];
		const tutti_result_t result = endpoint->ops->connect(endpoint, peer, lane, &wire->link);

		if (result) {
			comm->failed_peer = peer;
			return result;
		}
	}
	*out = wire;
	return TUTTI_OK;
}

/* ---- through a store */

struct meeting {
	tutti_store_t store;
	struct tt_rendezvous *rendezvous;
};

static tutti_result_t look(void *context)
{
	const struct meeting *meeting = context;

	return tt_rendezvous_look(meeting->store);
}

static tutti_result_t agree(void *context, tutti_result_t result, bool unfit)
{
	const struct meeting *meeting = context;

	meeting->rendezvous->unfit |= unfit;
	return tt_rendezvous_give_up(meeting->store, meeting->rendezvous, result);
}

/* A network interface of some rank was coming up. All say once more how they are reached, under keys of their own. */
static tutti_result_t exchange_again(struct tutti_comm *comm, bool failed, const struct meeting *meeting,
				     uint8_t record[TT_RECORD_MAX], size_t *length, uint64_t deadline, struct tt_records *records)
{
	struct tt_rendezvous again = *meeting->rendezvous;
	const tutti_result_t result = failed ? TUTTI_OK : tt_bootstrap_await(comm, deadline, record, length);

	if (result)
		return result;
	tt_records_free(records);
	again.id = ~again.id;
	return tt_exchange_by_store(meeting->store, &again, record, *length, deadline, records);
}

static tutti_result_t meet(struct tutti_comm *comm, tutti_store_t store, struct tt_rendezvous *rendezvous,
			   uint64_t deadline)
{
	struct meeting meeting = { store, rendezvous };
	char own[TT_ERROR_MAX];
	uint8_t record[TT_RECORD_MAX];
	struct tt_records records = { 0 };
	size_t length;

	comm->hopeless = look;
	comm->agree = agree;
	comm->hopeless_context = &meeting;
	tutti_result_t result = tt_bootstrap_open(comm, record, &length);
	int *members = malloc((size_t)comm->size * sizeof(*members));

	if (!members && !result)
		result = tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", comm->size);
	/* a rank that failed still takes part, so that nobody waits for it; what comes of that is not why */
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	if (result)
		tt_bootstrap_fail(comm, record, &length);
	tutti_result_t met = tt_exchange_by_store(store, rendezvous, record, length, deadline, &records);
	if (!met)
		met = tt_rendezvous_met(store, rendezvous);
	if (!met && tt_bootstrap_awaits(&records, comm->size))
		met = exchange_again(comm, result != TUTTI_OK, &meeting, record, &length, deadline, &records);
	if (result)
		tt_thread_error_set(own);
	else
		result = met;
	for (int rank = 0; rank < comm->size && !result; rank++)
		members[rank] = rank;
	if (!result)
		result = tt_bootstrap_join(comm, &records, members, deadline);
	tt_records_free(&records);
	free(members);
	comm->hopeless = NULL;
	comm->agree = NULL;
	return result;
}

static tutti_result_t be_alone(struct tutti_comm *comm, uint64_t deadline)
{
	const int only = 0;
	uint8_t record[TT_RECORD_MAX];
	size_t offset = 0, length;
	const tutti_result_t result = tt_bootstrap_open(comm, record, &length);
	const struct tt_records records = { record, &offset, &length };

	return result ? result : tt_bootstrap_join(comm, &records, &only, deadline);
}

/* The ranks have agreed on a meeting in the store; both matter with more than one. */
static tutti_result_t create(const struct tt_settings *settings, tutti_store_t store,
			     struct tt_rendezvous *meeting, int rank, int size, uint64_t deadline,
			     tutti_comm_t *out)
{
	struct tutti_comm *comm = NULL;
	tutti_result_t result = tt_comm_new(settings, rank, size, meeting->id, &comm);

	if (!result)
		result = size > 1 ? meet(comm, store, meeting, deadline) : be_alone(comm, deadline);
	if (result && size > 1)
		result = tt_rendezvous_give_up(store, meeting, result);
	if (size > 1)
		tt_rendezvous_leave(store);
	if (result) {
		tutti_comm_destroy(comm);
		return result;
	}
	tt_log(INFO, COMM, "rank %d of %d, hosts: %d, ranks here: %d%s, by %s, kernels %s", rank, size,
	       comm->hosts, comm->local_size, comm->oversubscribed ? " (more than cores)" : "",
	       size > 1 ? comm->transport_names : "itself", comm->kernels->isa);
	*out = comm;
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_comm_create(tutti_store_t store, int rank, int size,
					   const tutti_config_t *config, tutti_comm_t *comm)
{
	struct tt_rendezvous meeting = { 0 };
	struct tt_settings settings;

	if (!comm)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_create: comm is NULL");
	*comm = NULL;
	if (size < 1 || rank < 0 || rank >= size)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_comm_create: rank %d of %d ranks, expected 0 to size-1", rank, size);
	if (!store && size > 1)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_create: store is NULL, and %d ranks must meet",
			       size);
	if (store && !tt_made_here(&store->maker))
		return tt_fail_inherited(&store->maker, "tutti_comm_create", "store");
	tutti_result_t result = tt_settings_read(config, &settings);
	if (result)
		return result;
	tt_settings_warn(rank);
	const uint64_t deadline = tt_now() + settings.timeout_ns;
	if (size > 1)
		result = tt_rendezvous(store, "comm", rank, size, deadline, &meeting);
	if (result) {
		result = tt_rendezvous_give_up(store, &meeting, result);
		tt_rendezvous_leave(store);
	} else {
		result = create(&settings, store, &meeting, rank, size, deadline, comm);
	}
	tt_key_wipe(&settings.key);
	return result;
}

TUTTI_API tutti_result_t tutti_init(const tutti_config_t *config, tutti_comm_t *comm)
{
	struct tt_rendezvous meeting = { 0 };
	tutti_store_t store = NULL;
	struct tt_launch launch;
	struct tt_settings settings;
	bool joins;

	if (!comm)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_init: comm is NULL");
	*comm = NULL;
	tutti_result_t result = tt_launch_joins(&joins);
	if (joins)
		return tutti_comm_join(NULL, config, comm);
	if (!result)
		result = tt_settings_read(config, &settings);
	if (result)
		return result;
	result = tt_launch_read(&launch);
	if (result)
		goto wipe;
	tt_settings_warn(launch.rank);
	tt_log(INFO, COMM, "started by %s as rank %d of %d, meeting in %s", launch.launcher, launch.rank,
	       launch.size, launch.size > 1 ? launch.store : "nothing");
	const uint64_t deadline = tt_now() + settings.timeout_ns;
	if (launch.size > 1)
		result = tt_rendezvous_launched(&launch, &settings.key, deadline, &store, &meeting);
	if (!result)
		result = create(&settings, store, &meeting, launch.rank, launch.size, deadline, comm);
	tt_rendezvous_close(store, &meeting, result);
wipe:
	tt_key_wipe(&settings.key);
	return result;
}

/* ---- the rest */

TUTTI_API tutti_result_t tutti_comm_abort(tutti_comm_t comm, const char *reason)
{
	struct tt_fault fault = { .result = TUTTI_ERR_ABORTED };

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_abort");
	pthread_mutex_lock(&comm->lock);
	fault.rank = comm->rank;
	snprintf(fault.text, sizeof(fault.text), "rank %d aborted the communicator: %s", comm->rank,
		 reason ? reason : "no reason given");
	tt_comm_revoke(comm, &fault);
	tt_comm_progress(comm);
	pthread_mutex_unlock(&comm->lock);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_comm_error(tutti_comm_t comm, int *rank)
{
	if (rank)
		*rank = -1;
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_error");
	pthread_mutex_lock(&comm->lock);
	tt_comm_look(comm, true);
	if (comm->cuda)
		tt_cuda_learn(comm->cuda);
	const tutti_result_t result = tt_comm_is_settled(comm) ? (tutti_result_t)comm->fault.result : TUTTI_OK;
	if (rank && result)
		*rank = comm->fault.rank;
	pthread_mutex_unlock(&comm->lock);
	return result;
}

TUTTI_API int tutti_comm_rank(tutti_comm_t comm)
{
	return comm ? comm->rank : -1;
}

TUTTI_API int tutti_comm_size(tutti_comm_t comm)
{
	return comm ? comm->size : -1;
}

TUTTI_API int tutti_comm_local_rank(tutti_comm_t comm)
{
	return comm ? comm->local_rank : -1;
}

TUTTI_API int tutti_comm_local_size(tutti_comm_t comm)
{
	return comm ? comm->local_size : -1;
}

TUTTI_API const char *tutti_last_error(tutti_comm_t comm)
{
	static _Thread_local char text[sizeof(comm->fault.text)];

	if (!tt_comm_usable(comm))
		return tt_thread_error();
	pthread_mutex_lock(&comm->lock);
	const bool failed = tt_comm_state(comm) != TUTTI_OK;
	if (failed)
		memcpy(text, comm->fault.text, sizeof(text));
	pthread_mutex_unlock(&comm->lock);
	return failed ? text : tt_thread_error();
}

TUTTI_API tutti_result_t tutti_comm_last_plan(tutti_comm_t comm, tutti_plan_info_t *info)
{
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_last_plan");
	if (!info)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_last_plan: info is NULL");
	if (info->size != sizeof(*info))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_comm_last_plan: info->size is %zu, expected sizeof(tutti_plan_info_t), %zu",
			       info->size, sizeof(*info));
	pthread_mutex_lock(&comm->lock);
	const struct tt_plan *plan = comm->last_plan;
	if (plan) {
		info->algorithm = plan->algorithm->name;
		info->transports = tt_carriers(comm, plan);
		info->segment_bytes = plan->segments > 1 ? plan->slot_bytes : 0;
		info->rounds = plan->sched.nrounds;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!plan)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_last_plan: no collective was called yet, or the last one went between windows or by the host (tutti/cuda.h)");
	return TUTTI_OK;
}
