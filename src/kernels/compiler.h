/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels ask of the compiler beyond C. */
#ifndef TT_KERNELS_COMPILER_H
#define TT_KERNELS_COMPILER_H

#define INLINE	 static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* For i = 0 … n-1: no step reads what another one writes, whatever the pointers look like. */
#ifdef __clang__
#define tt_for_each(i, n)                                                                          \
	_Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define tt_for_each(i, n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

#endif
