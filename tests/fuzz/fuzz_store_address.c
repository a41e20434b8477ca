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
	if (tt_store_address_parse(text, &address) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0]);
	} else if (address.local) {
		FUZZ_PROMISE(address.name_length <= sizeof(address.name));
	} else {
		const char *host = NULL;
		size_t hosts = 0;

		FUZZ_PROMISE(strlen(address.port) < sizeof(address.port));
		while ((host = tt_store_next_host(&address, host)) != NULL) {
			FUZZ_PROMISE(host + strlen(host) + 1 < address.host + sizeof(address.host));
			hosts++;
		}
		FUZZ_PROMISE(hosts >= 1);
	}
	return 0;
}
