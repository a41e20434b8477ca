/* SPDX-License-Identifier: BSD-3-Clause */
/* bfloat16, the upper half of a float32, as TUTTI_BFLOAT16 is: to the nearest, ties to even. A NaN
 * stays one, and becomes quiet. */
#ifndef TRAIN_BF16_H
#define TRAIN_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	const uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float bf16_value(uint16_t half)
{
	const uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline float bf16_rounded(float value)
{
	return bf16_value(bf16_of(value));
}

#endif
