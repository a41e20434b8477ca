/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective with everything that decides about it, and what its result must be. All of it follows from a few numbers that
 * all ranks draw alike. */
#ifndef TT_SOAK_CALL_H
#define TT_SOAK_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#define RANKS_MAX 16

enum soak_kind {
	SOAK_BROADCAST,
	SOAK_REDUCE,
	SOAK_ALL_REDUCE,
	SOAK_REDUCE_SCATTER,
	SOAK_ALL_GATHER,
	SOAK_GATHER,
	SOAK_SCATTER,
	SOAK_ALL_TO_ALL,
	SOAK_ALL_GATHER_V,
	SOAK_ALL_TO_ALL_V,
	SOAK_SCAN,
	SOAK_EXSCAN,
	SOAK_BARRIER,
	SOAK_SENDRECV, /* to the next rank, from the one before; always in a group of its own */
	SOAK_KINDS
};

struct soak_call {
	enum soak_kind kind;
	tutti_dtype_t dtype;
	tutti_op_t op;
	int root;
	size_t count; /* as the call means it */
	unsigned salt; /* makes the inputs of calls differ */
	size_t counts[2][RANKS_MAX]; /* of the calls with tables: [sending] */
	void *send, *recv;
};

/* SplitMix64; the state is the seed. */
uint64_t soak_random(uint64_t *state);
/* Draw a call on a communicator of `size` ranks, of at most `bytes` in either buffer. */
void soak_draw(uint64_t *state, int size, size_t bytes, struct soak_call *call);
/* Fill the input and call. */
tutti_result_t soak_start(tutti_comm_t comm, struct soak_call *call, tutti_request_t *request);
/* Is the result right? False after a word on stderr. */
bool soak_check(tutti_comm_t comm, const struct soak_call *call);

#endif
