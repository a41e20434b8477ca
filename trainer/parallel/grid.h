/* SPDX-License-Identifier: BSD-3-Clause */
/* Where each rank stands, if the model is cut in pieces: ranks are a grid of lines and columns.
 * Those of a line hold the model together: a stage of consecutive layers (pipeline.h), or a part
 * of each of these layers (model.h), which those with the other parts, its mates, complete. Those
 * of a column hold the same piece, and share out each batch: sync.h's ways are theirs. Of a whole
 * model there is one column, of all ranks.
 *
 * Within a line the last stage comes first, as the last layer does in memory (model.h): so the
 * stages of a line, in order of rank, are the model. Mates are neighbours. Rank 0 has the loss. */
#ifndef TRAIN_GRID_H
#define TRAIN_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "batches.h"
#include "model.h"
#include "team.h"

struct training;
struct options;

/* What the user says; zeroed: all ranks are one column. */
struct parallel {
	unsigned data, stages, ways; /* 0: as many as ranks are left for */
	bool pipeline, tensor;
};

/* Zeroed is none. */
struct grid {
	int stages, lines, ways;
	int stage, line, way; /* this rank's; stage 0 has the first layer */
	unsigned parts;	      /* of a rank's slice of a batch: micro-batches, or --accumulate */
	unsigned first[MODEL_LAYERS_MAX + 1]; /* layer of each stage, and behind the last one all */
	struct team *column;
	/* Of a model that is cut; otherwise the column is the training's team. */
	struct team own_column, own_line, mates;
};

/* Find this rank's place. Touches no other rank. */
bool grid_place(const struct options *options, struct team *team, struct grid *out);
bool grid_is_cut(const struct grid *grid);
/* The layers of this rank, of a model of these widths: computed evenly, or by --shares. */
bool grid_cut(struct grid *grid, const struct options *options, const size_t *width,
	      unsigned layers, struct cut *out);
/* Collective, before the first step: lines and columns meet. */
bool grid_begin(struct grid *grid, struct team *team);
/* They part; where this rank's piece is stays known. */
void grid_finish(struct grid *grid);

/* Sum over this rank's line. */
bool grid_sum(struct grid *grid, double *values, size_t count);

/* Over its mates: nothing, where layers are whole. */
bool grid_sum_parts(struct grid *grid, const struct numbers *numbers, void *values, size_t count);

/* Collective: a number for each weight, of which each rank has its own at `mine`, from rank 0's
 * `all` to all lines; or, where rank 0 `collects` them, the way back, from the first line. */
bool grid_exchange(struct training *training, void *mine, void *all, bool collects);

#endif
