/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage: seen by all ranks of a claim, be they threads or processes. */
#ifndef TT_TESTS_TRANSPORT_SUITE_STAGE_H
#define TT_TESTS_TRANSPORT_SUITE_STAGE_H

#include <pthread.h>

#include "transport_suite_rank.h"

#define SUITE_TEXT 512

struct suite_stage {
	/* set before the ranks start */
	int size;
	int kill_fd; /* eventfd: the number, from 1, of the rank to kill */
	uint64_t comm_id, deadline;

	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t changed;
	uint64_t counters[SUITE_COUNTERS];
	struct tt_peer peers[SUITE_RANKS_MAX];
	uint8_t addresses[SUITE_RANKS_MAX][TT_ADDRESS_MAX];
	bool failed; /* some rank has: the others need not go on */
	bool killed[SUITE_RANKS_MAX];
	char failure[SUITE_RANKS_MAX][SUITE_TEXT];
	char where[SUITE_RANKS_MAX][SUITE_TEXT];
};

struct suite_stage *suite_stage_create(int size);
void suite_stage_destroy(struct suite_stage *stage);
void suite_lock(struct suite_stage *stage);
void suite_unlock(struct suite_stage *stage);

/* What a process has, and a claim must give back. */
struct suite_holdings {
	int descriptors, threads;
	char rest[SUITE_TEXT / 4]; /* suite_options.held() */
};
struct suite_holdings suite_holdings(const struct suite_options *options);
/* Is all of it given back? Otherwise an error message in `out`. */
bool suite_gave_back(const struct suite_options *options, const struct suite_holdings *before,
		     char *out, size_t capacity);

#endif
