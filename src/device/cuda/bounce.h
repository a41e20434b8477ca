/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounce buffers: pinned memory of a fixed size, by which plain calls copy between a GPU and ordinary
 * memory of the host. All communicators of the process share that of a GPU.
 *
 * CUDA may keep whoever takes pinned memory, or copies from and to memory that is not pinned, until
 * streams have ended, and these may wait for ranks that wait for this one. So a copy takes nothing: who
 * is bound to the GPU made the bounce buffer when it was bound, if it was not there. */
#ifndef TT_CUDA_BOUNCE_H
#define TT_CUDA_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "plan.h"

struct tt_bounce; /* of one GPU */

/* One user more. The first one makes it, which may wait for streams. */
tutti_result_t tt_bounce_begin(int gpu, struct tt_bounce **out);
/* One user less. The last one frees it, which may wait for streams. */
void tt_bounce_end(struct tt_bounce *bounce);

/* Copies the runs of bytes, if there are any, which have the same offsets on both sides, to the GPU or from there. Waits
 * until all has arrived, and for other such copies of this process; for nothing else on the GPU. */
tutti_result_t tt_bounce_copy(struct tt_bounce *bounce, bool to_gpu, uint8_t *gpu, uint8_t *host,
			      const struct tt_bytes *run, size_t nruns);

#endif
