/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims that only RDMA makes: what becomes of links whose queue pairs fail, and of callers'
 * memory. */
#ifndef TT_TEST_RDMA_CLAIMS_H
#define TT_TEST_RDMA_CLAIMS_H

#include "transport_suite_rank.h"

extern const struct suite_claim rdma_claims[];

#endif
