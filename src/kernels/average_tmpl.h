/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: averages of integers, truncated towards zero. No processor divides vectors of
 * integers, but all divide vectors of floats. A sum of less than 2^24 (2^53) is exact in float
 * (double), and so is its quotient after truncation: one that is no integer is 1/divisor away
 * from the next integer at least, and rounded by less than that. UINT16_MAX numbers of 8 bits
 * have a sum of less than 2^24; those of 16 and 32 bits less than 2^32 and 2^48. The compiler
 * vectorizes the loops. */
#include <stdint.h>
#include <string.h>

#include "compiler.h"

#define SUMS 512 /* are kept at a time: half a page */

/* A divisor above the largest dividend gives 0 in either way; float would round it, but not to
 * less. */
#define AVERAGE_INTEGER(name, type, wide, real)                                                    \
	static inline wide read_##name(const void *from, size_t i)                                 \
	{                                                                                          \
		type value;                                                                        \
                                                                                                   \
		memcpy(&value, (const char *)from + i * sizeof(type), sizeof(type));               \
		return (wide)value;                                                                \
	}                                                                                          \
	static void average_##name(void *dst, const void *const *src, unsigned nsrc, size_t n,     \
				   unsigned divisor)                                               \
	{                                                                                          \
		wide sums[SUMS];                                                                   \
                                                                                                   \
		for (size_t done = 0; done < n; done += SUMS) {                                    \
			const size_t some = n - done < SUMS ? n - done : SUMS;                     \
			char *to = (char *)dst + done * sizeof(type);                              \
                                                                                                   \
			for (size_t i = 0; i < some; i++)                                          \
				sums[i] = read_##name(src[0], done + i);                           \
			for (unsigned s = 1; s < nsrc; s++)                                        \
				for (size_t i = 0; i < some; i++)                                  \
					sums[i] += read_##name(src[s], done + i);                  \
			for (size_t i = 0; i < some; i++) {                                        \
				const type value = (type)((real)sums[i] / (real)divisor);          \
                                                                                                   \
				memcpy(to + i * sizeof(type), &value, sizeof(type));               \
			}                                                                          \
		}                                                                                  \
	}

AVERAGE_INTEGER(i8, int8_t, int32_t, float)
AVERAGE_INTEGER(u8, uint8_t, int32_t, float)
AVERAGE_INTEGER(i16, int16_t, int32_t, double)
AVERAGE_INTEGER(u16, uint16_t, uint32_t, double)
AVERAGE_INTEGER(i32, int32_t, int64_t, double)
AVERAGE_INTEGER(u32, uint32_t, int64_t, double)
AVERAGE_INTEGER(i64, int64_t, uint64_t, int64_t)
AVERAGE_INTEGER(u64, uint64_t, uint64_t, uint64_t)

#undef AVERAGE_INTEGER
#undef SUMS
