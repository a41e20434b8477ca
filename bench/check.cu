/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what tutti-bench does on a GPU itself: inputs are written and results checked there, by
 * the definition of check.h. Names begin with bench_. The tests compile this as C++, too. */
#include <stddef.h>

#include "check.h"

#define KERNEL extern "C" __global__ void

/* The loop over `i` below `count`, shared by all threads. */
#define EACH(i, count)                                                                             \
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;                              \
	i < (count);                                                                               \
	i += (uint64_t)gridDim.x * blockDim.x

/* Elements of `sent`, the sequence, from its place `first` on, so often as it takes. */
KERNEL bench_fill(const unsigned char *sent, uint32_t size, uint64_t first, uint64_t count,
		  unsigned char *to)
{
	for (EACH(i, count)) {
		const uint64_t at = (first + i) % BENCH_PERIOD;

		switch (size) {
		case 1: to[i] = sent[at]; break;
		case 2: ((uint16_t *)to)[i] = ((const uint16_t *)sent)[at]; break;
		case 4: ((uint32_t *)to)[i] = ((const uint32_t *)sent)[at]; break;
		default: ((uint64_t *)to)[i] = ((const uint64_t *)sent)[at]; break;
		}
	}
}

/* Compare `got` with the sequence `want` from its place `first` on, or with the numbers of
 * `exact` if it is not NULL; the element at `got` is number `base` of its result. What is wrong
 * is added to `found`. */
KERNEL bench_compare(const unsigned char *want, const double *exact, struct bench_format format,
		     uint64_t first, uint64_t count, uint64_t base, const unsigned char *got,
		     struct bench_found *found)
{
	struct bench_found mine = BENCH_NOTHING_FOUND;

	for (EACH(i, count)) {
		const uint64_t at = (first + i) % BENCH_PERIOD;

		if (bench_is_right(format, want + at * format.size, exact ? exact + at : NULL,
				   got + i * format.size))
			continue;
		mine.first = mine.wrong == 0 ? base + i
					     : mine.first; /* a thread comes to later ones later */
		mine.wrong++;
	}
	if (mine.wrong > 0) {
		atomicAdd(&found->wrong, mine.wrong);
		atomicMin(&found->first, mine.first);
	}
}
