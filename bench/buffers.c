/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which rank's numbers belong where, for every collective. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"

#define LINE		64
#define LARGEST_ELEMENT 8

static bool is_of_library(const struct bench_backend *backend, bool mappable)
{
	return backend->device || (mappable && backend->alloc);
}

static void *allocate(struct bench_backend *backend, size_t bytes, bool mappable)
{
	void *memory;

	if (is_of_library(backend, mappable))
		return backend->alloc(backend, bytes);
	return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static void release(struct bench_backend *backend, void *memory, bool mappable)
{
	if (memory && is_of_library(backend, mappable))
		backend->release(backend, memory);
	else
		free(memory);
}

bool bench_buffers_init(struct bench_buffers *buffers, struct bench_backend *backend, size_t bytes,
			bool mappable)
{
	*buffers = (struct bench_buffers){ .bytes = bytes, .mappable = mappable };
	buffers->in = allocate(backend, bytes, mappable);
	buffers->out = allocate(backend, bytes, mappable);
	if (!buffers->in || !buffers->out) {
		fprintf(stderr, "rank %d: no memory for two buffers of %zu bytes; lower -e\n",
			backend->rank, bytes);
		bench_buffers_fini(buffers, backend);
		return false;
	}
	if (!backend->device) {
		memset(buffers->in, 0, bytes);
		memset(buffers->out, 0, bytes);
	}
	return true;
}

bool bench_buffers_init_tape(struct bench_buffers *buffers, struct bench_backend *backend,
			     size_t most)
{
	const size_t bytes = most + BENCH_PERIOD * LARGEST_ELEMENT;

	buffers->tape = backend->alloc(backend, bytes);
	buffers->host = malloc(bytes);
	if (buffers->tape && buffers->host)
		return true;
	fprintf(stderr, "rank %d: no memory for %zu bytes of inputs; lower -e\n", backend->rank,
		bytes);
	return false;
}

void bench_buffers_fini(struct bench_buffers *buffers, struct bench_backend *backend)
{
	release(backend, buffers->in, buffers->mappable);
	release(backend, buffers->out, buffers->mappable);
	release(backend, buffers->tape, false);
	free(buffers->host);
	*buffers = (struct bench_buffers){ 0 };
}

size_t bench_set_stride(size_t bytes)
{
	return bytes == 0 ? LINE : (bytes + LINE - 1) / LINE * LINE;
}

void bench_buffers_place(const struct bench_buffers *buffers, struct bench_call *call, int rank,
			 size_t bytes)
{
	const size_t offset = call->index * bench_set_stride(bytes);
	const size_t block = (size_t)rank * call->count * bench_type_size(call->dtype);
	unsigned char *in = buffers->in + offset;

	call->send = in;
	call->recv = call->inplace ? in : buffers->out + offset;
	if (!call->inplace)
		return;
	if (call->kind == BENCH_REDUCE_SCATTER || call->kind == BENCH_SCATTER)
		call->recv = in + block;
	else if (call->kind == BENCH_ALL_GATHER || call->kind == BENCH_GATHER)
		call->send = in + block;
}

static bool sends_blocks(enum bench_kind kind)
{
	return kind == BENCH_REDUCE_SCATTER || kind == BENCH_SCATTER || kind == BENCH_ALL_TO_ALL;
}

size_t bench_call_sent(const struct bench_call *call, int size)
{
	return call->count * (sends_blocks(call->kind) ? (size_t)size : 1);
}

size_t bench_call_received(const struct bench_call *call, int size)
{
	const bool blocks = call->kind == BENCH_ALL_GATHER || call->kind == BENCH_GATHER ||
			    call->kind == BENCH_ALL_TO_ALL;

	return call->count * (blocks ? (size_t)size : 1);
}

void bench_call_fill(const struct bench_call *call, const struct bench_pattern *pattern,
		     const struct bench_backend *b, uint64_t shift)
{
	bench_pattern_fill(pattern, b->rank, shift, (void *)call->send,
			   bench_call_sent(call, b->size));
}

int bench_contributors(enum bench_kind kind, int rank, int size)
{
	if (!bench_case(kind)->reduces)
		return 0;
	if (kind == BENCH_SCAN)
		return rank + 1;
	return kind == BENCH_EXSCAN ? rank : size;
}

unsigned bench_call_parts(const struct bench_call *call, int rank, int size)
{
	switch (call->kind) {
	case BENCH_ALL_REDUCE:
	case BENCH_SCAN:
	case BENCH_REDUCE_SCATTER:
	case BENCH_BROADCAST:
	case BENCH_SCATTER: return 1;
	case BENCH_REDUCE: return rank == call->root;
	case BENCH_EXSCAN: return rank > 0;
	case BENCH_GATHER: return rank == call->root ? (unsigned)size : 0;
	case BENCH_ALL_GATHER:
	case BENCH_ALL_TO_ALL: return (unsigned)size;
	case BENCH_LATENCY:
	case BENCH_PUT_SIGNAL: return rank <= 1;
	case BENCH_BANDWIDTH:
	case BENCH_PUT:
	case BENCH_PUT_BANDWIDTH: return rank == 1;
	case BENCH_GET: return rank == 0;
	default:
		return 0; /* a barrier leaves nothing to verify; a sum is verified by who makes it */
	}
}

struct bench_part bench_call_part(const struct bench_call *call, int rank, unsigned number)
{
	const size_t count = call->count, mine = (size_t)rank * count, base = number * count;
	struct bench_part part = { .got = (const unsigned char *)call->recv +
					  base * bench_type_size(call->dtype),
				   .count = count,
				   .base = base,
				   .reduced = bench_case(call->kind)->reduces,
				   .rank = (int)number };

	if (sends_blocks(call->kind))
		part.first = mine;
	if (call->kind == BENCH_BROADCAST || call->kind == BENCH_SCATTER)
		part.rank = call->root;
	else if (bench_case(call->kind)->pair)
		part.rank = 1 - rank;
	return part;
}

void bench_call_check(const struct bench_call *call, const struct bench_pattern *pattern,
		      const struct bench_backend *b, uint64_t shift, struct bench_found *found)
{
	const unsigned parts = bench_call_parts(call, b->rank, b->size);

	for (unsigned i = 0; i < parts; i++) {
		const struct bench_part part = bench_call_part(call, b->rank, i);

		bench_pattern_check(pattern, &part, shift, b->wire, found);
	}
}
