/* SPDX-License-Identifier: BSD-3-Clause */
/* Cards of operations, from a link or a note: two of them, compared and described. */
#include <string.h>

#include "card.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_card cards[2] = { 0 };

	memcpy(cards, data, size < sizeof(cards) ? size : sizeof(cards));
	const bool equal = tt_card_equal(&cards[0], &cards[1]);
	const struct tt_fault fault = tt_card_mismatch(&cards[0], &cards[1]);

	FUZZ_PROMISE(equal == tt_card_equal(&cards[1], &cards[0]));
	FUZZ_PROMISE(!equal || tt_card_signature(&cards[0]) == tt_card_signature(&cards[1]));
	FUZZ_PROMISE(fault.result == TUTTI_ERR_MISMATCH);
	FUZZ_PROMISE(memchr(fault.text, '\0', sizeof(fault.text)));
	return 0;
}
