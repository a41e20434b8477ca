/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA by libibverbs: InfiniBand, RoCE v2 and soft-RoCE, between hosts and within one. */
#ifndef TT_RDMA_H
#define TT_RDMA_H

#include "transport.h"

extern const struct tt_transport tt_transport_rdma;

#endif
