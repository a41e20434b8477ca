/* SPDX-License-Identifier: BSD-3-Clause */
/* The 16- and 8-bit floats, one number at a time, in plain C: what every vector variant must equal.
 *
 * A small float is described by the width of its mantissa and its bias. Reading is exact; writing
 * rounds once, to nearest even. The subnormal numbers of a format are handled by adding a power of
 * two whose unit in the last place is the format's smallest number: the addition itself rounds. */
#ifndef TT_KERNELS_CONVERT_H
#define TT_KERNELS_CONVERT_H

#include <stdint.h>
#include <string.h>

#ifndef TT_DEVICE
#define TT_DEVICE /* CUDA's compiler has a word for functions that GPUs run */
#endif

static inline TT_DEVICE uint32_t tt_f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline TT_DEVICE float tt_f32_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The finite number of a format whose bits without the sign are `magnitude`, as f32. */
static inline TT_DEVICE float tt_unpack(uint32_t magnitude, unsigned mantissa, unsigned bias)
{
	const uint32_t smallest_normal = UINT32_C(1) << mantissa;
	const uint32_t bits = (magnitude << (23 - mantissa)) + ((127 - bias) << 23);

	if (magnitude >= smallest_normal)
		return tt_f32_of(bits);
	/* 1.m minus 1, both in the scale of the smallest normal number: exact */
	return tt_f32_of(bits + (1u << 23)) - tt_f32_of((128 - bias) << 23);
}

/* The bits without the sign of a non-negative number that is no NaN, as if the format had exponents
 * without end: the caller cuts off at its largest number. */
static inline TT_DEVICE uint32_t tt_pack(uint32_t bits, unsigned mantissa, unsigned bias)
{
	const unsigned shift = 23 - mantissa;
	const uint32_t odd = (bits >> shift) & 1;
	const uint32_t magic = (128 - bias + shift) << 23;

	if (bits < (128 - bias) << 23)
		return tt_f32_bits(tt_f32_of(bits) + tt_f32_of(magic)) - magic;
	return ((bits + odd + (1u << (shift - 1)) - 1) >> shift) - ((127 - bias) << mantissa);
}

/* Formats with infinity: `infinity` are its bits, above them are the NaNs. */
static inline TT_DEVICE float tt_unpack_ieee(uint32_t magnitude, unsigned mantissa, unsigned bias,
					     uint32_t infinity)
{
	if (magnitude >= infinity)
		return tt_f32_of(0x7f800000u | (magnitude - infinity) << (23 - mantissa));
	return tt_unpack(magnitude, mantissa, bias);
}

static inline TT_DEVICE uint32_t tt_pack_ieee(uint32_t bits, unsigned mantissa, unsigned bias,
					      uint32_t infinity)
{
	if (bits > 0x7f800000u) /* the upper half of a NaN's payload, made quiet */
		return infinity | 1u << (mantissa - 1) | (bits & 0x7fffff) >> (23 - mantissa);
	const uint32_t packed = tt_pack(bits, mantissa, bias);

	return packed < infinity ? packed : infinity;
}

static inline TT_DEVICE float tt_f32_signed(float magnitude, uint32_t sign)
{
	return tt_f32_of(tt_f32_bits(magnitude) | sign << 31);
}

static inline TT_DEVICE float tt_f32_from_f16(uint16_t half)
{
	return tt_f32_signed(tt_unpack_ieee(half & 0x7fffu, 10, 15, 0x7c00), half >> 15);
}

static inline TT_DEVICE uint16_t tt_f16_from_f32(float value)
{
	const uint32_t bits = tt_f32_bits(value);

	return (uint16_t)(bits >> 31 << 15 | tt_pack_ieee(bits & 0x7fffffff, 10, 15, 0x7c00));
}

static inline TT_DEVICE float tt_f32_from_bf16(uint16_t half)
{
	return tt_f32_of((uint32_t)half << 16);
}

static inline TT_DEVICE uint16_t tt_bf16_from_f32(float value)
{
	const uint32_t bits = tt_f32_bits(value);

	if ((bits & 0x7fffffff) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline TT_DEVICE float tt_f32_from_e5m2(uint8_t byte)
{
	return tt_f32_signed(tt_unpack_ieee(byte & 0x7fu, 2, 15, 0x7c), byte >> 7);
}

static inline TT_DEVICE uint8_t tt_e5m2_from_f32(float value)
{
	const uint32_t bits = tt_f32_bits(value);

	return (uint8_t)(bits >> 31 << 7 | tt_pack_ieee(bits & 0x7fffffff, 2, 15, 0x7c));
}

/* E4M3 spends one pattern on NaN and none on infinity; what is too large becomes its largest
 * number. */
#define TT_E4M3_NAN 0x7fu
#define TT_E4M3_MAX 0x7eu

static inline TT_DEVICE float tt_f32_from_e4m3(uint8_t byte)
{
	const uint32_t magnitude = byte & 0x7fu;

	if (magnitude == TT_E4M3_NAN)
		return tt_f32_signed(tt_f32_of(0x7fc00000u), byte >> 7);
	return tt_f32_signed(tt_unpack(magnitude, 3, 7), byte >> 7);
}

static inline TT_DEVICE uint8_t tt_e4m3_from_f32(float value)
{
	const uint32_t bits = tt_f32_bits(value), magnitude = bits & 0x7fffffff;
	const uint32_t sign = bits >> 31 << 7;

	if (magnitude > 0x7f800000u)
		return (uint8_t)(sign | TT_E4M3_NAN);
	const uint32_t packed = tt_pack(magnitude, 3, 7);

	return (uint8_t)(sign | (packed < TT_E4M3_MAX ? packed : TT_E4M3_MAX));
}

#endif
