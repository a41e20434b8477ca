/* SPDX-License-Identifier: BSD-3-Clause */
#include "kinds.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	gpu_context_t context;
	gpu_stream_t stream;
} gpus[2]; /* made when first used, under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void insist(bool done)
{
	if (done)
		return;
	fprintf(stderr, "%s\n", gpu_error());
	abort();
}

static int gpu_of(enum kind kind)
{
	return kind == ON_GPU_1 && gpu_count() > 1;
}

gpu_context_t kind_enter(enum kind kind)
{
	const gpu_context_t before = gpu_current();
	const int gpu = gpu_of(kind);

	pthread_mutex_lock(&lock);
	if (!gpus[gpu].stream) {
		insist(gpu_enter(gpu));
		gpus[gpu].context = gpu_current();
		gpus[gpu].stream = gpu_stream();
		insist(gpus[gpu].stream);
	}
	pthread_mutex_unlock(&lock);
	insist(gpu_return(gpus[gpu].context));
	return before;
}

void kind_leave(gpu_context_t before)
{
	insist(gpu_return(before));
}

void *kind_alloc(enum kind kind, size_t bytes)
{
	if (kind == ON_HOST)
		return malloc(bytes);
	const gpu_context_t before = kind_enter(kind);
	void *const memory = kind == IS_MANAGED ? gpu_alloc_managed(bytes) : gpu_alloc(bytes);

	insist(memory);
	kind_leave(before);
	return memory;
}

void kind_free(enum kind kind, void *memory)
{
	if (kind == ON_HOST) {
		free(memory);
		return;
	}
	const gpu_context_t before = kind_enter(kind);

	insist(gpu_free(memory));
	kind_leave(before);
}

void kind_copy(enum kind kind, void *to, const void *from, size_t bytes)
{
	if (kind == ON_HOST) {
		memcpy(to, from, bytes);
		return;
	}
	const gpu_context_t before = kind_enter(kind);
	const gpu_stream_t stream = gpus[gpu_of(kind)].stream;

	insist(gpu_copy(to, from, bytes, stream) && gpu_finish(stream));
	kind_leave(before);
}
