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
#define MM(name) _mm512_##name
typedef __m512i vec;
typedef __m512 vec_ps;
typedef __m512d vec_pd;
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

#include "x86_tmpl.h"

ORDER_INTEGER(i64, epi64)
ORDER_INTEGER(u64, epu64)

static inline void stream_vec(char *to, vec value)
{
	_mm512_stream_si512((__m512i *)to, value);
}

#endif
