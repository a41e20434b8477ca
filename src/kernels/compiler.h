/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels ask of the compiler beyond C. */
#ifndef TT_KERNELS_COMPILER_H
#define TT_KERNELS_COMPILER_H

#define INLINE	 static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* Before a loop: no iteration reads what another one writes, whatever the pointers look like. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
