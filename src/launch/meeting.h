/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks meet that are told neither an address nor a key: rank 0 serves a store at a port that is
 * free, makes a key, and lets the launcher bring both to the others. */
#ifndef TT_MEETING_H
#define TT_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "key.h"
#include "kvs.h"
#include "launch.h"

/* Called by all ranks of a job that has launch->kvs. Opens the store, and fills `key` if it is not set:
 * it then is on no rank. `number`: tt_kvs_number(), the same where it is tried again. */
tutti_result_t tt_meeting_open(const struct tt_launch *launch, unsigned number, struct tt_key *key,
			       uint64_t deadline, tutti_store_t *store);

/* What travels: "1,KEY,PORT,HOST,HOST…". KEY: its digits, or "-" if ranks have one; PORT: of all hosts. */
struct tt_meeting {
	bool keyed;
	uint8_t key[TT_KEY_BYTES];
	char store[TT_KVS_TEXT_MAX]; /* an address */
};

/* False: it is none. */
bool tt_meeting_parse(const char *text, struct tt_meeting *out);

#endif
