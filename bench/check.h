/* SPDX-License-Identifier: BSD-3-Clause */
/* What an element must be, and whether it is: the one definition, by which the host checks and,
 * where memory is that of a GPU, kernels do. Read by C, C++ and CUDA compilers. */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define BENCH_ANYWHERE static inline __host__ __device__
#else
#define BENCH_ANYWHERE static inline
#endif

#define BENCH_PERIOD                                                                               \
	1021 /* elements of the sequence that is sent; prime, so that no block length is a
	      * multiple */
#define BENCH_RANK_STEP	 7
#define BENCH_SHIFT_STEP 101

/* Of an element. */
struct bench_format {
	uint32_t size, exponent, mantissa; /* bytes; bits, 0 for integers */
	uint32_t roundings; /* of an average of floats, on the way to a result, at most */
};

/* What was wrong with a result: how many elements, and the first of them (if `wrong` is 0: more
 * than any). Of elements that travelled narrow also the largest error, as share of the largest
 * number that there may be. */
struct bench_found {
	unsigned long long wrong, first;
	double error;
};
#define BENCH_NOTHING_FOUND                                                                        \
	{                                                                                          \
		0, UINT64_MAX, 0                                                                   \
	}

/* Where in the sequence that element is which `rank` sends in repetition `shift`. */
BENCH_ANYWHERE uint64_t bench_place(uint64_t element, int rank, uint64_t shift)
{
	return (element + (uint64_t)rank * BENCH_RANK_STEP +
		shift % BENCH_PERIOD * BENCH_SHIFT_STEP) %
	       BENCH_PERIOD;
}

BENCH_ANYWHERE uint64_t bench_load_bits(uint32_t size, const void *in)
{
	uint8_t b8;
	uint16_t b16;
	uint32_t b32;
	uint64_t b64;

	switch (size) {
	case 1: return memcpy(&b8, in, 1), b8;
	case 2: return memcpy(&b16, in, 2), b16;
	case 4: return memcpy(&b32, in, 4), b32;
	default: return memcpy(&b64, in, 8), b64;
	}
}

/* The number that an element is. Infinities and NaNs come out as large numbers, integers as
 * unsigned. */
BENCH_ANYWHERE double bench_decode(struct bench_format f, const void *in)
{
	const uint64_t bits = bench_load_bits(f.size, in);

	if (f.exponent == 0)
		return (double)bits;
	const int mantissa = (int)f.mantissa, bias = (1 << (f.exponent - 1)) - 1;
	const int exponent = (int)(bits >> mantissa & (((uint64_t)1 << f.exponent) - 1));
	const double fraction = (double)(bits & (((uint64_t)1 << mantissa) - 1));
	const double value =
		exponent == 0 ? ldexp(fraction, 1 - bias - mantissa)
			      : ldexp(ldexp(1.0, mantissa) + fraction, exponent - bias - mantissa);

	return bits >> (mantissa + f.exponent) & 1 ? -value : value;
}

/* An average of floats: each rounding is wrong by half a unit in the last place, or half the
 * smallest number. */
BENCH_ANYWHERE bool bench_is_near(struct bench_format f, double exact, const void *got)
{
	const int bias = (1 << (f.exponent - 1)) - 1;
	const double relative = expm1(f.roundings * log1p(ldexp(1.0, -1 - (int)f.mantissa)));
	const double tolerance =
		exact * relative + f.roundings * ldexp(0.5, 1 - bias - (int)f.mantissa);

	return fabs(bench_decode(f, got) - exact) <= tolerance;
}

/* `exact`: the number that is tolerated nearly, or NULL: bit by bit. */
BENCH_ANYWHERE bool bench_is_right(struct bench_format f, const void *want, const double *exact,
				   const void *got)
{
	return exact ? bench_is_near(f, *exact, got)
		     : bench_load_bits(f.size, want) == bench_load_bits(f.size, got);
}

#endif
