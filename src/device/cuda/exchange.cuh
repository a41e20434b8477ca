/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns exchanges: what a rank stores into its peers' lines, and makes of its own (kernels.h). */
#ifndef TT_CUDA_EXCHANGE_CUH
#define TT_CUDA_EXCHANGE_CUH

#include "meeting.cuh"
#include "moving.cuh"
#include "numbers.cuh"

/* 8 bytes of `bytes` at `memory`, from number 8 × `at` on; zeros behind them. Memory is aligned to
 * WIDTH. */
template <int WIDTH> DEVICE uint64_t load_eight(const void *memory, uint64_t bytes, uint64_t at)
{
	const char *from = (const char *)memory + 8 * at;
	const uint64_t left = bytes - 8 * at;
	uint64_t data = 0;

	if (left >= 8 && (uintptr_t)from % 8 == 0)
		return *(const uint64_t *)from;
	NO_UNROLL
	for (int e = 0; e < 8 / WIDTH; e++)
		if ((uint64_t)(e + 1) * WIDTH <= left)
			data |= (uint64_t)((const unit<WIDTH> *)from)[e].bits
				<< (8 * WIDTH * e) % 64;
	return data;
}

template <int WIDTH>
DEVICE void store_eight(void *memory, uint64_t bytes, uint64_t at, uint64_t data)
{
	char *to = (char *)memory + 8 * at;
	const uint64_t left = bytes - 8 * at;

	if (left >= 8 && (uintptr_t)to % 8 == 0) {
		store((uint64_t *)to, data);
		return;
	}
	NO_UNROLL
	for (int e = 0; e < 8 / WIDTH; e++) {
		unit<WIDTH> number;

		put<uint64_t, WIDTH>(number, 0, data >> (8 * WIDTH * e) % 64);
		if ((uint64_t)(e + 1) * WIDTH <= left)
			store((unit<WIDTH> *)to + e, number);
	}
}

/* Each thread waits for lines of its own. */
DEVICE struct asking warps_ask_in_turn(void)
{
	const uint32_t warps = (blockDim.x + 31) / 32;

	return { gridDim.x * warps, blockIdx.x * warps + threadIdx.x / 32 };
}

/* Until the line has come that rank `from` stores; false: it will not. */
DEVICE bool await_line(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t from,
		       const struct tt_cuda_line *line, struct tt_cuda_line *got)
{
	return wait_until(sync, turn, from, warps_ask_in_turn(), [&] {
		*got = load_line(line);
		return is_of(got, turn->number);
	});
}

/* One rank's part in an exchange. */
struct exchange {
	const struct tt_cuda_sync *sync;
	const struct tt_cuda_part *part;
	const struct turn *turn;

	/* What rank `from` has for rank `to`. */
	__device__ struct tt_cuda_line *lines(uint32_t to, uint32_t from) const
	{
		const uint64_t set = (uint64_t)(turn->number & 1) * sync->ranks + from;

		return turn->place->lines[to] + set * (sync->line_bytes / 8);
	}

	/* The rank `k` behind this one. */
	__device__ uint32_t rank_behind(uint32_t k) const
	{
		const uint32_t r = sync->rank + k;

		return r < sync->ranks ? r : r - sync->ranks;
	}

	__device__ bool await(struct tt_cuda_line *got, const struct tt_cuda_line *line,
			      uint32_t from) const
	{
		if (is_of(got, turn->number))
			return true;
		struct tt_cuda_line later;

		if (!await_line(sync, turn, from, line, &later))
			return false;
		*got = later;
		return true;
	}

	/* ndst: of lines the most that go to one rank. */
	template <int WIDTH> __device__ void give() const
	{
		NO_UNROLL
		for (uint64_t at = thread_number(); at < part->ndst; at += thread_count())
			NO_UNROLL
		for (uint32_t k = 1; k < sync->ranks; k++) {
			const uint32_t r = rank_behind(k);

			if (8 * at < part->piece[r].out)
				store_line(lines(r, sync->rank) + at,
					   load_eight<WIDTH>(part->piece[r].src, part->piece[r].out,
							     at),
					   turn->number);
		}
	}

	/* Each thread does the 8 bytes that it gave: what it overwrites has been given. */
	__device__ bool take() const
	{
		bool well = true;

		NO_UNROLL
		for (uint32_t k = 0; k < sync->ranks && well; k++) {
			const uint32_t r = rank_behind(k);
			const struct tt_cuda_line *from = lines(sync->rank, r);

			if (k == 0 && part->piece[r].dst == part->piece[r].src)
				continue;
			NO_UNROLL
			for (uint64_t at = thread_number(); 8 * at < part->piece[r].in && well;
			     at += thread_count()) {
				struct tt_cuda_line got;

				if (k == 0) {
					store_eight<1>(part->piece[r].dst, part->piece[r].in, at,
						       load_eight<1>(part->piece[r].src,
								     part->piece[r].in, at));
					continue;
				}
				well = await_line(sync, turn, r, from + at, &got);
				if (well)
					store_eight<1>(part->piece[r].dst, part->piece[r].in, at,
						       data_of(&got));
			}
		}
		return well;
	}

	/* Sources of which loads are under way at once. */
	enum { GROUP = 4 };

	template <class N, class OP> __device__ bool combine_eight(uint64_t at) const
	{
		enum { NUMBERS = 8 / N::WIDTH };
		typedef typename N::bits bits;
		typename N::acc acc[NUMBERS] = {};
		const uint64_t own =
			load_eight<N::WIDTH>(part->piece[sync->rank].src, part->piece[0].in, at);
		uint64_t result = 0;

		NO_UNROLL
		for (uint32_t s = 0; s < part->nsrc; s += GROUP) {
			struct tt_cuda_line got[GROUP] = {};

			UNROLL
			for (uint32_t g = 0; g < GROUP; g++)
				if (s + g < part->nsrc && s + g != sync->rank)
					got[g] = load_line(lines(sync->rank, s + g) + at);
			UNROLL
			for (uint32_t g = 0; g < GROUP; g++) {
				if (s + g >= part->nsrc)
					break;
				if (s + g != sync->rank &&
				    !await(&got[g], lines(sync->rank, s + g) + at, s + g))
					return false;
				const uint64_t data = s + g == sync->rank ? own : data_of(&got[g]);

				UNROLL
				for (int e = 0; e < NUMBERS; e++) {
					const typename N::acc number =
						N::read((bits)(data >> (8 * N::WIDTH * e) % 64));

					acc[e] = s + g == 0 ? number : OP::combine(acc[e], number);
				}
			}
		}
		UNROLL
		for (int e = 0; e < NUMBERS; e++) {
			const uint64_t stored =
				(uint64_t)N::write(OP::finish(acc[e], part->divisor, acc[e]));

			result |= (N::WIDTH == 8 ? stored
						 : stored & ((1ull << 8 * (N::WIDTH % 8)) - 1))
				  << (8 * N::WIDTH * e) % 64;
		}
		store_eight<N::WIDTH>(part->piece[0].dst, part->piece[0].in, at, result);
		return true;
	}

	template <class N, class OP> __device__ bool combine() const
	{
		bool well = true;

		NO_UNROLL
		for (uint64_t at = thread_number(); 8 * at < part->piece[0].in && well;
		     at += thread_count())
			well = combine_eight<N, OP>(at);
		return well;
	}

	/* Everybody has called the same: this rank has heard from all, whatever came of them. */
	__device__ bool meet_all() const
	{
		bool well = true;

		if (blockIdx.x == 0)
			NO_UNROLL
		for (uint32_t r = blockDim.x - 1 - threadIdx.x; r < sync->ranks && well;
		     r += blockDim.x)
			well = await_call(sync, turn, r, first_block_asks());
		return well;
	}

	/* As below, by the last threads of the first block: the first ones may be all that have
	 * something to give and to take. */
	__device__ void call() const
	{
		if (blockIdx.x == 0)
			introduce(sync, turn, blockDim.x - 1 - threadIdx.x, blockDim.x);
	}
};

#endif
