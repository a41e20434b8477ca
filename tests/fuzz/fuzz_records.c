/* SPDX-License-Identifier: BSD-3-Clause */
/* A bundle of records of several ranks, and reports of one, as they come from a store, a parent
 * or an agreement. */
#include <string.h>

#include "fuzz.h"
#include "log.h"
#include "report.h"

/* What was packed is what comes out, whatever the records are. */
static void pack_again(const struct tt_record_from *maker, int count, struct tt_records *records)
{
	struct tt_records again = { 0 };
	struct tt_bundle bundle;

	FUZZ_PROMISE(tt_bundle_pack(maker, count, records, &bundle) == TUTTI_OK);
	FUZZ_PROMISE(bundle.length <= tt_bundle_capacity(count));
	FUZZ_PROMISE(tt_bundle_unpack(maker, count, bundle.bytes, bundle.length, 1, &again) ==
		     TUTTI_OK);
	for (int i = 0; i < count; i++)
		FUZZ_PROMISE(again.length[i] == records->length[i] &&
			     memcmp(again.bytes + again.offset[i],
				    records->bytes + records->offset[i], again.length[i]) == 0);
	tt_records_free(&again);
	free(bundle.bytes);
}

static void open_bundle(const uint8_t *data, size_t size, int count)
{
	const struct tt_record_from maker = { NULL, 7, 0 };
	struct tt_records records = { 0 };

	if (tt_bundle_unpack(&maker, count, data, size, 1, &records) == TUTTI_OK)
		pack_again(&maker, count, &records);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
	tt_records_free(&records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_report report;

	for (int count = 1; count < 4; count++)
		open_bundle(data, size, count);
	if (tt_report_read(data, size, &report))
		FUZZ_PROMISE(tt_report_size(&report) == size && report.result <= 0 &&
			     report.length <= sizeof(report.bytes));
	tt_report_judge(data, size, 1, "fuzz");
	return 0;
}
