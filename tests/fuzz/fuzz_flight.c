/* SPDX-License-Identifier: BSD-3-Clause */
/* The mapping of a process that died, of which another writes a report: whatever is in it, that
 * is JSON. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "flight.h"
#include "fuzz.h"

static struct tt_flight *flight;
static char directory[64];

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t header = offsetof(struct tt_flight, report), part = size / 3;

	prepare();
	memset(flight, 0, sizeof(*flight));
	/* the header, plans, and operations in turn */
	memcpy(flight, data, part < header ? part : header);
	memcpy(&flight->fault, data, part < sizeof(flight->fault) ? part : sizeof(flight->fault));
	memcpy(&flight->plans[TT_FLIGHT_PLACES / 8], data + part, part);
	memcpy(&flight->ops[1], data + 2 * part, part);
	flight->plans_end = TT_FLIGHT_PLACES + part / TT_FLIGHT_PLACES * TT_FLIGHT_PLACES;
	snprintf(flight->report, sizeof(flight->report), "%s/made.flight.json", directory);
	FUZZ_PROMISE(tt_flight_write(flight, "died"));

	json_t *report = json_load_file(flight->report, 0, NULL);
	FUZZ_PROMISE(json_is_object(report));
	json_decref(report);
	unlink(flight->report);
	return 0;
}
