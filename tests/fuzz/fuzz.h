/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers share. Each fuzz_NAME.c is a libFuzzer program: LLVMFuzzerTestOneInput()
 * hands bytes from outside to the function that parses them, and stops the program where what
 * comes back breaks that function's promise. */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* where there is something to do first */

/* A promise that must hold whatever the input; not an assert(), which a release build leaves
 * out. */
#define FUZZ_PROMISE(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* What the functions say on standard error of each of a million inputs is not wanted. libFuzzer
 * has taken note of its own stream before. */
static inline void fuzz_be_quiet(void)
{
	FILE *nowhere = fopen("/dev/null", "we");

	FUZZ_PROMISE(nowhere);
	stderr = nowhere;
}

/* Descriptors that are open: as many before and after, or one was left so. */
static inline int fuzz_descriptors(void)
{
	struct pollfd all[256];
	int count = 0;

	for (int i = 0; i < 256; i++)
		all[i] = (struct pollfd){ .fd = i };
	FUZZ_PROMISE(poll(all, 256, 0) >= 0);
	for (int i = 0; i < 256; i++)
		count += !(all[i].revents & POLLNVAL);
	return count;
}

#endif
