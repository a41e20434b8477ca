/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks that train together: tutti's calls with the time spent in them and the error
 * messages of their failures. */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "numbers.h"
#include "why.h"

struct team {
	tutti_comm_t comm;
	int rank, size;
	int origin;   /* the launcher's number for this rank: stays as it is when others are lost */
	int *origins; /* owned: [size], those of all, as they told each other in team_agree() … */
	bool counted_anew; /* … and not yet since ranks were lost, or came */
	int newcomer;	   /* the others have begun already */
	int started;	   /* ranks that the launcher started, however many are left */
	double blocked_s;  /* inside tutti's calls since the last reset: communication that nothing
			     hides */
	uint64_t bytes;	   /* that this rank has had to send at least, likewise … */
	uint64_t received; /* … and to receive */
	struct team
		*whole; /* of a part of another team: that, to whose account all of this goes; else
			     * NULL */
};

/* Seconds on a clock that only goes forward. */
double now_s(void);

/* Has the launcher started this process in the place of a lost rank? */
bool team_is_newcomer(void);

/* Within `timeout_s` seconds; 0: as the environment says. */
bool team_join(struct team *team, double timeout_s);

/* Go on without those that are lost. */
bool team_shrink(struct team *team);
/* Take in so many that the launcher has started, if they come within `wait_s` seconds;
 * TUTTI_ERR_TIMEOUT: they do not, and the team is as it was. */
bool team_grow(struct team *team, int newcomers, double wait_s);
/* Collective: those who say the same `first` are a team of its own: ranks first, first + stride, …
 * of this one. */
bool team_divide(struct team *team, int first, int stride, struct team *out);
void team_leave(struct team *team);

/* Element-wise sum over all ranks, in place. */
bool team_sum(struct team *team, double *values, size_t count);

/* The same of such numbers, begun; team_wait() ends it. */
bool team_start_sum(struct team *team, const struct numbers *numbers, void *values, size_t count,
		    tutti_request_t *request);
/* Each rank's block of the sum, begun: `counts` [size] of the numbers at `values` are each rank's,
 * in rank order. The caller's is where it was. */
bool team_start_scatter_sum(struct team *team, const struct numbers *numbers, void *values,
			    const size_t *counts, tutti_request_t *request);
/* Everybody's block to all, begun: the caller's is where it is to be in `values`. */
bool team_start_gather(struct team *team, const struct numbers *numbers, void *values,
		       const size_t *counts, tutti_request_t *request);
bool team_wait(struct team *team, tutti_request_t *request);

/* A message, begun. */
bool team_start_send(struct team *team, tutti_dtype_t dtype, const void *values, size_t count,
		     int peer, tutti_request_t *request);
bool team_start_receive(struct team *team, tutti_dtype_t dtype, void *values, size_t count,
			int peer, tutti_request_t *request);
/* A request ended with `result` elsewhere than in team_wait(). `what` is for an error message. */
bool team_ended(struct team *team, tutti_result_t result, const char *what);
/* The next call may take twice as long as others before it is taken for lost. */
void team_be_patient(struct team *team);

/* Blocks of `counts` [size] numbers, from rank 0's `all` to each rank, at `mine`; or, where rank 0
 * `collects` them, the way back. `all` is rank 0's alone. */
bool team_exchange(struct team *team, const struct numbers *numbers, const size_t *counts,
		   void *mine, void *all, bool collects);

/* What the rank `root` has at `send` to all others, at `recv`. */
bool team_broadcast(struct team *team, const void *send, void *recv, size_t bytes, int root);

/* Everybody's `bytes` at `mine` to all, in rank order at `all`. */
bool team_gather(struct team *team, const void *mine, void *all, size_t bytes);

/* Another call of tutti: its time goes to the account, and its failure to why. `what` is for an error
 * message. */
#define TEAM_CALL(team, call, what) (team_begin_call(team), team_end_call(team, call, what))
void team_begin_call(struct team *team);
bool team_end_call(struct team *team, tutti_result_t result, const char *what);
/* That a sum of so many bytes is on its way, for the account. */
void team_count_sum(struct team *team, size_t bytes);

/* How the last collective went, such as "ring" over "shm"; both "" if it was none of several ranks. Of a
 * `peer`, or -1, how messages with it go. */
void team_plan(const struct team *team, int peer, char algorithm[32], char transports[32]);

/* The ranks that have the same error. */
struct alike {
	bool repeats;	 /* a lower rank prints it: this one need not */
	char ranks[160]; /* "rank 0, 2" or "all ranks" */
};

/* Did every rank get here well, and with the same options and data? All ranks return alike: the
 * error of one is an error on each, and names the ranks. A rank whose own `mine` failed keeps its
 * own error message. `alike` may be NULL; it is set where ranks could be asked. */
bool team_agree(struct team *team, bool mine, uint64_t options, uint64_t data, struct alike *alike);

/* Do all ranks hold the same bytes after `step` steps? If not, names the
 * ranks that differ from rank 0. */
bool team_verify(struct team *team, const void *weights, size_t bytes, size_t step);

#endif
