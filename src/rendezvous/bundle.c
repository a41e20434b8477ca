/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a bundle looks like: a head, then each record in turn.
 *
 *   record   back length bytes       back 0: as it is
 *            back runs { skip length bytes }   like the record `back` places before, of the same
 *                                    length, but for these runs of bytes
 *
 * Numbers are LEB128: 7 bits a byte, the lowest first, the top bit set where more follow. The
 * record that another is like is the last one of the same host, or else the one before it. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "records.h"
#include "wire.h"

#define BUNDLE_VERSION 1
#define NUMBER_MAX     5 /* bytes of a number of 32 bits */
#define APART	       4 /* equal bytes end a run: two numbers stand before each */

struct head {
	uint32_t version;
	uint32_t keyed;
	int32_t first, count;
	uint64_t whole; /* bytes of the records as they are */
	uint8_t proof[TT_PROOF_BYTES];
};

size_t tt_bundle_capacity(int count)
{
	/* runs of one byte, as close together as they may be, take less than twice their bytes */
	return sizeof(struct head) + (size_t)count * (3 * NUMBER_MAX + 2 * (size_t)TT_RECORD_MAX);
}

static void prove(const struct tt_record_from *maker, const struct head *head, const uint8_t *body,
		  size_t length, uint8_t proof[TT_PROOF_BYTES])
{
	const struct iovec parts[] = {
		{ (void *)(uintptr_t)&maker->comm_id, sizeof(maker->comm_id) },
		{ (void *)(uintptr_t)head, offsetof(struct head, proof) },
		{ (void *)(uintptr_t)body, length },
	};

	tt_key_prove(maker->key, "tutti records", parts, 3, proof);
}

/* ---- packing */

static uint8_t *put_number(uint8_t *at, size_t number)
{
	for (; number >= 0x80; number >>= 7)
		*at++ = (uint8_t)(number | 0x80);
	*at++ = (uint8_t)number;
	return at;
}

/* The next run of bytes in which the two differ: from *from on, `*length` of them. False: none. */
static bool next_run(const uint8_t *a, const uint8_t *b, size_t bytes, size_t *from, size_t *length)
{
	size_t at = *from, end;

	while (at < bytes && a[at] == b[at])
		at++;
	end = at;
	for (size_t equal = 0, i = at; i < bytes && equal < APART; i++) {
		equal = a[i] == b[i] ? equal + 1 : 0;
		if (!equal)
			end = i + 1;
	}
	*from = at;
	*length = end - at;
	return at < bytes;
}

static uint8_t *put_runs(uint8_t *at, const uint8_t *record, const uint8_t *like, size_t bytes)
{
	size_t from = 0, length, end = 0, runs = 0;

	while (next_run(record, like, bytes, &from, &length)) {
		runs++;
		from += length;
	}
	at = put_number(at, runs);
	for (from = 0; next_run(record, like, bytes, &from, &length); from = end) {
		at = put_number(at, from - end);
		at = put_number(at, length);
		memcpy(at, record + from, length);
		at += length;
		end = from + length;
	}
	return at;
}

/* Which record was the last of its host; where two hosts share a place it costs a few bytes. */
static int *last_of(const struct tt_host_table *lasts, const uint8_t *record, size_t length)
{
	char host[TT_MACHINE_NAME];

	tt_record_host(record, length, host);
	return &lasts->number[tt_host_table_place(lasts, host)];
}

static uint8_t *put_record(uint8_t *at, const struct tt_records *records, int i, int *last)
{
	const uint8_t *record = records->bytes + records->offset[i];
	const size_t length = records->length[i];
	int like = *last >= 0 ? *last : i - 1;

	if (like >= 0 && records->length[like] != length)
		like = -1;
	*last = i;
	if (like >= 0) {
		at = put_number(at, (size_t)(i - like));
		return put_runs(at, record, records->bytes + records->offset[like], length);
	}
	at = put_number(put_number(at, 0), length);
	memcpy(at, record, length);
	return at + length;
}

tutti_result_t tt_bundle_pack(const struct tt_record_from *maker, int count,
			      const struct tt_records *records, struct tt_bundle *out)
{
	struct head head = { .version = BUNDLE_VERSION,
			     .keyed = tt_key_is_set(maker->key),
			     .first = maker->rank,
			     .count = count };
	struct tt_host_table lasts = tt_host_table_make(count);

	out->bytes = malloc(tt_bundle_capacity(count));
	if (!lasts.number || !out->bytes) {
		free(lasts.number);
		free(out->bytes);
		out->bytes = NULL;
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for the records of %d ranks",
			       count);
	}
	uint8_t *body = out->bytes + sizeof(head), *at = body;
	for (int i = 0; i < count; i++) {
		uint8_t *record = records->bytes + records->offset[i];

		tt_record_forget_proof(record, records->length[i]);
		at = put_record(at, records, i, last_of(&lasts, record, records->length[i]));
		head.whole += records->length[i];
	}
	free(lasts.number);
	prove(maker, &head, body, (size_t)(at - body), head.proof);
	memcpy(out->bytes, &head, sizeof(head));
	out->length = (size_t)(at - out->bytes);
	return TUTTI_OK;
}

/* ---- unpacking */

struct input {
	const uint8_t *at, *end;
	bool bad;
};

static size_t take_number(struct input *in)
{
	size_t number = 0;

	for (int shift = 0; shift < 7 * NUMBER_MAX; shift += 7) {
		if (in->at == in->end)
			break;
		const uint8_t byte = *in->at++;

		number |= (size_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return number;
	}
	in->bad = true;
	return 0;
}

static void take_bytes(struct input *in, uint8_t *out, size_t length)
{
	if (in->bad || length > (size_t)(in->end - in->at)) {
		in->bad = true;
		return;
	}
	memcpy(out, in->at, length);
	in->at += length;
}

static void take_runs(struct input *in, uint8_t *record, size_t bytes)
{
	size_t at = 0;

	for (size_t runs = take_number(in); runs > 0 && !in->bad; runs--) {
		const size_t skip = take_number(in), length = take_number(in);

		if (skip > bytes - at || length > bytes - at - skip) {
			in->bad = true;
			return;
		}
		take_bytes(in, record + at + skip, length);
		at += skip + length;
	}
}

/* Record i, at `at` of the records; gives its length. */
static size_t take_record(struct input *in, struct tt_records *out, int i, size_t at, size_t whole)
{
	const size_t back = take_number(in);

	in->bad |= back > (size_t)i;
	if (in->bad)
		return 0;
	const size_t length = back ? out->length[i - (int)back] : take_number(in);
	in->bad |= length > TT_RECORD_MAX || length > whole - at;
	if (in->bad)
		return 0;
	if (back) {
		memcpy(out->bytes + at, out->bytes + out->offset[i - (int)back], length);
		take_runs(in, out->bytes + at, length);
	} else {
		take_bytes(in, out->bytes + at, length);
	}
	out->offset[i] = at;
	out->length[i] = length;
	return length;
}

static bool take_records(struct input in, const struct head *head, struct tt_records *out)
{
	size_t at = 0;

	for (int i = 0; i < head->count && !in.bad; i++)
		at += take_record(&in, out, i, at, head->whole);
	return !in.bad && at == head->whole && in.at == in.end;
}

static tutti_result_t read_head(const struct tt_record_from *maker, int count, const uint8_t *bytes,
				size_t length, struct head *head)
{
	*head = (struct head){ 0 };
	if (length >= sizeof(*head))
		memcpy(head, bytes, sizeof(*head));
	if (head->version == BUNDLE_VERSION && head->first == maker->rank && head->count == count &&
	    head->whole <= (uint64_t)count * TT_RECORD_MAX)
		return TUTTI_OK;
	return tt_fail(
		TUTTI_ERR_UNSUPPORTED, COMM,
		"rank %d gave %zu bytes that are no records of %d ranks from it on: it runs another version of tutti: all "
		"ranks must use the same one",
		maker->rank, length, count);
}

tutti_result_t tt_bundle_unpack(const struct tt_record_from *maker, int count, const uint8_t *bytes,
				size_t length, int reader, struct tt_records *out)
{
	uint8_t expected[TT_PROOF_BYTES];
	struct head head;
	tutti_result_t result = read_head(maker, count, bytes, length, &head);

	if (result)
		return result;
	const struct input body = { bytes + sizeof(head), bytes + length };
	prove(maker, &head, body.at, (size_t)(body.end - body.at), expected);
	result = tt_record_judge_proof(maker, head.keyed, expected, head.proof, reader);
	if (!result)
		result = tt_records_make(count, head.whole, out);
	if (!result && !take_records(body, &head, out))
		result = tt_fail(TUTTI_ERR_INVALID, COMM,
				 "rank %d gave records of %d ranks that are damaged", maker->rank,
				 count);
	out->proven = true;
	return result;
}
