/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process holds of RDMA devices, as the kernel counts it: what `rdma resource show` of
 * iproute2 lists. */
#ifndef TT_TEST_RDMA_HELD_H
#define TT_TEST_RDMA_HELD_H

#include <stddef.h>

/* In words, for each kind that there is: "1 contexts, 2 queue pairs", or "nothing"; or why the
 * kernel does not say. */
void rdma_held(char *out, size_t capacity);

#endif
