/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a store has a bundle, which may be longer than a value of the store: its length and its
 * first bytes under the key, the others under KEY/1, KEY/2 …, which are set before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "records.h"
#include "store.h"

#define PART_BYTES (64u << 10)
#define KEY_ROOM   (TT_STORE_KEY_MAX + 24)

struct part {
	uint64_t whole;
	uint8_t bytes[PART_BYTES];
};
static_assert(sizeof(struct part) <= TT_STORE_VALUE_MAX, "a part can be set");

static void part_key(const char *key, size_t number, char out[KEY_ROOM])
{
	if (number)
		snprintf(out, KEY_ROOM, "%s/%zu", key, number);
	else
		snprintf(out, KEY_ROOM, "%s", key);
}

static tutti_result_t fail_memory(void)
{
	return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for the records of all ranks");
}

tutti_result_t tt_bundle_set(tutti_store_t store, const char *key, const struct tt_bundle *bundle,
			     uint64_t timeout_ns)
{
	struct part *part = malloc(sizeof(*part));
	tutti_result_t result = part ? TUTTI_OK : fail_memory();

	for (size_t i = (bundle->length - 1) / PART_BYTES + 1; i-- > 0 && !result;) {
		const size_t at = i * PART_BYTES, left = bundle->length - at,
			     bytes = left < PART_BYTES ? left : PART_BYTES;
		char name[KEY_ROOM];

		part_key(key, i, name);
		part->whole = bundle->length;
		memcpy(part->bytes, bundle->bytes + at, bytes);
		result = store->ops->set(store, name, part, offsetof(struct part, bytes) + bytes,
					 timeout_ns);
	}
	free(part);
	return result;
}

/* Behind those that have come before. */
static tutti_result_t get_part(tutti_store_t store, const char *key, size_t number, int from,
			       int count, uint64_t timeout_ns, struct part *part,
			       struct tt_bundle *out)
{
	size_t length = sizeof(*part);
	char name[KEY_ROOM];

	part_key(key, number, name);
	const tutti_result_t result =
		store->ops->get(store, name, part, &length, timeout_ns, TT_STORE_ANSWER_NS);
	if (result)
		return result;
	const size_t at = number * PART_BYTES, bytes = length - offsetof(struct part, bytes);
	if (length <= offsetof(struct part, bytes) || part->whole > tt_bundle_capacity(count) ||
	    (number && part->whole != out->length) || part->whole < at + bytes ||
	    (bytes < PART_BYTES && part->whole != at + bytes))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"rank %d left %zu bytes under %s that are no records of this version of tutti",
			from, length, name);
	if (!number)
		*out = (struct tt_bundle){ malloc(part->whole), part->whole };
	if (!out->bytes)
		return fail_memory();
	memcpy(out->bytes + at, part->bytes, bytes);
	return TUTTI_OK;
}

tutti_result_t tt_bundle_get(tutti_store_t store, const char *key, int from, int count,
			     uint64_t timeout_ns, struct tt_bundle *out)
{
	struct part *part = malloc(sizeof(*part));
	tutti_result_t result = part ? TUTTI_OK : fail_memory();

	*out = (struct tt_bundle){ 0 };
	for (size_t i = 0; !result && (i == 0 || i * PART_BYTES < out->length); i++)
		result = get_part(store, key, i, from, count, timeout_ns, part, out);
	free(part);
	if (result) {
		free(out->bytes);
		out->bytes = NULL;
	}
	return result;
}
