/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the AVX2 kernels; half-precision numbers are converted by F16C. */
#include <immintrin.h>

#include "compiler.h"
#include "isa.h"
#include "part.h"

#define VEC_BYTES 32
typedef __m256i vec;
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

static inline vec widen_half(half value)
{
	return _mm256_cvtepu16_epi32(value);
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

static inline vec decode_f16(half value)
{
	return _mm256_castps_si256(_mm256_cvtph_ps(value));
}

static inline half encode_f16(vec value)
{
	return _mm256_cvtps_ph(_mm256_castsi256_ps(value), _MM_FROUND_TO_NEAREST_INT);
}

#define ORDER_INTEGER(type, suffix)                                                                \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return _mm256_min_##suffix(a, b);                                                  \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return _mm256_max_##suffix(a, b);                                                  \
	}

ORDER_INTEGER(i8, epi8)
ORDER_INTEGER(u8, epu8)
ORDER_INTEGER(i16, epi16)
ORDER_INTEGER(u16, epu16)
ORDER_INTEGER(i32, epi32)
ORDER_INTEGER(u32, epu32)

/* The instruction gives its second operand where one is a NaN or both are zeros. Asked both ways
 * round, OR then makes a NaN of NaN and number, and the lesser zero of two zeros. */
#define ORDER_FLOAT(type, cast, suffix)                                                            \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const cast x = (cast)a, y = (cast)b;                                               \
                                                                                                   \
		return (vec)_mm256_or_##suffix(_mm256_min_##suffix(x, y),                          \
					       _mm256_min_##suffix(y, x));                         \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const vec sign = (vec)_mm256_set1_##suffix(-0.0);                                  \
                                                                                                   \
		return min_of_##type(a ^ sign, b ^ sign) ^ sign;                                   \
	}

ORDER_FLOAT(f32, __m256, ps)
ORDER_FLOAT(f64, __m256d, pd)

static inline void stream_vec(char *to, vec value)
{
	_mm256_stream_si256((__m256i *)to, value);
}

#define TABLE tt_kernels_avx2
#define ISA   "avx2"

/* in this order: each builds on those before it */
#include "vec_tmpl.h"

#include "loops_tmpl.h"

#include "divide_tmpl.h"

#include "stream_tmpl.h"

#include "table_tmpl.h"
