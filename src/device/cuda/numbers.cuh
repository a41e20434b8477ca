/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how numbers of each type are read, combined and written by kernels.
 *
 * They get the bits that the host's plain C kernels give (src/kernels/c.c), but for the payload
 * of NaNs. Compiled with -fmad=false, as those are with -ffp-contract=off: no product and sum
 * become one operation with one rounding. */
#ifndef TT_CUDA_NUMBERS_CUH
#define TT_CUDA_NUMBERS_CUH

#include <stdint.h>
#include <string.h>

#include "compiler.cuh"

#define TT_DEVICE __device__
#include "convert.h"

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

#if ARCH >= 890 /* the same bits, in one instruction or two */
DEVICE float f32_from_e4m3_pair(uint8_t byte)
{
	uint32_t halves;

	asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)byte));
	return tt_f32_from_f16((uint16_t)halves);
}

DEVICE uint8_t e4m3_pair_from_f32(float value)
{
	uint16_t pair;

	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
	return (uint8_t)pair;
}

#define tt_f32_from_e4m3 f32_from_e4m3_pair
#define tt_e4m3_from_f32 e4m3_pair_from_f32
#else
#define tt_f32_from_e4m3	f32_from_e4m3
#define tt_e4m3_from_f32(value) byte_from_f32(value, 3, 7, 0x43e00000u) /* 448 */
#endif
/* E5M2 is read as the upper half of an f16; that it becomes infinite where it is too large, the
 * instruction that writes it cannot do. */
#define tt_f32_from_e5m2	f32_from_e5m2
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

#endif
