/* SPDX-License-Identifier: BSD-3-Clause */
/* The training itself. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "batches.h"
#include "buckets.h"
#include "options.h"
#include "report.h"
#include "team.h"

/* Zeroed is empty. */
struct training {
	const struct options *options;
	struct team *team;
	struct report *report;
	struct data data;
	struct split split;
	struct model model;
	struct buckets buckets;
	double *gradients; /* of tutti_mem_alloc(): ranks on a host reduce it without a copy */
	double *velocity;
	double *x; /* [rows_max][features]: the samples at hand */
	uint32_t *y;
	uint32_t *order; /* of this epoch */
	size_t steps_per_epoch;
	struct rate_plan plan;
};

/* Read the data, make the model. Touches no other rank. */
tutti_result_t training_create(const struct options *options, struct team *team,
			       struct report *report, struct training *out, struct why *why);
/* Train. All ranks return alike. */
tutti_result_t training_run(struct training *training, struct summary *summary, struct why *why);
void training_finish(struct training *training);

#endif
