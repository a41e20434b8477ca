/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as they travel: little endian, at any alignment. */
#ifndef TT_SPI_WIRE_H
#define TT_SPI_WIRE_H

#include <stdint.h>

static inline uint8_t *wire_put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
	return at + bytes;
}

static inline uint64_t wire_get(const uint8_t **at, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)(*at)[i] << (8 * i);
	*at += bytes;
	return value;
}

#endif
