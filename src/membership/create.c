/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the making of communicators whose ranks meet through a store. (split.c, shrink.c and
 * grow.c make them out of others.) */
#include <stdio.h>
#include <stdlib.h>

#include "bootstrap.h"
#include "key_read.h"
#include "launch.h"
#include "log.h"
#include "gather.h"
#include "rendezvous.h"
#include "store.h"

struct joining {
	tutti_store_t store;
	struct tt_rendezvous *rendezvous;
};

static tutti_result_t look(void *context)
{
	const struct joining *joining = context;

	return joining->store->ops->poll(joining->store);
}

static tutti_result_t agree(void *context, tutti_result_t result, bool unfit)
{
	const struct joining *joining = context;

	joining->rendezvous->unfit |= unfit;
	return tt_rendezvous_give_up(joining->store, joining->rendezvous, result);
}

/* A network interface of some rank was coming up. All say once more how they are reached, under
 * keys of their own. */
static tutti_result_t exchange_again(struct tutti_comm *comm, bool failed,
				     const struct joining *joining, uint8_t record[TT_RECORD_MAX],
				     size_t *length, uint64_t deadline, struct tt_records *records)
{
	struct tt_rendezvous again = *joining->rendezvous;
	const tutti_result_t result =
		failed ? TUTTI_OK : tt_bootstrap_await(comm, deadline, record, length);

	if (result)
		return result;
	tt_records_free(records);
	again.again = true;
	const tutti_result_t met = tt_gather(joining->store, &again, &comm->settings.key, record,
					     *length, deadline, records);
	joining->rendezvous->unfit |= again.unfit;
	return met;
}

static tutti_result_t meet(struct tutti_comm *comm, tutti_store_t store,
			   struct tt_rendezvous *rendezvous, uint64_t deadline)
{
	struct joining joining = { store, rendezvous };
	char own[TT_ERROR_MAX];
	uint8_t record[TT_RECORD_MAX];
	struct tt_records records = { 0 };
	size_t length;

	const struct tt_join_hooks hooks = { look, agree, &joining };

	comm->joining.hooks = &hooks;
	tutti_result_t result = tt_bootstrap_open(comm, NULL, record, &length);

	/* a rank that failed still takes part, so that nobody waits for it; what comes of that
	 * is not why */
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	if (result)
		tt_bootstrap_fail(comm, record, &length);
	tutti_result_t met = tt_gather(store, rendezvous, &comm->settings.key, record, length,
				       deadline, &records);
	if (!met && tt_bootstrap_awaits(&records, comm->size))
		met = exchange_again(comm, result != TUTTI_OK, &joining, record, &length, deadline,
				     &records);
	if (result)
		tt_thread_error_set(own);
	else
		result = met;
	if (!result)
		result = tt_bootstrap_join(comm, &records, deadline);
	tt_records_free(&records);
	comm->joining.hooks = NULL;
	return result;
}

static tutti_result_t be_alone(struct tutti_comm *comm, uint64_t deadline)
{
	uint8_t record[TT_RECORD_MAX];
	size_t offset = 0, length;

	/* as rank 0 of others does: reports are named by it */
	tutti_result_t result = tt_random(&comm->id, sizeof(comm->id));
	if (!result)
		result = tt_bootstrap_open(comm, NULL, record, &length);
	const struct tt_records records = { record, &offset, &length };

	return result ? result : tt_bootstrap_join(comm, &records, deadline);
}

/* The ranks have agreed on a rendezvous in the store; both matter with more than one. */
static tutti_result_t create(const struct tt_settings *settings, tutti_store_t store,
			     struct tt_rendezvous *rendezvous, int rank, int size,
			     uint64_t deadline, tutti_comm_t *out)
{
	struct tutti_comm *comm = NULL;
	tutti_result_t result = tt_comm_new(settings, rank, size, rendezvous->id, &comm);

	if (!result)
		result = size > 1 ? meet(comm, store, rendezvous, deadline)
				  : be_alone(comm, deadline);
	if (result && size > 1)
		result = tt_rendezvous_give_up(store, rendezvous, result);
	if (size > 1)
		store->ops->leave(store);
	if (result) {
		tutti_comm_destroy(comm);
		return result;
	}
	tt_log(INFO, COMM, "rank %d of %d, hosts: %d, ranks here: %d%s, by %s, kernels %s", rank,
	       size, comm->topology.hosts, comm->topology.local_size,
	       comm->oversubscribed ? " (more than cores)" : "",
	       size > 1 ? comm->routes.transport_names : "itself", comm->kernels->isa);
	*out = comm;
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_comm_create(tutti_store_t store, int rank, int size,
					   const tutti_config_t *config, tutti_comm_t *comm)
{
	struct tt_rendezvous rendezvous = { 0 };
	struct tt_settings settings;

	if (!comm)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_create: comm is NULL");
	*comm = NULL;
	if (size < 1 || rank < 0 || rank >= size)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_comm_create: rank %d of %d ranks, expected 0 to size-1", rank,
			       size);
	if (!store && size > 1)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_comm_create: store is NULL, and %d ranks must meet", size);
	if (store && !tt_owned_here(&store->owner))
		return tt_fail_inherited(&store->owner, "tutti_comm_create", "store");
	tutti_result_t result = tt_settings_read(config, &settings);
	if (!result)
		result = tt_key_check(&settings.key);
	if (result) {
		tt_key_wipe(&settings.key);
		return result;
	}
	tt_settings_warn(rank);
	const uint64_t deadline = tt_now() + settings.timeout_ns;
	do {
		if (size > 1)
			result = tt_rendezvous(store, "comm", rank, size, deadline, &rendezvous);
		if (result) {
			result = tt_rendezvous_give_up(store, &rendezvous, result);
			store->ops->leave(store);
		} else {
			result = create(&settings, store, &rendezvous, rank, size, deadline, comm);
		}
	} while (result && size > 1 && tt_rendezvous_goes_on(store, &rendezvous, result));
	tt_key_wipe(&settings.key);
	return result;
}

TUTTI_API tutti_result_t tutti_init(const tutti_config_t *config, tutti_comm_t *comm)
{
	struct tt_rendezvous rendezvous = { 0 };
	tutti_store_t store = NULL;
	struct tt_launch launch;
	struct tt_settings settings;
	bool joins, goes_on;

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
	result = tt_launch_read(settings.key.set, &launch);
	if (!result && !launch.kvs)
		result = tt_key_check(&settings.key);
	if (result)
		goto wipe;
	tt_settings_warn(launch.rank);
	tt_log(INFO, COMM, "started by %s as rank %d of %d, rendezvous in %s", launch.launcher,
	       launch.rank, launch.size,
	       launch.kvs	 ? launch.kvs->name
	       : launch.size > 1 ? launch.store
				 : "nothing");
	const uint64_t deadline = tt_now() + settings.timeout_ns;
	do {
		if (launch.size > 1)
			result = tt_rendezvous_launched(&launch, &settings.key, deadline, &store,
							&rendezvous);
		if (!result)
			result = create(&settings, store, &rendezvous, launch.rank, launch.size,
					deadline, comm);
		goes_on = result && store && tt_rendezvous_goes_on(store, &rendezvous, result);
		tt_rendezvous_close(store, &rendezvous, result);
		store = NULL;
	} while (goes_on);
wipe:
	tt_key_wipe(&settings.key);
	return result;
}
