/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Small floats by their numbers of bits. */
struct format {
	int exponent_bits, mantissa_bits, bias;
	bool finite_only; /* E4M3: the highest exponent holds numbers too */
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

bool op_is_defined(tutti_op_t op, tutti_dtype_t dtype)
{
	return !value_is_float(dtype) || op < TUTTI_BAND;
}

static double decode(uint32_t bits, const struct format *format)
{
	const uint32_t mantissa = bits & ((1u << format->mantissa_bits) - 1);
	const int exponent = (int)(bits >> format->mantissa_bits) & ((1 << format->exponent_bits) - 1);
	const double sign = bits >> (format->mantissa_bits + format->exponent_bits) & 1 ? -1 : 1;

	if (exponent == (1 << format->exponent_bits) - 1 && !format->finite_only)
		return mantissa ? NAN : sign * INFINITY;
	if (exponent == 0)
		return sign * ldexp(mantissa, 1 - format->bias - format->mantissa_bits);
	return sign * ldexp(mantissa + (1u << format->mantissa_bits),
			    exponent - format->bias - format->mantissa_bits);
}

/* Finite values inside the normal range or zero: all that the tests need. */
static uint32_t encode(double value, const struct format *format)
{
	const uint32_t sign = (value < 0 ? 1u : 0u) << (format->mantissa_bits + format->exponent_bits);
	int exponent;

	if (value == 0)
		return sign;
	frexp(fabs(value), &exponent); /* fabs(value) = f * 2^exponent, f in [0.5, 1) */
	exponent--;
	double mantissa = nearbyint(ldexp(fabs(value), format->mantissa_bits - exponent));
	if (mantissa == ldexp(1, format->mantissa_bits + 1)) {
		mantissa /= 2;
		exponent++;
	}
	return sign | (uint32_t)(exponent + format->bias) << format->mantissa_bits |
	       ((uint32_t)mantissa & ((1u << format->mantissa_bits) - 1));
}

#define INTEGERS(X)                                                                         \
	X(TUTTI_INT8, int8_t) X(TUTTI_UINT8, uint8_t) X(TUTTI_INT16, int16_t)             \
	X(TUTTI_UINT16, uint16_t) X(TUTTI_INT32, int32_t) X(TUTTI_UINT32, uint32_t)       \
	X(TUTTI_INT64, int64_t) X(TUTTI_UINT64, uint64_t) X(TUTTI_FLOAT32, float)         \
	X(TUTTI_FLOAT64, double)

double value_get(const void *buffer, size_t i, tutti_dtype_t dtype)
{
	const size_t size = tutti_dtype_size(dtype);
	const char *place = (const char *)buffer + i * size;
	uint32_t bits = 0;

	switch (dtype) {
#define GET(name, type)                            \
	case name: {                               \
		type value;                        \
		memcpy(&value, place, sizeof(value)); \
		return (double)value;              \
	}
		INTEGERS(GET)
#undef GET
	default:
		memcpy(&bits, place, size);
		return decode(bits, format_of(dtype));
	}
}

void value_set(void *buffer, size_t i, tutti_dtype_t dtype, double number)
{
	const size_t size = tutti_dtype_size(dtype);
	char *place = (char *)buffer + i * size;
	uint32_t bits;

	switch (dtype) {
#define SET(name, type)                               \
	case name: {                                  \
		const type value = (type)number;      \
		memcpy(place, &value, sizeof(value)); \
		return;                               \
	}
		INTEGERS(SET)
#undef SET
	default:
		bits = encode(number, format_of(dtype));
		memcpy(place, &bits, size);
	}
}

double value_input(int rank, size_t i, tutti_dtype_t dtype, tutti_op_t op)
{
	const unsigned mixed = (unsigned)(i * 7 + (size_t)rank * 13 + i / 5);

	if (op == TUTTI_PROD)
		return mixed % 3 == 0 && rank % 4 == 0 ? 2 : 1;
	if (op >= TUTTI_BAND && op < TUTTI_OP_COUNT)
		return mixed % 128;
	if (dtype == TUTTI_FLOAT8_E4M3 || dtype == TUTTI_FLOAT8_E5M2)
		return mixed % 4;
	return mixed % 15; /* 8 ranks: 112, which an int8 holds */
}

double value_combine(double a, double b, tutti_op_t op)
{
	switch (op) {
	case TUTTI_PROD: return a * b;
	case TUTTI_MIN: return a < b ? a : b;
	case TUTTI_MAX: return a > b ? a : b;
	case TUTTI_BAND: return (double)((uint64_t)a & (uint64_t)b);
	case TUTTI_BOR: return (double)((uint64_t)a | (uint64_t)b);
	case TUTTI_BXOR: return (double)((uint64_t)a ^ (uint64_t)b);
	default: return a + b;
	}
}

bool value_close(double found, double expected, tutti_dtype_t dtype, int steps)
{
	const struct format *format = format_of(dtype);
	const int mantissa = format ? format->mantissa_bits : dtype == TUTTI_FLOAT32 ? 23 : 52;

	if (!value_is_float(dtype))
		return found == trunc(expected);
	return fabs(found - expected) <= ldexp(fabs(expected), -mantissa - 1) * (steps + 1);
}
