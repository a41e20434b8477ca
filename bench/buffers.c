/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which rank's numbers belong where, for every collective. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"

#define LINE 64
#define LARGEST_ELEMENT 8

bool bench_buffers_init(struct bench_buffers *buffers, struct bench_backend *backend, size_t bytes,
			bool mappable)
{
	*buffers = (struct bench_buffers){ .bytes = bytes, .mappable = mappable };
	buffers->in = backend->alloc(backend, bytes, mappable);
	buffers->out = backend->alloc(backend, bytes, mappable);
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

bool bench_buffers_init_tape(struct bench_buffers *buffers, struct bench_backend *backend, size_t most)
{
	const size_t bytes = most + BENCH_PERIOD * LARGEST_ELEMENT;

	buffers->tape = backend->alloc(backend, bytes, false);
	buffers->host = malloc(bytes);
	if (buffers->tape && buffers->host)
		return true;
	fprintf(stderr, "rank %d: no memory for %zu bytes of inputs; lower -e\n", backend->rank, bytes);
	return false;
}

void bench_buffers_fini(struct bench_buffers *buffers, struct bench_backend *backend)
{
	if (buffers->in)
		backend->release(backend, buffers->in, buffers->mappable);
	if (buffers->out)
		backend->release(backend, buffers->out, buffers->mappable);
	if (buffers->tape)
		backend->release(backend, buffers->tape, false);
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
	const bool blocks = call->kind == BENCH_ALL_GATHER || call->kind == BENCH_GATHER || call->kind == BENCH_ALL_TO_ALL;

	return call->count * (blocks ? (size_t)size : 1);
}

void bench_call_fill(const struct bench_call *call, const struct bench_pattern *pattern, int rank,
		     int size, uint64_t shift)
{
	bench_pattern_fill(pattern, rank, shift, 0, (void *)call->send, bench_call_sent(call, size));
}

int bench_contributors(enum bench_kind kind, int rank, int size)
{
	if (!bench_case(kind)->reduces)
		return 0;
	if (kind == BENCH_SCAN)
		return rank + 1;
	return kind == BENCH_EXSCAN ? rank : size;
}

/* One block from each rank, element `first` of theirs on. */
static size_t wrong_blocks(const struct bench_call *call, const struct bench_pattern *pattern,
			   int size, uint64_t shift, size_t first)
{
	const unsigned char *got = call->recv;
	size_t wrong = 0;

	for (int r = 0; r < size; r++) {
		wrong += bench_pattern_wrong(pattern, r, shift, first, got, call->count);
		got += call->count * bench_type_size(call->dtype);
	}
	return wrong;
}

static size_t wrong_pair(const struct bench_call *call, const struct bench_pattern *pattern,
			 int rank, uint64_t shift)
{
	if (rank > 1 || (rank == 0 && call->kind == BENCH_BANDWIDTH))
		return 0;
	return bench_pattern_wrong(pattern, 1 - rank, shift, 0, call->recv, call->count);
}

size_t bench_call_wrong(const struct bench_call *call, const struct bench_pattern *pattern,
			int rank, int size, uint64_t shift)
{
	const size_t count = call->count, mine = (size_t)rank * count;

	switch (call->kind) {
	case BENCH_REDUCE:
		if (rank != call->root)
			return 0;
		/* fall through */
	case BENCH_ALL_REDUCE:
	case BENCH_SCAN: return bench_pattern_wrong_reduced(pattern, shift, 0, call->recv, count);
	case BENCH_EXSCAN:
		if (rank == 0)
			return 0;
		return bench_pattern_wrong_reduced(pattern, shift, 0, call->recv, count);
	case BENCH_REDUCE_SCATTER:
		return bench_pattern_wrong_reduced(pattern, shift, mine, call->recv, count);
	case BENCH_BROADCAST:
		return bench_pattern_wrong(pattern, call->root, shift, 0, call->recv, count);
	case BENCH_SCATTER:
		return bench_pattern_wrong(pattern, call->root, shift, mine, call->recv, count);
	case BENCH_GATHER:
		return rank == call->root ? wrong_blocks(call, pattern, size, shift, 0) : 0;
	case BENCH_ALL_GATHER: return wrong_blocks(call, pattern, size, shift, 0);
	case BENCH_ALL_TO_ALL: return wrong_blocks(call, pattern, size, shift, mine);
	case BENCH_LATENCY:
	case BENCH_BANDWIDTH: return wrong_pair(call, pattern, rank, shift);
	default: return 0; /* a barrier leaves nothing to verify */
	}
}
