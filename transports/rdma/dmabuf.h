/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an adapter can access memory of GPUs and other devices. */
#ifndef TT_RDMA_DMABUF_H
#define TT_RDMA_DMABUF_H

#include <stdbool.h>

#include "adapter.h"
#include "device.h"

/* Can the adapter, its libraries and the kernel register dma-bufs? False: `why` has what was found
 * and what is expected. */
bool tt_rdma_dmabuf_works(const struct rdma_adapter *adapter, char why[RDMA_WHY_MAX]);

#endif
