/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of numbers.h on a GPU: a table for float32, and one for float64, whose functions
 * put work on a stream, and return. A process has one of them open at a time. All that is given to
 * them lies in the GPU's memory, also sums and labels, but for what is to be done (struct update).
 * After one has failed the others do nothing, and why says what it was.
 *
 * They have what model.c needs for the passes of a model in one piece, store() and move(). All
 * others are NULL; those that give a number to the host would have it wait. */
#ifndef TRAIN_NUMBERS_CUDA_H
#define TRAIN_NUMBERS_CUDA_H

#include <stdbool.h>

#include "gpu.h"
#include "numbers.h"

/* The table of the same type as `host`, on `stream` and the GPU that the thread has entered, for at
 * most `rows_max` samples at a time; NULL: why says why. */
const struct numbers *numbers_cuda_open(const struct numbers *host, size_t rows_max,
					gpu_stream_t stream);
void numbers_cuda_close(void); /* also if none is open, or was in part */

/* Of either side to the other. The host's memory is the stream's until that has come to the copy:
 * of memory that is not pinned CUDA only says that the call may wait so long. */
void numbers_cuda_copy(void *to, const void *from, size_t bytes);
/* As `gather` does with samples. */
void numbers_cuda_labels(uint32_t *to, const uint32_t *labels, const uint32_t *rows, size_t count);
/* `sums`, or zeros if `anew`, + numbers of the open table's type. */
void numbers_cuda_count(struct sums *sums, const void *more, bool anew);

/* Has nothing failed? */
bool numbers_cuda_well(void);
/* Begin anew after a failure. */
void numbers_cuda_renew(void);

#endif
