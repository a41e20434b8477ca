/* SPDX-License-Identifier: BSD-3-Clause */
/* A way to do an all-reduce that knows its ranks, its machine and nothing else: no cards, no
 * deadlines, no faults. What the memory, the caches or the sockets below allow, so that a
 * library can be held against it. */
#ifndef BENCH_BOUND_H
#define BENCH_BOUND_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

#define BOUND_RANKS 16	       /* at most */
#define BOUND_CHUNK (1u << 16) /* bytes that go through staging memory at a time */
#define BOUND_SLOTS 4	       /* chunks that a rank may be ahead */
#define BOUND_LINES 2	       /* of short messages, in turn */

/* Counts steps that a rank has ended; release, pairs with the acquire in bound_await(). A line
 * of its own. */
struct bound_count {
	_Alignas(64) _Atomic uint64_t value;
};

/* A short message, and its count, in one line. */
#define BOUND_LINE_BYTES 56
struct bound_line {
	_Alignas(64) _Atomic uint64_t posted; /* release, pairs with the acquire in bound_await() */
	float values[BOUND_LINE_BYTES / sizeof(float)];
};

struct bound_rank {
	struct bound_count met, staged, reduced, done;
	struct bound_line line[BOUND_LINES];
	int sockets[BOUND_RANKS];		/* to each other rank, inherited */
	_Alignas(4096) double values[1u << 12]; /* of combine() */
	_Alignas(4096) uint8_t slot[BOUND_SLOTS][2][BOUND_CHUNK]; /* inputs, and results */
};

struct bound {
	struct bench_backend backend;
	const char *transport, *algorithm;
	bool oversubscribed;
	bool one_core;	/* ranks 0 and 1 share one */
	unsigned looks; /* before a rank that is oversubscribed lets another have its core */
	struct bound_rank *ranks; /* [size], mapped by all */
	uint8_t *heap;		  /* [size] of heap_bytes, mapped by all */
	size_t heap_bytes, heap_used;
	uint8_t *arrived;	    /* scratch of the sockets */
	uint64_t met, steps, lines; /* barriers, chunks and short messages so far */
};

static inline struct bound *bound_of(struct bench_backend *backend)
{
	return backend->context;
}

/* memory.c: add up `n` floats of `sources` places; to both destinations, of which the second may
 * be NULL. */
void bound_sum(float *to, float *too, const float *const *from, int sources, size_t n);
void bound_await(const struct bound *b, const _Atomic uint64_t *count, uint64_t value);
void bound_barrier(struct bound *b);
/* Through staging memory: each rank all of it ("exchange"), or each its part ("halves"), and
 * where the buffers themselves are mapped by all, each its part out of them and into them
 * ("direct"). */
void bound_exchange(struct bound *b, const struct bench_call *call);
void bound_halves(struct bound *b, const struct bench_call *call);
void bound_direct(struct bound *b, const struct bench_call *call);

/* line.c: each rank posts its input in a line and adds up all of them; or ranks 0 and 1 answer
 * each other in turn. */
void bound_line(struct bound *b, const struct bench_call *call);
void bound_there_and_back(struct bound *b, const struct bench_call *call);
/* Each rank on a core of its own of those allowed, or all on the first. False: there are not so
 * many, or errno says why. */
bool bound_bind(const struct bound *b, const cpu_set_t *allowed);

/* sockets.c: two ranks, each sends all and adds what comes. -1: said why. */
int bound_sockets(struct bound *b, const struct bench_call *call);
/* Every pair connected over loopback TCP, before the ranks begin. False: said why. */
bool bound_connect(int ranks, struct bound_rank *all);

#endif
