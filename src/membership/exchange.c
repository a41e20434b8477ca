/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of records through the communicator that is at hand. */
#include "exchange.h"

#include <stdlib.h>

#include "log.h"
#include "parts.h"
#include "progress.h"

tutti_result_t tt_exchange_by_parent(tutti_comm_t parent, enum tt_part part, const void *mine,
				     size_t length, struct tt_records *out)
{
	const int size = tutti_comm_size(parent);
	size_t bytes = 0;
	tutti_result_t result = TUTTI_OK;

	out->offset = calloc((size_t)size, sizeof(*out->offset));
	out->length = calloc((size_t)size, sizeof(*out->length));
	if (!out->offset || !out->length)
		result = tt_comm_fail(
			parent, tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", size));
	if (!result)
		result = tt_part_all_gather(parent, part, &length, out->length, sizeof(length));
	if (!result) {
		result = tt_records_arrange(out, size, tutti_comm_rank(parent), length, &bytes);
		if (result) /* the others may have seen other lengths, and are not to wait */
			result = tt_comm_fail(parent, result);
	}
	if (!result) {
		out->bytes = malloc(bytes + 1);
		result = out->bytes
				 ? tt_part_all_gather_v(parent, part, mine, out->bytes, out->length)
				 : tt_comm_fail(parent,
						tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
							"no memory for %zu bytes of addresses",
							bytes));
	}
	return result;
}

tutti_result_t tt_exchange_reports(tutti_comm_t parent, enum tt_part part,
				   const struct tt_report *mine, struct tt_records *out)
{
	const tutti_result_t result =
		tt_exchange_by_parent(parent, part, mine, tt_report_size(mine), out);

	return result ? result : tt_reports_judge(out, tutti_comm_size(parent), tt_part_name(part));
}
