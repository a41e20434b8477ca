/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of a short buffer into registers and back, for instruction sets without masked
 * loads of bytes. Nothing outside the buffer is touched, and no loop is run: two overlapping words
 * of the largest size that fits cover it. */
#ifndef TT_KERNELS_PART_H
#define TT_KERNELS_PART_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

/* bytes <= 8; byte k of the buffer is bits 8k … 8k+7, those behind are 0 */
INLINE uint64_t load_upto8(const char *from, size_t bytes)
{
	uint64_t whole = 0;

	if (bytes == 8) {
		memcpy(&whole, from, 8);
	} else if (bytes >= 4) {
		uint32_t first, last;

		memcpy(&first, from, 4);
		memcpy(&last, from + bytes - 4, 4);
		whole = first | (uint64_t)last << (8 * (bytes - 4));
	} else if (bytes >= 2) {
		uint16_t first, last;

		memcpy(&first, from, 2);
		memcpy(&last, from + bytes - 2, 2);
		whole = first | (uint64_t)last << (8 * (bytes - 2));
	} else if (bytes == 1) {
		whole = (uint8_t)*from;
	}
	return whole;
}

INLINE void store_upto8(char *to, uint64_t whole, size_t bytes)
{
	if (bytes == 8) {
		memcpy(to, &whole, 8);
	} else if (bytes >= 4) {
		const uint32_t first = (uint32_t)whole;
		const uint32_t last = (uint32_t)(whole >> (8 * (bytes - 4)));

		memcpy(to, &first, 4);
		memcpy(to + bytes - 4, &last, 4);
	} else if (bytes >= 2) {
		const uint16_t first = (uint16_t)whole;
		const uint16_t last = (uint16_t)(whole >> (8 * (bytes - 2)));

		memcpy(to, &first, 2);
		memcpy(to + bytes - 2, &last, 2);
	} else if (bytes == 1) {
		*to = (char)whole;
	}
}

#endif
