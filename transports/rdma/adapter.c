/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of open devices. A child of fork() begins with an empty one: what its parent
 * opened is not its own, and neither used nor closed there. */
#include "adapter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "registration.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_adapter *adapters;

static struct ibv_context *open_named(const struct rdma_verbs *verbs, const char *name)
{
	int n = 0;
	struct ibv_device **const list = verbs->get_device_list(&n);
	struct ibv_context *context = NULL;
	bool found = false;

	for (int i = 0; list && i < n && !found; i++) {
		found = strcmp(verbs->get_device_name(list[i]), name) == 0;
		if (found)
			context = verbs->open_device(list[i]);
	}
	if (!found)
		tt_fail(TUTTI_ERR_SYSTEM, RDMA,
			"libibverbs does not list the device %s: its provider (Debian: ibverbs-providers) or "
			"/dev/infiniband/uverbs* is missing",
			name);
	else if (!context)
		tt_fail_errno(RDMA, "open the device %s (/dev/infiniband/uverbs*)", name);
	if (list)
		verbs->free_device_list(list);
	return context;
}

static tutti_result_t open_adapter(const char *name, struct rdma_adapter **out)
{
	const struct rdma_verbs *const verbs = tt_rdma_verbs();
	struct rdma_adapter *const adapter = verbs ? calloc(1, sizeof(*adapter)) : NULL;

	if (!verbs)
		return TUTTI_ERR_UNSUPPORTED;
	if (!adapter)
		return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA, "no memory for the device %s", name);
	adapter->verbs = verbs;
	snprintf(adapter->name, sizeof(adapter->name), "%s", name);
	adapter->context = open_named(verbs, name);
	if (!adapter->context)
		goto out_adapter;
	adapter->pd = verbs->alloc_pd(adapter->context);
	if (!adapter->pd) {
		tt_fail_errno(RDMA, "make a protection domain of the device %s", name);
		goto out_context;
	}
	tt_rdma_registrations_open(adapter);
	*out = adapter;
	return TUTTI_OK;

out_context:
	verbs->close_device(adapter->context);
out_adapter:
	free(adapter);
	return TUTTI_ERR_SYSTEM;
}

/* Another thread of the parent may have held the lock. */
static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	adapters = NULL;
}

__attribute__((constructor)) static void mind_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

tutti_result_t tt_rdma_adapter_get(const char *name, struct rdma_adapter **out)
{
	struct rdma_adapter *adapter;
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&lock);
	for (adapter = adapters; adapter; adapter = adapter->next)
		if (strcmp(adapter->name, name) == 0)
			break;
	if (!adapter) {
		result = open_adapter(name, &adapter);
		if (result == TUTTI_OK) {
			adapter->next = adapters;
			adapters = adapter;
		}
	}
	if (result == TUTTI_OK) {
		adapter->uses++;
		*out = adapter;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void tt_rdma_adapter_put(struct rdma_adapter *adapter)
{
	struct rdma_adapter **link = &adapters;

	if (!adapter)
		return;
	pthread_mutex_lock(&lock);
	if (--adapter->uses == 0) {
		while (*link && *link != adapter)
			link = &(*link)->next;
		if (*link)
			*link = adapter->next;
		tt_rdma_registrations_close(adapter);
		adapter->verbs->dealloc_pd(adapter->pd);
		adapter->verbs->close_device(adapter->context);
		free(adapter);
	}
	pthread_mutex_unlock(&lock);
}
