/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bfloat16 kernels that round by AVX512_BF16, where that gives the bits of the plain C
 * ones. */
#include "avx512.h"
#include "isa.h"

#include "vec_tmpl.h"

/* The instruction rounds to nearest even but takes subnormal numbers for 0: vectors that hold one,
 * which are rare, are rounded by integer arithmetic. */
static inline half encode_by_instruction(vec value)
{
	const __m512 number = _mm512_castsi512_ps(value);
	const __mmask16 subnormal = _mm512_fpclass_ps_mask(number, 0x20);

	if (__builtin_expect(subnormal != 0, 0))
		return encode_bf16(value);
	return (half)_mm512_cvtneps_pbh(number);
}

#define encode_bf16 encode_by_instruction

#include "loops_tmpl.h"

REDUCE(sum, bf16, f32)
REDUCE(prod, bf16, f32)
REDUCE(min, bf16, f32)
REDUCE(max, bf16, f32)
AVERAGE(bf16, f32)
MEAN(bf16)
SCALE(bf16, f32)
CONVERT(bf16)

void tt_kernels_init_avx512_bf16(struct tt_kernels *kernels)
{
	*kernels = tt_kernels_avx512;
	kernels->isa = "avx512_bf16";
	kernels->reduce[TUTTI_SUM][TUTTI_BFLOAT16] = sum_bf16;
	kernels->reduce[TUTTI_AVG][TUTTI_BFLOAT16] = sum_bf16;
	kernels->reduce[TUTTI_PROD][TUTTI_BFLOAT16] = prod_bf16;
	kernels->reduce[TUTTI_MIN][TUTTI_BFLOAT16] = min_bf16;
	kernels->reduce[TUTTI_MAX][TUTTI_BFLOAT16] = max_bf16;
	kernels->average[TUTTI_BFLOAT16] = average_bf16;
	kernels->mean[TUTTI_BFLOAT16] = mean_bf16;
	kernels->scale[TUTTI_BFLOAT16] = scale_bf16;
	kernels->narrow[TUTTI_WIRE_BFLOAT16] =
		(struct tt_narrow_kernels){ pack_bf16, unpack_bf16, sum_bf16, average_bf16 };
}
