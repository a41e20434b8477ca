/* SPDX-License-Identifier: BSD-3-Clause */
/* What a launcher brings: a place to meet, and an answer of PMI with a field in it. A place is an address
 * of a store. */
#include <string.h>

#include "fuzz.h"
#include "meeting.h"
#include "pmi_wire.h"
#include "store_address.h"

static void check_place(const char *text)
{
	struct tt_store_address address;
	struct tt_meeting meeting;

	if (!tt_meeting_parse(text, &meeting))
		return;
	FUZZ_PROMISE(tt_store_address_parse(meeting.store, &address) == TUTTI_OK);
	FUZZ_PROMISE(!address.local && atoi(address.port) > 0 && address.host[0]);
	FUZZ_PROMISE(meeting.keyed == (strncmp(text, "1,-,", 4) != 0));
}

static void check_field(const char *line)
{
	char value[32];

	if (!tt_pmi_field(line, "value", value, sizeof(value)))
		return;
	FUZZ_PROMISE(strlen(value) < sizeof(value) && !strchr(value, ' '));
	FUZZ_PROMISE(strstr(line, "value="));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(size + 1, 1);

	FUZZ_PROMISE(text);
	memcpy(text, data, size);
	check_place(text);
	check_field(text);
	free(text);
	return 0;
}
