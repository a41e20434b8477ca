/* SPDX-License-Identifier: BSD-3-Clause */
/* The mapping of a process that died, of which another writes a report, and that report with other
 * names in its head: whatever is in them, they have a JSON form. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "flight_report.h"
#include "fuzz.h"
#include "report_json.h"

static struct tt_flight *flight;
static char directory[64];
static uint8_t bytes[TT_FLIGHT_REPORT_AT + sizeof(struct tt_flight)];

static void remove_directory(void)
{
	rmdir(directory);
}

static void prepare(void)
{
	if (flight)
		return;
	strcpy(directory, "/dev/shm/tutti-fuzz-XXXXXX");
	FUZZ_PROMISE(mkdtemp(directory));
	atexit(remove_directory);
	flight = aligned_alloc(4096, sizeof(*flight));
	FUZZ_PROMISE(flight);
}

static void check(size_t length)
{
	const char *why;
	json_t *report = report_json(bytes, length, &why);
	char *text = json_dumps(report, JSON_COMPACT);

	FUZZ_PROMISE(json_is_object(report) && text);
	free(text);
	json_decref(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t header = offsetof(struct tt_flight, report), part = size / 3,
		     names = sizeof(struct tt_flight_report) -
			     offsetof(struct tt_flight_report, version);

	prepare();
	memset(flight, 0, sizeof(*flight));
	/* the header, plans, and operations in turn */
	memcpy(flight, data, part < header ? part : header);
	memcpy(&flight->fault, data, part < sizeof(flight->fault) ? part : sizeof(flight->fault));
	memcpy(&flight->plans[TT_FLIGHT_PLACES / 8], data + part, part);
	memcpy(&flight->ops[1], data + 2 * part, part);
	flight->plans_end = TT_FLIGHT_PLACES + part / TT_FLIGHT_PLACES * TT_FLIGHT_PLACES;
	snprintf(flight->report, sizeof(flight->report), "%s/made" TT_FLIGHT_REPORT_SUFFIX,
		 directory);
	FUZZ_PROMISE(tt_flight_write(flight, "died"));
	FILE *file = fopen(flight->report, "re");
	FUZZ_PROMISE(file && fread(bytes, 1, sizeof(bytes), file) == sizeof(bytes));
	fclose(file);
	unlink(flight->report);
	check(sizeof(bytes));
	memcpy(bytes + offsetof(struct tt_flight_report, version), data,
	       size < names ? size : names);
	check(sizeof(bytes));
	return 0;
}
