/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that calls work on, and what it must hold.
 *
 * A call of a batch has a set of its own: an input and an output, each on cache lines of its own.
 * All sets lie in two regions that serve every size of a run, so that no page is touched for the
 * first time while the clock runs. In place, a set is the input's half of it only. */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include "backend.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_buffers {
	unsigned char *in, *out;
	size_t bytes; /* of each */
	bool mappable;
	/* Where the backend has a device for which the host fills and checks: the sequence of
	 * inputs as often as the longest needs it, there, and room for one result or as much of
	 * the sequence, here. */
	unsigned char *tape, *host;
};

/* All zero and touched. False: said why on standard error. */
bool bench_buffers_init(struct bench_buffers *buffers, struct bench_backend *backend, size_t bytes,
			bool mappable);
/* For calls of up to `most` bytes. */
bool bench_buffers_init_tape(struct bench_buffers *buffers, struct bench_backend *backend,
			     size_t most);
void bench_buffers_fini(struct bench_buffers *buffers, struct bench_backend *backend);

/* From one set to the next. */
size_t bench_set_stride(size_t bytes);

/* Where call number `index` finds its input and its output, `bytes` being those of the larger. */
void bench_buffers_place(const struct bench_buffers *buffers, struct bench_call *call, int rank,
			 size_t bytes);

/* Elements that the call reads and writes on one rank. */
size_t bench_call_sent(const struct bench_call *call, int size);
size_t bench_call_received(const struct bench_call *call, int size);

/* Write what the backend's rank sends in repetition `shift`. */
void bench_call_fill(const struct bench_call *call, const struct bench_pattern *pattern,
		     const struct bench_backend *backend, uint64_t shift);

/* A rank's result is so many parts, each of which is of one rank or a reduction; 0: there is
 * nothing to verify. */
unsigned bench_call_parts(const struct bench_call *call, int rank, int size);
struct bench_part bench_call_part(const struct bench_call *call, int rank, unsigned number);

/* Add to `found` which elements of the result are wrong that the backend's rank has. */
void bench_call_check(const struct bench_call *call, const struct bench_pattern *pattern,
		      const struct bench_backend *backend, uint64_t shift,
		      struct bench_found *found);

/* How many ranks, from 0 on, contribute to what this rank verifies: see bench_pattern_init(). */
int bench_contributors(enum bench_kind kind, int rank, int size);

#ifdef __cplusplus
}
#endif

#endif
