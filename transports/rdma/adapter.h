/* SPDX-License-Identifier: BSD-3-Clause */
/* An open device, shared by all endpoints of the process that use it. */
#ifndef TT_RDMA_ADAPTER_H
#define TT_RDMA_ADAPTER_H

#include <stdbool.h>

#include "tutti/tutti.h"
#include "verbs.h"

struct rdma_adapter {
	struct rdma_adapter *next;
	const struct rdma_verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	int uses;
	bool keeps; /* registrations of callers' memory, see registration.h */
	char name[64];
};

/* Opens it, or counts one user more. Every get() wants a put(). */
tutti_result_t tt_rdma_adapter_get(const char *name, struct rdma_adapter **out);
void tt_rdma_adapter_put(struct rdma_adapter *adapter);

/* Of one of its ports, as it is now (mtu.c). */
tutti_result_t tt_rdma_active_mtu(const struct rdma_adapter *adapter, int port, enum ibv_mtu *mtu);

#endif
