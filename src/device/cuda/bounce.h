/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounce buffers: pinned memory of a fixed size, by which plain calls copy between GPUs and ordinary
 * memory of the host. Those for one GPU are shared by all communicators of the process.
 *
 * CUDA may keep whoever takes pinned memory, or copies from and to memory that is not pinned, until
 * streams have ended, and these may wait for ranks that wait for this one. So a copy takes nothing: who
 * is bound to the GPU brought its bounce buffer when it was bound. */
#ifndef TT_CUDA_BOUNCE_H
#define TT_CUDA_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "plan.h"

struct tt_bounces; /* those for one GPU */

/* One user more, who brings a bounce buffer. One who is not `bound` brings none if somebody bound has
 * brought his. May wait for streams. */
tutti_result_t tt_bounces_begin(int gpu, bool bound, struct tt_bounces **out);
/* A user is bound from now on. */
void tt_bounces_bind(struct tt_bounces *bounces);
/* One user less. The last one frees them all, which may wait for streams. */
void tt_bounces_end(struct tt_bounces *bounces, bool bound);

/* Copies the runs of bytes, which have the same offsets on both sides, to the GPU or from there. Waits
 * until all has arrived, for nothing else on the GPU, and perhaps for other copies of this process. */
cuda_result tt_bounces_copy(struct tt_bounces *bounces, bool to_gpu, uint8_t *gpu, uint8_t *host,
			    const struct tt_bytes *run, size_t nruns);

#endif
