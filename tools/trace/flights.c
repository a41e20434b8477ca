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

#define SUFFIX	      ".flight.report" /* a rank's; */
#define SUFFIX_JSON   ".flight.json"   /* tutti-run's, and what --json has written */
#define FORMAT	      1
#define MONOTONIC_MAX ((int64_t)1 << 60) /* 36 years; their sums and differences fit */
#define REALTIME_MAX  ((int64_t)1 << 62)
#define BYTES_MAX     ((int64_t)1 << 60) /* of an operation; twice as many can be counted */
#define SEQUENCE_MAX  ((int64_t)1 << 62)
#define REPORT_MAX                                                                                 \
	(64 << 20) /* bytes of a file; a recorder keeps no more operations and calls than fit in
		    * one of 16 MiB */
#define SIZE_MAX_RANKS 1000000

void *need(void *memory)
{
	if (memory)
		return memory;
	fputs("tutti-trace: no memory\n", stderr);
	exit(1);
}

/* ---- headers and operations */

/* Does a rank know the counts of its own blocks alone? */
static bool has_own_count(const char *collective)
{
	return strcmp(collective, "gather_v") == 0 || strcmp(collective, "scatter_v") == 0 ||
	       strcmp(collective, "all_to_all_v") == 0;
}

/* Do all ranks give a table of counts alike, and `count` is their sum? */
static bool has_table(const char *collective)
{
	return strcmp(collective, "all_gather_v") == 0 ||
	       strcmp(collective, "reduce_scatter_v") == 0;
}

static char *read_key(json_t *object, const char *collective)
{
	json_t *copy = need(json_copy(object));

	/* that which is each rank's own */
	if (has_own_count(collective))
		json_object_del(copy, "count");
	json_object_del(copy, "header");
	json_object_del(copy, "peers");
	json_object_del(copy, "peers_left_out");
	char *key = need(json_dumps(copy, JSON_SORT_KEYS | JSON_COMPACT));
	json_decref(copy);
	return key;
}

/* `count` below 0: ranks may have different ones. */
static void describe(const char *collective, json_int_t count, const char *dtype, const char *op,
		     json_int_t op_number, json_int_t root, char *out, size_t size)
{
	int used = snprintf(out, size, "%s(", collective);

	if (strcmp(collective, "barrier") != 0)
		used += snprintf(out + used, size - (size_t)used, "%s", dtype);
	if (strcmp(collective, "barrier") != 0 && count >= 0)
		used += snprintf(out + used, size - (size_t)used, " × %lld", (long long)count);
	if (op)
		used += snprintf(out + used, size - (size_t)used, ", %s", op);
	if (op && strcmp(op, "user") == 0)
		used += snprintf(out + used, size - (size_t)used, " %lld", (long long)op_number);
	if (root >= 0)
		used += snprintf(out + used, size - (size_t)used, ", root %lld", (long long)root);
	snprintf(out + used, size - (size_t)used, ")");
}

#define GROUP "group" /* what `part_of` says of calls that travel as one */

static void describe_header(const char *collective, json_int_t count, const char *dtype,
			    const char *op, json_int_t op_number, json_int_t root, bool group,
			    char *out, size_t size)
{
	char counted[64]; /* the type stands before the count */

	snprintf(counted, sizeof(counted), "%s × %lld in all", dtype, (long long)count);
	const int used = snprintf(out, size, "%s", group ? "a group of " : "");
	if (group || has_table(collective))
		describe(collective, -1, counted, op, op_number, root, out + used,
			 size - (size_t)used);
	else
		describe(collective, count, dtype, op, op_number, root, out + used,
			 size - (size_t)used);
}

static bool read_op_header(json_t *object, struct header *header, json_error_t *error)
{
	const char *collective, *dtype, *detail, *algorithm;
	const char *const op = json_string_value(json_object_get(object, "op")); /* NULL: none */
	/* likewise */
	const char *const part = json_string_value(json_object_get(object, "part_of"));
	json_int_t number, count, op_number, root, segments, sent, received;
	json_t *peers, *peer;
	size_t i;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s:s,s:I,s:I,s:s,s:s,s:I,s:o}", "header",
			   &number, "collective", &collective, "count", &count, "dtype", &dtype,
			   "op_number", &op_number, "root", &root, "detail", &detail, "algorithm",
			   &algorithm, "segments", &segments, "peers", &peers))
		return false;
	if (strlen(collective) > 40 || strlen(dtype) > 40 || (op && strlen(op) > 40) ||
	    (part && strlen(part) > 40) || strlen(algorithm) > 60)
		return false;
	header->number = number;
	if (part && strcmp(part, GROUP) != 0)
		snprintf(header->call, sizeof(header->call), "%s", part);
	else
		describe_header(collective, count, dtype, op, op_number, root, part != NULL,
				header->call, sizeof(header->call));
	if (segments > 1)
		snprintf(header->how, sizeof(header->how), "by %s in %lld segments", algorithm,
			 (long long)segments);
	else
		snprintf(header->how, sizeof(header->how), "by %s", algorithm);
	json_array_foreach(peers, i, peer) {
		if (json_unpack_ex(peer, error, 0, "{s:I,s:I}", "sent", &sent, "received",
				   &received))
			return false;
		if (sent < 0 || sent > BYTES_MAX - header->sent || received < 0 ||
		    received > BYTES_MAX - header->received)
			return false;
		header->sent += sent;
		header->received += received;
	}
	header->key = read_key(object, collective);
	return true;
}

static int by_number(const void *a, const void *b)
{
	const struct header *one = a, *other = b;

	return one->number < other->number ? -1 : one->number > other->number;
}

static bool read_time(json_t *object, const char *key, int64_t *out)
{
	const json_t *time = json_object_get(object, key);

	*out = json_is_integer(time) ? json_integer_value(time) : NEVER;
	return json_is_null(time) || (*out >= 0 && *out <= MONOTONIC_MAX);
}

/* "put to rank 2 (4096 bytes)", "flush to all ranks" */
static void describe_one_sided(const char *kind, int peer, json_int_t bytes, char *out, size_t size)
{
	const bool reads = strcmp(kind, "get") == 0, waits = strcmp(kind, "wait_signal") == 0;
	char whom[24] = "all ranks";

	if (peer >= 0)
		snprintf(whom, sizeof(whom), "rank %d", peer);
	if (waits)
		snprintf(out, size, "%.16s", kind);
	else if (bytes > 0)
		snprintf(out, size, "%.16s %s %s (%lld bytes)", kind, reads ? "from" : "to", whom,
			 (long long)bytes);
	else
		snprintf(out, size, "%.16s to %s", kind, whom);
}

static void describe_message(enum kind kind, int peer, const char *dtype, json_int_t count,
			     char *out, size_t size)
{
	char whom[24] = "any rank";

	if (peer >= 0)
		snprintf(whom, sizeof(whom), "rank %d", peer);
	snprintf(out, size, "%s %s (%.16s × %lld)", kind == SEND ? "send to" : "receive from", whom,
		 dtype, (long long)count);
}

static enum kind kind_named(const char *name)
{
	return strcmp(name, "send") == 0	 ? SEND
	       : strcmp(name, "recv") == 0	 ? RECV
	       : strcmp(name, "collective") == 0 ? COLLECTIVE
						 : ONE_SIDED;
}

static bool read_message(json_t *object, const char *kind, struct op *op, json_error_t *error)
{
	const char *dtype;
	json_int_t count, bytes;

	if (json_unpack_ex(object, error, 0, "{s:i,s:I,s:s,s:I}", "peer", &op->peer, "count",
			   &count, "dtype", &dtype, "bytes", &bytes))
		return false;
	if (op->kind == ONE_SIDED)
		describe_one_sided(kind, op->peer, bytes, op->call, sizeof(op->call));
	else
		describe_message(op->kind, op->peer, dtype, count, op->call, sizeof(op->call));
	op->bytes = bytes;
	return true;
}

static bool read_op(json_t *object, const struct flight *flight, struct op *op, json_error_t *error)
{
	json_int_t number, sequence, header = 0;
	const char *kind;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s?:I,s:i}", "number", &number, "kind",
			   &kind, "sequence", &sequence, "header", &header, "result", &op->result))
		return false;
	op->kind = kind_named(kind);
	op->number = number;
	op->caller = json_string_value(json_object_get(object, "caller")); /* NULL: none */
	op->sequence = sequence;
	if (!read_time(object, "posted", &op->posted) || !read_time(object, "first", &op->first) ||
	    !read_time(object, "done", &op->done))
		return false;
	if (op->posted == NEVER)
		op->posted = op->first != NEVER ? op->first : op->done;
	if (op->posted == NEVER || sequence < 0 || sequence > SEQUENCE_MAX)
		return false;
	if (op->kind != COLLECTIVE)
		return read_message(object, kind, op, error);
	const struct header wanted = { .number = header };
	op->header = bsearch(&wanted, flight->headers, flight->nheaders, sizeof(wanted), by_number);
	op->bytes = op->header ? op->header->sent + op->header->received : 0;
	return true;
}

/* ---- calls on streams */

/* How many elements of a rank's the call is about is the rank's own there: "gather_v". */
static bool knows_own_counts(const char *collective)
{
	const size_t length = strlen(collective);

	return length > 2 && strcmp(collective + length - 2, "_v") == 0;
}

static bool read_stream_collective(json_t *object, struct stream_call *call, const char *dtype,
				   json_int_t count, json_error_t *error)
{
	const char *const op = json_string_value(json_object_get(object, "op")); /* NULL: none */
	const char *collective;
	json_int_t sequence, op_number, root;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s:I}", "sequence", &sequence,
			   "collective", &collective, "op_number", &op_number, "root", &root))
		return false;
	if (strlen(collective) > 40 || strlen(dtype) > 40 || (op && strlen(op) > 40) ||
	    sequence < 0 || sequence > SEQUENCE_MAX)
		return false;
	call->sequence = sequence;
	describe(collective, knows_own_counts(collective) ? -1 : count, dtype, op, op_number, root,
		 call->call, sizeof(call->call));
	return true;
}

static bool read_stream_call(json_t *object, struct stream_call *call, json_error_t *error)
{
	const json_t *end = json_object_get(object, "ended");
	const char *kind, *dtype;
	json_int_t number, count;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s:s,s:i,s:s,s?:i}", "number", &number,
			   "kind", &kind, "count", &count, "dtype", &dtype, "device", &call->device,
			   "way", &call->way, "peer", &call->peer) ||
	    !read_time(object, "posted", &call->posted) || call->posted == NEVER || count < 0)
		return false;
	call->kind = kind_named(kind);
	call->number = number;
	call->end = json_is_true(end) ? ENDED : json_is_false(end) ? NOT_SEEN : UNKNOWABLE;
	if (call->kind == COLLECTIVE)
		return read_stream_collective(object, call, dtype, count, error);
	describe_message(call->kind, call->peer, dtype, count, call->call, sizeof(call->call));
	return true;
}

/* `calls` NULL: the report is of a library that knew of none. */
static bool read_stream_calls(struct flight *flight, json_t *calls, json_error_t *error)
{
	json_t *object;
	size_t i;

	flight->streams = need(calloc(json_array_size(calls) + 1, sizeof(*flight->streams)));
	json_array_foreach(calls, i, object) {
		struct stream_call *call = &flight->streams[flight->nstreams++];

		if (!read_stream_call(object, call, error))
			return false;
		if (call->kind == COLLECTIVE && call->sequence <= flight->last_stream)
			return false;
		if (call->kind == COLLECTIVE)
			flight->last_stream = call->sequence;
	}
	return true;
}

const char *op_call(const struct op *op)
{
	if (op->kind != COLLECTIVE)
		return op->call;
	return op->header ? op->header->call : "a collective whose header is no longer known";
}

void op_print_caller(FILE *out, const struct op *op)
{
	if (op->caller)
		fprintf(out, ", called at %s", op->caller);
}

const struct op *flight_collective(const struct flight *flight, int64_t sequence)
{
	size_t low = 0, high = flight->nops;

	/* messages lie between; collectives are in order */
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		size_t at = middle;

		while (at < high && flight->ops[at].kind != COLLECTIVE)
			at++;
		const struct op *op = at < high ? &flight->ops[at] : NULL;
		if (!op || op->sequence > sequence)
			high = middle;
		else if (op->sequence == sequence)
			return op;
		else
			low = at + 1;
	}
	return NULL;
}

/* ---- a report */

static void flight_finish(struct flight *flight)
{
	for (size_t i = 0; i < flight->nheaders; i++)
		free(flight->headers[i].key);
	free(flight->headers);
	free(flight->ops);
	free(flight->streams);
	free(flight->path);
	json_decref(flight->report);
}

static bool read_lists(struct flight *flight, json_t *headers, json_t *ops, json_error_t *error)
{
	json_t *object;
	size_t i;

	flight->headers = need(calloc(json_array_size(headers) + 1, sizeof(*flight->headers)));
	flight->ops = need(calloc(json_array_size(ops) + 1, sizeof(*flight->ops)));
	json_array_foreach(headers, i, object)
		if (!read_op_header(object, &flight->headers[flight->nheaders++], error))
			return false;
	qsort(flight->headers, flight->nheaders, sizeof(*flight->headers), by_number);
	json_array_foreach(ops, i, object) {
		struct op *op = &flight->ops[flight->nops++];

		if (!read_op(object, flight, op, error))
			return false;
		if (op->kind == COLLECTIVE) {
			if (op->sequence <= flight->last)
				return false;
			flight->last = op->sequence;
		}
	}
	return true;
}

static bool read_header(struct flight *flight, json_t **headers, json_t **ops, json_error_t *error)
{
	json_int_t called, monotonic, realtime;
	json_t *fault;
	int result;

	if (json_unpack_ex(flight->report, error, 0,
			   "{s:s,s:s,s:i,s:i,s:s,s:s,s:i,s:s,s:I,s:I,s:o,s:I,s:o,s:o}", "job",
			   &flight->job, "communicator", &flight->communicator, "rank",
			   &flight->rank, "size", &flight->size, "host", &flight->host, "hostname",
			   &flight->hostname, "pid", &flight->pid, "why", &flight->why,
			   "monotonic_ns", &monotonic, "realtime_ns", &realtime, "fault", &fault,
			   "operations_called", &called, "headers", headers, "operations", ops))
		return false;
	flight->called = called;
	flight->monotonic = monotonic;
	flight->realtime = realtime;
	json_unpack(flight->report, "{s?:i}", "launched_as", &flight->launched_as);
	if (!json_is_null(fault) &&
	    json_unpack_ex(fault, error, 0, "{s:i,s:i,s:s}", "result", &result, "rank",
			   &flight->fault_rank, "text", &flight->fault))
		return false;
	return flight->size > 0 && flight->size <= SIZE_MAX_RANKS && flight->rank >= 0 &&
	       flight->rank < flight->size && monotonic >= 0 && monotonic <= MONOTONIC_MAX &&
	       realtime >= 0 && realtime <= REALTIME_MAX;
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

static json_t *load_report(const char *path, int fd)
{
	const char *why;
	json_t *report = report_read(fd, &why);

	if (!report)
		say_useless(path, why, "");
	return report;
}

static json_t *load_json(const char *path, int fd)
{
	json_error_t error = { .text = "" };
	json_t *report = json_loadfd(fd, 0, &error);

	if (!report && json_error_code(&error) == json_error_premature_end_of_input)
		say_useless(path, "ends too early, a truncated file", "");
	else if (!report)
		say_useless(path, "is no report and no JSON", error.text);
	return report;
}

/* NULL: what it is instead was said. Anything may have the name: a pipe's other end is not
 * waited for. */
static json_t *load(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	json_t *report = NULL;
	uint8_t first[8];
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		say_useless(path, "cannot be read", strerror(errno));
	else if (!S_ISREG(info.st_mode))
		say_useless(path, "is no regular file", "");
	else if (info.st_size > REPORT_MAX)
		say_useless(path, "has more than 64 MiB, which no report has", "");
	else if (pread(fd, first, sizeof(first), 0) == sizeof(first) &&
		 report_begins(first, sizeof(first)))
		report = load_report(path, fd);
	else
		report = load_json(path, fd);
	if (fd >= 0)
		close(fd);
	clean(report);
	return report;
}

/* A report of a rank that died is as old as what it did last, and not as the report, which may be
 * written much later. */
static bool find_alive(struct flight *flight)
{
	int64_t opened, last;

	flight->alive = flight->realtime;
	if (strcmp(flight->why, "died") != 0)
		return true;
	if (!json_object_get(flight->report, "opened_ns"))
		opened = NEVER;
	else if (!read_time(flight->report, "opened_ns", &opened))
		return false;
	last = opened;
	for (size_t i = 0; i < flight->nops; i++) {
		const struct op *op = &flight->ops[i];
		const int64_t seen = op->done != NEVER	  ? op->done
				     : op->first != NEVER ? op->first
							  : op->posted;

		last = seen > last ? seen : last;
	}
	for (size_t i = 0; i < flight->nstreams; i++)
		last = flight->streams[i].posted > last ? flight->streams[i].posted : last;
	flight->alive = last == NEVER		   ? NEVER
			: last > flight->monotonic ? flight->realtime
						   : flight->realtime - (flight->monotonic - last);
	return true;
}

static bool take_report(struct flight *flight, const char *path)
{
	const json_t *format = json_object_get(flight->report, "tutti_flight");
	json_error_t error = { .text = "" };
	json_t *headers, *ops;

	if (!json_is_integer(format))
		return say_useless(
			path,
			"is JSON, but no report of a flight recorder (it has no \"tutti_flight\")",
			"");
	if (json_integer_value(format) != FORMAT)
		return say_useless(
			path, "has another format than 1, the one that this tutti-trace reads", "");
	if (!read_header(flight, &headers, &ops, &error) ||
	    !read_lists(flight, headers, ops, &error) ||
	    !read_stream_calls(flight, json_object_get(flight->report, "streams"), &error) ||
	    !find_alive(flight))
		return say_useless(path,
				   "is a report in which something is missing or makes no sense",
				   error.text);
	return true;
}

static bool take_exits(struct flights *flights, json_t *object, const char *path)
{
	json_error_t error = { .text = "" };
	struct exits exits;

	if (!exits_read(&exits, object, path, &error)) {
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
	*flight = (struct flight){ .fault_rank = -1, .launched_as = -1 };
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
		for (size_t k = 0; k < flight->nops; k++) {
			shift(&flight->ops[k].posted, offset);
			shift(&flight->ops[k].first, offset);
			shift(&flight->ops[k].done, offset);
		}
		for (size_t k = 0; k < flight->nstreams; k++)
			shift(&flight->streams[k].posted, offset);
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
