/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the training does on a GPU beside products of matrices, which are cuBLAS's: the loops
 * of numbers_tmpl.h. Names begin with train_, and end with the type of --dtype.
 *
 * A thread does whole numbers, or whole rows, and none waits for another, so nothing depends on
 * how many there are. Numbers come in the same order as on the host, with products and sums
 * rounded one by one (-fmad=false). The tests compile this as C++, too. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "../model/update.h"

#define FUNCTION   static inline __device__
#define OPERAND(x) (x)
#define DECODE(x)  (x)

/* The loop over `i` below `count`, shared by all threads. */
#define EACH(i, count)                                                                             \
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;                                  \
	i < (count);                                                                               \
	i += (size_t)gridDim.x * blockDim.x

namespace f32
{
#define REAL	     float
#define EXP	     expf
#define SQRT	     sqrtf
#define KERNEL(name) extern "C" __global__ void train_##name##_f32
#include "kernels_tmpl.h"
} // namespace f32

namespace f64
{
#define REAL	     double
#define EXP	     exp
#define SQRT	     sqrt
#define KERNEL(name) extern "C" __global__ void train_##name##_f64
#include "kernels_tmpl.h"
} // namespace f64
