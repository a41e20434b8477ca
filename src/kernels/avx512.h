/* SPDX-License-Identifier: BSD-3-Clause */
/* AVX-512 (F, BW, DQ, VL) and BMI2: the vocabulary that vec_tmpl.h asks for. Parts of vectors are
 * masked. */
#ifndef TT_KERNELS_AVX512_H
#define TT_KERNELS_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VEC_BYTES 64
#define VEC_ORDERS_64
typedef __m512i vec;
typedef __m256i half;
typedef __m128i quarter;

/* The first `bytes`, fewer than 64, of a vector. */
static inline uint64_t first_bytes(size_t bytes)
{
	return _bzhi_u64(UINT64_MAX, (unsigned)bytes);
}

/* A part of eight bytes is the smallest all-reduce: plain moves of them are faster than masked
 * ones. */
#define MEMORY(kind, prefix, mask, suffix, from_128, to_128)                                       \
	static inline kind load_##kind(const char *from)                                           \
	{                                                                                          \
		return prefix##_loadu_##suffix((const kind *)from);                                \
	}                                                                                          \
	static inline void store_##kind(char *to, kind value)                                      \
	{                                                                                          \
		prefix##_storeu_##suffix((kind *)to, value);                                       \
	}                                                                                          \
	static inline kind load_##kind##_part(const char *from, size_t bytes)                      \
	{                                                                                          \
		if (bytes == 8)                                                                    \
			return from_128(_mm_loadl_epi64((const __m128i *)from));                   \
		return prefix##_maskz_loadu_epi8((mask)first_bytes(bytes), from);                  \
	}                                                                                          \
	static inline void store_##kind##_part(char *to, kind value, size_t bytes)                 \
	{                                                                                          \
		if (bytes == 8)                                                                    \
			_mm_storel_epi64((__m128i *)to, to_128(value));                            \
		else                                                                               \
			prefix##_mask_storeu_epi8(to, (mask)first_bytes(bytes), value);            \
	}

MEMORY(vec, _mm512, __mmask64, si512, _mm512_zextsi128_si512, _mm512_castsi512_si128)
MEMORY(half, _mm256, __mmask32, si256, _mm256_zextsi128_si256, _mm256_castsi256_si128)
MEMORY(quarter, _mm, __mmask16, si128, , )

static inline vec widen_half(half value)
{
	return _mm512_cvtepu16_epi32(value);
}

static inline half narrow_half(vec value)
{
	return _mm512_cvtepi32_epi16(value);
}

static inline half extend_quarter(quarter value)
{
	return _mm256_cvtepi8_epi16(value);
}

static inline quarter narrow_quarter(vec value)
{
	return _mm512_cvtepi32_epi8(value);
}

static inline vec decode_f16(half value)
{
	return _mm512_castps_si512(_mm512_cvtph_ps(value));
}

static inline half encode_f16(vec value)
{
	return _mm512_cvtps_ph(_mm512_castsi512_ps(value), _MM_FROUND_TO_NEAREST_INT);
}

#define ORDER_INTEGER(type, suffix)                                                                \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return _mm512_min_##suffix(a, b);                                                  \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return _mm512_max_##suffix(a, b);                                                  \
	}

ORDER_INTEGER(i8, epi8)
ORDER_INTEGER(u8, epu8)
ORDER_INTEGER(i16, epi16)
ORDER_INTEGER(u16, epu16)
ORDER_INTEGER(i32, epi32)
ORDER_INTEGER(u32, epu32)
ORDER_INTEGER(i64, epi64)
ORDER_INTEGER(u64, epu64)

/* See avx2.c: asked both ways round. */
#define ORDER_FLOAT(type, cast, suffix)                                                            \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const cast x = (cast)a, y = (cast)b;                                               \
                                                                                                   \
		return (vec)_mm512_or_##suffix(_mm512_min_##suffix(x, y),                          \
					       _mm512_min_##suffix(y, x));                         \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const vec sign = (vec)_mm512_set1_##suffix(-0.0);                                  \
                                                                                                   \
		return min_of_##type(a ^ sign, b ^ sign) ^ sign;                                   \
	}

ORDER_FLOAT(f32, __m512, ps)
ORDER_FLOAT(f64, __m512d, pd)

static inline void stream_vec(char *to, vec value)
{
	_mm512_stream_si512((__m512i *)to, value);
}

#endif
