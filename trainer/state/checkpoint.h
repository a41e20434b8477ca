/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint: where a training stands, in one file, for a later run to go on from, and for whoever wants
 * the model. docs/reference/trainer.md has a reader of ten lines.
 *
 * The first line is a JSON object, from {"tutti-train checkpoint":3, on:
 *
 *	options	those that shape the curve, by name
 *	data	a checksum of the samples, in hexadecimal digits
 *	width	features, hidden layers, classes
 *	steps, ranks, seconds	of the training so far
 *	epochs	an object for each, as in the log
 *	arrays	[name, type, count] of each: types are NumPy's, little-endian
 *
 * Behind it are the arrays as they lie in memory, without gaps: the mean of each feature, the factor that
 * it is multiplied by when the mean is subtracted; weights, and the optimiser's numbers for each weight,
 * in the order of model.h. The last four bytes are zlib's crc32 of all before, little-endian. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "model.h"
#include "report.h"

#define CHECKPOINT_FORMAT 3

enum checkpoint_array { MEAN, FACTOR, WEIGHTS, VELOCITY, CHECKPOINT_ARRAYS };

/* Zeroed is empty. */
struct checkpoint {
	json_t *options;	       /* options_curve(), which say … */
	const struct numbers *numbers; /* … of what type weights are, … */
	unsigned velocities;	       /* … and how many numbers there are for each besides */
	uint64_t data;		       /* hash of the data */
	unsigned layers;
	size_t width[MODEL_LAYERS_MAX + 1]; /* features, hidden layers, classes */
	size_t step;			    /* steps that are done, one or more for each epoch */
	int ranks;
	double seconds; /* of training so far */
	unsigned epoch_count;
	struct epoch *epochs; /* [epoch_count], complete ones */
	void *array[CHECKPOINT_ARRAYS];
};

/* As replace_file() does. What `c` points to stays the caller's. Numbers that are not finite are refused,
 * so that a training that diverged does not replace a checkpoint of use. */
bool checkpoint_write(const char *path, const struct checkpoint *c);

/* On success `out` owns its memory; on failure it is empty. Whether the checkpoint suits this
 * training is for the caller to say. */
bool checkpoint_read(const char *path, struct checkpoint *out);
void checkpoint_finish(struct checkpoint *c);

/* ---- what these are made of, on memory, for the tests as well */

/* A whole file; `path` is for messages. */
bool checkpoint_parse(const char *path, const void *bytes, size_t length, struct checkpoint *out);
/* `*bytes` are the caller's to free. */
bool checkpoint_pack(const char *path, const struct checkpoint *c, void **bytes, size_t *length);

#endif
