/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"

static_assert(TT_ERROR_MAX <= TT_RECORD_MAX, "an error message fits");
static_assert(sizeof(struct tt_report) <= TT_EXCHANGED_MAX, "a report can be exchanged");

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
	return out->length == length - TT_REPORT_HEAD &&
	       (out->result == TUTTI_OK || tt_failure_is_known(out->result));
}

tutti_result_t tt_report_judge(const void *bytes, size_t length, int rank, const char *call)
{
	struct tt_report report;
	char before[96];

	if (!tt_report_read(bytes, length, &report))
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, COMM,
			"rank %d runs another version of tutti: all ranks must use the same one",
			rank);
	if (!report.result)
		return TUTTI_OK;
	snprintf(before, sizeof(before), "%s: rank %d could not join: ", call, rank);
	return tt_fail_reported(COMM, before, report.result, (const char *)report.bytes,
				report.length);
}

bool tt_report_explains(const void *bytes, size_t length)
{
	struct tt_report report;

	return !tt_report_read(bytes, length, &report) ||
	       (report.result && report.result != TUTTI_ERR_PEER_LOST &&
		report.result != TUTTI_ERR_TIMEOUT);
}

/* The first that explains, else the first that failed at all; else 0. */
static int first_to_fail(const struct tt_records *reports, int size)
{
	int first = -1;

	for (int rank = 0; rank < size; rank++) {
		const uint8_t *bytes = reports->bytes + reports->offset[rank];
		struct tt_report report;

		if (tt_report_explains(bytes, reports->length[rank]))
			return rank;
		if (tt_report_read(bytes, reports->length[rank], &report) && report.result &&
		    first < 0)
			first = rank;
	}
	return first < 0 ? 0 : first;
}

tutti_result_t tt_reports_judge(const struct tt_records *reports, int size, const char *call)
{
	const int rank = first_to_fail(reports, size);

	return tt_report_judge(reports->bytes + reports->offset[rank], reports->length[rank], rank,
			       call);
}
