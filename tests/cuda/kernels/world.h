/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of the kernels share: a GPU, memory that kernels move, and a rank's world, in which ranks
 * meet that are not there. Each subject has a file. */
#ifndef TEST_KERNELS_WORLD_H
#define TEST_KERNELS_WORLD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "cuda/kernels.h"
#include "cuda/module.h"
#include "kernels_check.h"

#define ARENA	 ((size_t)3 << 20)
#define REGIONS	 11 /* of the arena: sources, then targets */
#define SOURCES	 8
#define EVERY_16 65536

#define RANKS 3

#define assert_success(call) assert_int_equal(call, 0)

/* Of the GPU, all in one allocation; the host writes them whole and reads them whole. */
struct world {
	struct tt_cuda_place place;
	struct tt_cuda_control
		control[RANKS]; /* of rank 0, whose kernels run here, and its peers */
};

extern struct tt_cuda_module module;
extern struct CUstream_st *stream;
extern cuda_device device;
extern struct world world;
extern struct world *gpu_world;
extern struct tt_cuda_report *report;
extern char *gpu_arena;
extern char before[ARENA], after[ARENA], expected[ARENA];

/* What cannot be had here is said: TUTTI_ERR_UNSUPPORTED. */
tutti_result_t begin(void);
void end(void);

void move(void *dst, const void *src, size_t bytes);
void *gpu_alloc(size_t bytes);
/* Rank 0 of three. */
struct tt_cuda_sync this_rank(void);
void new_world(void);
void launch(struct CUfunc_st *kernel, unsigned blocks, unsigned threads, void *program);

bool is_defined(int op, int dtype); /* numbers.c */

#endif
