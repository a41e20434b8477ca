/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages of float32, made and checked by tests/calls: one at a time, in memory that is
 * there from the beginning, as a victim may get none. */
#ifndef TT_WORK_H
#define TT_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "calls/what.h"

#define WORK_BYTES (8u << 20) /* of a vector, at most */

struct work {
	enum what what; /* MESSAGE: to the next rank, from the one before */
	size_t bytes;	/* of the longer of the two vectors */
	tutti_op_t op;	/* adds */
	int root;
};

/* Takes the memory. False: there is none. */
bool work_begin(void);
void work_end(void);
/* Fills the buffers and calls. */
tutti_result_t work_start(tutti_comm_t comm, const struct work *work, tutti_request_t *request);
/* Of the last one: is all in its buffers and around them as it must be? */
bool work_is_right(void);

#endif
