/* SPDX-License-Identifier: BSD-3-Clause */
/* What a task is, and its gradients. An epoch has steps and batches as in every way to train; each
 * batch is cut into as many slices as there are workers at the start, and a task is --push-every of
 * these slices, one after the other. */
#ifndef TRAIN_COMPUTE_H
#define TRAIN_COMPUTE_H

#include "batches.h"
#include "numbers.h"
#include "tasks.h"
#include "why.h"

struct training;

size_t compute_tasks_of_epoch(const struct training *training);
/* The step of the training that task `number` belongs to: its first slice. */
size_t compute_step(const struct training *training, uint64_t number);
/* How much of a batch its slices are together. */
double compute_part(const struct training *training, uint64_t number);

/* How many samples they have together. */
size_t compute_samples(const struct training *training, uint64_t number);

/* What a worker computes with, [parameters] each. */
struct workplace {
	void *weights;
	void *gradients; /* of a task; may be the training's */
};

/* The gradients of a task, each slice's divided by the samples of its batch; and the sums of its
 * samples. From slice to slice, and behind the last if `goes_on`, the weights step by plain SGD. */
tutti_result_t compute_task(struct training *training, struct workplace *place, uint64_t number,
			    bool goes_on, struct sums *sums, struct why *why);

#endif
