/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench/nccl_functions.h declares is what NCCL's own header does: compiled, not run. */
#include <nccl.h>

#include "nccl_functions.h"

#define SAME(result, member, function, parameters)                                                 \
	_Static_assert(__builtin_types_compatible_p(result(*) parameters, __typeof__(&function)),  \
		       #function " is declared otherwise");
NCCL_FUNCTIONS(SAME)

#define EQUAL(ours, theirs) _Static_assert((int)ours == (int)theirs, #theirs " has another value")

EQUAL(NCCL_INT8, ncclInt8);
EQUAL(NCCL_UINT8, ncclUint8);
EQUAL(NCCL_INT32, ncclInt32);
EQUAL(NCCL_UINT32, ncclUint32);
EQUAL(NCCL_INT64, ncclInt64);
EQUAL(NCCL_UINT64, ncclUint64);
EQUAL(NCCL_FLOAT16, ncclFloat16);
EQUAL(NCCL_FLOAT32, ncclFloat32);
EQUAL(NCCL_FLOAT64, ncclFloat64);
EQUAL(NCCL_BFLOAT16, ncclBfloat16);
EQUAL(NCCL_FLOAT8_E4M3, ncclFloat8e4m3);
EQUAL(NCCL_FLOAT8_E5M2, ncclFloat8e5m2);
EQUAL(NCCL_SUM, ncclSum);
EQUAL(NCCL_PROD, ncclProd);
EQUAL(NCCL_MAX, ncclMax);
EQUAL(NCCL_MIN, ncclMin);
EQUAL(NCCL_AVG, ncclAvg);
