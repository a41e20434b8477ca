/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client of a store reads from a host that says anything: header of an answer, word of an
 * ending. */
#include <string.h>

#include "fuzz.h"
#include "store.h"
#include "store_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[TT_WIRE_HEADER] = { 0 };
	char error_text[TT_WIRE_WORD_MAX];
	struct tt_wire_header header;
	tutti_result_t result;

	memcpy(fixed, data, size < sizeof(fixed) ? size : sizeof(fixed));
	if (tt_wire_get_header(fixed, &header)) {
		uint8_t again[TT_WIRE_HEADER];

		FUZZ_PROMISE(header.value_length <= TT_STORE_VALUE_MAX);
		tt_wire_put_header(&header, again);
		FUZZ_PROMISE(memcmp(again, fixed, sizeof(again)) == 0);
	}
	if (tt_wire_get_word(data, size, &result, error_text)) {
		FUZZ_PROMISE(result < 0);
		FUZZ_PROMISE(memchr(error_text, '\0', sizeof(error_text)));
	}
	return 0;
}
