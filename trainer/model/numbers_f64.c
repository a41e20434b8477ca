/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic in float64. */
#define REAL	double
#define NAME	"f64"
#define DTYPE	TUTTI_FLOAT64
#define NUMBERS numbers_f64
#define GEMM	cblas_dgemm
#define EXP	exp
#define SQRT	sqrt

#include "numbers_tmpl.h"
