/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the kernels share: the tables, the number formats, numbers that are likely to go
 * wrong, and equality up to the payload of NaNs. */
#ifndef TEST_KERNELS_CHECK_H
#define TEST_KERNELS_CHECK_H

#include "tests.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "calls/random.h"
#include "kernels.h"

/* Claims about each table of kernels have its instruction set as their state. */
static const struct subject isas[] = {
	{ "c", "c" },
	{ "avx2", "avx2" },
	{ "avx512", "avx512" },
	{ "avx512_bf16", "avx512_bf16" },
	{ "avx512_fp16", "avx512_fp16" },
	{ "neon", "neon" },
};
enum { ISAS = sizeof(isas) / sizeof(isas[0]) };

static inline const struct tt_kernels *table_of(void **state)
{
	const struct tt_kernels *table = tt_kernels_by_isa(*state);

	if (!table) {
		printf("%s: not built, or this processor lacks it\n", (const char *)*state);
		skip();
	}
	return table;
}

/* Fields of a float from the top: sign, exponent, mantissa; an integer has no mantissa. */
struct number_format {
	const char *name;
	unsigned bytes, mantissa;
	int bias;
	bool is_signed;
};

static const struct number_format formats[TUTTI_DTYPE_COUNT] = {
	[TUTTI_INT8] = { "int8", 1, 0, 0, true },
	[TUTTI_UINT8] = { "uint8", 1, 0, 0, false },
	[TUTTI_INT16] = { "int16", 2, 0, 0, true },
	[TUTTI_UINT16] = { "uint16", 2, 0, 0, false },
	[TUTTI_INT32] = { "int32", 4, 0, 0, true },
	[TUTTI_UINT32] = { "uint32", 4, 0, 0, false },
	[TUTTI_INT64] = { "int64", 8, 0, 0, true },
	[TUTTI_UINT64] = { "uint64", 8, 0, 0, false },
	[TUTTI_FLOAT16] = { "float16", 2, 10, 15, true },
	[TUTTI_BFLOAT16] = { "bfloat16", 2, 7, 127, true },
	[TUTTI_FLOAT32] = { "float32", 4, 23, 127, true },
	[TUTTI_FLOAT64] = { "float64", 8, 52, 1023, true },
	[TUTTI_FLOAT8_E4M3] = { "float8_e4m3", 1, 3, 7, true },
	[TUTTI_FLOAT8_E5M2] = { "float8_e5m2", 1, 2, 15, true },
};

static const char *const op_names[TUTTI_OP_COUNT] = { "sum", "prod", "min", "max",
						      "avg", "band", "bor", "bxor" };

static inline bool is_float(int dtype)
{
	return formats[dtype].mantissa > 0;
}

/* All bits of a number set but those above its width. */
static inline uint64_t all_bits(int dtype)
{
	return UINT64_MAX >> (64 - 8 * formats[dtype].bytes);
}

static inline uint64_t sign_bit(int dtype)
{
	return UINT64_C(1) << (8 * formats[dtype].bytes - 1);
}

static inline uint64_t get_bits(int dtype, const void *buffer, size_t i)
{
	uint64_t bits = 0; /* the low bytes come first: little-endian machines only */

	memcpy(&bits, (const char *)buffer + i * formats[dtype].bytes, formats[dtype].bytes);
	return bits;
}

static inline void set_bits(int dtype, void *buffer, size_t i, uint64_t bits)
{
	memcpy((char *)buffer + i * formats[dtype].bytes, &bits, formats[dtype].bytes);
}

static inline bool bits_are_nan(int dtype, uint64_t bits)
{
	const uint64_t magnitude = bits & ~sign_bit(dtype);
	const uint64_t mantissa = (UINT64_C(1) << formats[dtype].mantissa) - 1;

	if (!is_float(dtype))
		return false;
	if (dtype == TUTTI_FLOAT8_E4M3)
		return magnitude == 0x7f;
	return magnitude > (all_bits(dtype) & ~sign_bit(dtype) & ~mantissa);
}

static inline bool bits_equal(int dtype, uint64_t a, uint64_t b)
{
	return a == b || (bits_are_nan(dtype, a) && bits_are_nan(dtype, b));
}

static inline uint64_t next_random(void)
{
	static struct random random;

	return random_next(&random);
}

/* 0, the smallest, the largest, half of it, or any number of `count` bits. */
static inline uint64_t edgy_field(unsigned count)
{
	const uint64_t random = next_random(), largest = UINT64_MAX >> (64 - count);

	switch (random >> 60) {
	case 0: return 0;
	case 1: return 1;
	case 2: return largest;
	case 3: return largest - 1;
	case 4: return largest / 2;
	case 5: return largest / 2 + 1;
	default: return random & largest;
	}
}

/* Any number of the type, often an infinity, a NaN, a subnormal, the largest, or a zero. */
static inline uint64_t edgy_number(int dtype)
{
	const unsigned bits = 8 * formats[dtype].bytes, mantissa = formats[dtype].mantissa;

	if (!is_float(dtype))
		return edgy_field(bits);
	return (next_random() >> 63) << (bits - 1) | edgy_field(bits - 1 - mantissa) << mantissa |
	       edgy_field(mantissa);
}

static inline void fill_edgy(int dtype, void *buffer, size_t n)
{
	for (size_t i = 0; i < n; i++)
		set_bits(dtype, buffer, i, edgy_number(dtype));
}

#endif
