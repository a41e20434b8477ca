/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the memory of records. */
#include "records.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

tutti_result_t tt_records_make(int count, size_t bytes, struct tt_records *out)
{
	*out = (struct tt_records){ malloc(bytes + 1), calloc((size_t)count, sizeof(*out->offset)),
				    calloc((size_t)count, sizeof(*out->length)) };
	return out->bytes && out->offset && out->length
		       ? TUTTI_OK
		       : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %zu bytes of addresses",
				 bytes);
}

void tt_records_add(struct tt_records *records, const void *record, size_t length)
{
	records->offset[records->count] = records->used;
	records->length[records->count++] = length;
	memcpy(records->bytes + records->used, record, length);
	records->used += length;
}

tutti_result_t tt_records_arrange(struct tt_records *records, int size, int rank, size_t mine)
{
	records->used = 0;
	for (int i = 0; i < size; i++) {
		if (records->length[i] > TT_EXCHANGED_MAX ||
		    (i == rank && records->length[i] != mine))
			return tt_fail(
				TUTTI_ERR_UNSUPPORTED, COMM,
				"%zu bytes are to come from rank %d, expected %d at most: another version of tutti runs there: "
				"all ranks must use the same one",
				records->length[i], i, TT_EXCHANGED_MAX);
		records->offset[i] = records->used;
		records->used += records->length[i];
	}
	return TUTTI_OK;
}

void tt_records_free(struct tt_records *records)
{
	free(records->bytes);
	free(records->offset);
	free(records->length);
	*records = (struct tt_records){ 0 };
}
