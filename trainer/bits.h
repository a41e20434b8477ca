/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers and checksums that are the same on every rank and machine. */
#ifndef TRAIN_BITS_H
#define TRAIN_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each use of the seed draws from a stream of its own, so that one does not shift another. */
enum random_purpose {
	RANDOM_SPLIT = 1,
	RANDOM_WEIGHTS = 2,
	RANDOM_EPOCH = 3, /* + epoch */
};

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* As if so many numbers had been drawn. */
static inline void random_skip(uint64_t *state, uint64_t count)
{
	*state += count * 0x9e3779b97f4a7c15u;
}

static inline uint64_t random_stream(uint64_t seed, uint64_t purpose)
{
	uint64_t state = seed, mixed = random_next(&state) ^ purpose;

	return random_next(&mixed);
}

/* 0 … bound-1; the bias is below bound / 2^32 */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
	return (uint32_t)(((random_next(state) >> 32) * bound) >> 32);
}

/* A number in (0, 1]. */
static inline double random_unit(uint64_t *state)
{
	return ((double)(random_next(state) >> 11) + 1.0) / 9007199254740992.0;
}

/* Every step is a bijection of the hash, so data that differ in one word never collide. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 32);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint64_t word = 0;

	for (; length >= sizeof(word); length -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = hash_word(hash, word);
	}
	word = 0;
	memcpy(&word, p, length);
	return hash_word(hash, word ^ ((uint64_t)length << 56));
}

#endif
