/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the plain C kernels: always there, and the reference that all others must equal bit for bit.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"
#include "convert.h"
#include "isa.h"

/* What a number is while it is combined. Small integers are kept in 32 bits, unsigned, so that a
 * product cannot overflow; storing cuts it back. */
typedef uint32_t acc_u8, acc_u16, acc_u32;
typedef uint64_t acc_u64;
typedef int32_t acc_i8, acc_i16, acc_i32;
typedef int64_t acc_i64;
typedef float acc_f32;
typedef double acc_f64;

/* Element i of a buffer of any alignment. */
#define STORED_AS(type, ctype, acc, read, write)                                                   \
	static inline acc load_##type(const void *from, size_t i)                                  \
	{                                                                                          \
		ctype value;                                                                       \
                                                                                                   \
		memcpy(&value, (const char *)from + i * sizeof(value), sizeof(value));             \
		return read(value);                                                                \
	}                                                                                          \
	static inline void store_##type(void *to, size_t i, acc number)                            \
	{                                                                                          \
		const ctype value = write(number);                                                 \
                                                                                                   \
		memcpy((char *)to + i * sizeof(value), &value, sizeof(value));                     \
	}

STORED_AS(i8, int8_t, acc_i8, , (int8_t))
STORED_AS(u8, uint8_t, acc_u8, , (uint8_t))
STORED_AS(i16, int16_t, acc_i16, , (int16_t))
STORED_AS(u16, uint16_t, acc_u16, , (uint16_t))
STORED_AS(i32, int32_t, acc_i32, , )
STORED_AS(u32, uint32_t, acc_u32, , )
STORED_AS(i64, int64_t, acc_i64, , )
STORED_AS(u64, uint64_t, acc_u64, , )
STORED_AS(f16, uint16_t, float, tt_f32_from_f16, tt_f16_from_f32)
STORED_AS(bf16, uint16_t, float, tt_f32_from_bf16, tt_bf16_from_f32)
STORED_AS(f32, float, float, , )
STORED_AS(f64, double, double, , )
STORED_AS(e4m3, uint8_t, float, tt_f32_from_e4m3, tt_e4m3_from_f32)
STORED_AS(e5m2, uint8_t, float, tt_f32_from_e5m2, tt_e5m2_from_f32)

#define COMBINE(op, type, expression)                                                              \
	static inline acc_##type op##_of_##type(acc_##type a, acc_##type b)                        \
	{                                                                                          \
		return expression;                                                                 \
	}

#define COMBINE_INTEGER(width)                                                                     \
	COMBINE(sum, u##width, a + b)                                                              \
	COMBINE(prod, u##width, a *b)                                                              \
	COMBINE(band, u##width, a &b)                                                              \
	COMBINE(bor, u##width, a | b)                                                              \
	COMBINE(bxor, u##width, a ^ b)                                                             \
	COMBINE(min, u##width, a < b ? a : b)                                                      \
	COMBINE(max, u##width, a > b ? a : b)                                                      \
	COMBINE(min, i##width, a < b ? a : b)                                                      \
	COMBINE(max, i##width, a > b ? a : b)

/* Minimum and maximum do not depend on the order: a NaN wins, and -0 is less than +0. */
#define COMBINE_FLOAT(type)                                                                        \
	COMBINE(sum, type, a + b)                                                                  \
	COMBINE(prod, type, a *b)                                                                  \
	COMBINE(min, type, isnan(a) ? a : a < b || (a == b && signbit(a)) ? a : b)                 \
	COMBINE(max, type, isnan(a) ? a : a > b || (a == b && !signbit(a)) ? a : b)

COMBINE_INTEGER(8)
COMBINE_INTEGER(16)
COMBINE_INTEGER(32)
COMBINE_INTEGER(64)
COMBINE_FLOAT(f32)
COMBINE_FLOAT(f64)

/* Element i of `dst` may be element i of a source and is no other one: hence tt_for_each. */
#define REDUCE(op, type, acc)                                                                      \
	static void op##_##type(void *dst, const void *const *src, unsigned nsrc, size_t n)        \
	{                                                                                          \
		const void *a = src[0];                                                            \
                                                                                                   \
		if (nsrc == 2) {                                                                   \
			const void *b = src[1];                                                    \
                                                                                                   \
			tt_for_each(i, n)                                                          \
				store_##type(dst, i,                                               \
					     op##_of_##acc(load_##type(a, i), load_##type(b, i))); \
			return;                                                                    \
		}                                                                                  \
		for (size_t i = 0; i < n; i++) {                                                   \
			acc_##acc number = load_##type(a, i);                                      \
                                                                                                   \
			for (unsigned s = 1; s < nsrc; s++)                                        \
				number = op##_of_##acc(number, load_##type(src[s], i));            \
			store_##type(dst, i, number);                                              \
		}                                                                                  \
	}

#define AVERAGE(type, acc)                                                                         \
	static void average_##type(void *dst, const void *const *src, unsigned nsrc, size_t n,     \
				   unsigned divisor)                                               \
	{                                                                                          \
		for (size_t i = 0; i < n; i++) {                                                   \
			acc_##acc number = load_##type(src[0], i);                                 \
                                                                                                   \
			for (unsigned s = 1; s < nsrc; s++)                                        \
				number = sum_of_##acc(number, load_##type(src[s], i));             \
			store_##type(dst, i, number / (acc_##acc)divisor);                         \
		}                                                                                  \
	}

#define MEAN(type)                                                                                 \
	static void mean_##type(void *dst, const void *const src[2], const float share[2],         \
				size_t n)                                                          \
	{                                                                                          \
		const void *a = src[0], *b = src[1];                                               \
                                                                                                   \
		tt_for_each(i, n)                                                                  \
			store_##type(dst, i,                                                       \
				     load_##type(a, i) * share[0] + load_##type(b, i) * share[1]); \
	}

#define SCALE(type, acc)                                                                           \
	static void scale_##type(void *dst, const void *src, size_t n, const void *scalar)         \
	{                                                                                          \
		const acc_##acc factor = load_##type(scalar, 0);                                   \
                                                                                                   \
		tt_for_each(i, n)                                                                  \
			store_##type(dst, i, prod_of_##acc(load_##type(src, i), factor));          \
	}

#define CONVERT(type)                                                                              \
	static void pack_##type(void *dst, const void *src, size_t n)                              \
	{                                                                                          \
		for (size_t i = 0; i < n; i++)                                                     \
			store_##type(dst, i, load_f32(src, i));                                    \
	}                                                                                          \
	static void unpack_##type(void *dst, const void *src, size_t n)                            \
	{                                                                                          \
		for (size_t i = 0; i < n; i++)                                                     \
			store_f32(dst, i, load_##type(src, i));                                    \
	}

static void copy_stream(void *dst, const void *src, size_t bytes)
{
	if (bytes > 0)
		memcpy(dst, src, bytes);
}

#define TABLE tt_kernels_c
#define ISA   "c"

#include "average_tmpl.h"

#include "table_tmpl.h"
