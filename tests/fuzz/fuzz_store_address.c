/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a store, as a user or a launcher gives it. Names are not looked up. */
#include <string.h>

#include "fuzz.h"
#include "log.h"
#include "store_address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[1024];
	struct tt_store_address address;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (tt_store_address_parse(text, &address) == TUTTI_OK)
		FUZZ_PROMISE(address.local ? address.name_length <= sizeof(address.name)
					   : memchr(address.host, '\0', sizeof(address.host)) &&
						     strlen(address.port) < 8);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
	return 0;
}
