/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that copy copy all and nothing else. */
#include "world.h"

#define COPY_LONGEST 3000
#define COPY_STRIDE  (((COPY_LONGEST + 64) / 16 + 1) * 16)

/* As many jobs as there can be: each from and to other places behind a multiple of 16. */
static void run_copies(size_t n, unsigned to, unsigned blocks)
{
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 1 };
	struct tt_cuda_part *part = &program.part[0];
	const size_t used = 2 * TT_CUDA_RANKS * COPY_STRIDE;

	part->kind = TT_CUDA_COPY;
	part->nsrc = TT_CUDA_RANKS;
	fill_edgy(TUTTI_UINT64, before, used / 8);
	memcpy(expected, before, used);
	for (unsigned job = 0; job < TT_CUDA_RANKS; job++) {
		const size_t src = job * COPY_STRIDE + job % 17,
			     dst = (TT_CUDA_RANKS + job) * COPY_STRIDE + to;

		part->piece[job].src = gpu_arena + src;
		part->piece[job].dst = gpu_arena + dst;
		part->piece[job].bytes = job < 17 ? n : n / 2;
		memcpy(expected + dst, before + src, part->piece[job].bytes);
	}
	move(gpu_arena, before, used);
	launch(module.copy, blocks, 64, &program);
	move(after, gpu_arena, used);
	assert_success(tt_cu.stream_synchronize(stream));
	if (memcmp(after, expected, used) != 0)
		fail_msg("copies of %zu bytes to %u behind a multiple of 16 differ", n, to);
}

TEST(copies_copy_every_byte_and_no_more)
{
	static const size_t sizes[] = { 0,  1,	2,  15, 16, 17,	 31,  32,   47,
					48, 49, 63, 64, 65, 100, 255, 1024, COPY_LONGEST };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned to = 0; to < 17; to++)
			run_copies(sizes[i], to, to % 3 ? 1 + to % 5 : TT_CUDA_RANKS + 1);
}

/* One source, which may be one of the targets; `apart`: they are not equally aligned. */
static void run_spread(size_t n, unsigned targets, unsigned at, bool apart, unsigned blocks)
{
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 1 };
	struct tt_cuda_part *part = &program.part[0];
	const size_t used = (TT_CUDA_RANKS + 1) * COPY_STRIDE;

	*part = (struct tt_cuda_part){ .kind = TT_CUDA_SPREAD,
				       .nsrc = 1,
				       .ndst = targets,
				       .piece = { { gpu_arena + at, NULL, { n } } } };
	fill_edgy(TUTTI_UINT64, before, used / 8);
	memcpy(expected, before, used);
	for (unsigned d = 0; d < targets; d++) {
		const size_t dst = d * COPY_STRIDE + at + (apart ? d % 5 : 0);

		part->piece[d].dst = gpu_arena + dst;
		memcpy(expected + dst, before + at, n);
	}
	move(gpu_arena, before, used);
	launch(module.copy, blocks, 64, &program);
	move(after, gpu_arena, used);
	assert_success(tt_cu.stream_synchronize(stream));
	if (memcmp(after, expected, used) != 0)
		fail_msg("%zu bytes at %u, spread to %u places, differ", n, at, targets);
}

TEST(what_is_spread_is_everywhere_and_nowhere_else)
{
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 48, 255, COPY_LONGEST };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 6; i++)
		run_spread(sizes[i / 6], i % 3 ? 1 + (unsigned)i % 7 : TT_CUDA_RANKS,
			   (unsigned)i % 17, i % 6 > 3, 1 + (unsigned)i % 3);
}
