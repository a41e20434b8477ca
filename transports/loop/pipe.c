/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes on their way from one rank to another. Invariants: taken <= due <= written <=
 * taken + capacity; the marks cover due … written in order. A reader looks at arrived bytes in
 * place without the lock: put() touches only the room, in both copies. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipe.h"

struct loop_pipe *tt_loop_pipe_create(size_t capacity)
{
	struct loop_pipe *pipe = calloc(1, sizeof(*pipe));

	if (!pipe)
		return NULL;
	pipe->data = malloc(2 * capacity);
	if (!pipe->data) {
		free(pipe);
		return NULL;
	}
	pipe->capacity = capacity;
	return pipe;
}

void tt_loop_pipe_destroy(struct loop_pipe *pipe)
{
	if (!pipe)
		return;
	free(pipe->data);
	free(pipe);
}

static void put_bytes(struct loop_pipe *pipe, const uint8_t *from, size_t bytes)
{
	const size_t at = (size_t)(pipe->written % pipe->capacity);
	const size_t to_end = pipe->capacity - at;
	const size_t head = bytes < to_end ? bytes : to_end;

	memcpy(pipe->data + at, from, head);
	memcpy(pipe->data + at + pipe->capacity, from, head);
	memcpy(pipe->data, from + head, bytes - head);
	memcpy(pipe->data + pipe->capacity, from + head, bytes - head);
	pipe->written += bytes;
}

/* With no mark left the newest stands for these bytes too: its bytes are then late, never early. */
static void put_mark(struct loop_pipe *pipe, uint64_t time)
{
	const struct loop_mark *newest =
		&pipe->marks[(pipe->first_mark + pipe->nmarks + LOOP_MARKS - 1) % LOOP_MARKS];

	if (pipe->nmarks > 0 && newest->time > time)
		time = newest->time;
	if (pipe->nmarks < LOOP_MARKS)
		pipe->nmarks++;
	pipe->marks[(pipe->first_mark + pipe->nmarks - 1) % LOOP_MARKS] =
		(struct loop_mark){ pipe->written, time };
}

size_t tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most,
			uint64_t time)
{
	size_t done = 0;

	assert(most <= tt_loop_pipe_capacity(pipe));
	for (int i = 0; i < n && done < most; i++) {
		const size_t bytes = iov[i].iov_len < most - done ? iov[i].iov_len : most - done;

		if (bytes > 0)
			put_bytes(pipe, iov[i].iov_base, bytes);
		done += bytes;
	}
	if (done > 0)
		put_mark(pipe, time);
	return done;
}

static void pass_marks(struct loop_pipe *pipe, uint64_t now)
{
	while (pipe->nmarks > 0 && pipe->marks[pipe->first_mark].time <= now) {
		pipe->due = pipe->marks[pipe->first_mark].end;
		pipe->first_mark = (pipe->first_mark + 1) % LOOP_MARKS;
		pipe->nmarks--;
	}
}

size_t tt_loop_pipe_arrived(struct loop_pipe *pipe, uint64_t now, const uint8_t **data)
{
	pass_marks(pipe, now);
	*data = pipe->data + pipe->taken % pipe->capacity;
	return (size_t)(pipe->due - pipe->taken);
}

uint64_t tt_loop_pipe_next_due(struct loop_pipe *pipe, uint64_t now)
{
	pass_marks(pipe, now);
	return pipe->nmarks > 0 ? pipe->marks[pipe->first_mark].time : 0;
}

size_t tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most)
{
	size_t done = 0;

	for (int i = 0; i < n && done < most; i++) {
		const size_t bytes = iov[i].iov_len < most - done ? iov[i].iov_len : most - done;

		if (bytes > 0)
			memcpy(iov[i].iov_base, pipe->data + pipe->taken % pipe->capacity, bytes);
		tt_loop_pipe_drop(pipe, bytes);
		done += bytes;
	}
	return done;
}

void tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes)
{
	assert(bytes <= pipe->due - pipe->taken);
	pipe->taken += bytes;
}
