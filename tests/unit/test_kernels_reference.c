/* SPDX-License-Identifier: BSD-3-Clause */
/* The plain C kernels against the arithmetic of tests/calls: numbers and operations as they are
 * defined, in double precision. */
#include "tests.h"
#include <math.h>

#include "calls/values.h"
#include "kernels/convert.h"
#include "kernels_check.h"

#define MANY 20000

static const int narrow[] = { TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 };
#define NARROW (sizeof(narrow) / sizeof(narrow[0]))

static double number_of(int dtype, uint64_t bits)
{
	return value_get(&bits, 0, (tutti_dtype_t)dtype);
}

static uint64_t nearest_to(int dtype, double number)
{
	uint64_t bits = 0;

	value_set(&bits, 0, (tutti_dtype_t)dtype, number);
	return bits;
}

/* The bits of the largest finite number. */
static uint64_t largest_of(int dtype)
{
	return dtype == TUTTI_FLOAT8_E4M3 ? 0x7e : nearest_to(dtype, INFINITY) - 1;
}

static float decode(int dtype, uint64_t bits)
{
	switch (dtype) {
	case TUTTI_FLOAT16: return tt_f32_from_f16((uint16_t)bits);
	case TUTTI_BFLOAT16: return tt_f32_from_bf16((uint16_t)bits);
	case TUTTI_FLOAT8_E4M3: return tt_f32_from_e4m3((uint8_t)bits);
	default: return tt_f32_from_e5m2((uint8_t)bits);
	}
}

static uint64_t encode(int dtype, float value)
{
	switch (dtype) {
	case TUTTI_FLOAT16: return tt_f16_from_f32(value);
	case TUTTI_BFLOAT16: return tt_bf16_from_f32(value);
	case TUTTI_FLOAT8_E4M3: return tt_e4m3_from_f32(value);
	default: return tt_e5m2_from_f32(value);
	}
}

static void expect_bits(int dtype, const char *what, double of, uint64_t found, uint64_t expected)
{
	if (!bits_equal(dtype, found, expected))
		fail_msg("%s %s of %a is %#llx, expected %#llx", formats[dtype].name, what, of,
			 (unsigned long long)found, (unsigned long long)expected);
}

TEST(every_narrow_float_is_read_exactly_and_written_back)
{
	for (size_t k = 0; k < NARROW; k++)
		for (uint64_t bits = 0; bits <= all_bits(narrow[k]); bits++) {
			const double expected = number_of(narrow[k], bits);
			const float found = decode(narrow[k], bits);

			if (isnan(expected))
				assert_true(isnan(found));
			else
				assert_true(found == expected &&
					    !signbit(found) == !signbit(expected));
			expect_bits(narrow[k], "round trip", expected, encode(narrow[k], found),
				    bits);
		}
}

static void expect_nearest(int dtype, float value)
{
	expect_bits(dtype, "rounding", value, encode(dtype, value), nearest_to(dtype, value));
	expect_bits(dtype, "rounding", -value, encode(dtype, -value), nearest_to(dtype, -value));
}

/* At, just below and just above the middle of every two neighbours; the largest one's upper
 * neighbour is where infinity would be. */
TEST(middles_between_narrow_floats_round_to_even)
{
	for (size_t k = 0; k < NARROW; k++)
		for (uint64_t bits = 0; bits <= largest_of(narrow[k]); bits++) {
			const double here = number_of(narrow[k], bits);
			const double step = bits < largest_of(narrow[k])
						    ? number_of(narrow[k], bits + 1) - here
						    : here - number_of(narrow[k], bits - 1);
			const float middle = (float)(here + step / 2);

			expect_nearest(narrow[k], middle);
			expect_nearest(narrow[k], nextafterf(middle, 0));
			expect_nearest(narrow[k], nextafterf(middle, INFINITY));
		}
}

TEST(any_float_rounds_to_the_nearest_narrow_one)
{
	for (size_t k = 0; k < NARROW; k++) {
		for (int i = 0; i < 10 * MANY; i++)
			expect_nearest(narrow[k], tt_f32_of((uint32_t)edgy_number(TUTTI_FLOAT32)));
		for (int exponent = -30; exponent < 20; exponent++)
			for (int i = 0; i < MANY / 10; i++)
				expect_nearest(narrow[k],
					       ldexpf(1 + (float)(next_random() >> 40) / 0x1p24f,
						      exponent));
	}
}

TEST(e4m3_saturates_and_e5m2_overflows_to_infinity)
{
	assert_int_equal(tt_e4m3_from_f32(449), 0x7e);
	assert_int_equal(tt_e4m3_from_f32(-1e30f), 0xfe);
	assert_int_equal(tt_e4m3_from_f32(INFINITY), 0x7e);
	assert_int_equal(tt_e4m3_from_f32(NAN) & 0x7f, 0x7f);
	assert_int_equal(tt_e5m2_from_f32(57344), 0x7b);
	assert_int_equal(tt_e5m2_from_f32(61439), 0x7b);
	assert_int_equal(tt_e5m2_from_f32(61440), 0x7c);
	assert_int_equal(tt_e5m2_from_f32(-1e30f), 0xfc);
	assert_true(bits_are_nan(TUTTI_FLOAT8_E5M2, tt_e5m2_from_f32(NAN)));
}

/* ---------------------------------------------------------------- operations */

static uint64_t reduced_by_c(int op, int dtype, const uint64_t *operands, unsigned nsrc)
{
	const void *src[4] = { &operands[0], &operands[1], &operands[2], &operands[3] };
	uint64_t result = 0;

	tt_kernels_by_isa("c")->reduce[op][dtype](&result, src, nsrc, 1);
	return result;
}

/* `divisor` counts for averages, whose sums are divided by 1 elsewhere. */
static uint64_t folded(int op, int dtype, const uint64_t *operands, unsigned nsrc, unsigned divisor)
{
	const void *src[4] = { &operands[0], &operands[1], &operands[2], &operands[3] };
	uint64_t result = 0;

	value_fold_by(&result, src, (int)nsrc, (tutti_dtype_t)dtype, op, divisor);
	return result;
}

TEST(operations_equal_independent_arithmetic)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = 0; op < (is_float(dtype) ? TUTTI_BAND : TUTTI_OP_COUNT); op++)
			for (int i = 0; i < MANY / 4; i++) {
				const unsigned nsrc = 1 + (unsigned)i % 4;
				uint64_t operands[4];

				for (int s = 0; s < 4; s++)
					operands[s] = edgy_number(dtype);
				expect_bits(dtype, op_names[op], (double)operands[0],
					    reduced_by_c(op, dtype, operands, nsrc),
					    folded(op, dtype, operands, nsrc, 1));
			}
}

TEST(minimum_and_maximum_do_not_depend_on_the_order)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int i = 0; i < MANY; i++) {
			const uint64_t a = edgy_number(dtype), b = i % 4 ? edgy_number(dtype) : a;
			const uint64_t c = is_float(dtype) && i % 8 == 0 ? b ^ sign_bit(dtype) : b;
			const uint64_t one[4] = { a, c }, other[4] = { c, a };

			for (int op = TUTTI_MIN; op <= TUTTI_MAX; op++)
				expect_bits(dtype, op_names[op], (double)a,
					    reduced_by_c(op, dtype, one, 2),
					    reduced_by_c(op, dtype, other, 2));
		}
}

/* ---------------------------------------------------------------- divide, scale */

static void expect_average(int dtype, const uint64_t *operands, unsigned nsrc, unsigned divisor)
{
	const void *src[4] = { &operands[0], &operands[1], &operands[2], &operands[3] };
	uint64_t found = 0;

	tt_kernels_by_isa("c")->average[dtype](&found, src, nsrc, 1, divisor);
	expect_bits(dtype, "average", (double)operands[0], found,
		    folded(TUTTI_AVG, dtype, operands, nsrc, divisor));
}

TEST(averages_truncate_integers_and_round_floats_once)
{
	static const unsigned divisors[] = { 1, 2, 3, 4, 5, 7, 8, 100, 255, 65537, 4294967295u };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (uint64_t i = 0; i < UINT64_C(65536); i++) {
			const unsigned divisor =
				divisors[i % (sizeof(divisors) / sizeof(unsigned))];
			uint64_t operands[4] = { formats[dtype].bytes <= 2 ? i & all_bits(dtype)
									   : edgy_number(dtype) };

			expect_average(dtype, operands, 1, divisor);
			for (int s = 1; s < 4; s++)
				operands[s] = edgy_number(dtype);
			expect_average(dtype, operands, 4, divisor < 4 ? 4 : divisor);
		}
}

/* 65535 numbers are the most that a step has. */
TEST(averages_of_many_integers_are_exact)
{
	enum { MOST = UINT16_MAX };
	static const void *src[MOST];

	for (int dtype = 0; dtype <= TUTTI_UINT32; dtype++)
		for (int i = 0; i < 2; i++) { /* the largest magnitude, and one less in all but
					       * one */
			const uint64_t top =
				formats[dtype].is_signed ? sign_bit(dtype) : all_bits(dtype);
			const uint64_t less = formats[dtype].is_signed ? top + 1 : top - 1;
			const uint64_t expected = i ? less : top;
			uint64_t found = 0;

			for (int s = 0; s < MOST; s++)
				src[s] = i && s > 0 ? &less : &top;
			tt_kernels_by_isa("c")->average[dtype](&found, src, MOST, 1, MOST);
			expect_bits(dtype, "average of many", (double)top, found, expected);
		}
}

TEST(means_weigh_in_float32)
{
	for (size_t k = 0; k < NARROW; k++)
		for (int i = 0; i < MANY; i++) {
			const uint64_t operands[2] = { edgy_number(narrow[k]),
						       edgy_number(narrow[k]) };
			const void *src[2] = { &operands[0], &operands[1] };
			const float share[2] = { (float)(1 + i % 7) / 8, (float)(7 - i % 7) / 8 };
			const float a = (float)number_of(narrow[k], operands[0]) * share[0];
			const float b = (float)number_of(narrow[k], operands[1]) * share[1];
			uint64_t found = 0;

			tt_kernels_by_isa("c")->mean[narrow[k]](&found, src, share, 1);
			expect_bits(narrow[k], "mean", a, found, nearest_to(narrow[k], a + b));
		}
}

TEST(scaling_is_the_product_with_the_scalar)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int i = 0; i < MANY; i++) {
			const uint64_t operands[4] = { edgy_number(dtype), edgy_number(dtype) };
			uint64_t found = 0;

			tt_kernels_by_isa("c")->scale[dtype](&found, &operands[0], 1, &operands[1]);
			expect_bits(dtype, "scaling", (double)operands[0], found,
				    folded(TUTTI_PROD, dtype, operands, 2, 1));
		}
}
