/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of operations, from a link or a note: two of them, compared and described. What
 * follows is the table of counts that the first stands for; a table that is found by its digest
 * has that digest. */
#include <stdlib.h>
#include <string.h>

#include "op_header.h"
#include "fuzz.h"

static void find(const struct tt_counts *own, const struct tt_counts_digest *digest)
{
	size_t *found = malloc((own->n + 1) * sizeof(*found));

	FUZZ_PROMISE(found);
	if (tt_counts_find(own, digest, found)) {
		const struct tt_counts table = { found, own->n };
		const struct tt_counts_digest again = tt_counts_digest(&table);

		FUZZ_PROMISE(memcmp(&again, digest, sizeof(again)) == 0);
	}
	free(found);
}

static void promise_fault(const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH);
	FUZZ_PROMISE(memchr(fault->text, '\0', sizeof(fault->text)));
	FUZZ_PROMISE(!strstr(fault->text, "(null)")); /* numbers without a name are called
						       * unknown */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_op_header headers[2] = { 0 };
	const size_t used = size < sizeof(headers) ? size : sizeof(headers),
		     n = (size - used) / sizeof(size_t);
	size_t *counts = malloc((n + 1) * sizeof(*counts));
	const struct tt_counts table = { counts, n };

	FUZZ_PROMISE(counts);
	memcpy(headers, data, used);
	memcpy(counts, data + used, n * sizeof(*counts));
	const bool equal = tt_op_header_equal(&headers[0], &headers[1]);
	const struct tt_fault fault =
		tt_op_header_mismatch(&headers[0], &headers[1], size > used ? &table : NULL);
	const struct tt_fault of_pair = tt_op_header_mismatch_of_pair(&headers[0], &headers[1]);
	const struct tt_counts_digest digest = { headers[1].count, headers[1].own,
						 headers[1].detail };

	FUZZ_PROMISE(equal == tt_op_header_equal(&headers[1], &headers[0]));
	FUZZ_PROMISE(!equal ||
		     tt_op_header_signature(&headers[0]) == tt_op_header_signature(&headers[1]));
	promise_fault(&fault);
	promise_fault(&of_pair);
	find(&table, &digest);
	free(counts);
	return 0;
}
