/* SPDX-License-Identifier: BSD-3-Clause */
/* What is common to the files of one run, and what a rank was told: the run's record of each
 * call that returned. */
#ifndef TT_SIMULATE_TOLD_H
#define TT_SIMULATE_TOLD_H

#include "world.h"

/* The run at hand. */
struct run {
	const struct plan *plan;
	struct outcome *out;
	int tasks[RANKS_MAX];
	bool shifted;  /* a message is left out or added: those behind it are not what their
			* receivers take them for */
	bool deviates; /* some rank leaves out a call, or makes another one */
	int joining;   /* processes that are about to be members of a communicator, or split one */
	bool begun[FAULT_KINDS]; /* the deaths of a kind that follows something are planned */
};
extern struct run run;

/* A communicator in use by one rank. */
struct use {
	tutti_comm_t comm;
	struct told *told;
	tutti_op_t op_last;
};

/* This is wrong; the first thing that is counts. */
void blame(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct told *told_begin(struct participant *rank);
void told_made(struct told *told, tutti_comm_t comm);
/* A call returned `result`. */
void told_hear(struct told *told, tutti_comm_t comm, tutti_result_t result, const char *what);
/* No call lasts longer than its deadlines, one after another, and a while. */
void told_check_time(uint64_t started, int deadlines, const char *what);

#endif
