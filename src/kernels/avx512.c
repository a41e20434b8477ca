/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the AVX-512 kernels. */
#include "avx512.h"
#include "isa.h"

#define TABLE tt_kernels_avx512
#define ISA   "avx512"

/* in this order: each builds on those before it */
#include "vec_tmpl.h"

#include "loops_tmpl.h"

#include "average_tmpl.h"

#include "stream_tmpl.h"

#include "table_tmpl.h"
