/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Small floats by their numbers of bits. */
struct format {
	int exponent_bits, mantissa_bits, bias;
	bool finite_only; /* E4M3: the highest exponent holds numbers too, but for one */
};

static const struct format *format_of(tutti_dtype_t dtype)
{
	static const struct format half = { 5, 10, 15, false }, brain = { 8, 7, 127, false },
				   e4m3 = { 4, 3, 7, true }, e5m2 = { 5, 2, 15, false };

	switch (dtype) {
	case TUTTI_FLOAT16: return &half;
	case TUTTI_BFLOAT16: return &brain;
	case TUTTI_FLOAT8_E4M3: return &e4m3;
	case TUTTI_FLOAT8_E5M2: return &e5m2;
	default: return NULL;
	}
}

bool value_is_float(tutti_dtype_t dtype)
{
	return dtype >= TUTTI_FLOAT16;
}

bool value_is_narrow(tutti_dtype_t dtype)
{
	return format_of(dtype) != NULL;
}

int value_digits(tutti_dtype_t dtype)
{
	const struct format *format = format_of(dtype);

	return format ? format->mantissa_bits : dtype == TUTTI_FLOAT32 ? 23 : 52;
}

double value_least(tutti_dtype_t dtype)
{
	const struct format *format = format_of(dtype);

	if (format)
		return ldexp(1, 1 - format->bias - format->mantissa_bits);
	return dtype == TUTTI_FLOAT32 ? 0x1p-149 : 0x1p-1074;
}

bool op_is_defined(tutti_op_t op, tutti_dtype_t dtype)
{
	return !value_is_float(dtype) || op < TUTTI_BAND;
}

static double decode(uint32_t bits, const struct format *format)
{
	const uint32_t mantissa = bits & ((1u << format->mantissa_bits) - 1);
	const int exponent =
		(int)(bits >> format->mantissa_bits) & ((1 << format->exponent_bits) - 1);
	const double sign = bits >> (format->mantissa_bits + format->exponent_bits) & 1 ? -1 : 1;

	if (exponent == (1 << format->exponent_bits) - 1 && !format->finite_only)
		return mantissa ? NAN : sign * INFINITY;
	if (format->finite_only && (bits & 0x7f) == 0x7f)
		return NAN;
	if (exponent == 0)
		return sign * ldexp(mantissa, 1 - format->bias - format->mantissa_bits);
	return sign * ldexp(mantissa + (1u << format->mantissa_bits),
			    exponent - format->bias - format->mantissa_bits);
}

/* Rounds to nearest even. What is too large becomes infinity, or in E4M3 the largest number. */
static uint32_t encode(double value, const struct format *format)
{
	const int width = format->mantissa_bits + format->exponent_bits, lowest = 1 - format->bias;
	const uint32_t infinity = (1u << width) - (1u << format->mantissa_bits);
	const uint32_t largest = format->finite_only ? (1u << width) - 2 : infinity;
	const uint32_t sign = (signbit(value) ? 1u : 0u) << width;
	int exponent;

	if (isnan(value))
		return (1u << width) - 1;
	if (value == 0)
		return sign;
	if (isinf(value))
		return sign | largest;
	frexp(value, &exponent); /* fabs(value) = f * 2^exponent, f in [0.5, 1) */
	/* subnormal numbers have the steps of the lowest normal ones */
	exponent = exponent - 1 > lowest ? exponent - 1 : lowest;
	const double steps = nearbyint(ldexp(fabs(value), format->mantissa_bits - exponent));
	const double bits = steps + ldexp(exponent - lowest, format->mantissa_bits);

	return sign | (bits < largest ? (uint32_t)bits : largest);
}

#define STORED(X)                                                                                  \
	X(TUTTI_INT8, int8_t)                                                                      \
	X(TUTTI_UINT8, uint8_t)                                                                    \
	X(TUTTI_INT16, int16_t)                                                                    \
	X(TUTTI_UINT16, uint16_t)                                                                  \
	X(TUTTI_INT32, int32_t)                                                                    \
	X(TUTTI_UINT32, uint32_t)                                                                  \
	X(TUTTI_INT64, int64_t)                                                                    \
	X(TUTTI_UINT64, uint64_t) X(TUTTI_FLOAT32, float) X(TUTTI_FLOAT64, double)

double value_get(const void *buffer, size_t i, tutti_dtype_t dtype)
{
	const size_t size = tutti_dtype_size(dtype);
	const char *place = (const char *)buffer + i * size;
	uint32_t bits = 0;

	switch (dtype) {
#define GET(name, type)                                                                            \
	case name: {                                                                               \
		type value;                                                                        \
		memcpy(&value, place, sizeof(value));                                              \
		return (double)value;                                                              \
	}
		STORED(GET)
#undef GET
	default: memcpy(&bits, place, size); return decode(bits, format_of(dtype));
	}
}

void value_set(void *buffer, size_t i, tutti_dtype_t dtype, double number)
{
	const size_t size = tutti_dtype_size(dtype);
	char *place = (char *)buffer + i * size;
	uint32_t bits;

	switch (dtype) {
#define SET(name, type)                                                                            \
	case name: {                                                                               \
		const type value = (type)number;                                                   \
		memcpy(place, &value, sizeof(value));                                              \
		return;                                                                            \
	}
		STORED(SET)
#undef SET
	default: bits = encode(number, format_of(dtype)); memcpy(place, &bits, size);
	}
}

/* ---- the promise of the reproducible mode */

static bool is_signed(tutti_dtype_t integer)
{
	return integer % 2 == 0;
}

/* Little-endian: the low bytes come first. */
static uint64_t integer_get(const void *element, tutti_dtype_t dtype)
{
	const size_t size = tutti_dtype_size(dtype), above = 64 - 8 * size;
	uint64_t bits = 0;

	memcpy(&bits, element, size);
	return is_signed(dtype) ? (uint64_t)((int64_t)(bits << above) >> above) : bits;
}

static uint64_t integer_combine(uint64_t a, uint64_t b, tutti_op_t op, bool has_sign)
{
	const bool less = has_sign ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case TUTTI_PROD: return a * b;
	case TUTTI_MIN: return less ? a : b;
	case TUTTI_MAX: return less ? b : a;
	case TUTTI_BAND: return a & b;
	case TUTTI_BOR: return a | b;
	case TUTTI_BXOR: return a ^ b;
	default: return a + b;
	}
}

/* In 64 bits: of shorter types only the end is cut off. */
static void fold_integers(void *result, const void *const *elements, int n, tutti_dtype_t dtype,
			  tutti_op_t op, unsigned divisor)
{
	const bool has_sign = is_signed(dtype);
	uint64_t all = integer_get(elements[0], dtype);

	for (int rank = 1; rank < n; rank++)
		all = integer_combine(all, integer_get(elements[rank], dtype), op, has_sign);
	if (op == TUTTI_AVG)
		all = has_sign ? (uint64_t)((int64_t)all / (int64_t)divisor) : all / divisor;
	memcpy(result, &all, tutti_dtype_size(dtype)); /* little-endian: the low bytes */
}

static double float_combine(double a, double b, tutti_op_t op)
{
	switch (op) {
	case TUTTI_PROD: return a * b;
	case TUTTI_MIN: return isnan(a) || (a < b) || (a == b && signbit(a)) ? a : b;
	case TUTTI_MAX: return isnan(a) || (a > b) || (a == b && !signbit(a)) ? a : b;
	default: return a + b;
	}
}

/* A double has so many digits (53 = 2 * 24 + 5) that the sum, product or quotient of two
 * float32, rounded to it and then to float32, is what float32 arithmetic gives. */
static double in_wide_type(double value, tutti_dtype_t dtype)
{
	return dtype == TUTTI_FLOAT64 ? value : (double)(float)value;
}

void value_fold_by(void *result, const void *const *elements, int n, tutti_dtype_t dtype,
		   tutti_op_t op, unsigned divisor)
{
	if (!value_is_float(dtype)) {
		fold_integers(result, elements, n, dtype, op, divisor);
		return;
	}
	double all = value_get(elements[0], 0, dtype);

	for (int rank = 1; rank < n; rank++)
		all = in_wide_type(float_combine(all, value_get(elements[rank], 0, dtype), op),
				   dtype);
	if (op == TUTTI_AVG)
		all = in_wide_type(all / in_wide_type(divisor, dtype), dtype);
	value_set(result, 0, dtype, all);
}

void value_fold(void *result, const void *const *elements, int n, tutti_dtype_t dtype,
		tutti_op_t op)
{
	value_fold_by(result, elements, n, dtype, op, (unsigned)n);
}

void value_scale(void *result, const void *element, const void *scalar, tutti_dtype_t dtype)
{
	const void *const factors[2] = { element, scalar };

	value_fold(result, factors, 2, dtype, TUTTI_PROD);
}

uint64_t bits_hash(const void *bits, size_t bytes)
{
	const unsigned char *at = bits;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}
