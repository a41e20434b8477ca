/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bounds of the shortest messages: what one line takes from core to core, and what it
 * takes a core to go from one rank to another. */
#include <sched.h>
#include <string.h>

#include "bound.h"

/* Those of a rank in turn: who posts again knows that all have read the one before the last. */
static struct bound_line *line_of(const struct bound *b, int rank)
{
	return &b->ranks[rank].line[b->lines % BOUND_LINES];
}

static void post(struct bound *b, const void *values, size_t bytes)
{
	struct bound_line *mine = line_of(b, b->backend.rank);

	memcpy(mine->values, values, bytes);
	/* release: pairs with the acquire in bound_await() */
	atomic_store_explicit(&mine->posted, b->lines, memory_order_release);
}

static const float *await(const struct bound *b, int rank)
{
	const struct bound_line *theirs = line_of(b, rank);

	bound_await(b, &theirs->posted, b->lines);
	return theirs->values;
}

void bound_line(struct bound *b, const struct bench_call *call)
{
	const float *from[BOUND_RANKS] = { call->send };
	int n = 1;

	b->lines++;
	post(b, call->send, call->count * sizeof(float));
	for (int rank = 0; rank < b->backend.size; rank++)
		if (rank != b->backend.rank)
			from[n++] = await(b, rank);
	bound_sum(call->recv, NULL, from, n, call->count);
}

void bound_there_and_back(struct bound *b, const struct bench_call *call)
{
	const size_t bytes = call->count * sizeof(float);

	b->lines++;
	if (b->backend.rank == 0)
		post(b, call->send, bytes);
	if (b->backend.rank < 2)
		memcpy(call->recv, await(b, 1 - b->backend.rank), bytes);
	if (b->backend.rank == 1)
		post(b, call->send, bytes);
}

bool bound_bind(const struct bound *b, const cpu_set_t *allowed)
{
	int left = b->one_core ? 0 : b->backend.rank;
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || left-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof(one), &one) == 0;
	}
	return false;
}
