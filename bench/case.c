/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the table of what can be measured. */
#include <assert.h>

#include "case.h"

static const struct bench_case cases[] = {
	[BENCH_ALL_REDUCE] = { .name = "all_reduce", .reduces = true, .bus_a = 2 },
	[BENCH_BROADCAST] = { .name = "broadcast", .rooted = true },
	[BENCH_REDUCE] = { .name = "reduce", .reduces = true, .rooted = true },
	[BENCH_REDUCE_SCATTER] = { .name = "reduce_scatter",
				   .reduces = true,
				   .blocks = true,
				   .bus_a = 1 },
	[BENCH_ALL_GATHER] = { .name = "all_gather", .blocks = true, .bus_a = 1 },
	[BENCH_GATHER] = { .name = "gather", .rooted = true, .blocks = true, .bus_a = 1 },
	[BENCH_SCATTER] = { .name = "scatter", .rooted = true, .blocks = true, .bus_a = 1 },
	[BENCH_ALL_TO_ALL] = { .name = "all_to_all", .blocks = true, .bus_a = 1 },
	[BENCH_SCAN] = { .name = "scan", .reduces = true, .prefix = true },
	[BENCH_EXSCAN] = { .name = "exscan", .reduces = true, .prefix = true },
	[BENCH_BARRIER] = { .name = "barrier", .empty = true },
	[BENCH_LATENCY] = { .name = "latency", .pair = true },
	[BENCH_BANDWIDTH] = { .name = "bandwidth", .pair = true },
	[BENCH_PUT] = { .name = "put", .pair = true, .one_sided = true },
	[BENCH_GET] = { .name = "get", .pair = true, .one_sided = true },
	[BENCH_PUT_BANDWIDTH] = { .name = "put_bandwidth", .pair = true, .one_sided = true },
	[BENCH_PUT_SIGNAL] = { .name = "put_signal", .pair = true, .one_sided = true },
	[BENCH_FETCH_ADD] = { .name = "fetch_add",
			      .pair = true,
			      .one_sided = true,
			      .empty = true,
			      .sums = true },
	[BENCH_INIT] = { .name = "init", .apart = true },
	[BENCH_WAITING] = { .name = "waiting", .apart = true },
	[BENCH_KIND_COUNT] = { .name = "all", .reduces = true },
};
static_assert(sizeof(cases) / sizeof(cases[0]) == BENCH_KIND_COUNT + 1, "every kind has a row");

const struct bench_case *bench_case(enum bench_kind kind)
{
	return &cases[kind];
}

bool bench_case_is_one_way(enum bench_kind kind)
{
	return cases[kind].rooted || cases[kind].prefix;
}

bool bench_case_is_collective(enum bench_kind kind)
{
	return !cases[kind].pair && !cases[kind].apart;
}

double bench_bus_factor(enum bench_kind kind, int ranks)
{
	return cases[kind].bus_a != 0 ? cases[kind].bus_a * (ranks - 1) / ranks : 1;
}

double bench_least_factor(enum bench_kind kind, int ranks, bool inplace)
{
	const double n = ranks,
		     others = inplace ? n - 1
				      : n; /* in place one block, or vector, is where it belongs */

	switch (kind) {
	case BENCH_ALL_REDUCE: return n + n;
	case BENCH_SCAN: return n + others;
	case BENCH_REDUCE:
	case BENCH_REDUCE_SCATTER: return n + 1;
	case BENCH_BROADCAST:
	case BENCH_ALL_GATHER: return 1 + others;
	case BENCH_GATHER:
	case BENCH_SCATTER: return 2 * others / n;
	case BENCH_ALL_TO_ALL: return 2 * others;
	case BENCH_EXSCAN:
		return 2 * (n - 1); /* the first rank gets nothing, the last one's input is not
				     * needed */
	case BENCH_LATENCY:
	case BENCH_BANDWIDTH:
	case BENCH_PUT:
	case BENCH_GET:
	case BENCH_PUT_BANDWIDTH:
	case BENCH_PUT_SIGNAL: return 2;
	default: return 0;
	}
}

size_t bench_case_count(enum bench_kind kind, size_t bytes, size_t element, int ranks)
{
	const size_t count = bytes / element / (cases[kind].blocks ? (size_t)ranks : 1);

	if (cases[kind].empty)
		return 0;
	return count > 0 ? count : 1;
}

size_t bench_case_bytes(enum bench_kind kind, size_t count, size_t element, int ranks)
{
	return count * element * (cases[kind].blocks ? (size_t)ranks : 1);
}
