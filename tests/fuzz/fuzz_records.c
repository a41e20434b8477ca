/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of several ranks in one piece, and reports of one, as they come from a store, a parent
 * or an agreement. */
#include <string.h>

#include "fuzz.h"
#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_records records = { 0 };
	struct tt_report report;

	for (int count = 1; count < 4; count++) {
		if (tt_records_unpack(data, size, count, &records) == TUTTI_OK) {
			uint8_t *again = malloc(tt_records_capacity(count));

			FUZZ_PROMISE(again && tt_records_pack(&records, count, again) == size);
			FUZZ_PROMISE(memcmp(again, data, size) == 0);
			free(again);
		}
		tt_records_free(&records);
	}
	if (tt_report_read(data, size, &report))
		FUZZ_PROMISE(tt_report_size(&report) == size && report.result <= 0 &&
			     report.length <= sizeof(report.bytes));
	tt_report_judge(data, size, 1, "fuzz");
	return 0;
}
