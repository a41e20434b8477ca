/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint: where a training stands, in one file, for a later run to go on from.
 *
 * The format, all numbers little-endian, without gaps:
 *
 *	bytes	what
 *	8	"\x89tuttick"
 *	4	version of the format: 2
 *	4	type of the training (--dtype): 4 (f32), 8 (f64), or 2 (bf16, whose weights and velocity
 *		are f32)
 *	4	layers
 *	4	numbers that the optimiser keeps for each weight, 0 to 2
 *	4	epochs that are complete
 *	4	ranks that took part
 *	8	hash of the options that shape the curve
 *	8	hash of the data
 *	8	steps that are done
 *	8	seconds of training so far
 *	8 each	widths, layers + 1 of them: features, hidden layers, classes
 *	52 each	epochs: their number (4 bytes, from 1), then loss and accuracy of training, loss and
 *		accuracy of validation, rate, seconds (8 bytes each)
 *	8 each	mean of each feature
 *	8 each	what each feature is multiplied by, once the mean is subtracted
 *	...	the state (state.h) as it lies in memory: weights and velocities, as numbers of the model
 *		in the order of model.h, then the epoch's sums (24 bytes)
 *	8	hash_bytes(0, ...) of everything before
 *
 * Reals of 8 bytes are IEEE 754 doubles. The length of a file follows from its first fields. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "model.h"
#include "report.h"

#define CHECKPOINT_VERSION	2
#define CHECKPOINT_FEATURES_MAX ((uint64_t)1 << 32)
#define CHECKPOINT_HIDDEN_MAX	65536
#define CHECKPOINT_CLASSES_MAX	(DATA_LABEL_MAX + 1)

/* Zeroed is empty. */
struct checkpoint {
	const struct numbers *numbers;
	unsigned layers;
	unsigned velocities;		    /* of each weight */
	size_t width[MODEL_LAYERS_MAX + 1]; /* features, hidden layers, classes */
	uint64_t options;		    /* hash of the options that shape the curve */
	uint64_t data;			    /* hash of the data */
	uint64_t step;			    /* steps that are done, one or more for each epoch */
	unsigned epoch_count;		    /* complete ones */
	double seconds;			    /* of training so far */
	int ranks;
	struct epoch *epochs; /* [epoch_count] */
	const void *state;    /* of all parameters: weights, velocities, the epoch's sums */
	size_t state_bytes;   /* state_bytes() of a state that keeps all velocity */
	/* [features], what standardise() has subtracted and multiplied by. To be written, both may
	 * be NULL: nothing was, which is written as 0 and 1. */
	double *mean, *inverse;
};

/* As replace_file() does. What `c` points to stays the caller's. Numbers that are not finite are
 * refused, so that a training that diverged does not replace a checkpoint of use. */
tutti_result_t checkpoint_write(const char *path, const struct checkpoint *c, struct why *why);

/* On success `out` owns its memory; on failure it is empty. Whether the checkpoint suits this
 * training (widths, hashes, steps) is for the caller to say. */
tutti_result_t checkpoint_read(const char *path, struct checkpoint *out, struct why *why);
void checkpoint_finish(struct checkpoint *c);

/* ---- what these are made of, on memory, for the tests as well */

/* A whole file; `path` is for messages. */
tutti_result_t checkpoint_parse(const char *path, const void *bytes, size_t length,
				struct checkpoint *out, struct why *why);

/* How long the file is, and what is in it. */
size_t checkpoint_bytes(const struct checkpoint *c);
void checkpoint_put(const struct checkpoint *c, void *to);

#endif
