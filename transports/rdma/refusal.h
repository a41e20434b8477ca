/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of callers that cannot be registered: which that is, what is said of it, and that it is not tried again at once. */
#ifndef TT_RDMA_REFUSAL_H
#define TT_RDMA_REFUSAL_H

#include "registration.h"

/* ---- the lock of notice.h held */

/* Was any or all of it refused just now? */
bool tt_rdma_is_refused(const struct rdma_adapter *adapter, uintptr_t begin, uintptr_t end);
/* Of one adapter, or of all: NULL. */
void tt_rdma_refusals_forget(const struct rdma_adapter *adapter);

/* ---- no lock held */

/* Private, writable memory of no file: the kernel tells of all that becomes of it. */
bool tt_rdma_is_plain(uintptr_t begin, uintptr_t end);
/* It could not be registered, and is not tried again for a while. */
void tt_rdma_refuse(const struct rdma_registration *r);
/* What the log is told: it is not plain, or why verbs do not register it (an errno value). */
void tt_rdma_say_not_plain(const struct rdma_registration *r);
void tt_rdma_say_not_registered(const struct rdma_registration *r, int error);

#endif
