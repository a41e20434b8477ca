/* SPDX-License-Identifier: BSD-3-Clause */
/* Which launcher started this process, as which rank of how many, and where the ranks meet. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H

#include <stdbool.h>

#include "key.h"
#include "kvs.h"
#include "tutti/tutti.h"

struct tt_launch {
	const char *launcher;	    /* "tutti-run", "torchrun", …, "none"; for messages */
	int rank, size;		    /* 0 of 1 without a launcher */
	int local_rank, local_size; /* within this host; -1 where the launcher does not say */
	char store[256];	    /* address; "" if size is 1, or there is kvs */
	bool serve;		    /* this rank hosts the store */
	bool lasting;		    /* the store may have what an earlier start left in it */
	const struct tt_kvs *kvs;   /* not NULL: this brings what ranks need to meet (meeting.h) */
	const char *host;	    /* who does, for messages */
	char job[64]; /* the same on all ranks, no other job's on their hosts; "": unknown */
};

/* Reads the environment, or asks the launcher, for half a minute at most. `keyed`: the job has a key.
 * TUTTI_ERR_INVALID: it makes no sense, or does not say where to meet. */
tutti_result_t tt_launch_read(bool keyed, struct tt_launch *out);

/* Is this process to join a job that runs already (TUTTI_JOIN)? */
tutti_result_t tt_launch_joins(bool *out);
/* Tell tutti-run, in its store, how far this process has come that takes the place of a lost
 * rank: "waits" to be taken in, then "joined". So tutti-run knows when none is left that could
 * take it in. */
void tt_launch_report(tutti_store_t store, const char *state);
/* Tell tutti-run that the others go on without these processes, which it may then end once nobody
 * else runs. Nothing is told where no launcher serves the store; `key` is the job's. */
void tt_launch_report_left_out(const int *pids, int count, const struct tt_key *key);
/* Where a job that runs already meets newcomers: *out has a store and a job. `call` needs it,
 * for messages. */
tutti_result_t tt_launch_meets(const char *call, struct tt_launch *out);

#endif
