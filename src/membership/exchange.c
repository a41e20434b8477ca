/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of records through the communicator that is at hand. */
#include "exchange.h"

#include "fault.h"
#include "log.h"
#include "parts.h"
#include "progress.h"

tutti_result_t tt_exchange_by_parent(tutti_comm_t parent, enum tt_part part, const void *mine,
				     size_t length, struct tt_records *out)
{
	const int size = tutti_comm_size(parent);
	tutti_result_t result = tt_records_make(size, (size_t)size * TT_EXCHANGED_MAX, out);

	if (result)
		return tt_comm_fail(parent, result);
	result = tt_part_all_gather(parent, part, &length, out->length, sizeof(length));
	if (result)
		return result;
	result = tt_records_arrange(out, size, tutti_comm_rank(parent), length);
	if (result) /* the others may have seen other lengths, and are not to wait */
		return tt_comm_fail(parent, result);
	return tt_part_all_gather_v(parent, part, mine, out->bytes, out->length);
}

tutti_result_t tt_exchange_reports(tutti_comm_t parent, enum tt_part part,
				   const struct tt_report *mine, struct tt_records *out)
{
	const tutti_result_t result =
		tt_exchange_by_parent(parent, part, mine, tt_report_size(mine), out);

	return result ? result : tt_reports_judge(out, tutti_comm_size(parent), tt_part_name(part));
}

tutti_result_t tt_exchange_is_hopeless(void *context)
{
	struct tutti_comm *parent = context;

	tt_comm_lock(parent);
	tt_comm_check(parent, true);
	const bool failed = parent->fault.result != 0;
	pthread_mutex_unlock(&parent->lock);
	return failed ? tt_fail(TUTTI_ERR_PEER_LOST, COMM,
				"one of the ranks that are to join is gone")
		      : TUTTI_OK;
}
