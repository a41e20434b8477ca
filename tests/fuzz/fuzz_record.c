/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says of itself, and the addresses behind it, as the others read them. The input: key:1 rank:1 bytes; no input
 * can bring the proof of a key. */
#include <string.h>

#include "fuzz.h"
#include "log.h"
#include "model_file.h"
#include "record.h"

static void look_for(const struct tt_record *record, const uint8_t *bytes, size_t length, const char *transport)
{
	struct tt_peer *peer = calloc(1, sizeof(*peer));

	FUZZ_PROMISE(peer);
	tt_record_find_address(record, bytes, length, transport, peer);
	FUZZ_PROMISE(peer->address_length <= TT_ADDRESS_MAX);
	free(peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tt_key key = { .set = size > 0 && data[0] % 2, .bytes = { 1 } };
	const struct tt_record_from from = { &key, 7, size > 1 ? data[1] % 3 : 0 };
	const size_t length = size > 2 ? size - 2 : 0;
	uint8_t *bytes = malloc(length); /* exactly, and aligned */
	struct tt_record record;

	FUZZ_PROMISE(bytes || length == 0);
	if (length)
		memcpy(bytes, data + 2, length);
	if (tt_record_read(&from, bytes, length, 1, &record) == TUTTI_OK) {
		FUZZ_PROMISE(!key.set && memchr(record.host_id, '\0', sizeof(record.host_id)));
		FUZZ_PROMISE(from.rank != 0 || tt_model_is_sane(&record.model));
		look_for(&record, bytes, length, "shm");
		look_for(&record, bytes, length, "tcp");
	} else {
		FUZZ_PROMISE(tt_thread_error()[0]);
	}
	free(bytes);
	return 0;
}
