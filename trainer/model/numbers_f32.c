/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic in float32. */
#define REAL	float
#define NAME	"f32"
#define DTYPE	TUTTI_FLOAT32
#define NUMBERS numbers_f32
#define GEMM	cblas_sgemm
#define EXP	expf
#define SQRT	sqrtf

#include "numbers_tmpl.h"
