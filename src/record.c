/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is believed of a record that came from another rank: nothing that was not checked. */
#include "record.h"

#include <stddef.h>
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

static tutti_result_t check_proof(const struct tt_record_from *from, const uint8_t *bytes, size_t length, int reader,
				  const struct tt_record *record)
{
	const bool keyed = tt_key_is_set(from->key);
	uint8_t expected[TT_PROOF_BYTES];

	if (keyed != (record->keyed != 0))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "rank %d has %s key, and rank %d has %s: give all ranks the same TUTTI_KEY or "
			       "TUTTI_KEY_FILE",
			       from->rank, keyed ? "no" : "a", reader, keyed ? "one" : "none");
	tt_record_prove(from, bytes, length, expected);
	if (tt_proof_equal(expected, record->proof))
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, COMM,
		       "rank %d has another key than rank %d: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		       from->rank, reader);
}

tutti_result_t tt_record_read(const struct tt_record_from *from, const uint8_t *bytes, size_t length, int reader,
			      struct tt_record *out)
{
	if (length == 0)
		return tt_fail(TUTTI_ERR_PEER_LOST, COMM, "rank %d could not join; its own error says why", from->rank);
	if (length >= sizeof(*out))
		memcpy(out, bytes, sizeof(*out));
	if (length < sizeof(*out) || out->version != TT_RECORD_VERSION)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
			       "rank %d runs another version of tutti: all ranks must use the same one", from->rank);
	out->host_id[sizeof(out->host_id) - 1] = '\0';
	const tutti_result_t result = check_proof(from, bytes, length, reader, out);
	if (result == TUTTI_OK && from->rank == 0 && !tt_model_is_sane(&out->model))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "rank 0 sent figures of its machine that no machine has: TUTTI_MODEL=builtin there does without them");
	return result;
}

void tt_record_find_address(const struct tt_record *record, const uint8_t *bytes, size_t length, const char *transport,
			    struct tt_peer *peer)
{
	const uint8_t *at = bytes + sizeof(*record), *end = bytes + length;

	peer->address_length = 0;
	for (uint32_t i = 0; i < record->addresses; i++) {
		struct tt_record_address header;

		if ((size_t)(end - at) < sizeof(header))
			return;
		memcpy(&header, at, sizeof(header));
		at += sizeof(header);
		if (header.length > TT_ADDRESS_MAX || (size_t)(end - at) < header.length)
			return;
		if (strncmp(header.transport, transport, sizeof(header.transport)) == 0) {
			memcpy(peer->address, at, header.length);
			peer->address_length = (uint16_t)header.length;
			return;
		}
		at += header.length;
	}
}
