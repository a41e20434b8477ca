/* SPDX-License-Identifier: BSD-3-Clause */
/* What host.c computes for ways whose ranks do not go through steps together. */
#ifndef TRAIN_HOST_H
#define TRAIN_HOST_H

#include "batches.h"
#include "numbers.h"
#include "why.h"

struct training;

/* With the model's weights: the gradients of `scale` × the sum of the losses of these samples in the
 * order of the epoch, at training->gradients, in parts of at most rows_max samples. Adds to `sums`. A
 * slice may be empty. */
bool host_gradients(struct training *training, struct slice samples, double scale,
		    struct sums *sums);

#endif
