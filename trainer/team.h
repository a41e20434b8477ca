/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks that train together: tutti's calls with the time spent in them and the sentences of
 * their failures. */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "why.h"

struct team {
	tutti_comm_t comm;
	int rank, size;
	double blocked_s; /* inside tutti's calls since the last reset: communication that nothing
			     hides */
	uint64_t bytes;	  /* handed to all-reduces by this rank, likewise */
};

/* Seconds on a clock that only goes forward. */
double now_s(void);

tutti_result_t team_join(struct team *team, struct why *why);
void team_leave(struct team *team);

/* Element-wise sum over all ranks, in place. */
tutti_result_t team_sum(struct team *team, double *values, size_t count, struct why *why);

/* The largest over all ranks, in place. */
tutti_result_t team_max(struct team *team, double *value, struct why *why);

/* The sum, begun; team_wait() ends it. */
tutti_result_t team_start_sum(struct team *team, double *values, size_t count,
			      tutti_request_t *request, struct why *why);
tutti_result_t team_wait(struct team *team, tutti_request_t *request, struct why *why);

/* Rank 0's values to all. */
tutti_result_t team_broadcast(struct team *team, double *values, size_t count, struct why *why);

/* Did every rank get here well, and with the same options and data? All ranks return alike: the
 * error of one is an error on each, and names the ranks. A rank whose own `mine` failed keeps its
 * own sentence. */
tutti_result_t team_agree(struct team *team, tutti_result_t mine, uint64_t options, uint64_t data,
			  struct why *why);

/* Do all ranks hold the same `count` weights, bit for bit? If not, names the ranks that differ from
 * rank 0. */
tutti_result_t team_verify(struct team *team, const double *weights, size_t count, size_t step,
			   struct why *why);

#endif
