/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

static_assert(TT_ERROR_MAX <= TT_RECORD_MAX, "a sentence fits");

void tt_report_fill(struct tt_report *report, tutti_result_t result)
{
	report->result = result;
	if (!result)
		return;
	snprintf((char *)report->bytes, TT_ERROR_MAX, "%s", tt_thread_error());
	report->length = (uint32_t)strlen((const char *)report->bytes);
}

bool tt_report_read(const void *bytes, size_t length, struct tt_report *out)
{
	if (length < TT_REPORT_HEAD || length > sizeof(*out))
		return false;
	memcpy(out, bytes, length);
	return out->length == length - TT_REPORT_HEAD && out->result <= 0;
}

tutti_result_t tt_report_judge(const void *bytes, size_t length, int rank, const char *call)
{
	struct tt_report report;

	if (!tt_report_read(bytes, length, &report))
		return tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
			       "rank %d runs another version of tutti: all ranks must use the same one", rank);
	if (!report.result)
		return TUTTI_OK;
	return tt_fail((tutti_result_t)report.result, COMM, "%s: rank %d could not join: %.*s", call, rank,
		       (int)report.length, (const char *)report.bytes);
}
