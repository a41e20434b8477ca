/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations from their call to the check of their results. */
#ifndef TT_SIMULATE_FLIGHT_H
#define TT_SIMULATE_FLIGHT_H

#include "operation.h"
#include "told.h"

#define FLIGHTS_MAX (STEPS_MAX * PARTS_MAX)

/* Operations that end with one request. */
struct flight {
	tutti_request_t request;
	struct operation *ops; /* [nops] */
	int nops;
	bool checked;
};

struct flights {
	struct flight flight[FLIGHTS_MAX];
	int count;
};

/* Parts as a step of this kind calls them: each by itself, or together; blocking, or with requests, which are
 * `flights` then. `checked`: what succeeds has the right result. False: the communicator has failed, or
 * this rank may not go on with it. */
bool flights_take(const struct use *use, enum step_kind kind, const struct part *parts, int nparts,
		  bool checked, struct flights *flights);
/* Wait for all, in one of the ways there are. */
void flights_finish(const struct use *use, struct flights *flights, struct random *random);
/* Their communicator is gone, and their requests with it. */
void flights_abandon(struct flights *flights);
/* When no task runs any more: gives back the memory of those that failed. */
void flights_forget(void);

#endif
