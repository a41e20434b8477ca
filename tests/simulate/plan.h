/* SPDX-License-Identifier: BSD-3-Clause */
/* What a seed stands for: the machine, the ranks and their settings, what they call, and what
 * goes wrong. */
#ifndef TT_SIMULATE_PLAN_H
#define TT_SIMULATE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "calls/what.h"
#include "machine.h"

#define RANKS_MAX  9
#define STEPS_MAX  20
#define PARTS_MAX  6
#define FAULTS_MAX 6

/* An operation of the user's that is made first on every communicator: right only in the order of the
 * ranks. */
#define OP_LAST TUTTI_OP_COUNT

/* One operation, as all ranks of a communicator call it; roots are taken modulo its size. */
struct part {
	enum what what;
	tutti_dtype_t dtype;
	tutti_op_t op;
	size_t count; /* in the forms with counts: of a block at most */
	int root, peer;
	bool in_place, gaps;
	unsigned salt; /* of the values and counts */
};

enum step_kind {
	STEP_CALL,  /* one after another */
	STEP_START, /* with requests, which stay in flight */
	STEP_GROUP, /* together, blocking */
	STEP_GROUP_START,
	STEP_FINISH, /* what is in flight */
	STEP_THINK,  /* call nothing for a while */
	STEP_THREAD, /* collectives, and messages by another thread meanwhile */
	STEP_SPLIT   /* and call the parts on what comes of it */
};

struct step {
	enum step_kind kind;
	int nparts;
	struct part parts[PARTS_MAX];
	int colors;
	uint64_t think_ns;
	double timeout_s; /* of its first call; 0: the communicator's */
};

enum fault_kind {
	FAULT_DEATH,	/* a process is gone */
	FAULT_SURVIVOR, /* a process is gone some time after survivors began to go on */
	FAULT_MEMBER,	/* a process is gone some time after members began to take newcomers in */
	FAULT_STOP,	/* a process does not run for a while */
	FAULT_JUMP,	/* of the clock */
	FAULT_PAUSE,	/* no process runs for a while; then they go on one after another */
	FAULT_STORE,	/* its host is gone */
	FAULT_MEMORY,	/* allocations fail, on all ranks */
	FAULT_CUT,	/* a link is lost */
	FAULT_REFUSE,	/* a connection is */
	FAULT_SKIP,	/* a rank leaves out a step */
	FAULT_OTHER,	/* a rank calls something else in a step */
	FAULT_HURRY,	/* a rank gives a step a very short deadline */
	FAULT_LEAVE,	/* a rank destroys the communicator before a step */
	FAULT_ABORT,	/* a rank aborts it */
	FAULT_ABSENT,	/* a rank never comes */
	FAULT_KINDS
};

struct fault {
	enum fault_kind kind;
	int rank, other;
	int step;
	bool in_step; /* at a switch that counts from when the rank begins this step */
	uint64_t at;  /* switch, bytes of a link */
	uint64_t ns;
};

struct plan {
	uint64_t seed;
	struct pace pace;
	int cores, ranks;
	int newcomers; /* processes that join when the ranks have carried out their steps */
	int host[RANKS_MAX];
	double timeout_s;
	const char *algorithm; /* NULL: chosen by cost */
	size_t segment;	       /* 0: as ever */
	bool reproducible;
	bool goes_on;	     /* survivors make a new communicator when one ends */
	bool mapped;	     /* buffers in memory that peers can map */
	uint64_t slowest_ns; /* of the store's answers */
	char links[400];     /* TUTTI_LOOP */
	size_t longest;	     /* vector, in elements: links that move few bytes at a time get few */
	double calls_a_byte; /* that it takes to move bytes */
	int nsteps;
	struct step steps[STEPS_MAX];
	int nfaults;
	struct fault faults[FAULTS_MAX];
	/* With no fault that may keep an operation from ending well: all must. */
	bool gentle;
	double needs_s; /* at most, and more than that, for any call while nothing goes wrong */
};

void plan_make(uint64_t seed, struct plan *out);
/* Ranks and newcomers. */
static inline int plan_processes(const struct plan *plan)
{
	return plan->ranks + plan->newcomers;
}
void plan_print(const struct plan *plan, FILE *out);
const char *fault_name(enum fault_kind kind);
bool plan_has(const struct plan *plan, enum fault_kind kind);
/* What stops, jumps and pauses take in all of a process's time. */
uint64_t plan_lost_ns(const struct plan *plan, int process);
/* The shortest deadline that any call of the plan has. */
double plan_shortest_s(const struct plan *plan);
/* The fault that makes `rank` behave differently in a step, or NULL. */
const struct fault *plan_deviation(const struct plan *plan, int rank, int step);

#endif
