/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the float16 kernels that compute by AVX512_FP16, where that gives the bits of the plain C
 * ones: minimum and maximum, which round nothing, and the sum and the product of two numbers, since
 * float32 has twice the digits of float16 and two more (24 = 2 * 11 + 2): a result rounded to it on
 * the way to float16 comes out as if rounded once. Subnormal numbers count, whatever the processor
 * is told to do with those of float32. */
#include "avx512.h"
#include "isa.h"

typedef __m512h vec_ph;

ORDER_FLOAT(ph, ph, ps)

#include "vec_tmpl.h"

typedef _Float16 phv __attribute__((vector_size(VEC_BYTES)));

COMBINE(sum, ph, +)
COMBINE(prod, ph, *)

#include "loops_tmpl.h"

/* A number that is computed with as it lies in memory: `ph`, as the processor calls it, unlike the
 * `f16` that becomes an f32. */
#define ph_format u16_format

/* More than two are rounded once, from f32. */
#define REDUCE_PAIR(op, row)                                                                       \
	REDUCE_TWO(op, ph, ph)                                                                     \
	static void op##_ph(void *dst, const void *const *src, unsigned nsrc, size_t n)            \
	{                                                                                          \
		if (nsrc != 2)                                                                     \
			tt_kernels_avx512.reduce[row][TUTTI_FLOAT16](dst, src, nsrc, n);           \
		else if (n < ph_format.lanes)                                                      \
			op##_part_ph(dst, src, nsrc, n);                                           \
		else                                                                               \
			op##_two_ph(dst, src[0], src[1], n);                                       \
	}

REDUCE_PAIR(sum, TUTTI_SUM)
REDUCE_PAIR(prod, TUTTI_PROD)
REDUCE(min, ph, ph)
REDUCE(max, ph, ph)

void tt_kernels_init_avx512_fp16(struct tt_kernels *kernels)
{
	tt_kernels_init_avx512_bf16(kernels);
	kernels->isa = "avx512_fp16";
	kernels->reduce[TUTTI_SUM][TUTTI_FLOAT16] = sum_ph;
	kernels->reduce[TUTTI_AVG][TUTTI_FLOAT16] = sum_ph;
	kernels->reduce[TUTTI_PROD][TUTTI_FLOAT16] = prod_ph;
	kernels->reduce[TUTTI_MIN][TUTTI_FLOAT16] = min_ph;
	kernels->reduce[TUTTI_MAX][TUTTI_FLOAT16] = max_ph;
}
