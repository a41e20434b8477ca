/* SPDX-License-Identifier: BSD-3-Clause */
/* How numbers combine: one table of functions per instruction set, chosen once at run time.
 *
 * Buffers need no alignment. Lengths are in elements. `dst` may be equal to any of the sources,
 * and otherwise overlaps none. Every variant gives the same bits as the plain C one (but for the
 * payload of NaNs): sources are combined from the first to the last, ((s0 op s1) op s2) …, and
 * 16- and 8-bit floats do so in f32 and are rounded once, to nearest even, when stored. Averages
 * divide before they are rounded. Minimum and maximum give a NaN where there is one, and take -0
 * for less than +0: they do not depend on the order. */
#ifndef TT_SPI_KERNELS_H
#define TT_SPI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* dst[i] = src[0][i] op src[1][i] op … src[nsrc-1][i], nsrc >= 1 */
typedef void tt_reduce_fn(void *dst, const void *const *src, unsigned nsrc, size_t n);
/* dst[i] = (src[0][i] + … + src[nsrc-1][i]) / divisor, 1 <= nsrc <= divisor, nsrc <= UINT16_MAX.
 * Integers of up to 32 bits are added without overflow, those of 64 bits wrap; all are truncated
 * towards zero. */
typedef void tt_average_fn(void *dst, const void *const *src, unsigned nsrc, size_t n,
			   unsigned divisor);
/* dst[i] = src[0][i] * share[0] + src[1][i] * share[1]: the average of two averages, if the
 * shares are those of the numbers behind them. It overflows nowhere where these do not. */
typedef void tt_mean_fn(void *dst, const void *const src[2], const float share[2], size_t n);
/* dst[i] = src[i] * *scalar, integers wrap; dst may equal src */
typedef void tt_scale_fn(void *dst, const void *src, size_t n, const void *scalar);

/* Vectors of float32 in fewer bytes, as elements of tt_narrow_values() numbers each (names.h). The
 * last element is filled up with zeros. float8 and int8 are blocks: a scale, a float32, and codes
 * of a byte that it multiplies. */
#define TT_NARROW_BLOCK 128

struct tt_narrow_kernels {
	void (*pack)(void *dst, const void *src, size_t n); /* n numbers; buffers are apart */
	void (*unpack)(void *dst, const void *src, size_t n);
	tt_reduce_fn *sum; /* of n elements, in f32; rounded once */
	tt_average_fn *average;
};

struct tt_kernels {
	const char *isa; /* "c", "avx2", "avx512", "avx512_bf16", "avx512_fp16", "neon" */
	/* [TUTTI_AVG] is the sum: an average before its division. NULL where an operation is not
	 * defined (bitwise on floats). */
	tt_reduce_fn *reduce[TUTTI_OP_COUNT][TUTTI_DTYPE_COUNT];
	tt_average_fn *average[TUTTI_DTYPE_COUNT];
	tt_mean_fn *mean[TUTTI_DTYPE_COUNT]; /* of 16- and 8-bit floats, NULL for others */
	tt_scale_fn *scale[TUTTI_DTYPE_COUNT];
	struct tt_narrow_kernels narrow[TUTTI_WIRE_COUNT]; /* zero for those that are none */
	/* memcpy whose stores bypass the cache, for results nobody reads soon */
	void (*copy_stream)(void *dst, const void *src, size_t bytes);
};

/* The best table for this processor, or the one that TUTTI_ISA names. Any thread; never NULL. */
const struct tt_kernels *tt_kernels(void);

/* The table of a named instruction set, for tests and benchmarks; NULL where it is not built or the
 * processor lacks it. */
const struct tt_kernels *tt_kernels_by_isa(const char *isa);

#endif
