/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of records through a store, and the bytes that they travel as. */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define STORE_VALUE_MAX (1u << 20)

/* Records on their way: each with its length in front, in rank order from `first` on, wrapping
 * round. There is room for all of them from the beginning: a rank that fails half-way leaves
 * others waiting for what it knows. */
struct bundle {
	uint8_t *bytes;
	size_t used;
};

static void append(struct bundle *bundle, const void *bytes, size_t length)
{
	memcpy(bundle->bytes + bundle->used, bytes, length);
	bundle->used += length;
}

static void append_record(struct bundle *bundle, const void *record, size_t length)
{
	const uint32_t header = (uint32_t)length;

	append(bundle, &header, sizeof(header));
	append(bundle, record, length);
}

/* The end of the first `records` of `bytes`, or 0 if they are not what a rank of this version
 * sends. */
static size_t end_of_records(const uint8_t *bytes, size_t length, int records)
{
	size_t at = 0;

	for (int i = 0; i < records; i++) {
		uint32_t header;

		if (length - at < sizeof(header))
			return 0;
		memcpy(&header, bytes + at, sizeof(header));
		at += sizeof(header);
		if (header > TT_RECORD_MAX || length - at < header)
			return 0;
		at += header;
	}
	return at;
}

/* One step: give what is known so far to rank - distance, take from rank + distance what it
 * knows. */
static tutti_result_t step(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			   int distance, int wanted, struct bundle *known, uint64_t deadline,
			   uint8_t *capacity)
{
	const int from = (rendezvous->rank + distance) % rendezvous->size;
	size_t length = STORE_VALUE_MAX;
	char key[TT_STEP_KEY_MAX];

	tt_rendezvous_step_key(rendezvous, distance, rendezvous->rank, key, sizeof(key));
	tutti_result_t result = tutti_store_set(store, key, known->bytes, known->used);
	if (result)
		return result;
	tt_rendezvous_step_key(rendezvous, distance, from, key, sizeof(key));
	result = tt_rendezvous_get(store, rendezvous, from, key, capacity, &length, deadline);
	if (result)
		return result;
	const size_t end = end_of_records(capacity, length, wanted);
	if (end == 0)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"rank %d left %zu bytes under %s that are no records of this version of tutti",
			from, length, key);
	append(known, capacity, end);
	return TUTTI_OK;
}

/* Where the records are that begin with `first`'s. */
static void find_records(const struct bundle *known, int first, int size, struct tt_records *out)
{
	size_t at = 0;

	for (int i = 0; i < size; i++) {
		const int rank = (first + i) % size;
		uint32_t header;

		memcpy(&header, known->bytes + at, sizeof(header));
		at += sizeof(header);
		out->offset[rank] = at;
		out->length[rank] = header;
		at += header;
	}
}

static tutti_result_t make_records(int size, size_t bytes, struct tt_records *out)
{
	out->bytes = malloc(bytes);
	out->offset = calloc((size_t)size, sizeof(*out->offset));
	out->length = calloc((size_t)size, sizeof(*out->length));
	return out->bytes && out->offset && out->length
		       ? TUTTI_OK
		       : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %zu bytes of addresses",
				 bytes);
}

tutti_result_t tt_exchange_by_store(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				    const void *mine, size_t length, uint64_t deadline,
				    struct tt_records *out)
{
	const int size = rendezvous->size;
	const size_t most = (size_t)size * (sizeof(uint32_t) + TT_RECORD_MAX);
	uint8_t *capacity = malloc(STORE_VALUE_MAX);
	tutti_result_t result =
		capacity ? make_records(size, most, out)
			 : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for the rendezvous");
	struct bundle known = { .bytes = out->bytes };

	if (!result)
		append_record(&known, mine, length);
	for (int distance = 1; distance < size && !result; distance *= 2) {
		const int wanted = distance < size - distance ? distance : size - distance;

		result = step(store, rendezvous, distance, wanted, &known, deadline, capacity);
	}
	if (!result)
		find_records(&known, rendezvous->rank, size, out);
	free(capacity);
	return result;
}

size_t tt_records_capacity(int count)
{
	return (size_t)count * (sizeof(uint32_t) + TT_RECORD_MAX);
}

size_t tt_records_pack(const struct tt_records *records, int count, void *out)
{
	struct bundle bundle = { .bytes = out };

	for (int i = 0; i < count; i++)
		append_record(&bundle, records->bytes + records->offset[i], records->length[i]);
	return bundle.used;
}

tutti_result_t tt_records_unpack(const void *bytes, size_t length, int count,
				 struct tt_records *out)
{
	struct bundle bundle;

	if (length == 0 || end_of_records(bytes, length, count) != length)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "%zu bytes are no records of %d ranks of this version of tutti",
			       length, count);
	const tutti_result_t result = make_records(count, length, out);
	if (result)
		return result;
	memcpy(out->bytes, bytes, length);
	bundle = (struct bundle){ out->bytes, length };
	find_records(&bundle, 0, count, out);
	return TUTTI_OK;
}

tutti_result_t tt_records_arrange(struct tt_records *records, int size, int rank, size_t mine,
				  size_t *bytes)
{
	size_t at = 0;

	for (int i = 0; i < size; i++) {
		if (records->length[i] > TT_EXCHANGED_MAX ||
		    (i == rank && records->length[i] != mine))
			return tt_fail(
				TUTTI_ERR_UNSUPPORTED, COMM,
				"%zu bytes are to come from rank %d, expected %d at most: another version of tutti runs there: "
				"all ranks must use the same one",
				records->length[i], i, TT_EXCHANGED_MAX);
		records->offset[i] = at;
		at += records->length[i];
	}
	*bytes = at;
	return TUTTI_OK;
}

void tt_records_free(struct tt_records *records)
{
	free(records->bytes);
	free(records->offset);
	free(records->length);
	*records = (struct tt_records){ 0 };
}
