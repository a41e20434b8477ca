/* SPDX-License-Identifier: BSD-3-Clause */
/* The two passes over a rank's samples, and pipeline parallelism: each stage of a line computes
 * its layers of the model, on one part of a batch (a micro-batch) after the other. What a stage
 * has computed travels to the next one, and the derivative of the loss by it comes back; meanwhile
 * the stage is at another micro-batch. */
#ifndef TRAIN_PIPELINE_H
#define TRAIN_PIPELINE_H

#include "batches.h"
#include "numbers.h"
#include "why.h"

struct training;

/* GPipe (Huang et al. 2019): all forward passes, then all backward passes. 1F1B (Narayanan et al.
 * 2019, section 3.2): a stage alternates between the two as soon as it can, and so keeps the
 * outputs of as many micro-batches as there are stages from it on, and not of all. */
enum pipeline_order { ORDER_1F1B, ORDER_GPIPE };

bool pipeline_create(struct training *training);
/* Nothing is under way on return. */
void pipeline_drain(struct training *training);
void pipeline_finish(struct training *training);

/* With the model's weights: the gradients of `scale` × the sum of the losses of these samples in
 * the order of the epoch, at model.gradients, in parts of at most rows_max samples. Adds to
 * `sums`, on the last stage alone. A slice may be empty. */
bool pipeline_gradients(struct training *training, struct slice samples, double scale,
			struct sums *sums);
/* Loss and hits of `count` samples, on the last stage; others add nothing. */
bool pipeline_validate(struct training *training, const uint32_t *rows, size_t count,
		       struct sums *sums);

#endif
