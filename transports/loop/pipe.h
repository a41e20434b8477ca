/* SPDX-License-Identifier: BSD-3-Clause */
/* One direction of a link: a ring of bytes, some of which may not be due yet. The caller holds the
 * lock of the fabric. */
#ifndef TT_LOOP_PIPE_H
#define TT_LOOP_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define LOOP_MARKS 64

/* Bytes up to `end` are due at `time`. */
struct loop_mark {
	uint64_t end, time;
};

struct loop_pipe {
	uint8_t *data; /* 2 × capacity: each byte is kept twice, so that any run is in one piece */
	size_t capacity;
	uint64_t written, taken; /* since the pipe was made */
	uint64_t due;		 /* bytes up to here may be read */
	struct loop_mark marks[LOOP_MARKS];
	unsigned first_mark, nmarks;
	bool writing, reading; /* that end is connected */
	bool cut;
};

struct loop_pipe *tt_loop_pipe_create(size_t capacity); /* NULL: no memory */
void tt_loop_pipe_destroy(struct loop_pipe *pipe);	/* NULL is fine */

static inline size_t tt_loop_pipe_capacity(const struct loop_pipe *pipe)
{
	return pipe->capacity - (size_t)(pipe->written - pipe->taken);
}

/* Take at most `most` bytes (no more than there is room) from iov; they are due at `time`. */
size_t tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most,
			uint64_t time);
/* Bytes that may be read at `now`, and where they begin. */
size_t tt_loop_pipe_arrived(struct loop_pipe *pipe, uint64_t now, const uint8_t **data);
/* When the next bytes are due that were not at `now`; 0: there are none. */
uint64_t tt_loop_pipe_next_due(struct loop_pipe *pipe, uint64_t now);
/* Copy at most `most` bytes, that have arrived, into iov and drop them. */
size_t tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most);
void tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes);

#endif
