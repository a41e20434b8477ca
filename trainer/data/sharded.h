/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of which each rank reads and keeps a part (--shard). Row numbers are those of the whole:
 * rows of the file for training, then of the file for validation, if there is one. Ranks keep them
 * in the order of ranks.
 *
 * The order of an epoch is that of a training without --shard. Before the steps of an eighth of an
 * epoch each rank gets the rows that are its own in these steps from those who keep them. */
#ifndef TRAIN_SHARDED_H
#define TRAIN_SHARDED_H

#include "batches.h"

struct training;

/* Rows of so many numbers, and their labels: or NULL, and each stands behind its row's features. */
struct samples {
	const float *x;
	size_t stride;
	const uint32_t *y;
};

static inline uint32_t sample_label(const struct samples *samples, uint32_t row)
{
	return samples->y ? samples->y[row] : (uint32_t)samples->x[(row + 1) * samples->stride - 1];
}

struct sharded {
	struct why
		wrong; /* with this rank's part, as sharded_join() lets all know; result 0: nothing */
	size_t *begins; /* owned: [2 * ranks + 1] numbers of ranks' first rows, in both files */
	uint32_t *test; /* owned: of this rank's rows, those for validation */
	size_t test_count;

	struct slice window; /* places in the order of the epoch whose rows are here; 0: none yet */
	uint32_t *here;	     /* owned: of each of them that is this rank's, which row it is … */
	float *rows;	     /* owned: … of these, each with its label behind it */
	uint64_t sent;	     /* bytes of rows, to other ranks, in all */
};

/* Read this rank's part into training->data. Touches no other rank. What a file should not have is
 * no failure yet. */
bool sharded_read(struct training *training);
/* Collective, and all return alike: as one rank that reads all parts would find. */
bool sharded_join(struct training *training);
/* Collective: like standardise(), once training->split is there. */
bool sharded_standardise(struct training *training);
/* Collective, before each step of training->order: `step` of the epoch, from 0. */
bool sharded_deliver(struct training *training, size_t step);
void sharded_finish(struct training *training);

/* Of this rank, the samples of the epoch's places from `place` on: numbers of rows in `out`. */
const uint32_t *sharded_places(const struct sharded *sharded, size_t place, size_t features,
			       struct samples *out);

#endif
