/* SPDX-License-Identifier: BSD-3-Clause */
/* Pseudo-random numbers, the same for the same seed on every machine (splitmix64). */
#ifndef TT_RANDOM_H
#define TT_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t x = random->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A stream of its own for each purpose: what one draws more of changes nothing elsewhere. */
static inline struct random random_stream(uint64_t seed, uint64_t purpose)
{
	struct random random = { seed * 0xd6e8feb86659fd93u + purpose };

	random_next(&random);
	return random;
}

/* 0 … n-1 */
static inline uint64_t random_below(struct random *random, uint64_t n)
{
	return n > 0 ? random_next(random) % n : 0;
}

static inline uint64_t random_between(struct random *random, uint64_t least, uint64_t most)
{
	return least + random_below(random, most - least + 1);
}

/* True once in n; never for 0. */
static inline bool random_one_in(struct random *random, uint64_t n)
{
	return n > 0 && random_below(random, n) == 0;
}

/* 0 … most, small numbers as often as large ones: each number of bits is as likely. */
static inline uint64_t random_any_size(struct random *random, uint64_t most)
{
	const unsigned bits = 64 - (unsigned)__builtin_clzll(most | 1);
	const uint64_t value = random_next(random) >> (64 - random_between(random, 1, bits));

	return value <= most ? value : value % (most + 1);
}

#endif
