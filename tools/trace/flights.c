/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of reports, and what is said of files that are none. */
#include "exits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "printable.h"
#include "report_json.h"

#define SUFFIX	    ".flight.report" /* a rank's; */
#define SUFFIX_JSON ".flight.json"   /* tutti-run's, and what --json has written */
#define FORMAT	    1
#define REPORT_MAX                                                                                 \
	(64 << 20) /* bytes of a file; a recorder keeps no more operations and calls than fit in
		    * one of 16 MiB */

void *need(void *memory)
{
	if (memory)
		return memory;
	fputs("tutti-trace: no memory\n", stderr);
	exit(1);
}

/* Names of files and what the reader of JSON shows of them are others', too. */
static bool say_useless(const char *path, const char *what, const char *detail)
{
	char *text;

	if (asprintf(&text, "tutti-trace: %s: %s%s%s; passed over", path, what, *detail ? ": " : "",
		     detail) < 0)
		need(NULL);
	fprintf(stderr, "%s\n", tt_printable(text));
	free(text);
	return false;
}

/* All texts below: whatever is printed of a report can be shown. Objects come in objects no
 * deeper than the reader of JSON allows. */
static void clean(json_t *value)
{
	const char *key;
	json_t *member;
	size_t i;

	if (json_is_string(value)) {
		char *text = need(strdup(json_string_value(value)));

		if (strcmp(tt_printable(text), json_string_value(value)) != 0 &&
		    json_string_set(value, text) < 0)
			need(NULL);
		free(text);
	}
	json_array_foreach(value, i, member)
		clean(member);
	json_object_foreach(value, key, member)
		clean(member);
}

static json_t *load_json(const char *path, const uint8_t *bytes, size_t length)
{
	json_error_t error = { .text = "" };
	json_t *report = json_loadb((const char *)bytes, length, 0, &error);

	if (!report && json_error_code(&error) == json_error_premature_end_of_input)
		say_useless(path, "ends too early, a truncated file", "");
	else if (!report)
		say_useless(path, "is no report and no JSON", error.text);
	return report;
}

static json_t *load_file(const char *path, int fd, size_t length)
{
	uint8_t *bytes = need(malloc(length + 1));
	const ssize_t n = pread(fd, bytes, length, 0);
	json_t *report = NULL;
	const char *why;

	if (n < 0) {
		say_useless(path, "cannot be read", strerror(errno));
	} else if (report_begins(bytes, (size_t)n)) {
		report = report_json(bytes, (size_t)n, &why);
		if (!report)
			say_useless(path, why, "");
	} else {
		report = load_json(path, bytes, (size_t)n);
	}
	free(bytes);
	return report;
}

/* NULL: what it is instead was said. Anything may have the name: a pipe's other end is not
 * waited for. */
static json_t *load(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	json_t *report = NULL;
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		say_useless(path, "cannot be read", strerror(errno));
	else if (!S_ISREG(info.st_mode))
		say_useless(path, "is no regular file", "");
	else if (info.st_size > REPORT_MAX)
		say_useless(path, "has more than 64 MiB, which no report has", "");
	else
		report = load_file(path, fd, (size_t)info.st_size);
	if (fd >= 0)
		close(fd);
	clean(report);
	return report;
}

static bool take_report(struct flight *flight, const char *path)
{
	const json_t *format = json_object_get(flight->report, "tutti_flight");
	json_error_t error = { .text = "" };

	if (!json_is_integer(format))
		return say_useless(
			path,
			"is JSON, but no report of a flight recorder (it has no \"tutti_flight\")",
			"");
	if (json_integer_value(format) != FORMAT)
		return say_useless(
			path, "has another format than 1, the one that this tutti-trace reads", "");
	return flight_read(flight, &error) ||
	       say_useless(path, "is a report in which something is missing or makes no sense",
			   error.text);
}

static bool take_exits(struct flights *flights, json_t *object, const char *path)
{
	json_error_t error = { .text = "" };
	struct exits exits;

	if (!exits_read(&exits, object, &error)) {
		exits_finish(&exits);
		return say_useless(
			path,
			"should say how ranks ended, but something is missing or makes no sense",
			error.text);
	}
	flights->exits =
		need(realloc(flights->exits, (flights->nexits + 1) * sizeof(*flights->exits)));
	flights->exits[flights->nexits++] = exits;
	return true;
}

static bool read_one(struct flights *flights, const char *path)
{
	if (flights->n == flights->capacity) {
		flights->capacity = flights->capacity ? 2 * flights->capacity : 16;
		flights->at = need(realloc(flights->at, flights->capacity * sizeof(*flights->at)));
	}
	struct flight *flight = &flights->at[flights->n];
	*flight = (struct flight){ .launched_as = -1 };
	flight->path = need(strdup(path));
	flight->report = load(path);
	if (!flight->report) {
		flight_finish(flight);
		return false;
	}
	const bool exits = exits_are_in(flight->report);
	const bool good =
		exits ? take_exits(flights, flight->report, path) : take_report(flight, path);
	if (good && !exits)
		flights->n++;
	else
		flight_finish(flight);
	return good;
}

static bool is_report_name(const char *name)
{
	const char *suffix = strstr(name, ".flight.");

	return suffix && suffix > name &&
	       (strcmp(suffix, SUFFIX) == 0 || strcmp(suffix, SUFFIX_JSON) == 0);
}

bool flights_are_in(const char *directory)
{
	DIR *handle = opendir(directory);
	const struct dirent *entry;
	bool found = false;

	if (!handle)
		return false;
	while (!found && (entry = readdir(handle)))
		found = is_report_name(entry->d_name);
	closedir(handle);
	return found;
}

void flights_read(struct flights *flights, const char *path)
{
	const struct dirent *entry;
	struct stat info;

	if (stat(path, &info) < 0) {
		say_useless(path, "cannot be found", strerror(errno));
		flights->unreadable++;
		return;
	}
	DIR *handle = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
	if (!handle) {
		flights->unreadable +=
			!read_one(flights, path); /* says what is wrong with a directory */
		return;
	}
	while ((entry = readdir(handle))) {
		char *file;

		if (!is_report_name(entry->d_name))
			continue;
		file = need(malloc(strlen(path) + strlen(entry->d_name) + 2));
		sprintf(file, "%s/%s", path, entry->d_name);
		const size_t before = flights->n;
		read_one(flights, file);
		if (flights->n > before)
			flights->at[before].listed = true;
		free(file);
	}
	closedir(handle);
}

void flights_print(FILE *out, const struct flights *flights)
{
	for (size_t i = 0; i < flights->n; i++) {
		json_dumpf(flights->at[i].report, out, JSON_COMPACT);
		putc('\n', out);
	}
}

void flights_finish(struct flights *flights)
{
	for (size_t i = 0; i < flights->n; i++)
		flight_finish(&flights->at[i]);
	for (size_t i = 0; i < flights->nexits; i++)
		exits_finish(&flights->exits[i]);
	free(flights->exits);
	free(flights->at);
	*flights = (struct flights){ 0 };
}

/* ---- which of them, and in what order */

static void drop(struct flights *flights, size_t i)
{
	flight_finish(&flights->at[i]);
	memmove(&flights->at[i], &flights->at[i + 1], (flights->n - i - 1) * sizeof(*flights->at));
	flights->n--;
}

void flights_renew(struct flights *flights, const char *path)
{
	const size_t before = flights->n;

	read_one(flights, path);
	for (size_t i = before; i-- > 0 && flights->n > before;)
		if (strcmp(flights->at[i].path, path) == 0)
			drop(flights, i);
}

/* The newest where there are several. */
static void keep_exits(struct flights *flights, const char *job)
{
	struct exits *kept = NULL;

	for (size_t i = 0; i < flights->nexits; i++) {
		struct exits *one = &flights->exits[i];

		if (strcmp(one->job, job) == 0 && (!kept || one->realtime > kept->realtime))
			kept = one;
	}
	for (size_t i = 0; i < flights->nexits; i++)
		if (&flights->exits[i] != kept)
			exits_finish(&flights->exits[i]);
	if (kept)
		flights->exits[0] = *kept;
	flights->nexits = kept != NULL;
}

void flights_keep(struct flights *flights, const char *job)
{
	char *wanted = need(strdup(job)); /* it may be what is dropped */

	keep_exits(flights, wanted);
	for (size_t i = flights->n; i-- > 0;)
		if (strcmp(flights->at[i].job, wanted) != 0)
			drop(flights, i);
	free(wanted);
}

static int by_communicator(const void *a, const void *b)
{
	const struct flight *one = a, *other = b;
	const int names = strcmp(one->communicator, other->communicator);

	if (one->size != other->size)
		return one->size > other->size ? -1 : 1;
	if (names)
		return names;
	if (one->rank != other->rank)
		return one->rank < other->rank ? -1 : 1;
	return one->realtime > other->realtime ? -1 : one->realtime < other->realtime;
}

static void shift(int64_t *time, int64_t offset)
{
	if (*time != NEVER)
		*time += offset;
}

static void shift_ops(struct ops *ops, int64_t offset)
{
	for (size_t i = 0; i < ops->n; i++) {
		shift(&ops->at[i].posted, offset);
		shift(&ops->at[i].first, offset);
		shift(&ops->at[i].done, offset);
	}
}

/* The ranks of a host share CLOCK_MONOTONIC: one offset for all of them, so that nothing comes
 * between. */
static void share_clock(struct flights *flights)
{
	for (size_t i = 0; i < flights->n; i++) {
		struct flight *flight = &flights->at[i];
		size_t same = 0;

		while (strcmp(flights->at[same].host, flight->host) != 0)
			same++;
		const struct flight *first = &flights->at[same];
		const int64_t offset = same == i ? flight->realtime - flight->monotonic
						 : first->realtime - first->monotonic;
		flight->realtime = flight->monotonic + offset;
		shift_ops(&flight->ops, offset);
		shift_ops(&flight->streams, offset);
	}
}

void flights_arrange(struct flights *flights)
{
	if (flights->n > 1)
		qsort(flights->at, flights->n, sizeof(*flights->at), by_communicator);
	for (size_t i = flights->n; i-- > 1;) {
		const struct flight *one = &flights->at[i], *newer = &flights->at[i - 1];

		if (one->rank != newer->rank || strcmp(one->communicator, newer->communicator) != 0)
			continue;
		say_useless(one->path, "a newer report of the same rank is", newer->path);
		drop(flights, i);
	}
	share_clock(flights);
}
