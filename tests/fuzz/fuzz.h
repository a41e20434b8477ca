/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers share. Each fuzz_NAME.c is a libFuzzer program: LLVMFuzzerTestOneInput() hands bytes from outside to the
 * function that parses them, and stops the program where what comes back breaks that function's promise. */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* where there is something to do first */

/* A promise that must hold whatever the input; not an assert(), which a release build leaves out. */
#define FUZZ_PROMISE(condition)                                                                                \
	do {                                                                                                    \
		if (!(condition))                                                                              \
			abort();                                                                               \
	} while (0)

/* What the functions say on standard error of each of a million inputs is not wanted. libFuzzer has taken note of its own
 * stream before. */
static inline void fuzz_be_quiet(void)
{
	FILE *nowhere = fopen("/dev/null", "we");

	FUZZ_PROMISE(nowhere);
	stderr = nowhere;
}

#endif
