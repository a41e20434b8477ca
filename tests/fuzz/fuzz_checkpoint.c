/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint of the trainer: the input is the file, as it is and once more with the checksum that
 * it should have. */
#include <string.h>

#include "bits.h"
#include "checkpoint.h"
#include "fuzz.h"

enum { CHECKSUM = 8 };

/* What was understood, written again, is the same file. */
static void compare(const struct checkpoint *c, const uint8_t *bytes, size_t length)
{
	unsigned char *again;

	FUZZ_PROMISE(checkpoint_bytes(c) == length);
	again = malloc(length);
	FUZZ_PROMISE(again);
	checkpoint_put(c, again);
	FUZZ_PROMISE(memcmp(again, bytes, length) == 0);
	free(again);
}

static void parse(const uint8_t *bytes, size_t length)
{
	struct checkpoint c;
	struct why why = { "" };

	if (checkpoint_parse("fuzz", bytes, length, &c, &why) == TUTTI_OK)
		compare(&c, bytes, length);
	else
		FUZZ_PROMISE(why.text[0] && !c.epochs && !c.state && !c.mean && !c.inverse);
	checkpoint_finish(&c);
}

static void repair(uint8_t *bytes, size_t length)
{
	const uint64_t sum = hash_bytes(0, bytes, length - CHECKSUM);

	for (unsigned i = 0; i < CHECKSUM; i++)
		bytes[length - CHECKSUM + i] = (uint8_t)(sum >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	FUZZ_PROMISE(copy);
	memcpy(copy, data, size);
	parse(data, size);
	if (size >= CHECKSUM)
		repair(copy, size);
	parse(copy, size);
	free(copy);
	return 0;
}
