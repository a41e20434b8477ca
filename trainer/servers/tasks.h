/* SPDX-License-Identifier: BSD-3-Clause */
/* Who computes what where workers do not go through steps together: an epoch has the batches that it
 * has in every way to train. Each is cut into as many slices as there were workers at the start, and a
 * task is one of these. Tasks have numbers from 0 in the order of the epoch that training->ordered
 * says. */
#ifndef TRAIN_TASKS_H
#define TRAIN_TASKS_H

#include <stddef.h>
#include <stdint.h>

#include "numbers.h"
#include "why.h"

struct training;

#define TASK_NONE UINT64_MAX

size_t tasks_of_epoch(const struct training *training);
/* The step of the training that it belongs to; how much of its batch it is; and its samples. */
size_t task_step(const struct training *training, uint64_t task);
double task_part(const struct training *training, uint64_t task);
size_t task_samples(const struct training *training, uint64_t task);

/* With the model's weights: its gradients, divided by the samples of the batch, at
 * training->gradients; and its sums. */
bool task_compute(struct training *training, uint64_t task, struct sums *sums);

#endif
