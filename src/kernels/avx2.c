/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the AVX2 kernels; half-precision numbers are converted by F16C. */
#include <immintrin.h>

#include "compiler.h"
#include "isa.h"
#include "part.h"

#define VEC_BYTES 32
#define MM(name)  _mm256_##name
typedef __m256i vec;
typedef __m256 vec_ps;
typedef __m256d vec_pd;
typedef __m128i half;
typedef struct {
	uint64_t bits; /* eight bytes */
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
	return (quarter){ load_upto8(from, bytes) };
}

static NOINLINE void store_quarter_part(char *to, quarter value, size_t bytes)
{
	store_upto8(to, value.bits, bytes);
}

static inline half load_half(const char *from)
{
	return _mm_loadu_si128((const __m128i *)from);
}

static inline void store_half(char *to, half value)
{
	_mm_storeu_si128((__m128i *)to, value);
}

INLINE half load_half_part(const char *from, size_t bytes)
{
	const size_t low = bytes < 8 ? bytes : 8;

	return _mm_set_epi64x((long long)load_upto8(from + low, bytes - low),
			      (long long)load_upto8(from, low));
}

INLINE void store_half_part(char *to, half value, size_t bytes)
{
	const size_t low = bytes < 8 ? bytes : 8;

	store_upto8(to, (uint64_t)_mm_cvtsi128_si64(value), low);
	store_upto8(to + low, (uint64_t)_mm_extract_epi64(value, 1), bytes - low);
}

static inline vec load_vec(const char *from)
{
	return _mm256_loadu_si256((const __m256i *)from);
}

static inline void store_vec(char *to, vec value)
{
	_mm256_storeu_si256((__m256i *)to, value);
}

static NOINLINE vec load_vec_any(const char *from, size_t bytes)
{
	if (bytes <= 16)
		return _mm256_zextsi128_si256(load_half_part(from, bytes));
	return _mm256_set_m128i(load_half_part(from + 16, bytes - 16), load_half(from));
}

static NOINLINE void store_vec_any(char *to, vec value, size_t bytes)
{
	if (bytes <= 16) {
		store_half_part(to, _mm256_castsi256_si128(value), bytes);
		return;
	}
	store_half(to, _mm256_castsi256_si128(value));
	store_half_part(to + 16, _mm256_extracti128_si256(value, 1), bytes - 16);
}

/* Eight bytes are the smallest all-reduce, and spared the call. */
static inline vec load_vec_part(const char *from, size_t bytes)
{
	if (bytes == 8)
		return _mm256_zextsi128_si256(_mm_loadl_epi64((const __m128i *)from));
	return load_vec_any(from, bytes);
}

static inline void store_vec_part(char *to, vec value, size_t bytes)
{
	if (bytes == 8)
		_mm_storel_epi64((__m128i *)to, _mm256_castsi256_si128(value));
	else
		store_vec_any(to, value, bytes);
}

static inline half narrow_half(vec value)
{
	const vec packed = _mm256_packus_epi32(value, value); /* within each 128 bits */

	return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

static inline half extend_quarter(quarter value)
{
	return _mm_cvtepi8_epi16(_mm_cvtsi64_si128((long long)value.bits));
}

static inline quarter narrow_quarter(vec value)
{
	const half packed = narrow_half(value);

	return (quarter){ (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(packed, packed)) };
}

static inline void stream_vec(char *to, vec value)
{
	_mm256_stream_si256((__m256i *)to, value);
}

#define TABLE tt_kernels_avx2
#define ISA   "avx2"

/* in this order: each builds on those before it */
#include "x86_tmpl.h"

#include "vec_tmpl.h"

#include "loops_tmpl.h"

#include "average_tmpl.h"

#include "stream_tmpl.h"

#include "table_tmpl.h"
