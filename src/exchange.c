/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "log.h"

#define STORE_VALUE_MAX (1u << 20)

/* Records on their way: each with its length in front, in rank order from `first` on, wrapping round. */
struct bundle {
	uint8_t *bytes;
	size_t used, room;
};

static tutti_result_t append(struct bundle *bundle, const void *bytes, size_t length)
{
	if (bundle->used + length > bundle->room) {
		const size_t room = 2 * (bundle->used + length);
		uint8_t *grown = realloc(bundle->bytes, room);

		if (!grown)
			return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory to meet: %zu bytes", room);
		bundle->bytes = grown;
		bundle->room = room;
	}
	memcpy(bundle->bytes + bundle->used, bytes, length);
	bundle->used += length;
	return TUTTI_OK;
}

static tutti_result_t append_record(struct bundle *bundle, const void *record, size_t length)
{
	const uint32_t header = (uint32_t)length;
	const tutti_result_t result = append(bundle, &header, sizeof(header));

	return result ? result : append(bundle, record, length);
}

/* The end of the first `records` of `bytes`, or 0 if they are not what a rank of this version sends. */
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

static void step_key(char *key, size_t size, const struct tt_rendezvous *meeting, int distance, int rank)
{
	snprintf(key, size, "%s/%016llx/%d/%d", meeting->prefix, (unsigned long long)meeting->id, distance, rank);
}

/* One step: give what is known so far to rank - distance, take from rank + distance what it knows. */
static tutti_result_t step(tutti_store_t store, const struct tt_rendezvous *meeting, int distance, int wanted,
			   struct bundle *known, uint64_t deadline, uint8_t *room)
{
	const int from = (meeting->rank + distance) % meeting->size;
	size_t length = STORE_VALUE_MAX;
	char key[192];

	step_key(key, sizeof(key), meeting, distance, meeting->rank);
	tutti_result_t result = tutti_store_set(store, key, known->bytes, known->used);
	if (result)
		return result;
	step_key(key, sizeof(key), meeting, distance, from);
	result = tt_rendezvous_get(store, meeting, from, key, room, &length, deadline);
	if (result)
		return result;
	const size_t end = end_of_records(room, length, wanted);
	if (end == 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "rank %d left %zu bytes under %s that are no records of this version of tutti",
			       from, length, key);
	return append(known, room, end);
}

/* Put records that begin with `first`'s into rank order. */
static tutti_result_t unpack(const struct bundle *known, int first, int size, struct tt_records *out)
{
	size_t at = 0;

	out->bytes = malloc(known->used);
	out->offset = calloc((size_t)size + 1, sizeof(*out->offset));
	if (!out->bytes || !out->offset)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", size);
	for (int pass = 0; pass < 2; pass++) { /* lengths, then bytes */
		at = 0;
		for (int i = 0; i < size; i++) {
			const int rank = (first + i) % size;
			uint32_t header;

			memcpy(&header, known->bytes + at, sizeof(header));
			at += sizeof(header);
			if (pass == 0)
				out->offset[rank + 1] = header;
			else
				memcpy(out->bytes + out->offset[rank], known->bytes + at, header);
			at += header;
		}
		for (int rank = 0; pass == 0 && rank < size; rank++)
			out->offset[rank + 1] += out->offset[rank];
	}
	return TUTTI_OK;
}

tutti_result_t tt_exchange_by_store(tutti_store_t store, const struct tt_rendezvous *meeting, const void *mine,
				    size_t length, uint64_t deadline, struct tt_records *out)
{
	const int size = meeting->size;
	struct bundle known = { 0 };
	uint8_t *room = malloc(STORE_VALUE_MAX);
	tutti_result_t result = room ? append_record(&known, mine, length) :
				       tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory to meet");

	for (int distance = 1; distance < size && !result; distance *= 2) {
		const int wanted = distance < size - distance ? distance : size - distance;

		result = step(store, meeting, distance, wanted, &known, deadline, room);
	}
	if (!result)
		result = unpack(&known, meeting->rank, size, out);
	free(known.bytes);
	free(room);
	return result;
}

tutti_result_t tt_exchange_by_parent(tutti_comm_t parent, const void *mine, size_t length,
				     struct tt_records *out)
{
	const int size = tutti_comm_size(parent);
	size_t *counts = malloc((size_t)size * sizeof(*counts));
	tutti_result_t result = TUTTI_OK;

	out->offset = calloc((size_t)size + 1, sizeof(*out->offset));
	if (!counts || !out->offset)
		result = tt_comm_fail(parent, tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", size));
	if (!result)
		result = tutti_all_gather(parent, &length, counts, sizeof(length), TUTTI_UINT8, NULL);
	for (int rank = 0; rank < size && !result; rank++)
		out->offset[rank + 1] = out->offset[rank] + counts[rank];
	if (!result) {
		out->bytes = malloc(out->offset[size] + 1);
		result = out->bytes ? tutti_all_gather_v(parent, mine, out->bytes, counts, NULL, TUTTI_UINT8,
							 NULL) :
				      tt_comm_fail(parent, tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
								   "no memory for %zu bytes of addresses",
								   out->offset[size]));
	}
	free(counts);
	return result;
}

void tt_records_free(struct tt_records *records)
{
	free(records->bytes);
	free(records->offset);
	*records = (struct tt_records){ 0 };
}
