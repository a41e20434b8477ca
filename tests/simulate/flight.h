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

/* Each part by itself, blocking. `checked`: what succeeds has the right result. Here and below,
 * false: the communicator has failed, or this rank may not go on with it. */
bool flights_call(const struct use *use, const struct part *parts, int nparts, bool checked);
/* With a request each. */
bool flights_start(const struct use *use, const struct part *parts, int nparts, bool checked,
		   struct flights *flights);
/* Together; `started`: with one request for all. */
bool flights_group(const struct use *use, const struct part *parts, int nparts, bool checked,
		   struct flights *flights, bool started);
/* Wait for all, in one of the ways there are. */
void flights_finish(const struct use *use, struct flights *flights, struct random *random);
/* Their communicator is gone, and their requests with it. */
void flights_abandon(struct flights *flights);
/* When no task runs any more: gives back the memory of those that failed. */
void flights_forget(void);

#endif
