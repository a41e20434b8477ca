/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what runs on GPUs. Every kernel but that of letters.cuh is called NAME(struct tt_cuda_program);
 * kernels.h says what
 * that is and what the kernel does with it. The grid is of one dimension and may have any size, but
 * all of its blocks have to run at once where ranks meet inside kernels; blocks have up to
 * TT_CUDA_THREADS threads.
 *
 *   tt_cuda_copy             copies alone
 *   tt_cuda_OP_TYPE          reductions, and copies; integers whose sign does not matter are those
 *                            without sign (prod, band, bor, bxor). An average is a sum with a
 *                            divisor; that of 32-bit integers has kernels of its own, which add in
 *                            64 bits
 *   tt_cuda_scale_TYPE       likewise, without exchanges
 *
 * The same files are read by C++ compilers, for the stand-in of the driver: there the threads of a
 * block take turns at its barriers, and __shared__ is static thread_local.
 *
 * All loads are plain ones: sources may be written by peers while the kernel runs, and by the
 * kernel itself in place, so neither the read-only path (ld.global.nc) nor __restrict__ is for
 * them. Results are read soon, by the next phase or by a peer: stores are plain, too. */
#include "kernels.h"
#include "exchange.cuh"
#include "letters.cuh"
#include "meeting.cuh"
#include "moving.cuh"
#include "numbers.cuh"
#include "multimem.cuh"

/* ---------------------------------------------------------------- reductions */

template <class N> DEVICE typename N::acc factor_of(const struct tt_cuda_part &part)
{
	typename N::bits stored;

	memcpy(&stored, part.scalar, sizeof(stored));
	return N::read(stored);
}

/* Loads that a thread has under way at once. */
#define LOADS 8

/* `count` units of BYTES, the first of them `first` bytes behind the pointers, with a gap of
 * `gap` units before number `gap_at`: the numbers before and behind the vectors are done as one
 * row. Thread t does t, t + threads, …, ROWS of them at once, of GROUP sources at once: that
 * many loads are under way before the first of them is needed. */
template <class N, class OP, int BYTES, int ROWS>
DEVICE void reduce_units(const struct tt_cuda_part &part, const struct places &places,
			 uint64_t first, uint64_t count, uint64_t thread, uint64_t gap_at,
			 uint64_t gap)
{
	enum { NUMBERS = BYTES / N::WIDTH, GROUP = LOADS / ROWS };
	typedef typename N::bits bits;
	const uint64_t threads = thread_count();
	const typename N::acc factor = factor_of<N>(part);

	NO_UNROLL
	for (uint64_t i = thread; i < count; i += ROWS * threads) {
		typename N::acc acc[ROWS][NUMBERS];
		uint64_t at[ROWS];
		bool is[ROWS];

		UNROLL
		for (int row = 0; row < ROWS; row++) {
			const uint64_t k = i + row * threads;

			is[row] = k < count;
			at[row] = first + (k < gap_at ? k : k + gap) * BYTES;
			UNROLL
			for (int e = 0; e < NUMBERS; e++)
				acc[row][e] = 0;
		}
		NO_UNROLL
		for (uint32_t s = 0; s < part.nsrc; s += GROUP) {
			unit<BYTES> units[GROUP][ROWS];

			UNROLL
			for (uint32_t g = 0; g < GROUP; g++)
				UNROLL
			for (int row = 0; row < ROWS; row++) {
				units[g][row] = unit<BYTES>();
				if (is[row] && s + g < part.nsrc)
					units[g][row] =
						*(const unit<BYTES> *)(places.src[s + g] + at[row]);
			}
			UNROLL
			for (uint32_t g = 0; g < GROUP; g++) {
				if (s + g >= part.nsrc)
					break;
				UNROLL
				for (int row = 0; row < ROWS; row++)
					UNROLL
				for (int e = 0; e < NUMBERS; e++) {
					const typename N::acc number =
						N::read(get<bits, N::WIDTH>(units[g][row], e));

					acc[row][e] = s + g == 0 ? number
								 : OP::combine(acc[row][e], number);
				}
			}
		}
		unit<BYTES> results[ROWS];

		UNROLL
		for (int row = 0; row < ROWS; row++) {
			results[row] = unit<BYTES>();
			UNROLL
			for (int e = 0; e < NUMBERS; e++)
				put<bits, N::WIDTH>(
					results[row], e,
					N::write(OP::finish(acc[row][e], part.divisor, factor)));
		}
		NO_UNROLL
		for (uint32_t d = 0; d < part.ndst; d++)
			UNROLL
		for (int row = 0; row < ROWS; row++)
			if (is[row])
				store((unit<BYTES> *)(places.dst[d] + at[row]), results[row]);
	}
}

template <class N, class OP>
DEVICE void reduce(const struct tt_cuda_part &part, const struct places &places)
{
	const uint64_t bytes = part.piece[0].bytes, thread = thread_number();
	uint64_t head;
	const uint64_t vectors = vectors_of(part, places, &head);

	if (part.nsrc == 0)
		return;
	reduce_units<N, OP, 16, (N::WIDTH == 1 ? 2 : 4)>(part, places, head, vectors, thread,
							 vectors, 0);
	/* what is left by the threads that have the fewest vectors, if there are any */
	reduce_units<N, OP, N::WIDTH, 4>(part, places, 0, (bytes - 16 * vectors) / N::WIDTH,
					 vectors ? thread_count() - 1 - thread : thread,
					 head / N::WIDTH, 16 * vectors / N::WIDTH);
}

/* ---------------------------------------------------------------- kernels */

struct copying {
	__device__ static void move(const struct tt_cuda_part &part, const struct places &places)
	{
	}

	__device__ static bool swap(const struct exchange &exchange)
	{
		exchange.give<1>();
		return exchange.take();
	}
};

template <class N, class OP> struct reducing {
	__device__ static void move(const struct tt_cuda_part &part, const struct places &places)
	{
		reduce<N, OP>(part, places);
	}

	__device__ static bool swap(const struct exchange &exchange)
	{
		exchange.give<N::WIDTH>();
		return exchange.combine<N, OP>();
	}
};

template <class N> struct scaling {
	__device__ static void move(const struct tt_cuda_part &part, const struct places &places)
	{
		reduce<N, op_scale<N>>(part, places);
	}

	__device__ static bool swap(const struct exchange &exchange)
	{
		return true;
	}
};

/* Until peers have taken all messages of this rank. */
SHARED bool drain(const struct tt_cuda_sync *sync, const struct turn *turn)
{
	const struct tt_cuda_control *own = sync->own;
	bool well = true;

	NO_UNROLL
	for (uint32_t r = threadIdx.x; r < sync->ranks; r += blockDim.x)
		NO_UNROLL
	for (uint32_t k = 0; k < TT_CUDA_SLOTS && k < own->sent[r] && well; k++) {
		const uint32_t number = own->sent[r] - k;

		well = wait_until(sync, turn, r, first_block_asks(), [&] {
			return (int32_t)(load_acquire(
						 &own->freed[r][(number - 1) % TT_CUDA_SLOTS]) -
					 number) >= 0;
		});
	}
	return __syncthreads_and(well);
}

/* What lies at `address`, or where its owner has told, since ranks have met. */
DEVICE char *find(const struct tt_cuda_sync *sync, const struct turn *turn, const void *address)
{
	const uint64_t bits = (uint64_t)(uintptr_t)address, owner = bits >> TT_CUDA_OWNER_BIT;

	if (owner == 0)
		return (char *)address;
	const uint64_t(*told)[2] = sync->own->told[turn->number & 1];
	const uint64_t at = glance(&told[(owner - 1) / 2][(owner - 1) % 2]) +
			    (bits & (((uint64_t)1 << TT_CUDA_OWNER_BIT) - 1));
#ifdef __CUDACC__
	return (char *)(uintptr_t)at;
#else
	return (char *)standin_told((const void *)(uintptr_t)at);
#endif
}

/* Have all told addresses, since ranks have met? The same for all threads of the grid. */
DEVICE bool all_told(const struct tt_cuda_sync *sync, const struct turn *turn)
{
	bool told = true;

	NO_UNROLL
	for (uint32_t i = threadIdx.x; i < 2 * sync->ranks; i += blockDim.x)
		told = glance(&sync->own->told[turn->number & 1][i / 2][i % 2]) !=
			       TT_CUDA_NOWHERE &&
		       told;
	return __syncthreads_and(told);
}

/* Once for each block. */
DEVICE void find_all(const struct tt_cuda_sync *sync, const struct turn *turn,
		     const struct tt_cuda_part &part, struct places *places)
{
	__syncthreads(); /* nobody is at those of the phase before */
	NO_UNROLL
	for (uint32_t i = threadIdx.x; i < TT_CUDA_RANKS; i += blockDim.x) {
		const uint32_t targets = part.kind == TT_CUDA_COPY ? part.nsrc : part.ndst;

		if (i < part.nsrc)
			places->src[i] = find(sync, turn, part.piece[i].src);
		if (i < targets)
			places->dst[i] = find(sync, turn, part.piece[i].dst);
	}
	__syncthreads();
}

/* False: the communicator has ended. The same for all threads of a block. */
template <class WORK>
DEVICE bool move(const struct tt_cuda_sync *sync, const struct turn *turn,
		 const struct tt_cuda_part &part)
{
	__shared__ struct places places;

	if (part.kind == TT_CUDA_EXCHANGE) {
		const struct exchange exchange = { sync, &part, turn };

		exchange.call();
		const bool swapped = WORK::swap(exchange);
		return __syncthreads_and(exchange.meet_all() && swapped);
	}
	if (part.kind == TT_CUDA_DRAIN)
		return drain(sync, turn);
	if (part.kind == TT_CUDA_NOTHING)
		return true;
	find_all(sync, turn, part, &places);
	if (part.kind == TT_CUDA_COPY)
		copy_all(part, places);
	else if (part.kind == TT_CUDA_SPREAD)
		spread(part, places);
	else
		WORK::move(part, places);
	return true;
}

template <class WORK> DEVICE void run(const struct tt_cuda_program &program)
{
	const struct tt_cuda_sync *sync = &program.sync;
	struct turn turn;

	if (!begin(sync, &turn))
		return;
	if (sync->follows && glance(&sync->own->went) == turn.number) {
		if (sync->ends && thread_number() == 0)
			tell_host(sync, &turn);
		return;
	}
	NO_UNROLL
	for (uint32_t i = 0; i < program.phases; i++) {
		const struct tt_cuda_part &part = program.part[i];

		const bool looks = i == 0 && sync->looks, last = i + 1 == program.phases;

		if ((part.awaits || part.checks || looks) &&
		    !meet(sync, &turn, part.awaits, part.checks, looks))
			return;
		const bool goes = !sync->maybe || all_told(sync, &turn);

		if (goes && !move<WORK>(sync, &turn, part))
			return;
		tell(sync, &turn, part.introduces, part.arrives, goes, last);
	}
}

KERNEL tt_cuda_copy(PARAMETER(struct tt_cuda_program, program))
{
	run<copying>(program);
}

#define REDUCE(op, type, number)                                                                   \
	KERNEL tt_cuda_##op##_##type(PARAMETER(struct tt_cuda_program, program))                   \
	{                                                                                          \
		run<reducing<number, op_##op<number>>>(program);                                   \
	}

#define SCALE(type, number)                                                                        \
	KERNEL tt_cuda_scale_##type(PARAMETER(struct tt_cuda_program, program))                    \
	{                                                                                          \
		run<scaling<number>>(program);                                                     \
	}

#define REDUCE_ORDERED(type, number)                                                               \
	REDUCE(sum, type, number)                                                                  \
	REDUCE(min, type, number)                                                                  \
	REDUCE(max, type, number)

#define REDUCE_INTEGER(width, intermediate)                                                        \
	typedef integer<int##width##_t, int##intermediate##_t, uint##intermediate##_t> i##width;   \
	typedef integer<uint##width##_t, uint##intermediate##_t, uint##intermediate##_t> u##width; \
	REDUCE_ORDERED(int##width, i##width)                                                       \
	REDUCE_ORDERED(uint##width, u##width)                                                      \
	REDUCE(prod, uint##width, u##width)                                                        \
	REDUCE(band, uint##width, u##width)                                                        \
	REDUCE(bor, uint##width, u##width)                                                         \
	REDUCE(bxor, uint##width, u##width)                                                        \
	SCALE(uint##width, u##width)

#define REDUCE_FLOAT(type, name)                                                                   \
	typedef floating<name##_format> name;                                                      \
	REDUCE_ORDERED(type, name)                                                                 \
	REDUCE(prod, type, name)                                                                   \
	SCALE(type, name)

REDUCE_INTEGER(8, 32)
REDUCE_INTEGER(16, 32)
REDUCE_INTEGER(32, 32)
REDUCE_INTEGER(64, 64)
typedef integer<int32_t, int64_t, uint64_t> i32_wide;
typedef integer<uint32_t, uint64_t, uint64_t> u32_wide;
REDUCE(avg, int32, i32_wide)
REDUCE(avg, uint32, u32_wide)
REDUCE_FLOAT(float16, f16)
REDUCE_FLOAT(bfloat16, bf16)
REDUCE_FLOAT(float32, f32)
REDUCE_FLOAT(float64, f64)
REDUCE_FLOAT(float8_e4m3, e4m3)
REDUCE_FLOAT(float8_e5m2, e5m2)

KERNEL tt_cuda_multicast_copy(PARAMETER(struct tt_cuda_program, program))
{
	run<multicasting<as_it_is>>(program);
}

MULTICAST_SUM(float16, f16, ".acc::f32.v4.f16x2")
MULTICAST_SUM(bfloat16, bf16, ".acc::f32.v4.bf16x2")
MULTICAST_SUM(float32, f32, ".v4.f32")
