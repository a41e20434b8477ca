/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of a plan: every rank carries out its steps, faults happen, and what each rank was
 * told is kept to be judged. */
#ifndef TT_SIMULATE_WORLD_H
#define TT_SIMULATE_WORLD_H

#include "plan.h"

#define LIVES_MAX                                                                                  \
	4 /* communicators of the job, each made of the survivors of the one
			  * before */
#define COMMS_MAX      (2 * LIVES_MAX + STEPS_MAX)
#define ERROR_TEXT_MAX 512

/* What one rank was told on one communicator. */
struct told {
	bool made;	       /* or else `result` is why not */
	uint64_t id;	       /* the same for all of its ranks */
	tutti_result_t result; /* the first that was no success */
	char error_text[ERROR_TEXT_MAX];
	int culprit;	 /* whom tutti_comm_error() names */
	int place, size; /* this rank in it */
	/* tutti_comm_shrink() was called on it, once */
	bool shrunk;
	tutti_result_t shrink_result;
	uint64_t shrunk_to; /* id of what came of it */
	/* likewise tutti_comm_grow() */
	bool grown;
	tutti_result_t grow_result;
	uint64_t grown_to;
	bool lacked_memory; /* while it was called */
	bool left;	    /* destroyed before the plan's end, by its own will */
};

struct participant {
	int rank;
	bool ended, died;
	struct told told[COMMS_MAX];
	int ntold;
};

struct outcome {
	struct participant ranks[RANKS_MAX];
	unsigned operations, failed_operations, happened[FAULT_KINDS];
	bool while_joining; /* a process stopped, or the clock jumped, while communicators were
			     * made */
	uint64_t hash, switches;
	double virtual_s;
	/* the first thing that is wrong; empty: nothing */
	char wrong[1024];
};

/* Carry out; `out->wrong` says what the run itself found wrong: hangs, wrong data, late returns,
 * leaks. */
void world_run(const struct plan *plan, struct outcome *out);
/* Add what is wrong with what ranks were told, compared with each other and with the plan. */
void world_judge(const struct plan *plan, struct outcome *out);

#endif
