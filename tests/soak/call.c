/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "values.h"

#define CHECKED_MAX 4096 /* elements of a result that are looked at: all, or as many at equal distances */

static const char *const kind_names[] = {
	"broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all",
	"all_gather_v", "all_to_all_v", "scan", "exscan", "barrier", "sendrecv",
};

uint64_t soak_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static bool reduces(enum soak_kind kind)
{
	return kind == SOAK_REDUCE || kind == SOAK_ALL_REDUCE || kind == SOAK_REDUCE_SCATTER || kind == SOAK_SCAN ||
	       kind == SOAK_EXSCAN;
}

/* Does one of the buffers hold a block for each rank? */
static bool blocks(enum soak_kind kind)
{
	return (kind >= SOAK_REDUCE_SCATTER && kind <= SOAK_ALL_TO_ALL_V);
}

/* Sizes of all magnitudes alike. */
static size_t draw_count(uint64_t *state, size_t most)
{
	const uint64_t bits = 65 - (uint64_t)__builtin_clzll(most | 1);
	const uint64_t top = soak_random(state) % bits;
	const uint64_t count = soak_random(state) % ((UINT64_C(1) << top) + 1);

	return count < most ? count : most;
}

void soak_draw(uint64_t *state, int size, size_t bytes, struct soak_call *call)
{
	size_t most;

	memset(call, 0, sizeof(*call));
	call->kind = (enum soak_kind)(soak_random(state) % SOAK_KINDS);
	call->dtype = (tutti_dtype_t)(soak_random(state) % TUTTI_DTYPE_COUNT);
	do
		call->op = (tutti_op_t)(soak_random(state) % TUTTI_OP_COUNT);
	while (!op_is_defined(call->op, call->dtype) ||
	       (call->op == TUTTI_AVG && (call->kind == SOAK_SCAN || call->kind == SOAK_EXSCAN)));
	call->root = (int)(soak_random(state) % (uint64_t)size);
	call->salt = (unsigned)(soak_random(state) % 1000);
	most = bytes / tutti_dtype_size(call->dtype) / (blocks(call->kind) ? (size_t)size : 1);
	call->count = draw_count(state, most);
	for (int i = 0; i < size; i++) /* tables: less than the count, and none, here and there */
		call->counts[0][i] = call->counts[1][i] = call->count / (size_t)(1 + (i + (int)call->salt) % 3);
}

/* What rank `from` sends to rank `to` by all_to_all_v. */
static size_t part(const struct soak_call *call, int from, int to)
{
	return call->count / (size_t)(1 + (from + 2 * to + (int)call->salt) % 3);
}

static double input(const struct soak_call *call, int rank, size_t i)
{
	return value_input(rank, i + call->salt, call->dtype, reduces(call->kind) ? call->op : TUTTI_SUM);
}

static size_t input_length(const struct soak_call *call, int rank, int size)
{
	size_t sum = 0;

	switch (call->kind) {
	case SOAK_REDUCE_SCATTER:
	case SOAK_SCATTER:
	case SOAK_ALL_TO_ALL: return call->count * (size_t)size;
	case SOAK_ALL_GATHER_V: return call->counts[0][rank];
	case SOAK_ALL_TO_ALL_V:
		for (int to = 0; to < size; to++)
			sum += part(call, rank, to);
		return sum;
	case SOAK_BARRIER: return 0;
	default: return call->count;
	}
}

static tutti_result_t exchange(tutti_comm_t comm, const struct soak_call *c, tutti_request_t *request)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	tutti_result_t result = tutti_group_begin(comm);

	if (!result)
		result = tutti_send(comm, c->send, c->count, c->dtype, (rank + 1) % size, NULL);
	if (!result)
		result = tutti_recv(comm, c->recv, c->count, c->dtype, (rank + size - 1) % size, NULL);
	return result ? result : tutti_group_end(comm, request);
}

tutti_result_t soak_start(tutti_comm_t comm, struct soak_call *c, tutti_request_t *request)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);

	for (size_t i = 0, n = input_length(c, rank, size); i < n; i++)
		value_set(c->send, i, c->dtype, input(c, rank, i));
	for (int other = 0; other < size && c->kind == SOAK_ALL_TO_ALL_V; other++) {
		c->counts[1][other] = part(c, rank, other);
		c->counts[0][other] = part(c, other, rank);
	}
	switch (c->kind) {
	case SOAK_BROADCAST: return tutti_broadcast(comm, c->send, c->recv, c->count, c->dtype, c->root, request);
	case SOAK_REDUCE: return tutti_reduce(comm, c->send, c->recv, c->count, c->dtype, c->op, c->root, request);
	case SOAK_ALL_REDUCE: return tutti_all_reduce(comm, c->send, c->recv, c->count, c->dtype, c->op, request);
	case SOAK_REDUCE_SCATTER:
		return tutti_reduce_scatter(comm, c->send, c->recv, c->count, c->dtype, c->op, request);
	case SOAK_ALL_GATHER: return tutti_all_gather(comm, c->send, c->recv, c->count, c->dtype, request);
	case SOAK_GATHER: return tutti_gather(comm, c->send, c->recv, c->count, c->dtype, c->root, request);
	case SOAK_SCATTER: return tutti_scatter(comm, c->send, c->recv, c->count, c->dtype, c->root, request);
	case SOAK_ALL_TO_ALL: return tutti_all_to_all(comm, c->send, c->recv, c->count, c->dtype, request);
	case SOAK_ALL_GATHER_V:
		return tutti_all_gather_v(comm, c->send, c->recv, c->counts[0], NULL, c->dtype, request);
	case SOAK_ALL_TO_ALL_V:
		return tutti_all_to_all_v(comm, c->send, c->counts[1], NULL, c->recv, c->counts[0], NULL, c->dtype,
					  request);
	case SOAK_SCAN: return tutti_scan(comm, c->send, c->recv, c->count, c->dtype, c->op, request);
	case SOAK_EXSCAN: return tutti_exscan(comm, c->send, c->recv, c->count, c->dtype, c->op, request);
	case SOAK_SENDRECV: return exchange(comm, c, request);
	default: return tutti_barrier(comm, request);
	}
}

/* ---- the result */

static size_t result_length(const struct soak_call *c, int rank, int size)
{
	size_t sum = 0;

	switch (c->kind) {
	case SOAK_REDUCE: return rank == c->root ? c->count : 0;
	case SOAK_GATHER: return rank == c->root ? c->count * (size_t)size : 0;
	case SOAK_ALL_GATHER:
	case SOAK_ALL_TO_ALL: return c->count * (size_t)size;
	case SOAK_EXSCAN: return rank ? c->count : 0;
	case SOAK_ALL_GATHER_V:
	case SOAK_ALL_TO_ALL_V:
		for (int other = 0; other < size; other++)
			sum += c->counts[0][other];
		return sum;
	case SOAK_BARRIER: return 0;
	default: return c->count;
	}
}

static double reduction(const struct soak_call *c, int ranks, size_t i)
{
	double all = input(c, 0, i);

	for (int rank = 1; rank < ranks; rank++)
		all = value_combine(all, input(c, rank, i), c->op);
	return c->op == TUTTI_AVG ? all / ranks : all;
}

/* Element i of blocks that come one after another: whose it is, and which of that one's. */
static int owner(const size_t *counts, size_t *i)
{
	int rank = 0;

	while (*i >= counts[rank])
		*i -= counts[rank++];
	return rank;
}

static double expected(const struct soak_call *c, int rank, int size, size_t i)
{
	size_t before = 0;
	int from;

	switch (c->kind) {
	case SOAK_BROADCAST: return input(c, c->root, i);
	case SOAK_REDUCE:
	case SOAK_ALL_REDUCE: return reduction(c, size, i);
	case SOAK_REDUCE_SCATTER: return reduction(c, size, (size_t)rank * c->count + i);
	case SOAK_ALL_GATHER:
	case SOAK_GATHER: return input(c, (int)(i / c->count), i % c->count);
	case SOAK_SCATTER: return input(c, c->root, (size_t)rank * c->count + i);
	case SOAK_ALL_TO_ALL: return input(c, (int)(i / c->count), (size_t)rank * c->count + i % c->count);
	case SOAK_ALL_GATHER_V:
		from = owner(c->counts[0], &i);
		return input(c, from, i);
	case SOAK_ALL_TO_ALL_V:
		from = owner(c->counts[0], &i);
		for (int to = 0; to < rank; to++)
			before += part(c, from, to);
		return input(c, from, before + i);
	case SOAK_SCAN: return reduction(c, rank + 1, i);
	case SOAK_EXSCAN: return reduction(c, rank, i);
	default: return input(c, (rank + size - 1) % size, i);
	}
}

static bool check_element(tutti_comm_t comm, const struct soak_call *c, size_t i)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const double found = value_get(c->recv, i, c->dtype), wanted = expected(c, rank, size, i);

	if (value_close(found, wanted, c->dtype, reduces(c->kind) ? size : 0))
		return true;
	fprintf(stderr, "rank %d of %d: %s of %zu %s by %s, root %d: element %zu is %g, expected %g\n", rank, size,
		kind_names[c->kind], c->count, tutti_dtype_name(c->dtype), tutti_op_name(c->op), c->root, i, found,
		wanted);
	return false;
}

bool soak_check(tutti_comm_t comm, const struct soak_call *c)
{
	const size_t n = result_length(c, tutti_comm_rank(comm), tutti_comm_size(comm));
	const size_t step = n / CHECKED_MAX + 1;

	for (size_t i = 0; i < n; i += step)
		if (!check_element(comm, c, i))
			return false;
	return n == 0 || check_element(comm, c, n - 1);
}
