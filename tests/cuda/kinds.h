/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of every kind that a program may have, for a test that treats all alike: what it needs
 * of CUDA is gpu/gpu.h's, found without the library under test. What CUDA refuses ends the
 * process. */
#ifndef TEST_KINDS_H
#define TEST_KINDS_H

#include <stddef.h>

#include "gpu/gpu.h"

enum kind { ON_HOST, ON_GPU_0, ON_GPU_1, IS_MANAGED, KINDS };

/* `bytes` of a kind, never 0 of them. */
void *kind_alloc(enum kind kind, size_t bytes);
void kind_free(enum kind kind, void *memory);
/* Copy to or from memory of any kind, which only CUDA may touch. Done when it returns. */
void kind_copy(enum kind kind, void *to, const void *from, size_t bytes);

/* Make the GPU of a kind the calling thread's until kind_leave(), which takes what this gives.
 * GPU 1 is 0 where there is one alone. */
gpu_context_t kind_enter(enum kind kind);
void kind_leave(gpu_context_t before);

#endif
