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

#define RANKS	   3
#define LINES	   512 /* that are exchanged at most with one peer */
#define SLOTS	   4   /* of a channel */
#define SLOT_BYTES 128

#define NUMBER 7 /* of the operation before */
#define MET    40

#define assert_success(call) assert_int_equal(call, 0)

/* Of the GPU, all in one allocation; the host writes them whole and reads them whole. */
struct world {
	struct tt_cuda_place place;
	struct tt_cuda_control
		control[RANKS]; /* of rank 0, whose kernels run here, and its peers */
	struct tt_cuda_line lines[RANKS][2][RANKS][LINES];
	char rooms[RANKS][RANKS][SLOTS][SLOT_BYTES];
};

extern const struct cuda_driver *cu;
extern struct tt_cuda_module *module;
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

cuda_address address(const void *pointer);
void move(void *dst, const void *src, size_t bytes);
void *gpu_alloc(size_t bytes);
/* Rank 0 of three. */
struct tt_cuda_sync this_rank(void);
/* `program`: or a post. */
void launch(struct CUfunc_st *kernel, unsigned blocks, unsigned threads, void *program);

void new_world(void);
/* In the world as it is written down, which is read again afterwards. */
void run_in_world(struct CUfunc_st *kernel, void *program, unsigned blocks);
struct tt_cuda_part copy_of_512(void);
void fill_1024(void);
bool has_moved_512(void);
struct tt_cuda_sync header_of(struct tt_cuda_sync sync, char byte);
bool is_filled(const uint8_t *bytes, char with);

/* numbers.c: one launch, where its sources and targets lie in the arena. */
struct trial {
	int op, dtype; /* op TUTTI_OP_COUNT: scaling */
	unsigned nsrc, ndst, divisor;
	size_t n, src[TT_CUDA_RANKS], dst[TT_CUDA_RANKS];
};
struct CUfunc_st *kernel_of(const struct trial *trial);
/* What the host makes of what the arena holds before; the scalar is the first number of the first
 * source. */
void combine_on_host(const struct trial *trial, char *result);
void compare(const struct trial *trial, const char *want, const char *have);
bool is_defined(int op, int dtype);

/* meetings.c: the others have arrived as often as this rank, and called operation NUMBER + 1 with
 * signature `theirs`. */
void let_others_come(uint64_t theirs);
void assert_called(const struct tt_cuda_line *line, uint64_t signature);
/* Until the kernel has told the host that it waits for rank `r`. Blocks that waited for each other may
 * take that back, and the one that still waits says so again. */
void await_missing(int r);

#endif
