/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams where the ranks' GPUs cannot reach each other: by pinned memory and the host's collectives. */
#ifndef TT_CUDA_RELAY_H
#define TT_CUDA_RELAY_H

#include "bound.h"

/* All ranks call. The communicator's context is current. */
tutti_result_t tt_cuda_relay_begin(struct tt_cuda *cuda);
/* NULL relay is fine. `frees`: all that was put on streams has ended, and the context is there. */
void tt_cuda_relay_end(struct tt_cuda *cuda, bool frees);

tutti_result_t tt_cuda_relay_collective(struct tt_cuda_op *op);
tutti_result_t tt_cuda_relay_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n);

/* The communicator has ended: streams that wait go on, now and later. Any thread. */
void tt_cuda_relay_release(struct tt_cuda *cuda);

#endif
