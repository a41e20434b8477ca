/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: integers divided by one divisor, truncated towards zero. No processor divides vectors
 * of integers, but all divide vectors of floats: a quotient that is no integer differs from the
 * nearest one by more than a part in 2^16 (8 and 16 bits, in float) or 2^32 (32 bits, in double),
 * far more than the rounding, so truncation gives the exact answer. The compiler vectorizes the
 * loops. */
#include <stdint.h>
#include <string.h>

#include "compiler.h"

/* A divisor above the largest dividend gives 0 in either way; float would round it, but not to
 * less. */
#define DIVIDE_INTEGER(name, type, real)                                                           \
	static void divide_##name(void *dst, const void *src, size_t n, unsigned divisor)          \
	{                                                                                          \
		char *to = dst;                                                                    \
		const char *from = src;                                                            \
                                                                                                   \
		tt_for_each(i, n) {                                                                \
			type value;                                                                \
                                                                                                   \
			memcpy(&value, from + i * sizeof(type), sizeof(type));                     \
			value = (type)((real)value / (real)divisor);                               \
			memcpy(to + i * sizeof(type), &value, sizeof(type));                       \
		}                                                                                  \
	}

DIVIDE_INTEGER(i8, int8_t, float)
DIVIDE_INTEGER(u8, uint8_t, float)
DIVIDE_INTEGER(i16, int16_t, float)
DIVIDE_INTEGER(u16, uint16_t, float)
DIVIDE_INTEGER(i32, int32_t, double)
DIVIDE_INTEGER(u32, uint32_t, double)
DIVIDE_INTEGER(i64, int64_t, int64_t)
DIVIDE_INTEGER(u64, uint64_t, uint64_t)

#undef DIVIDE_INTEGER
