/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-trace reads, and what it reads it from. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis.h"
#include "flight_report.h"
#include "fuzz.h"
#include "report_json.h"

/* ---- the mapping of a process that died, of which another writes a report, and that report with
 * other names in its head: whatever is in them, they have a JSON form */

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

static void check_report(size_t length)
{
	const char *why;
	json_t *report = report_json(bytes, length, &why);
	char *text = json_dumps(report, JSON_COMPACT);

	FUZZ_PROMISE(json_is_object(report) && text);
	free(text);
	json_decref(report);
}

FUZZ(flight)
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
	check_report(sizeof(bytes));
	memcpy(bytes + offsetof(struct tt_flight_report, version), data,
	       size < names ? size : names);
	check_report(sizeof(bytes));
}

/* ---- the reports of flight recorders: up to three, one after another with a zero byte between */

#define FILES 3

static void read_part(struct flights *flights, const uint8_t *data, size_t size)
{
	const size_t before = flights->n + flights->nexits, useless = flights->unreadable;

	flights_read(flights, fuzz_file(data, size));
	FUZZ_PROMISE(flights->n + flights->nexits + flights->unreadable == before + useless + 1);
}

/* Nothing in it is for a terminal to act on. */
static void print_analysis(const struct flights *flights)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	FUZZ_PROMISE(out);
	analysis_print(out, flights);
	FUZZ_PROMISE(fclose(out) == 0);
	for (size_t i = 0; i < length; i++)
		FUZZ_PROMISE(text[i] == '\n' || ((unsigned char)text[i] >= ' ' && text[i] != 0x7f));
	free(text);
}

FUZZ(reports)
{
	struct flights flights = { 0 };

	for (int i = 0; i < FILES && size > 0; i++) {
		const uint8_t *end = memchr(data, 0, size);
		const size_t length = end ? (size_t)(end - data) : size;

		read_part(&flights, data, length);
		data += length + (end != NULL);
		size -= length + (end != NULL);
	}
	if (jobs_select(&flights, NULL)) {
		flights_arrange(&flights);
		print_analysis(&flights);
		FUZZ_PROMISE(chrome_write(&flights, "/dev/null"));
	}
	flights_finish(&flights);
}
