/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the numbers of a training are computed, and by whom gradients are summed: the processor
 * (host.c), or a GPU (cuda.c). What happens in which order is train.c's alone. */
#ifndef TRAIN_ENGINE_H
#define TRAIN_ENGINE_H

#include "model.h"

struct training;

/* Of the training it uses data, split, order, model (the layout), buckets and team, which it
 * does not change but for the team's account of time and bytes, and the state, as is said here. */
struct engine {
	const char *name; /* of --device */
	/* Memory, and whatever else has to be there before ranks meet. Touches no other rank. */
	bool (*create)(struct training *training);
	/* Collective, before the first step, and again when ranks were lost: training->state is
	 * what the next step starts from. */
	bool (*begin)(struct training *training);
	/* The next step, of the global batch that is at these places of `order`, of which this rank
	 * takes its slice. On return state.step counts it; it may still be under way. */
	bool (*step)(struct training *training, struct slice batch);
	/* All steps are done on return, and training->state holds what they led to. */
	bool (*fetch)(struct training *training);
	/* Loss and hits of this rank's slice of the validation samples, with what fetch() gave. */
	bool (*validate)(struct training *training, struct sums *sums);
	/* After a failure: nothing is under way on return, and training->state is complete, of
	 * the steps that it counts. */
	void (*drain)(struct training *training);
	/* Leave the memory of the gradients as it is, and take new: a lost rank may still write
	 * into it. */
	bool (*renew_gradients)(struct training *training);
	/* Also of what create() left half done. */
	void (*finish)(struct training *training);
};

extern const struct engine engine_host, engine_cuda;

#endif
