/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is believed of a record that came from another rank: nothing that was not checked. */
#include "record.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "model_file.h"

void tt_record_prove(const struct tt_record_from *from, const uint8_t *bytes, size_t length,
		     uint8_t proof[TT_PROOF_BYTES])
{
	const size_t before = offsetof(struct tt_record, proof), behind = before + TT_PROOF_BYTES;
	const struct iovec parts[] = {
		{ (void *)(uintptr_t)&from->comm_id, sizeof(from->comm_id) },
		{ (void *)(uintptr_t)&from->rank, sizeof(from->rank) },
		{ (void *)(uintptr_t)bytes, before },
		{ (void *)(uintptr_t)(bytes + behind), length - behind },
	};

	tt_key_prove(from->key, "tutti record", parts, 4, proof);
}

tutti_result_t tt_record_judge_proof(const struct tt_record_from *from, bool keyed_there,
				     const uint8_t expected[TT_PROOF_BYTES],
				     const uint8_t given[TT_PROOF_BYTES], int reader)
{
	const bool keyed = tt_key_is_set(from->key);

	if (keyed != keyed_there)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"rank %d has no key, and rank %d has one: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
			keyed ? from->rank : reader, keyed ? reader : from->rank);
	if (tt_proof_equal(expected, given))
		return TUTTI_OK;
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"ranks %d and %d have different keys: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		from->rank < reader ? from->rank : reader,
		from->rank < reader ? reader : from->rank);
}

static tutti_result_t check_proof(const struct tt_record_from *from, const uint8_t *bytes,
				  size_t length, int reader, const struct tt_record *record)
{
	uint8_t expected[TT_PROOF_BYTES];

	tt_record_prove(from, bytes, length, expected);
	return tt_record_judge_proof(from, record->keyed != 0, expected, record->proof, reader);
}

void tt_record_forget_proof(uint8_t *bytes, size_t length)
{
	if (length >= sizeof(struct tt_record))
		memset(bytes + offsetof(struct tt_record, proof), 0, TT_PROOF_BYTES);
}

static void complete_host_id(struct tt_record *record)
{
	record->host_id[sizeof(record->host_id) - 1] = '\0';
	if (!*record->host_id)
		tt_machine_name(&record->machine, record->host_id);
}

tutti_result_t tt_record_read(const struct tt_record_from *from, const uint8_t *bytes,
			      size_t length, bool proven, int reader, struct tt_record *out)
{
	if (length == 0)
		return tt_fail(TUTTI_ERR_PEER_LOST, COMM,
			       "rank %d could not join; its own error says why", from->rank);
	if (length >= sizeof(*out))
		memcpy(out, bytes, sizeof(*out));
	if (length < sizeof(*out) || out->version != TT_RECORD_VERSION)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, COMM,
			"rank %d runs another version of tutti: all ranks must use the same one",
			from->rank);
	const tutti_result_t result =
		proven ? TUTTI_OK : check_proof(from, bytes, length, reader, out);
	if (result == TUTTI_OK && out->failure)
		return tt_fail(TUTTI_ERR_PEER_LOST, COMM, "rank %d could not join: %.*s",
			       from->rank, (int)(length - sizeof(*out)),
			       (const char *)bytes + sizeof(*out));
	if (result == TUTTI_OK && from->rank == 0 && !tt_model_is_sane(&out->model))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"rank 0 sent figures of its machine that no machine has: TUTTI_MODEL=builtin there does without them");
	if (result == TUTTI_OK)
		complete_host_id(out);
	return result;
}

/* Step through the entries: the one at *at, which moves on behind it. False: there is no more. */
static bool next_entry(const uint8_t **at, const uint8_t *end, struct tt_record_entry *entry)
{
	if ((size_t)(end - *at) < sizeof(*entry))
		return false;
	memcpy(entry, *at, sizeof(*entry));
	*at += sizeof(*entry);
	if (entry->length > TT_ADDRESS_MAX || entry->note > TT_RECORD_NOTE_MAX ||
	    (size_t)(end - *at) < entry->length + entry->note)
		return false;
	*at += entry->length + entry->note;
	return true;
}

const uint8_t *tt_record_find(const struct tt_record *record, const uint8_t *bytes, size_t length,
			      const char *transport, struct tt_record_entry *entry)
{
	const uint8_t *at = bytes + sizeof(*record), *end = bytes + length;

	for (uint32_t i = 0; i < record->entries && next_entry(&at, end, entry); i++)
		if (strncmp(entry->transport, transport, sizeof(entry->transport)) == 0)
			return at - entry->length - entry->note;
	return NULL;
}

static bool is_record(const uint8_t *bytes, size_t length, struct tt_record *out)
{
	if (length < sizeof(*out))
		return false;
	memcpy(out, bytes, sizeof(*out));
	return out->version == TT_RECORD_VERSION && out->failure == 0;
}

bool tt_record_is_coming(const uint8_t *bytes, size_t length)
{
	const uint8_t *at = bytes + sizeof(struct tt_record);
	struct tt_record_entry entry;
	struct tt_record record;
	bool coming = false;

	if (!is_record(bytes, length, &record))
		return false;
	for (uint32_t i = 0; i < record.entries && next_entry(&at, bytes + length, &entry); i++)
		coming |= entry.coming != 0;
	return coming;
}

void tt_record_host(const uint8_t *bytes, size_t length, char host_id[TT_MACHINE_NAME])
{
	struct tt_record record;

	host_id[0] = 0;
	if (!is_record(bytes, length, &record))
		return;
	complete_host_id(&record);
	memcpy(host_id, record.host_id, sizeof(record.host_id));
}

struct tt_host_table tt_host_table_make(int ranks)
{
	struct tt_host_table table = { .mask = 15 };

	while (table.mask < 2 * (size_t)ranks)
		table.mask = 2 * table.mask + 1;
	table.number = malloc((table.mask + 1) * sizeof(int));
	if (table.number)
		memset(table.number, -1, (table.mask + 1) * sizeof(int));
	return table;
}

size_t tt_host_table_place(const struct tt_host_table *table, const char *host_id)
{
	return tt_hash_text(host_id) & table->mask;
}

void tt_record_find_address(const struct tt_record *record, const uint8_t *bytes, size_t length,
			    const char *transport, struct tt_peer *peer)
{
	struct tt_record_entry entry = { .length = 0 };

	peer->address = tt_record_find(record, bytes, length, transport, &entry);
	peer->address_length = peer->address ? (uint16_t)entry.length : 0;
}
