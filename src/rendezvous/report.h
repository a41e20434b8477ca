/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says of its part in making a communicator: the bytes that are asked for, or that
 * it failed, and why. A rank that failed says so and takes part all the same, so that nobody
 * waits for it and all return the same. */
#ifndef TT_REPORT_H
#define TT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "records.h"
#include "tutti/tutti.h"

struct tt_report {
	int32_t result;
	uint32_t length;
	uint8_t bytes[TT_RECORD_MAX]; /* an error message where the result is an error; same
				       * build on all ranks, so plain bytes */
};

#define TT_REPORT_HEAD offsetof(struct tt_report, bytes)

static inline size_t tt_report_size(const struct tt_report *report)
{
	return TT_REPORT_HEAD + report->length;
}

/* Of an error the thread's error message, otherwise as it is. */
void tt_report_fill(struct tt_report *report, tutti_result_t result);
/* False: these bytes are none. */
bool tt_report_read(const void *bytes, size_t length, struct tt_report *out);
/* What a report that came from `rank` means for this one: its failure is everyone's. `call` is
 * what all called. */
tutti_result_t tt_report_judge(const void *bytes, size_t length, int rank, const char *call);
/* Is it of a failure for a reason of its own? Others find no more than that a rank has failed. */
bool tt_report_explains(const void *bytes, size_t length);
/* The same of all ranks' reports: the failure that explains most. After TUTTI_OK each of them is
 * a report. */
tutti_result_t tt_reports_judge(const struct tt_records *reports, int size, const char *call);

#endif
