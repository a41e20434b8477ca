/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose buffers are on GPUs. No rank knows what its peers pass, so each brings its own
 * buffers to where the calls work: input is copied to memory of the host before the call
 * starts, output to the GPU when it is done. Plan, wire and peers see no difference. */
#ifndef TT_CUDA_STAGED_H
#define TT_CUDA_STAGED_H

#include "driver.h"
#include "plan.h"

struct tt_staging; /* a communicator's memory of the host, and the GPUs that it copies from and to */
struct tt_staged;  /* what a call has of it, or the calls of a group */

/* stage, stage_end, stage_forget and holds of struct tt_device, which says what they do. */
tutti_result_t tt_staged_add(struct tutti_comm *comm, struct tt_call *call,
			     struct tt_staged **staged);
tutti_result_t tt_staged_end(struct tutti_comm *comm, struct tt_staged *staged,
			     tutti_result_t result);
void tt_staged_forget(struct tt_staged *staged);
bool tt_staged_holds(const void *pointer);
/* Free what a communicator that goes has for this, if anything. No operation of it is in flight. */
void tt_staging_free(struct tutti_comm *comm);

#endif
