/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how the threads of a grid copy bytes. */
#ifndef TT_CUDA_MOVING_CUH
#define TT_CUDA_MOVING_CUH

#include "compiler.cuh"
#include "numbers.cuh"

/* This thread's number among those of the grid, and how many these are. */
DEVICE uint64_t thread_number(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE uint64_t thread_count(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* Vectors that a thread has under way at once. */
#define COPIES 8

/* The vector that begins `shift` bytes behind the beginning of `low`, and ends in `high`. */
DEVICE unit<16> shifted(const unit<16> &low, const unit<16> &high, unsigned shift)
{
	uint32_t words[8];
	unit<16> result;

	UNROLL
	for (int i = 0; i < 4; i++) {
		words[i] = low.word[i];
		words[i + 4] = high.word[i];
	}
	UNROLL
	for (int i = 0; i < 6; i++)
		words[i] = shift & 8 ? words[i + 2] : words[i];
	UNROLL
	for (int i = 0; i < 5; i++)
		words[i] = shift & 4 ? words[i + 1] : words[i];
	UNROLL
	for (int i = 0; i < 4; i++)
		result.word[i] =
			(uint32_t)(((uint64_t)words[i + 1] << 32 | words[i]) >> 8 * (shift & 3));
	return result;
}

/* `count` vectors to where they are aligned. From where they are not, two aligned ones make one:
 * the second is the first of the next thread, and comes from the cache. Nothing outside the
 * source is touched: the caller keeps away from its ends. */
DEVICE void copy_vectors(char *dst, const char *src, uint64_t count, uint64_t thread,
			 uint64_t threads)
{
	const unsigned shift = (unsigned)((uintptr_t)src % 16);
	const unit<16> *from = (const unit<16> *)(src - shift);
	unit<16> *to = (unit<16> *)dst;

	NO_UNROLL
	for (uint64_t i = thread; i < count; i += COPIES * threads) {
		unit<16> low[COPIES];

		UNROLL
		for (int row = 0; row < COPIES; row++)
			if (i + row * threads < count)
				low[row] = from[i + row * threads];
		if (shift) {
			unit<16> high[COPIES];

			UNROLL
			for (int row = 0; row < COPIES; row++)
				if (i + row * threads < count)
					high[row] = from[i + row * threads + 1];
			UNROLL
			for (int row = 0; row < COPIES; row++)
				low[row] = shifted(low[row], high[row], shift);
		}
		UNROLL
		for (int row = 0; row < COPIES; row++)
			if (i + row * threads < count)
				store(&to[i + row * threads], low[row]);
	}
}

SHARED void copy(char *dst, const char *src, uint64_t bytes, uint64_t thread, uint64_t threads)
{
	uint64_t head = (16 - (uintptr_t)dst % 16) % 16, vectors = 0;
	const bool shifts = (uintptr_t)(src + head) % 16 != 0;

	if (shifts) /* the vectors begin and end a vector's length inside the source */
		head += 16;
	if (head + 16 * (uint64_t)shifts <= bytes)
		vectors = (bytes - head) / 16 - shifts;
	else
		head = 0;
	copy_vectors(dst + head, src + head, vectors, thread, threads);
	NO_UNROLL
	for (uint64_t i = threads - 1 - thread; i < bytes - 16 * vectors; i += threads) {
		const uint64_t at = i < head ? i : i + 16 * vectors;

		store(&dst[at], src[at]);
	}
}

/* Where a phase's bytes are, as this kernel addresses them. */
struct places {
	const char *src[TT_CUDA_RANKS];
	char *dst[TT_CUDA_RANKS];
};

/* How many vectors of 16 bytes lie behind the first `head` ones; 0 and 0 where pointers are not
 * equally aligned. */
DEVICE uint64_t vectors_of(const struct tt_cuda_part &part, const struct places &at, uint64_t *head)
{
	const uintptr_t first = (uintptr_t)at.dst[0] % 16;
	const uint64_t before = (16 - first) % 16;

	*head = 0;
	NO_UNROLL
	for (uint32_t s = 0; s < part.nsrc; s++)
		if ((uintptr_t)at.src[s] % 16 != first)
			return 0;
	NO_UNROLL
	for (uint32_t d = 1; d < part.ndst; d++)
		if ((uintptr_t)at.dst[d] % 16 != first)
			return 0;
	if (before > part.piece[0].bytes)
		return 0;
	*head = before;
	return (part.piece[0].bytes - before) / 16;
}

/* Vectors where all pointers are equally aligned, bytes before and behind them; elsewhere one copy
 * after the other. What lies there already is left out. */
SHARED void spread(const struct tt_cuda_part &part, const struct places &at)
{
	const uint64_t bytes = part.piece[0].bytes, thread = thread_number(),
		       threads = thread_count();
	const char *src = at.src[0];
	uint64_t head;
	const uint64_t vectors = vectors_of(part, at, &head);

	if (vectors == 0) {
		NO_UNROLL
		for (uint32_t d = 0; d < part.ndst; d++)
			if (at.dst[d] != src)
				copy(at.dst[d], src, bytes, thread, threads);
		return;
	}
	NO_UNROLL
	for (uint64_t i = thread; i < vectors; i += COPIES * threads) {
		unit<16> some[COPIES];

		UNROLL
		for (int row = 0; row < COPIES; row++)
			if (i + row * threads < vectors)
				some[row] = ((const unit<16> *)(src + head))[i + row * threads];
		NO_UNROLL
		for (uint32_t d = 0; d < part.ndst; d++) {
			if (at.dst[d] == src)
				continue;
			UNROLL
			for (int row = 0; row < COPIES; row++)
				if (i + row * threads < vectors)
					store(&((unit<16> *)(at.dst[d] + head))[i + row * threads],
					      some[row]);
		}
	}
	NO_UNROLL
	for (uint64_t i = threads - 1 - thread; i < bytes - 16 * vectors; i += threads) {
		const uint64_t k = i < head ? i : i + 16 * vectors;
		const char byte = src[k];

		NO_UNROLL
		for (uint32_t d = 0; d < part.ndst; d++)
			if (at.dst[d] != src)
				store(&at.dst[d][k], byte);
	}
}

/* Blocks that divide jobs among themselves: as many groups as there are jobs, if there are so many
 * blocks. */
struct share {
	uint32_t first, step;	  /* jobs first, first + step, … */
	uint32_t member, members; /* of those who have the same */
};

DEVICE struct share share_of(uint32_t jobs)
{
	const uint32_t groups = jobs < gridDim.x ? jobs : gridDim.x,
		       group = groups ? blockIdx.x % groups : 0;

	if (groups == 0)
		return { 0, 1, 0, 1 };
	return { group, groups, blockIdx.x / groups, (gridDim.x - group + groups - 1) / groups };
}

SHARED void copy_all(const struct tt_cuda_part &part, const struct places &at)
{
	const struct share share = share_of(part.nsrc);

	NO_UNROLL
	for (uint32_t job = share.first; job < part.nsrc; job += share.step)
		copy(at.dst[job], at.src[job], part.piece[job].bytes,
		     (uint64_t)share.member * blockDim.x + threadIdx.x,
		     (uint64_t)share.members * blockDim.x);
}

#endif
