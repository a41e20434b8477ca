/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with memory of all kinds. */
#ifndef TEST_PLAIN_CALLS_H
#define TEST_PLAIN_CALLS_H

#include <tutti/tutti.h>

#define RANKS_MAX 8

/* How a call is made, and waited for. */
enum way { BLOCKING, WAITED, TESTED, ANY, ALL, GROUPED, GROUP_WAITED, WAYS };

/* All collectives, messages and groups, of several lengths, in all ways and mixtures of memory. 0, or
 * 1 after a word on what is wrong. */
int every_length(tutti_comm_t comm);
/* An all-reduce, a sum of 32-bit integers in the caller's memory. */
tutti_result_t make_sum(tutti_comm_t comm, enum way way, size_t n, int32_t *send, int32_t *recv);

#endif
