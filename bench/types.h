/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types as bits: what pattern.c writes and compares. */
#ifndef BENCH_TYPES_H
#define BENCH_TYPES_H

#include <stdint.h>

#include "pattern.h"

struct bench_format bench_type_format(tutti_dtype_t dtype);
/* All whole numbers up to this are exact, and no signed type overflows. */
uint64_t bench_type_exact(tutti_dtype_t dtype);

/* `value` must be exact in the type. */
void bench_type_encode(tutti_dtype_t dtype, uint64_t value, void *out);

#endif
