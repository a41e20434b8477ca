/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: arithmetic and number formats of one instruction set. The including file has defined
 *   VEC_BYTES, vec, half, quarter  a register, and the halves and quarters that 16- and 8-bit
 * floats fill load_KIND(p), store_KIND(p, v)  of each of the three, of any alignment
 *   load_KIND_part(p, bytes), store_KIND_part(p, v, bytes)  the first bytes only, fewer than all
 *   widen_half(h)  16-bit elements to 32;  narrow_half(v), narrow_quarter(v)  32-bit elements to
 * 16, 8 extend_quarter(q)  8-bit elements to 16, the sign repeated decode_f16(h), encode_f16(v)
 *   min_of_TYPE(a, b), max_of_TYPE(a, b)  for f32, f64 and integers up to 32 bits,
 *   and for 64 bits too if it defines VEC_ORDERS_64.
 * A vector is a bag of bits, `vec`, whatever its elements: so the loops are written once. */
#include <stdint.h>

#include "compiler.h"

typedef uint8_t u8v __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t u16v __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t u16h __attribute__((vector_size(VEC_BYTES / 2)));
typedef uint32_t u32v __attribute__((vector_size(VEC_BYTES)));
typedef uint64_t u64v __attribute__((vector_size(VEC_BYTES)));
typedef int32_t i32v __attribute__((vector_size(VEC_BYTES)));
typedef int64_t i64v __attribute__((vector_size(VEC_BYTES)));
typedef float f32v __attribute__((vector_size(VEC_BYTES)));
typedef double f64v __attribute__((vector_size(VEC_BYTES)));

#define COMBINE(name, type, operator)                                                              \
	INLINE vec name##_of_##type(vec a, vec b)                                                  \
	{                                                                                          \
		return (vec)((type##v)a operator(type##v) b);                                      \
	}

#define COMBINE_INTEGER(type)                                                                      \
	COMBINE(sum, type, +)                                                                      \
	COMBINE(prod, type, *)                                                                     \
	COMBINE(band, type, &)                                                                     \
	COMBINE(bor, type, |)                                                                      \
	COMBINE(bxor, type, ^)

#define COMBINE_FLOAT(type)                                                                        \
	COMBINE(sum, type, +)                                                                      \
	COMBINE(prod, type, *)                                                                     \
	COMBINE(quotient, type, /)

COMBINE_INTEGER(u8)
COMBINE_INTEGER(u16)
COMBINE_INTEGER(u32)
COMBINE_INTEGER(u64)
COMBINE_FLOAT(f32)
COMBINE_FLOAT(f64)

/* Every element is `x`. Subtracting 0 keeps -0, which adding it would not. */
#define SPLAT(type, x) ((vec)((x) - (type##v){ 0 }))

#ifndef VEC_ORDERS_64
#define CHOOSE_64(name, type, operator)                                                            \
	INLINE vec name##_of_##type(vec a, vec b)                                                  \
	{                                                                                          \
		const u64v take_a = (u64v)((type##v)a operator(type##v) b);                        \
                                                                                                   \
		return (vec)((take_a & (u64v)a) | (~take_a & (u64v)b));                            \
	}
CHOOSE_64(min, u64, <)
CHOOSE_64(max, u64, >)
CHOOSE_64(min, i64, <)
CHOOSE_64(max, i64, >)
#endif

/* `mask` has all or no bits of an element set. */
INLINE u32v choose(i32v mask, u32v yes, u32v no)
{
	return ((u32v)mask & yes) | (~(u32v)mask & no);
}

/* An 8-bit float from f32, `bound` its largest magnitude in f32 (or infinity's, as if that were a
 * number). Adding 2^23 steps of the format, as wide as they are at that exponent, leaves the steps
 * in the low bits, rounded to nearest even; below the smallest normal number steps are as wide as
 * just above it. */
INLINE quarter encode_8bit(vec value, unsigned mantissa, unsigned bias, unsigned bound)
{
	const u32v sign = ((u32v)value >> 24) & 0x80;
	const u32v bits = (u32v)min_of_i32((vec)((u32v)value & 0x7fffffff), SPLAT(u32, bound));
	const u32v exponent =
		(u32v)max_of_i32((vec)(bits & 0x7f800000), SPLAT(u32, (128 - bias) << 23));
	const u32v magic = exponent + ((23 - mantissa) << 23);
	const u32v steps = (u32v)((f32v)bits + (f32v)magic) - magic;
	const u32v packed = steps + (exponent >> (23 - mantissa)) - ((128 - bias) << mantissa);
	const u32v nan = (u32v)((f32v)value != (f32v)value) & 0x7f;

	return narrow_quarter((vec)(packed | nan | sign));
}

/* Read as f16, whose bias is greater by 8: all but NaN comes out 2^8 too small. */
INLINE vec decode_e4m3(quarter stored)
{
	const u16h bits = (u16h)extend_quarter(stored) << 7;
	const u16h nan = (u16h)((bits & 0x3f80) == 0x3f80);
	const f32v scaled = (f32v)decode_f16((half)((bits & 0xbf80) | nan));

	return (vec)(scaled * 256);
}

INLINE quarter encode_e4m3(vec value)
{
	return encode_8bit(value, 3, 7, 0x43e00000); /* 448 */
}

/* The upper half of an f16. */
INLINE vec decode_e5m2(quarter stored)
{
	return decode_f16((half)((u16h)extend_quarter(stored) << 8));
}

INLINE quarter encode_e5m2(vec value)
{
	return encode_8bit(value, 2, 15, 0x47800000); /* 65536, where infinity is */
}

INLINE vec decode_bf16(half stored)
{
	return (vec)((u32v)widen_half(stored) << 16);
}

INLINE half encode_bf16(vec value)
{
	const u32v bits = (u32v)value, odd = (bits >> 16) & 1;
	const u32v rounded = (bits + odd + 0x7fff) >> 16, quiet = bits >> 16 | 0x40;

	return narrow_half((vec)choose((f32v)value != (f32v)value, quiet, rounded));
}

/* How numbers of a type lie in memory, and become a vector that can be computed with. */
struct format {
	size_t width; /* bytes of a number in memory */
	size_t lanes; /* numbers of a vector */
	vec (*load)(const char *from);
	vec (*load_part)(const char *from, size_t n); /* n < lanes */
	void (*store)(char *to, vec value);
	void (*store_part)(char *to, vec value, size_t n);
};

#define FORMAT(type, ctype, kind, decode, encode)                                                  \
	INLINE vec load_##type(const char *from)                                                   \
	{                                                                                          \
		return decode(load_##kind(from));                                                  \
	}                                                                                          \
	INLINE vec load_part_##type(const char *from, size_t n)                                    \
	{                                                                                          \
		return decode(load_##kind##_part(from, n * sizeof(ctype)));                        \
	}                                                                                          \
	INLINE void store_##type(char *to, vec value)                                              \
	{                                                                                          \
		store_##kind(to, encode(value));                                                   \
	}                                                                                          \
	INLINE void store_part_##type(char *to, vec value, size_t n)                               \
	{                                                                                          \
		store_##kind##_part(to, encode(value), n * sizeof(ctype));                         \
	}                                                                                          \
	static const struct format type##_format = {                                               \
		.width = sizeof(ctype),                                                            \
		.lanes = sizeof(kind) / sizeof(ctype),                                             \
		.load = load_##type,                                                               \
		.load_part = load_part_##type,                                                     \
		.store = store_##type,                                                             \
		.store_part = store_part_##type,                                                   \
	};
