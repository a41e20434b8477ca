/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the instruction sets, one file each. Which of them exist is the build's choice
 * (TT_KERNELS_X86, TT_KERNELS_AVX512_FP16, TT_KERNELS_NEON); which of them may be called is for
 * dispatch.c to find out. */
#ifndef TT_KERNELS_ISA_H
#define TT_KERNELS_ISA_H

#include "kernels.h"

extern const struct tt_kernels tt_kernels_c;
extern const struct tt_kernels tt_kernels_avx2;
extern const struct tt_kernels tt_kernels_avx512;
extern const struct tt_kernels tt_kernels_neon;

/* Puts into a copy of tt_kernels_avx512 what AVX512_BF16 makes faster. */
void tt_kernels_init_avx512_bf16(struct tt_kernels *kernels);
/* Also what AVX512_FP16 makes faster, for processors that have both. */
void tt_kernels_init_avx512_fp16(struct tt_kernels *kernels);

#endif
