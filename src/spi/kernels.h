/* SPDX-License-Identifier: BSD-3-Clause */
/* How numbers combine: one table of functions per instruction set, chosen once at run time.
 *
 * Buffers need no alignment. Lengths are in elements. `dst` may be equal to any of the sources, and
 * otherwise overlaps none. Every variant gives the same bits as the plain C one (but for the payload
 * of NaNs): sources are combined from the first to the last, ((s0 op s1) op s2) …, and 16- and 8-bit
 * floats do so in f32 and are rounded once, to nearest even, when stored. Minimum and maximum give a
 * NaN where there is one, and take -0 for less than +0: they do not depend on the order. */
#ifndef TT_SPI_KERNELS_H
#define TT_SPI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* dst[i] = src[0][i] op src[1][i] op … src[nsrc-1][i], nsrc >= 1 */
typedef void tt_reduce_fn(void *dst, const void *const *src, unsigned nsrc, size_t n);
/* dst[i] = src[i] / divisor: integers truncate towards zero; dst may equal src */
typedef void tt_divide_fn(void *dst, const void *src, size_t n, unsigned divisor);
/* dst[i] = src[i] * *scalar, integers wrap; dst may equal src */
typedef void tt_scale_fn(void *dst, const void *src, size_t n, const void *scalar);

struct tt_kernels {
	const char *isa; /* "c", "avx2", "avx512", "avx512_bf16", "avx512_fp16", "neon" */
	/* [TUTTI_AVG] is the sum; NULL where an operation is not defined (bitwise on floats) */
	tt_reduce_fn *reduce[TUTTI_OP_COUNT][TUTTI_DTYPE_COUNT];
	tt_divide_fn *divide[TUTTI_DTYPE_COUNT];
	tt_scale_fn *scale[TUTTI_DTYPE_COUNT];
	/* memcpy whose stores bypass the cache, for results nobody reads soon */
	void (*copy_stream)(void *dst, const void *src, size_t bytes);
};

/* The best table for this processor, or the one that TUTTI_ISA names. Any thread; never NULL. */
const struct tt_kernels *tt_kernels(void);

/* The table of a named instruction set, for tests and benchmarks; NULL where it is not built or the
 * processor lacks it. */
const struct tt_kernels *tt_kernels_by_isa(const char *isa);

#endif
