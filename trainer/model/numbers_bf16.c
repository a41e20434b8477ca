/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic in mixed precision (Micikevicius et al. 2018), as matrix units do it: weights are
 * float32, operands of matrix products bfloat16, and products are added up in float32. The product
 * of two bfloat16 numbers is exact in float32: so the GEMM of float32, of operands that are rounded
 * but lie in memory as float32, has the result of one that reads bfloat16. Gradients are added up in
 * float32, and rounded to be sent. */
#include "bf16.h"
#include "numbers.h"

#define REAL	  float
#define NAME	  "bf16"
#define DTYPE	  TUTTI_FLOAT32
#define NUMBERS	  numbers_bf16
#define GEMM	  cblas_sgemm
#define EXP	  expf
#define SQRT	  sqrtf
#define OPERAND	  bf16_rounded
#define GRADIENT  uint16_t
#define ENCODE	  bf16_of
#define DECODE	  bf16_value
#define GRADIENTS gradients_bf16
#define SUMS	  numbers_f64 /* a count of samples does not fit into 8 bits */

static const struct numbers gradients_bf16;

#include "numbers_tmpl.h"

#define ELEMENT	     uint16_t
#define VECTOR(name) gradient_##name
#define READ(x)	     bf16_value(x)
#define WRITE(x)     bf16_of((float)(x))
#include "vectors_tmpl.h"

static const struct numbers gradients_bf16 = {
	.name = "bf16",
	.size = sizeof(uint16_t),
	.dtype = TUTTI_BFLOAT16,
	.square_sum = gradient_square_sum,
	.scale = gradient_scale,
	.add = gradient_add,
	.store = gradient_store,
	.load = gradient_load,
};
