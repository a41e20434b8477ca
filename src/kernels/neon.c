/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the NEON kernels of 64-bit Arm, whose base instruction set has all they need. */
#include <arm_neon.h>

#include "compiler.h"
#include "isa.h"
#include "part.h"

#define VEC_BYTES 16
typedef uint8x16_t vec;
typedef uint8x8_t half;
typedef struct {
	uint32_t bits; /* four bytes */
} quarter;

static inline quarter load_quarter(const char *from)
{
	quarter value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void store_quarter(char *to, quarter value)
{
	memcpy(to, &value, sizeof(value));
}

static NOINLINE quarter load_quarter_part(const char *from, size_t bytes)
{
	return (quarter){ (uint32_t)load_upto8(from, bytes) };
}

static NOINLINE void store_quarter_part(char *to, quarter value, size_t bytes)
{
	store_upto8(to, value.bits, bytes);
}

static inline half load_half(const char *from)
{
	return vld1_u8((const uint8_t *)from);
}

static inline void store_half(char *to, half value)
{
	vst1_u8((uint8_t *)to, value);
}

static NOINLINE half load_half_part(const char *from, size_t bytes)
{
	return vcreate_u8(load_upto8(from, bytes));
}

static NOINLINE void store_half_part(char *to, half value, size_t bytes)
{
	store_upto8(to, vget_lane_u64(vreinterpret_u64_u8(value), 0), bytes);
}

static inline vec load_vec(const char *from)
{
	return vld1q_u8((const uint8_t *)from);
}

static inline void store_vec(char *to, vec value)
{
	vst1q_u8((uint8_t *)to, value);
}

static NOINLINE vec load_vec_part(const char *from, size_t bytes)
{
	const size_t low = bytes < 8 ? bytes : 8;

	return vcombine_u8(load_half_part(from, low), load_half_part(from + low, bytes - low));
}

static NOINLINE void store_vec_part(char *to, vec value, size_t bytes)
{
	const size_t low = bytes < 8 ? bytes : 8;

	store_half_part(to, vget_low_u8(value), low);
	store_half_part(to + low, vget_high_u8(value), bytes - low);
}

static inline vec widen_half(half value)
{
	return vreinterpretq_u8_u32(vmovl_u16(vreinterpret_u16_u8(value)));
}

static inline half narrow_half(vec value)
{
	return vreinterpret_u8_u16(vmovn_u32(vreinterpretq_u32_u8(value)));
}

static inline half extend_quarter(quarter value)
{
	return vreinterpret_u8_s16(vget_low_s16(vmovl_s8(vcreate_s8(value.bits))));
}

static inline quarter narrow_quarter(vec value)
{
	const uint16x4_t words = vmovn_u32(vreinterpretq_u32_u8(value));
	const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));

	return (quarter){ vget_lane_u32(vreinterpret_u32_u8(bytes), 0) };
}

static inline vec decode_f16(half value)
{
	return vreinterpretq_u8_f32(vcvt_f32_f16(vreinterpret_f16_u8(value)));
}

static inline half encode_f16(vec value)
{
	return vreinterpret_u8_f16(vcvt_f16_f32(vreinterpretq_f32_u8(value)));
}

/* On floats these give a NaN if there is one, and take -0 for less than +0. */
#define ORDER(type, suffix)                                                                        \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return vreinterpretq_u8_##suffix(vminq_##suffix(vreinterpretq_##suffix##_u8(a),    \
								vreinterpretq_##suffix##_u8(b)));  \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return vreinterpretq_u8_##suffix(vmaxq_##suffix(vreinterpretq_##suffix##_u8(a),    \
								vreinterpretq_##suffix##_u8(b)));  \
	}

#define vreinterpretq_u8_u8(bits) (bits) /* the one that arm_neon.h leaves out */

ORDER(i8, s8)
ORDER(u8, u8)
ORDER(i16, s16)
ORDER(u16, u16)
ORDER(i32, s32)
ORDER(u32, u32)
ORDER(f32, f32)
ORDER(f64, f64)

/* NEON's stores that bypass the cache are but hints; the library's memcpy knows the processor
 * better. */
static void copy_stream(void *dst, const void *src, size_t bytes)
{
	if (bytes > 0)
		memcpy(dst, src, bytes);
}

#define TABLE tt_kernels_neon
#define ISA   "neon"

/* in this order: each builds on those before it */
#include "vec_tmpl.h"

#include "loops_tmpl.h"

#include "average_tmpl.h"

#include "table_tmpl.h"
