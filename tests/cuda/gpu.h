/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA as a program uses it that a test stands for: by the driver's library that TUTTI_CUDA_LIBRARY names, found without the library under test. */
#ifndef TEST_GPU_H
#define TEST_GPU_H

#include <stdbool.h>
#include <stddef.h>

/* Load the driver, as linking with it would; false after a word about why not. Loaded is not started. */
bool gpu_load(void);
/* cuInit(); its result. */
unsigned gpu_start(void);

enum gpu_memory { ON_HOST, ON_GPU_0, ON_GPU_1, IS_MANAGED, GPU_MEMORIES };

/* `bytes` of a kind, never 0 of them; ends the process if there are none. */
void *gpu_alloc(enum gpu_memory kind, size_t bytes);
void gpu_free(enum gpu_memory kind, void *memory);
/* Copy to and from memory of any kind, which only CUDA may touch. Done when it returns. */
void gpu_put(enum gpu_memory kind, void *to, const void *from, size_t bytes);
void gpu_get(enum gpu_memory kind, void *to, const void *from, size_t bytes);

/* The calling thread's context, NULL for none; and one of GPU `number`, to be pushed and popped, with a stream in it. GPU 1 is 0 where there is one alone. */
void *gpu_current(void);
void *gpu_push(int number);
void gpu_pop(void);

#endif
