/* SPDX-License-Identifier: BSD-3-Clause */
/* Proves a schedule: runs that of every rank side by side on symbolic values, without transports.
 */
#ifndef TEST_SCHEDULES_PROVER_H
#define TEST_SCHEDULES_PROVER_H

#include "schedule.h"

struct claim {
	const struct tt_algorithm *algorithm;
	enum tt_collective collective;
	int size, root;	 /* root: -1 for a collective without */
	const int *host; /* [size] */
	int hosts;
	const int *domain; /* as in struct tt_group */
	int domains;
	bool in_place;
};

/* Does the algorithm do what the collective promises, within the contract of schedule.h? If not,
 * `why` says what is wrong, where. */
bool prove(const struct claim *claim, char *why, size_t capacity);

#endif
