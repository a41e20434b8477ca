/* SPDX-License-Identifier: BSD-3-Clause */
/* What libFuzzer calls, for the fuzzer that the build names: -DFUZZER=fuzzer_csv. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void FUZZER(const uint8_t *data, size_t size);

/* libFuzzer has taken note of its own stream before. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_be_quiet();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FUZZER(data, size);
	return 0;
}
