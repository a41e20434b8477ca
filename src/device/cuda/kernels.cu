/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what runs on GPUs. Every kernel is called NAME(struct tt_cuda_part, struct tt_cuda_sync);
 * kernels.h says what they are and what the kernel does with them. The grid may have any size,
 * blocks up to TT_CUDA_THREADS threads.
 *
 *   tt_cuda_copy             bytes; without jobs it only waits for flags and sets them
 *   tt_cuda_OP_TYPE          reductions; integers whose sign does not matter are those without sign (prod, band, bor, bxor). An average is a sum with a
 *                            divisor; that of 32-bit integers has kernels of its own, which add
 *                            in 64 bits
 *   tt_cuda_scale_TYPE       likewise
 *
 * The same file is read by C++ compilers, for the stand-in of the driver: there the threads of a
 * block run one after the other, from the first to the last, and __shared__ is static thread_local.
 * Hence what decides for a block is done by its first thread, and what comes after all others by
 * its last.
 *
 * Numbers get the bits that the host's plain C kernels give (src/kernels/c.c), but for the payload
 * of NaNs. Compiled with -fmad=false, as those are with -ffp-contract=off: no product and sum
 * become one operation with one rounding.
 *
 * All loads are plain ones: sources may be written by peers before the kernel begins, and by the
 * kernel itself in place, so neither the read-only path (ld.global.nc) nor __restrict__ is for
 * them. Results are read soon, by the next kernel or by a peer: stores are plain, too. */
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define DEVICE	  static inline __device__
#define TT_DEVICE __device__
#include "convert.h"

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void __launch_bounds__(TT_CUDA_THREADS, 1)
#define PARAMETERS                                                                                 \
	const __grid_constant__ struct tt_cuda_part part,                                          \
		const __grid_constant__ struct tt_cuda_sync sync /* read where they lie */
#define UNROLL	  _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#else
#define KERNEL	   extern "C" __global__ void
#define PARAMETERS struct tt_cuda_part part, struct tt_cuda_sync sync
#define UNROLL
#define NO_UNROLL
#endif

#ifdef __CUDA_ARCH__
#define ARCH __CUDA_ARCH__
#else
#define ARCH 0
#endif

/* ---------------------------------------------------------------- signals of peers */

/* The peer that called something else than this rank, or -1. Eight are read at once. */
DEVICE int find_mismatch(const struct tt_cuda_place *place, const struct tt_cuda_sync *sync)
{
	const volatile uint64_t *theirs = place->own->signature;
	int found = -1;

	if (sync->kind == TT_CUDA_RECV)
		return place->own->sent_signature[sync->peer] == sync->signature ? -1
										 : (int)sync->peer;
	NO_UNROLL
	for (int r = 0; r < (int)place->ranks; r += 8) {
		uint64_t some[8];

		UNROLL
		for (int i = 0; i < 8; i++)
			some[i] = theirs[r + i];
		UNROLL
		for (int i = 0; i < 8; i++)
			if (r + i < (int)place->ranks && some[i] != sync->signature && found < 0)
				found = r + i;
	}
	return found;
}

DEVICE void report_mismatch(const struct tt_cuda_place *place, const struct tt_cuda_sync *sync,
			    int peer)
{
	const struct tt_cuda_control *control = place->control[peer];
	const volatile uint8_t *theirs =
		sync->kind == TT_CUDA_RECV ? control->sent_header[place->rank] : control->header;
	struct tt_cuda_report *report = place->report;

	NO_UNROLL
	for (int i = 0; i < TT_CUDA_HEADER; i++) {
		report->mine[i] = sync->header[i];
		report->theirs[i] = theirs[i];
	}
	__threadfence_system();
	*(volatile uint32_t *)&report->mismatch = 1 + (uint32_t)peer;
	__threadfence_system();
	*(volatile uint32_t *)&place->own->dead = 1;
}

/* May this block move anything? All of its threads get the same answer: if one moved nothing, as
 * `dead` was set in between, and another one gave a signal, a peer would use what is not there.
 * Blocks may get different answers: one that moves nothing takes no ticket, so that nobody gives
 * word. */
DEVICE bool may_move(const struct tt_cuda_sync *sync)
{
	__shared__ int may;

	if (threadIdx.x == 0) {
		const struct tt_cuda_place *place = sync->place;
		const uint32_t dead = *(volatile uint32_t *)&place->own->dead;
		const int peer = sync->check ? find_mismatch(place, sync) : -1;

		may = !dead && peer < 0;
		if (!dead && peer >= 0 && blockIdx.x == 0 && blockIdx.y == 0)
			report_mismatch(place, sync, peer);
	}
	__syncthreads();
	return may;
}

/* What was waited for has come and was used. */
DEVICE void count_ended(const struct tt_cuda_place *place)
{
	struct tt_cuda_control *own = place->own;
	volatile struct tt_cuda_report *report = place->report;

	report->waiting = TT_CUDA_AWAITS_NOBODY;
	report->ended = ++own->ended;
}

DEVICE void copy_header(volatile uint8_t *to, const uint8_t *header)
{
	NO_UNROLL
	for (int i = 0; i < TT_CUDA_HEADER; i++)
		to[i] = header[i];
}

DEVICE void meet(const struct tt_cuda_place *place, const struct tt_cuda_sync *sync)
{
	struct tt_cuda_control *own = place->own;

	if (sync->clear >= 0) {
		volatile uint64_t *words = (volatile uint64_t *)own->posted[sync->clear];

		for (int i = 0; i < TT_CUDA_RANKS / TT_CUDA_FLAG; i++)
			words[i] = 0;
		if (sync->clear != TT_CUDA_SYNCS - 1)
			count_ended(place);
	}
	if (sync->introduces) {
		copy_header(own->header, sync->header);
		NO_UNROLL
		for (uint32_t r = 0; r < place->ranks; r++)
			*(volatile uint64_t *)&place->control[r]->signature[place->rank] =
				sync->signature;
	}
	if (sync->post < 0)
		return;
	if (sync->post != TT_CUDA_SYNCS - 1)
		*(volatile uint64_t *)&place->report->waiting = TT_CUDA_AWAITS_ALL;
	__threadfence_system();
	NO_UNROLL
	for (uint32_t r = 0; r < place->ranks; r++)
		*(volatile uint8_t *)&place->control[r]->posted[sync->post][place->rank] = 1;
}

DEVICE void give_sent(const struct tt_cuda_place *place, const struct tt_cuda_sync *sync)
{
	struct tt_cuda_control *own = place->own, *peer = place->control[sync->peer];

	*(volatile uint64_t *)&own->taken[sync->peer] = 0;
	count_ended(place);
	if (sync->introduces) {
		copy_header(own->sent_header[sync->peer], sync->header);
		*(volatile uint64_t *)&peer->sent_signature[place->rank] = sync->signature;
	}
	__threadfence_system();
	*(volatile uint64_t *)&peer->sent[place->rank] = 1;
}

DEVICE void give_taken(const struct tt_cuda_place *place, const struct tt_cuda_sync *sync)
{
	*(volatile uint64_t *)&place->own->sent[sync->peer] = 0;
	count_ended(place);
	__threadfence_system();
	*(volatile uint64_t *)&place->control[sync->peer]->taken[place->rank] = 1;
}

/* Is this thread the last of all blocks? Then everything that the grid has stored is visible to
 * whoever sees what this thread stores from now on: the barrier orders the stores of a block's
 * threads before the fence of its last one, and fences are cumulative, that is, what a thread
 * has observed before its fence is ordered with what it has stored itself. The ticket carries
 * this from block to block. */
DEVICE bool is_last(struct tt_cuda_control *own)
{
	const uint32_t blocks = gridDim.x * gridDim.y;

	__syncthreads();
	if (threadIdx.x != blockDim.x - 1)
		return false;
	__threadfence_system();
	if (blocks == 1)
		return true;
	if (atomicAdd(&own->blocks, 1) != blocks - 1)
		return false;
	*(volatile uint32_t *)&own->blocks = 0;
	__threadfence_system();
	return true;
}

DEVICE void signal_flag(const struct tt_cuda_sync *sync)
{
	const struct tt_cuda_place *place = sync->place;

	if (sync->kind == TT_CUDA_SILENT || !is_last(place->own))
		return;
	if (sync->kind == TT_CUDA_COLLECTIVE)
		meet(place, sync);
	else if (sync->kind == TT_CUDA_SEND)
		give_sent(place, sync);
	else
		give_taken(place, sync);
}

/* ---------------------------------------------------------------- numbers */

/* As many bytes as are loaded and stored at once: a vector of 16, or one number. */
template <int BYTES> struct unit;
template <> struct unit<1> {
	uint8_t bits;
};
template <> struct unit<2> {
	uint16_t bits;
};
template <> struct unit<4> {
	uint32_t bits;
};
template <> struct unit<8> {
	uint64_t bits;
};
template <> struct alignas(16) unit<16> {
	uint32_t word[4];
};

/* Number e of a unit, in the low bits of B; and the other way round, where nothing is yet. */
template <class B, int WIDTH, int BYTES> DEVICE B get(const unit<BYTES> &from, int e)
{
	return from.bits;
}

template <class B, int WIDTH> DEVICE B get(const unit<16> &from, int e)
{
	if (WIDTH == 8)
		return (B)((uint64_t)from.word[2 * e + 1] << 32 | from.word[2 * e]);
	return (B)(from.word[e * WIDTH / 4] >> 8 * (e * WIDTH % 4));
}

template <class B, int WIDTH, int BYTES> DEVICE void put(unit<BYTES> &to, int e, B bits)
{
	memcpy(&to.bits, &bits, sizeof(to.bits)); /* little-endian: the low bytes */
}

template <class B, int WIDTH> DEVICE void put(unit<16> &to, int e, B bits)
{
	if (WIDTH == 8) {
		to.word[2 * e] = (uint32_t)bits;
		to.word[2 * e + 1] = (uint32_t)((uint64_t)bits >> 32);
	} else if (WIDTH == 4) {
		to.word[e] = (uint32_t)bits;
	} else {
		to.word[e * WIDTH / 4] |= (uint32_t)(bits & ((1u << 8 * (WIDTH % 4)) - 1))
					  << 8 * (e * WIDTH % 4);
	}
}

/* While integers are combined they have no sign, so that they wrap, and 32 bits at least; the
 * sign of those that have one is repeated above it. Sums of TT_CUDA_RANKS numbers of 8 and 16
 * bits do not overflow in 32. */
template <class T, class S, class A> struct integer {
	typedef A acc;
	typedef A bits; /* as stored, in a register */
	enum { WIDTH = sizeof(T) };

	DEVICE acc read(bits stored)
	{
		return (A)(S)(T)stored;
	}
	DEVICE bits write(acc a)
	{
		return a;
	}
	DEVICE acc smaller(acc a, acc b)
	{
		return (S)a < (S)b ? a : b;
	}
	DEVICE acc larger(acc a, acc b)
	{
		return (S)a > (S)b ? a : b;
	}

	/* Truncated towards zero, which is what the host's floats give (average_tmpl.h). */
	DEVICE acc quotient(acc a, uint32_t divisor)
	{
		const bool negative = (S)-1 < 0 && a >> (8 * sizeof(A) - 1);
		const acc magnitude = (negative ? 0 - a : a) / divisor;

		return negative ? 0 - magnitude : magnitude;
	}
};

#if ARCH < 800
DEVICE bool is_negative(float a)
{
	return tt_f32_bits(a) >> 31;
}
#endif

DEVICE bool is_negative(double a)
{
	uint64_t bits;

	memcpy(&bits, &a, sizeof(bits));
	return bits >> 63;
}

/* A NaN wins, and -0 is less than +0. */
template <class A> DEVICE A smaller_float(A a, A b)
{
	return a != a ? a : a < b || (a == b && is_negative(a)) ? a : b;
}

template <class A> DEVICE A larger_float(A a, A b)
{
	return a != a ? a : a > b || (a == b && !is_negative(a)) ? a : b;
}

#if ARCH >= 800 /* the same, in one instruction */
DEVICE float smaller_float(float a, float b)
{
	float smaller;

	asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
	return smaller;
}

DEVICE float larger_float(float a, float b)
{
	float larger;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
	return larger;
}
#endif

/* A FORMAT is how a float is stored: it is rounded when it is written, once, an average after
 * its division. */
template <class FORMAT> struct floating : FORMAT {
	typedef typename FORMAT::acc acc;

	DEVICE acc smaller(acc a, acc b)
	{
		return smaller_float(a, b);
	}
	DEVICE acc larger(acc a, acc b)
	{
		return larger_float(a, b);
	}
	DEVICE acc quotient(acc a, uint32_t divisor)
	{
		return a / (acc)divisor;
	}
};

#define SMALL_FLOAT(name, ctype)                                                                   \
	struct name##_format {                                                                     \
		typedef float acc;                                                                 \
		typedef uint32_t bits;                                                             \
		enum { WIDTH = sizeof(ctype) };                                                    \
		DEVICE acc read(bits stored)                                                       \
		{                                                                                  \
			return tt_f32_from_##name((ctype)stored);                                  \
		}                                                                                  \
		DEVICE bits write(acc a)                                                           \
		{                                                                                  \
			return tt_##name##_from_f32(a);                                            \
		}                                                                                  \
	};

#if ARCH /* the same bits, in one instruction each */
#define tt_f32_from_f16 f32_from_f16
#define tt_f16_from_f32 f16_from_f32
DEVICE float f32_from_f16(uint16_t half)
{
	float value;

	asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
	return value;
}

DEVICE uint16_t f16_from_f32(float value)
{
	uint16_t half;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
	return half;
}
#endif

/* 8 bits, without branches: as the vectors of the host do it (src/kernels/vec_tmpl.h). The
 * exponent of E4M3 becomes one of f32, which is too small by 120; that of E5M2 is the one of
 * f16. */
DEVICE float f32_from_e4m3(uint8_t byte)
{
	const float value = tt_f32_of((uint32_t)(int32_t)(int8_t)byte << 20 & 0x87f00000u) *
			    tt_f32_of((127u + 120) << 23);

	return (byte & 0x7f) == TT_E4M3_NAN ? tt_f32_of(0x7fc00000u) : value;
}

DEVICE float f32_from_e5m2(uint8_t byte)
{
	return tt_f32_from_f16((uint16_t)(byte << 8));
}

/* `bound` is the largest magnitude of the format in f32, or infinity's, as if that were a
 * number. Adding 2^23 steps of the format, as wide as they are at that exponent, leaves the
 * steps in the low bits, rounded to nearest even; below the smallest normal number they are as
 * wide as above it. */
DEVICE uint8_t byte_from_f32(float value, unsigned mantissa, unsigned bias, uint32_t bound)
{
	const uint32_t bits = tt_f32_bits(value), sign = bits >> 24 & 0x80,
		       magnitude = bits & 0x7fffffffu;
	const uint32_t bounded = magnitude < bound ? magnitude : bound, smallest = (128 - bias)
										   << 23;
	const uint32_t exponent =
		(bounded & 0x7f800000u) > smallest ? bounded & 0x7f800000u : smallest;
	const uint32_t magic = exponent + ((23 - mantissa) << 23);
	const uint32_t steps = tt_f32_bits(tt_f32_of(bounded) + tt_f32_of(magic)) - magic;
	const uint32_t packed = steps + (exponent >> (23 - mantissa)) - ((128 - bias) << mantissa);

	return (uint8_t)(sign | (magnitude > 0x7f800000u ? 0x7f : packed));
}

#define tt_f32_from_e4m3	f32_from_e4m3
#define tt_f32_from_e5m2	f32_from_e5m2
#define tt_e4m3_from_f32(value) byte_from_f32(value, 3, 7, 0x43e00000u)	 /* 448 */
#define tt_e5m2_from_f32(value) byte_from_f32(value, 2, 15, 0x47800000u) /* 65536 */

SMALL_FLOAT(f16, uint16_t)
SMALL_FLOAT(bf16, uint16_t)
SMALL_FLOAT(e4m3, uint8_t)
SMALL_FLOAT(e5m2, uint8_t)

#define LARGE_FLOAT(name, ctype, btype)                                                            \
	struct name##_format {                                                                     \
		typedef ctype acc;                                                                 \
		typedef btype bits;                                                                \
		enum { WIDTH = sizeof(ctype) };                                                    \
		DEVICE acc read(bits stored)                                                       \
		{                                                                                  \
			acc a;                                                                     \
                                                                                                   \
			memcpy(&a, &stored, sizeof(a));                                            \
			return a;                                                                  \
		}                                                                                  \
		DEVICE bits write(acc a)                                                           \
		{                                                                                  \
			bits stored;                                                               \
                                                                                                   \
			memcpy(&stored, &a, sizeof(stored));                                       \
			return stored;                                                             \
		}                                                                                  \
	};

LARGE_FLOAT(f32, float, uint32_t)
LARGE_FLOAT(f64, double, uint64_t)

/* ---------------------------------------------------------------- operations */

/* What combines two numbers, and what is done to the result before it is stored. */
#define OPERATION(name, combined, finished)                                                        \
	template <class N> struct op_##name {                                                      \
		typedef typename N::acc acc;                                                       \
		DEVICE acc combine(acc a, acc b)                                                   \
		{                                                                                  \
			return combined;                                                           \
		}                                                                                  \
		DEVICE acc finish(acc a, uint32_t divisor, acc factor)                             \
		{                                                                                  \
			return finished;                                                           \
		}                                                                                  \
	};

OPERATION(sum, a + b, divisor ? N::quotient(a, divisor) : a)
OPERATION(avg, a + b, divisor ? N::quotient(a, divisor) : a)
OPERATION(prod, a *b, a)
OPERATION(min, N::smaller(a, b), a)
OPERATION(max, N::larger(a, b), a)
OPERATION(band, a &b, a)
OPERATION(bor, a | b, a)
OPERATION(bxor, a ^ b, a)
OPERATION(scale, a, a *factor)

/* ---------------------------------------------------------------- reductions */

/* This thread's number among those of the grid, and how many these are. */
DEVICE uint64_t thread_number(void)
{
	return ((uint64_t)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
}

DEVICE uint64_t thread_count(void)
{
	return (uint64_t)gridDim.y * gridDim.x * blockDim.x;
}

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
DEVICE void reduce_units(const struct tt_cuda_part &part, uint64_t first, uint64_t count,
			 uint64_t thread, uint64_t gap_at, uint64_t gap)
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
					units[g][row] = *(
						const unit<BYTES> *)((const char *)part.src[s + g] +
								     at[row]);
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
				*(unit<BYTES> *)((char *)part.dst[d] + at[row]) = results[row];
	}
}

/* How far all pointers are behind a multiple of 16, or -1 if they differ in that. */
DEVICE int alignment_of(const struct tt_cuda_part &part)
{
	const uintptr_t first = (uintptr_t)part.dst[0] % 16;

	NO_UNROLL
	for (uint32_t s = 0; s < part.nsrc; s++)
		if ((uintptr_t)part.src[s] % 16 != first)
			return -1;
	NO_UNROLL
	for (uint32_t d = 1; d < part.ndst; d++)
		if ((uintptr_t)part.dst[d] % 16 != first)
			return -1;
	return (int)first;
}

template <class N, class OP> DEVICE void reduce(const struct tt_cuda_part &part)
{
	const uint64_t bytes = part.bytes[0], thread = thread_number();
	const int alignment = alignment_of(part);
	uint64_t head = (16 - (uint64_t)alignment) % 16, vectors = 0;

	if (part.nsrc == 0)
		return;
	if (alignment < 0 || head > bytes)
		head = 0;
	else
		vectors = (bytes - head) / 16;
	reduce_units<N, OP, 16, (N::WIDTH == 1 ? 2 : 4)>(part, head, vectors, thread, vectors, 0);
	/* what is left by the threads that have the fewest vectors, if there are any */
	reduce_units<N, OP, N::WIDTH, 4>(part, 0, (bytes - 16 * vectors) / N::WIDTH,
					 vectors ? thread_count() - 1 - thread : thread,
					 head / N::WIDTH, 16 * vectors / N::WIDTH);
}

#define REDUCE(op, type, number)                                                                   \
	KERNEL tt_cuda_##op##_##type(PARAMETERS)                                                   \
	{                                                                                          \
		if (!may_move(&sync))                                                              \
			return;                                                                    \
		reduce<number, op_##op<number>>(part);                                             \
		signal_flag(&sync);                                                                \
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
	REDUCE(scale, uint##width, u##width)

#define REDUCE_FLOAT(type, name)                                                                   \
	typedef floating<name##_format> name;                                                      \
	REDUCE_ORDERED(type, name)                                                                 \
	REDUCE(prod, type, name)                                                                   \
	REDUCE(scale, type, name)

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

/* ---------------------------------------------------------------- copies */

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
				to[i + row * threads] = low[row];
	}
}

DEVICE void copy(char *dst, const char *src, uint64_t bytes, uint64_t thread, uint64_t threads)
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

		dst[at] = src[at];
	}
}

KERNEL tt_cuda_copy(PARAMETERS)
{
	if (!may_move(&sync))
		return;
	NO_UNROLL
	for (uint32_t job = blockIdx.y; job < part.nsrc; job += gridDim.y)
		copy((char *)part.dst[job], (const char *)part.src[job], part.bytes[job],
		     (uint64_t)blockIdx.x * blockDim.x + threadIdx.x,
		     (uint64_t)gridDim.x * blockDim.x);
	signal_flag(&sync);
}
