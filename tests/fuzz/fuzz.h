/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers share. Each fuzz_NAME.c is a libFuzzer program: LLVMFuzzerTestOneInput() hands bytes from outside to the
 * function that parses them, and stops the program where what comes back breaks that function's promise. */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that must hold whatever the input; not an assert(), which a release build leaves out. */
#define FUZZ_PROMISE(condition)                                                                                \
	do {                                                                                                    \
		if (!(condition))                                                                              \
			abort();                                                                               \
	} while (0)

#endif
