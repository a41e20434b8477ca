/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages of float32 whose results are known and exact. */
#ifndef TT_WORK_H
#define TT_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

enum work {
	WORK_ALL_REDUCE,
	WORK_REDUCE_SCATTER,
	WORK_ALL_GATHER,
	WORK_ALL_TO_ALL,
	WORK_BROADCAST,
	WORK_EXCHANGE, /* messages: to the next rank, from the one before */
	WORK_COUNT
};

/* Two buffers, each as long as the longest vector. */
struct work_buffers {
	float *send, *recv;
};

struct work_call {
	enum work work;
	size_t bytes;  /* of the longer of the two vectors */
	tutti_op_t op; /* adds */
	int root;
};

/* Fills the buffers and calls. */
tutti_result_t work_start(tutti_comm_t comm, const struct work_call *call,
			  const struct work_buffers *buffers, tutti_request_t *request);
/* Is all in recv as it must be? */
bool work_is_right(tutti_comm_t comm, const struct work_call *call,
		   const struct work_buffers *buffers);

#endif
