/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static struct {
	void *context, *stream;
} gpus[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool gpu_load(void)
{
	const char *name = getenv("TUTTI_CUDA_LIBRARY");

	if (!library)
		library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		puts(dlerror());
	return library != NULL;
}

static void *find(const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "CUDA's driver has no %s\n", name);
		abort();
	}
	return function;
}

#define CALL(name, types, ...)                                                               \
	do {                                                                                 \
		unsigned(*function) types;                                                   \
		void *const found = find(#name);                                             \
		memcpy(&function, &found, sizeof(found));                                    \
		const unsigned error = function(__VA_ARGS__);                                \
		if (error) {                                                                 \
			fprintf(stderr, "%s:%d: %s: error %u\n", __FILE__, __LINE__, #name, error); \
			abort();                                                             \
		}                                                                            \
	} while (0)

unsigned gpu_start(void)
{
	unsigned (*start)(unsigned);
	void *const found = find("cuInit");

	memcpy(&start, &found, sizeof(found));
	return start(0);
}

void *gpu_push(int number)
{
	int device, count;

	CALL(cuDeviceGetCount, (int *), &count);
	if (number >= count)
		number = 0;
	pthread_mutex_lock(&lock);
	if (!gpus[number].context) {
		void *ours;

		CALL(cuDeviceGet, (int *, int), &device, number);
		CALL(cuDevicePrimaryCtxRetain, (void **, int), &gpus[number].context, device);
		CALL(cuCtxPushCurrent_v2, (void *), gpus[number].context);
		CALL(cuStreamCreate, (void **, unsigned), &gpus[number].stream, 1);
		CALL(cuCtxPopCurrent_v2, (void **), &ours);
	}
	pthread_mutex_unlock(&lock);
	CALL(cuCtxPushCurrent_v2, (void *), gpus[number].context);
	return gpus[number].stream;
}

void gpu_pop(void)
{
	void *ours;

	CALL(cuCtxPopCurrent_v2, (void **), &ours);
}

void *gpu_current(void)
{
	void *context;

	CALL(cuCtxGetCurrent, (void **), &context);
	return context;
}

void *gpu_alloc(enum gpu_memory kind, size_t bytes)
{
	unsigned long long memory;

	if (kind == ON_HOST)
		return malloc(bytes);
	gpu_push(kind == ON_GPU_1);
	if (kind == IS_MANAGED)
		CALL(cuMemAllocManaged, (unsigned long long *, size_t, unsigned), &memory, bytes, 1);
	else
		CALL(cuMemAlloc_v2, (unsigned long long *, size_t), &memory, bytes);
	gpu_pop();
	return (void *)(size_t)memory;
}

void gpu_free(enum gpu_memory kind, void *memory)
{
	if (kind == ON_HOST) {
		free(memory);
		return;
	}
	gpu_push(kind == ON_GPU_1);
	CALL(cuMemFree_v2, (unsigned long long), (size_t)memory);
	gpu_pop();
}

static void copy(enum gpu_memory kind, void *to, const void *from, size_t bytes)
{
	if (kind == ON_HOST) {
		memcpy(to, from, bytes);
		return;
	}
	void *const stream = gpu_push(kind == ON_GPU_1);
	CALL(cuMemcpyAsync, (unsigned long long, unsigned long long, size_t, void *), (size_t)to, (size_t)from, bytes, stream);
	CALL(cuStreamSynchronize, (void *), stream);
	gpu_pop();
}

void gpu_put(enum gpu_memory kind, void *to, const void *from, size_t bytes)
{
	copy(kind, to, from, bytes);
}

void gpu_get(enum gpu_memory kind, void *to, const void *from, size_t bytes)
{
	copy(kind, to, from, bytes);
}
