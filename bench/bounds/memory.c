/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bounds over shared memory. */
#include <sched.h>
#include <string.h>

#include "bound.h"

/* ---- the loops */

/* what chooses among them at the start runs before a thread sanitizer can */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FOR_EVERY_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_VECTOR
#endif

/* Places are the same or apart. */
FOR_EVERY_VECTOR static void sum_two(float *to, const float *a, const float *b, size_t n)
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		to[i] = a[i] + b[i];
}

FOR_EVERY_VECTOR static void sum_two_twice(float *to, float *too, const float *a, const float *b,
					   size_t n)
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		too[i] = to[i] = a[i] + b[i];
}

FOR_EVERY_VECTOR static void add(float *to, const float *a, size_t n)
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		to[i] += a[i];
}

void bound_sum(float *to, float *too, const float *const *from, int sources, size_t n)
{
	if (sources == 2 && too) {
		sum_two_twice(to, too, from[0], from[1], n);
		return;
	}
	if (sources == 1)
		memmove(to, from[0], n * sizeof(*to));
	else
		sum_two(to, from[0], from[1], n);
	for (int i = 2; i < sources; i++)
		add(to, from[i], n);
	if (too)
		memcpy(too, to, n * sizeof(*to));
}

/* ---- waiting */

static void count_up(struct bound_count *count, uint64_t value)
{
	/* release: pairs with the acquire in bound_await() */
	atomic_store_explicit(&count->value, value, memory_order_release);
}

void bound_await(const struct bound *b, const _Atomic uint64_t *count, uint64_t value)
{
	/* acquire: pairs with the releases in count_up() and post() */
	for (unsigned looks = 1; atomic_load_explicit(count, memory_order_acquire) < value; looks++)
		if (b->oversubscribed && looks % b->looks == 0)
			sched_yield();
}

static void await_all(const struct bound *b, size_t count, uint64_t value)
{
	for (int rank = 0; rank < b->backend.size; rank++)
		if (rank != b->backend.rank)
			bound_await(
				b,
				&((const struct bound_count *)((const uint8_t *)&b->ranks[rank] +
							       count))
					 ->value,
				value);
}

#define AWAIT_ALL(b, count, value) await_all(b, offsetof(struct bound_rank, count), value)

void bound_barrier(struct bound *b)
{
	count_up(&b->ranks[b->backend.rank].met, ++b->met);
	AWAIT_ALL(b, met, b->met);
}

/* ---- parts */

/* The rank's share of n elements. */
static size_t share(const struct bound *b, size_t n, int rank, size_t *first)
{
	const size_t size = (size_t)b->backend.size, each = (n + size - 1) / size;

	*first = each * (size_t)rank < n ? each * (size_t)rank : n;
	return each < n - *first ? each : n - *first;
}

static float *slot(const struct bound *b, int rank, uint64_t step, int results)
{
	return (float *)b->ranks[rank].slot[step % BOUND_SLOTS][results];
}

/* Nobody reads any more what this slot held last. */
static void await_slot(const struct bound *b, uint64_t step)
{
	if (step >= BOUND_SLOTS)
		AWAIT_ALL(b, done, step + 1 - BOUND_SLOTS);
}

/* Where all ranks' inputs for the slot's chunk are, this rank's first: its place may be that of
 * the sum, too. */
static void find_inputs(const struct bound *b, uint64_t step, size_t first, const float *own,
			const float **from)
{
	int n = 1;

	from[0] = own + first;
	for (int rank = 0; rank < b->backend.size; rank++)
		if (rank != b->backend.rank)
			from[n++] = slot(b, rank, step, 0) + first;
}

/* ---- the bounds */

void bound_exchange(struct bound *b, const struct bench_call *call)
{
	const size_t most = BOUND_CHUNK / sizeof(float);
	struct bound_rank *me = &b->ranks[b->backend.rank];
	const float *in = call->send;
	float *out = call->recv;

	for (size_t at = 0; at < call->count; at += most, b->steps++) {
		const size_t n = call->count - at < most ? call->count - at : most;
		const float *from[BOUND_RANKS];

		await_slot(b, b->steps);
		memcpy(slot(b, b->backend.rank, b->steps, 0), in + at, n * sizeof(float));
		count_up(&me->staged, b->steps + 1);
		AWAIT_ALL(b, staged, b->steps + 1);
		find_inputs(b, b->steps, 0, in + at, from);
		bound_sum(out + at, NULL, from, b->backend.size, n);
		count_up(&me->done, b->steps + 1);
	}
}

/* One chunk on its way through bound_halves(). */
struct chunk {
	size_t at, n;
	uint64_t step;
};

static void stage(struct bound *b, const struct bench_call *call, struct chunk c)
{
	const float *in = (const float *)call->send + c.at;
	float *mine = slot(b, b->backend.rank, c.step, 0);
	size_t first;
	const size_t own = share(b, c.n, b->backend.rank, &first);

	await_slot(b, c.step);
	memcpy(mine, in, first * sizeof(float));
	memcpy(mine + first + own, in + first + own, (c.n - first - own) * sizeof(float));
	count_up(&b->ranks[b->backend.rank].staged, c.step + 1);
}

static void reduce(struct bound *b, const struct bench_call *call, struct chunk c)
{
	const float *in = (const float *)call->send + c.at, *from[BOUND_RANKS];
	float *out = (float *)call->recv + c.at;
	size_t first;
	const size_t own = share(b, c.n, b->backend.rank, &first);

	AWAIT_ALL(b, staged, c.step + 1);
	find_inputs(b, c.step, first, in, from);
	bound_sum(out + first, slot(b, b->backend.rank, c.step, 1), from, b->backend.size, own);
	count_up(&b->ranks[b->backend.rank].reduced, c.step + 1);
}

static void collect(struct bound *b, const struct bench_call *call, struct chunk c)
{
	float *out = (float *)call->recv + c.at;

	AWAIT_ALL(b, reduced, c.step + 1);
	for (int rank = 0; rank < b->backend.size; rank++) {
		size_t first;
		const size_t theirs = share(b, c.n, rank, &first);

		if (rank != b->backend.rank)
			memcpy(out + first, slot(b, rank, c.step, 1), theirs * sizeof(float));
	}
	count_up(&b->ranks[b->backend.rank].done, c.step + 1);
}

/* A chunk is staged while the peers reduce the one before. */
void bound_halves(struct bound *b, const struct bench_call *call)
{
	const size_t most = BOUND_CHUNK / sizeof(float);
	struct chunk before = { 0 };

	for (size_t at = 0; at < call->count; at += most) {
		const struct chunk c = { at, call->count - at < most ? call->count - at : most,
					 b->steps++ };

		stage(b, call, c);
		if (before.n)
			collect(b, call, before);
		reduce(b, call, c);
		before = c;
	}
	if (before.n)
		collect(b, call, before);
}

/* The same place in another rank's heap. */
static float *place_of(const struct bound *b, int rank, const void *mine)
{
	const ptrdiff_t way = (ptrdiff_t)b->heap_bytes * (rank - b->backend.rank);

	return (float *)((uintptr_t)mine + (uintptr_t)way);
}

void bound_direct(struct bound *b, const struct bench_call *call)
{
	const float *from[BOUND_RANKS];
	size_t first;
	const size_t own = share(b, call->count, b->backend.rank, &first);

	bound_barrier(b);
	for (size_t at = 0; at < own; at += BOUND_CHUNK / sizeof(float)) {
		const size_t most = BOUND_CHUNK / sizeof(float),
			     n = own - at < most ? own - at : most;
		float *to[BOUND_RANKS];

		for (int rank = 0; rank < b->backend.size; rank++) {
			from[rank] = place_of(b, rank, (const float *)call->send + first + at);
			to[rank] = place_of(b, rank, (float *)call->recv + first + at);
		}
		bound_sum(to[0], b->backend.size > 1 ? to[1] : NULL, from, b->backend.size, n);
		for (int rank = 2; rank < b->backend.size; rank++)
			memcpy(to[rank], to[0], n * sizeof(float));
	}
	bound_barrier(b);
}
