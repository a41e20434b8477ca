/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.h"

#include <string.h>

/* Small integers: sums of a few ranks are exact. */
static float input(int rank, size_t i)
{
	return (float)((i * 7 + i / 64 + (size_t)rank * 5) % 31);
}

static float sum(int size, size_t i)
{
	float all = 0;

	for (int rank = 0; rank < size; rank++)
		all += input(rank, i);
	return all;
}

/* Elements of a block: those of the whole vector, or those for one rank. */
static size_t block(const struct work_call *call, int size)
{
	const size_t all = call->bytes / sizeof(float);
	const bool whole = call->work == WORK_ALL_REDUCE || call->work == WORK_BROADCAST ||
			   call->work == WORK_EXCHANGE;

	return whole ? all : all / (size_t)size;
}

static int before(int rank, int size)
{
	return (rank + size - 1) % size;
}

static tutti_result_t exchange(tutti_comm_t comm, const struct work_buffers *b, size_t n,
			       tutti_request_t *request)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	tutti_result_t result = tutti_group_begin(comm);

	if (result)
		return result;
	result = tutti_send(comm, b->send, n, TUTTI_FLOAT32, (rank + 1) % size, NULL);
	if (!result)
		result = tutti_recv(comm, b->recv, n, TUTTI_FLOAT32, before(rank, size), NULL);
	const tutti_result_t ended = tutti_group_end(comm, request);
	return result ? result : ended;
}

tutti_result_t work_start(tutti_comm_t comm, const struct work_call *call,
			  const struct work_buffers *b, tutti_request_t *request)
{
	const size_t n = block(call, tutti_comm_size(comm));
	const int rank = tutti_comm_rank(comm);

	for (size_t i = 0; i < call->bytes / sizeof(float); i++)
		b->send[i] = input(rank, i);
	memset(b->recv, 0xff, call->bytes);
	switch (call->work) {
	case WORK_ALL_REDUCE:
		return tutti_all_reduce(comm, b->send, b->recv, n, TUTTI_FLOAT32, call->op,
					request);
	case WORK_REDUCE_SCATTER:
		return tutti_reduce_scatter(comm, b->send, b->recv, n, TUTTI_FLOAT32, call->op,
					    request);
	case WORK_ALL_GATHER:
		return tutti_all_gather(comm, b->send, b->recv, n, TUTTI_FLOAT32, request);
	case WORK_ALL_TO_ALL:
		return tutti_all_to_all(comm, b->send, b->recv, n, TUTTI_FLOAT32, request);
	case WORK_BROADCAST:
		return tutti_broadcast(comm, b->send, b->recv, n, TUTTI_FLOAT32, call->root,
				       request);
	default: return exchange(comm, b, n, request);
	}
}

static float expected(const struct work_call *call, int rank, int size, size_t n, size_t i)
{
	switch (call->work) {
	case WORK_ALL_REDUCE: return sum(size, i);
	case WORK_REDUCE_SCATTER: return sum(size, (size_t)rank * n + i);
	case WORK_ALL_GATHER: return input((int)(i / n), i % n);
	case WORK_ALL_TO_ALL: return input((int)(i / n), (size_t)rank * n + i % n);
	case WORK_BROADCAST: return input(call->root, i);
	default: return input(before(rank, size), i);
	}
}

bool work_is_right(tutti_comm_t comm, const struct work_call *call, const struct work_buffers *b)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const size_t n = block(call, size);
	const bool wide = call->work == WORK_ALL_GATHER || call->work == WORK_ALL_TO_ALL;

	for (size_t i = 0; i < (wide ? n * (size_t)size : n); i++)
		if (b->recv[i] != expected(call, rank, size, n, i))
			return false;
	return true;
}
