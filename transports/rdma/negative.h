/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of callers that cannot be registered: which that is, what is said of it, and that it is
 * not tried again at once. */
#ifndef TT_RDMA_NEGATIVE_H
#define TT_RDMA_NEGATIVE_H

#include "registration.h"

/* Who has refused it, with an errno value. */
struct rdma_reason {
	enum {
		RDMA_NOT_NOW,
		RDMA_KERNEL,
		RDMA_VERBS
	} of; /* RDMA_NOT_NOW: something else that may pass, without a value */
	int error;
};

/* ---- the lock of monitor.h held */

/* Was any or all of it refused just now? */
bool tt_rdma_is_refused(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end);
/* Of one adapter, or of all: NULL. */
void tt_rdma_negative_forget(const struct rdma_adapter *adapter);

/* ---- no lock held */

/* Private, writable memory of no file: the kernel tells of all that becomes of it. */
bool tt_rdma_is_plain(uintptr_t begin, uintptr_t end);
/* It could not be registered: the log says why, and it is not tried again for a while. */
void tt_rdma_refuse(const struct rdma_registration *r, const struct rdma_reason *reason);
/* Nothing can be registered with it: the log says so. */
void tt_rdma_refuse_all(const struct rdma_adapter *adapter);

#endif
