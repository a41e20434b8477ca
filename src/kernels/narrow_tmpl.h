/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: vectors of float32 as they travel in fewer bytes (narrow.h). The including file has defined
 *   CONVERT(type)  static void pack_type(dst, src, n) from float32, unpack_type(dst, src, n) to it.
 * 8-bit codes share a scale with the others of their block: the largest magnitude of a block has the
 * largest code. (T. Dettmers et al.: 8-bit optimizers via block-wise quantization,
 * arXiv:2110.02861, section 2.) The compiler vectorizes the loops. */
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"
#include "kernels.h"

CONVERT(f16)
CONVERT(bf16)
CONVERT(e4m3)

#define BLOCK	    TT_NARROW_BLOCK
#define BLOCK_BYTES (sizeof(float) + BLOCK)
/* A block of smaller numbers than this becomes zeros: the inverse of its scale could overflow. */
#define LEAST 0x1p-100f

/* How a number between -largest and largest becomes a code. */
struct codec {
	float largest;
	void (*put)(char *codes, const float *numbers);
	void (*get)(float *numbers, const char *codes);
};

/* The bits of the number nearest to x, ties to even, are the low ones of x + 1.5 · 2^23. */
INLINE void put_int8(char *codes, const float *numbers)
{
	for (int i = 0; i < BLOCK; i++) {
		const float shifted = numbers[i] + 0x1.8p23f;
		uint32_t bits;

		memcpy(&bits, &shifted, sizeof(bits));
		codes[i] = (char)(int8_t)(uint8_t)bits;
	}
}

INLINE void get_int8(float *numbers, const char *codes)
{
	for (int i = 0; i < BLOCK; i++)
		numbers[i] = (float)(int8_t)codes[i];
}

INLINE void put_fp8(char *codes, const float *numbers)
{
	pack_e4m3(codes, numbers, BLOCK);
}

INLINE void get_fp8(float *numbers, const char *codes)
{
	unpack_e4m3(numbers, codes, BLOCK);
}

static const struct codec int8_codec = { 127, put_int8, get_int8 };
static const struct codec fp8_codec = { 448, put_fp8, get_fp8 };

/* As an integer: an infinity or a NaN is larger than any number. */
INLINE uint32_t largest_magnitude(const float *numbers)
{
	uint32_t largest = 0;

	for (int i = 0; i < BLOCK; i++) {
		uint32_t bits;

		memcpy(&bits, &numbers[i], sizeof(bits));
		bits &= 0x7fffffff;
		largest = bits > largest ? bits : largest;
	}
	return largest;
}

/* What is not finite makes a NaN of its block, so that it is not lost. */
INLINE void pack_block(char *dst, const float *numbers, const struct codec *codec)
{
	const uint32_t bits = largest_magnitude(numbers);
	float largest, scale, scaled[BLOCK], inverse = 0;

	memcpy(&largest, &bits, sizeof(largest));
	scale = largest / codec->largest;
	if (scale * codec->largest > FLT_MAX) /* it was rounded up: the number before it */
		scale -= scale * 0x1p-24f;
	if (largest < LEAST)
		scale = 0;
	else if (bits < 0x7f800000u)
		inverse = codec->largest / largest;
	else
		scale = __builtin_nanf("");
	for (int i = 0; i < BLOCK; i++)
		scaled[i] = inverse > 0 ? numbers[i] * inverse : 0;
	memcpy(dst, &scale, sizeof(scale));
	codec->put(dst + sizeof(scale), scaled);
}

INLINE void unpack_block(float *numbers, const char *src, const struct codec *codec)
{
	float scale;

	memcpy(&scale, src, sizeof(scale));
	codec->get(numbers, src + sizeof(scale));
	for (int i = 0; i < BLOCK; i++)
		numbers[i] *= scale;
}

INLINE void pack_blocks(char *dst, const float *src, size_t n, const struct codec *codec)
{
	for (; n >= BLOCK; n -= BLOCK, src += BLOCK, dst += BLOCK_BYTES)
		pack_block(dst, src, codec);
	if (n > 0) {
		float last[BLOCK] = { 0 };

		memcpy(last, src, n * sizeof(float));
		pack_block(dst, last, codec);
	}
}

INLINE void unpack_blocks(float *dst, const char *src, size_t n, const struct codec *codec)
{
	for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK_BYTES)
		unpack_block(dst, src, codec);
	if (n > 0) {
		float last[BLOCK];

		unpack_block(last, src, codec);
		memcpy(dst, last, n * sizeof(float));
	}
}

/* dst = (src[0] + src[1] + …) / divisor, of n blocks; dst may be one of them */
INLINE void average_blocks(char *dst, const void *const *src, unsigned nsrc, size_t n,
			   float divisor, const struct codec *codec)
{
	float sum[BLOCK], next[BLOCK];

	for (size_t at = 0; at < n * BLOCK_BYTES; at += BLOCK_BYTES) {
		unpack_block(sum, (const char *)src[0] + at, codec);
		for (unsigned s = 1; s < nsrc; s++) {
			unpack_block(next, (const char *)src[s] + at, codec);
			for (int i = 0; i < BLOCK; i++)
				sum[i] += next[i];
		}
		for (int i = 0; divisor != 1 && i < BLOCK; i++)
			sum[i] /= divisor;
		pack_block(dst + at, sum, codec);
	}
}

#define BLOCKS(name)                                                                               \
	static void pack_##name##_blocks(void *dst, const void *src, size_t n)                     \
	{                                                                                          \
		pack_blocks(dst, src, n, &name##_codec);                                           \
	}                                                                                          \
	static void unpack_##name##_blocks(void *dst, const void *src, size_t n)                   \
	{                                                                                          \
		unpack_blocks(dst, src, n, &name##_codec);                                         \
	}                                                                                          \
	static void sum_##name##_blocks(void *dst, const void *const *src, unsigned nsrc,          \
					size_t n)                                                  \
	{                                                                                          \
		average_blocks(dst, src, nsrc, n, 1, &name##_codec);                               \
	}                                                                                          \
	static void average_##name##_blocks(void *dst, const void *const *src, unsigned nsrc,      \
					    size_t n, unsigned divisor)                            \
	{                                                                                          \
		average_blocks(dst, src, nsrc, n, (float)divisor, &name##_codec);                  \
	}

BLOCKS(int8)
BLOCKS(fp8)

#define NARROW_OF(type)                                                                            \
	{                                                                                          \
		pack_##type, unpack_##type, sum_##type, average_##type                             \
	}
#define NARROW_ROW                                                                                 \
	[TUTTI_WIRE_BFLOAT16] = NARROW_OF(bf16), [TUTTI_WIRE_FLOAT16] = NARROW_OF(f16),            \
	[TUTTI_WIRE_FLOAT8] = NARROW_OF(fp8_blocks), [TUTTI_WIRE_INT8] = NARROW_OF(int8_blocks)

#undef BLOCKS
#undef BLOCK
#undef BLOCK_BYTES
#undef LEAST
