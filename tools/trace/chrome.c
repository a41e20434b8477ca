/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the form that Perfetto and chrome://tracing read: a process for each rank, a row for each
 * communicator and kind of operation, more where operations overlap. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits.h"
#include "analysis.h"
#include "output.h"

#define ROWS_MAX 64 /* that one kind may take; beyond, operations share the last */

struct trace {
	json_t *events;
	int64_t start; /* time 0 */
};

static void add(struct trace *trace, json_t *event)
{
	json_array_append_new(trace->events, event);
}

static double us(const struct trace *trace, int64_t time)
{
	return (double)(time - trace->start) / 1e3;
}

static void add_name(struct trace *trace, const char *what, int process, int row, const char *name)
{
	add(trace, json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", what, "ph", "M", "pid", process,
			     "tid", row, "args", "name", name));
}

static json_t *arguments(const struct trace *trace, const struct op *op)
{
	json_t *args =
		json_pack("{s:I,s:I,s:i,s:b,s:I}", "number", op->number, "sequence", op->sequence,
			  "result", op->result, "in_flight", op->done == NEVER, "bytes", op->bytes);

	if (op->first != NEVER)
		json_object_set_new(args, "first_byte_us", json_real(us(trace, op->first)));
	if (op->header) {
		json_object_set_new(args, "how", json_string(op->header->how));
		json_object_set_new(args, "sent", json_integer(op->header->sent));
		json_object_set_new(args, "received", json_integer(op->header->received));
	}
	return args;
}

static int64_t end_of(const struct flight *flight, const struct op *op)
{
	return op->done != NEVER ? op->done : flight->realtime;
}

/* The first row that is free by then. Events of one row must not overlap, but for one inside
 * another. */
static int find_row(int64_t *busy, const struct op *op, int64_t end)
{
	int row = 0;

	while (row < ROWS_MAX - 1 && busy[row] > op->posted)
		row++;
	busy[row] = end;
	return row;
}

static void add_op(struct trace *trace, int process, int row, const struct flight *flight,
		   const struct op *op)
{
	json_t *event = json_pack("{s:s,s:s,s:s,s:f,s:f,s:i,s:i,s:o}", "name", op_call(op), "cat",
				  op->kind == COLLECTIVE ? "collective" : "message", "ph", "X",
				  "ts", us(trace, op->posted), "dur",
				  (double)(end_of(flight, op) - op->posted) / 1e3, "pid", process,
				  "tid", row, "args", arguments(trace, op));

	if (op->end == UNFINISHED)
		json_object_set_new(event, "cname", json_string("terrible"));
	add(trace, event);
}

/* `row`: the first that is free in the rank's process, counted on. */
static void add_kind(struct trace *trace, int process, int *row, const struct flight *flight,
		     bool messages)
{
	int64_t busy[ROWS_MAX];
	int used = 0;
	char name[96];

	for (int i = 0; i < ROWS_MAX; i++)
		busy[i] = INT64_MIN;
	for (size_t i = 0; i < flight->ops.n; i++) {
		const struct op *op = &flight->ops.at[i];

		if ((op->kind != COLLECTIVE) != messages)
			continue;
		const int place = find_row(busy, op, end_of(flight, op));
		used = place >= used ? place + 1 : used;
		add_op(trace, process, *row + place, flight, op);
	}
	snprintf(name, sizeof(name), "%s of %.16s", messages ? "messages" : "collectives",
		 flight->communicator);
	for (int i = 0; i < used; i++)
		add_name(trace, "thread_name", process, *row + i, name);
	*row += used;
}

/* When it was called alone is known, and not when a stream came to it. */
static void add_stream_call(struct trace *trace, int process, int row, const struct op *call)
{
	static const char *const ends[] = { "yes", "not seen", "unknown: in a graph" };

	add(trace,
	    json_pack("{s:s,s:s,s:s,s:s,s:f,s:i,s:i,s:{s:I,s:i,s:s,s:s}}", "name", op_call(call),
		      "cat", "stream", "ph", "i", "s", "t", "ts", us(trace, call->posted), "pid",
		      process, "tid", row, "args", "number", call->number, "device", call->device,
		      "way", call->way, "ended", ends[call->end]));
}

static void add_stream_calls(struct trace *trace, int process, int *row,
			     const struct flight *flight)
{
	char name[96];

	if (flight->streams.n == 0)
		return;
	for (size_t i = 0; i < flight->streams.n; i++)
		add_stream_call(trace, process, *row, &flight->streams.at[i]);
	snprintf(name, sizeof(name), "calls on streams of %.16s", flight->communicator);
	add_name(trace, "thread_name", process, (*row)++, name);
}

/* Ranks that are one process in several communicators share their place in the trace. A process
 * that has several ranks (threads) has several in its largest communicator, the first ones here,
 * and the others' cannot be told apart. */
static int process_of(const struct flights *flights, size_t i, const int *process)
{
	const struct flight *flight = &flights->at[i];

	for (size_t k = 0; k < i; k++)
		if (flights->at[k].pid == flight->pid &&
		    strcmp(flights->at[k].host, flight->host) == 0 &&
		    strcmp(flights->at[k].communicator, flight->communicator) != 0)
			return process[k];
	return -1;
}

static void fill(struct trace *trace, const struct flights *flights)
{
	int *process = need(calloc(flights->n + 1, sizeof(*process))),
	    *rows = need(calloc(flights->n + 1, sizeof(*rows)));
	int processes = 0;
	char name[160];

	for (size_t i = 0; i < flights->n; i++) {
		const struct flight *flight = &flights->at[i];

		process[i] = process_of(flights, i, process);
		if (process[i] < 0) {
			process[i] = processes++;
			snprintf(name, sizeof(name), "rank %d (%.64s, pid %d)", flight->rank,
				 flight->hostname, flight->pid);
			add_name(trace, "process_name", process[i], 0, name);
			add(trace, json_pack("{s:s,s:s,s:i,s:i,s:{s:i}}", "name",
					     "process_sort_index", "ph", "M", "pid", process[i],
					     "tid", 0, "args", "sort_index", process[i]));
		}
		add_kind(trace, process[i], &rows[process[i]], flight, false);
		add_kind(trace, process[i], &rows[process[i]], flight, true);
		add_stream_calls(trace, process[i], &rows[process[i]], flight);
	}
	free(process);
	free(rows);
}

bool chrome_write(const struct flights *flights, const char *path)
{
	struct trace trace = { .events = json_array(), .start = INT64_MAX };

	for (size_t i = 0; i < flights->n; i++) {
		const struct flight *flight = &flights->at[i];

		if (flight->ops.n > 0 && flight->ops.at[0].posted < trace.start)
			trace.start = flight->ops.at[0].posted;
		if (flight->streams.n > 0 && flight->streams.at[0].posted < trace.start)
			trace.start = flight->streams.at[0].posted;
	}
	fill(&trace, flights);
	json_t *root = need(json_pack(
		"{s:o,s:s,s:{s:s,s:I}}", "traceEvents", trace.events, "displayTimeUnit", "ns",
		"otherData", "job", flights->n ? flights->at[0].job : flights->exits->job,
		"start_realtime_ns", (json_int_t)(trace.start == INT64_MAX ? 0 : trace.start)));
	char *text = need(json_dumps(root, JSON_COMPACT));
	const bool good = output_file(path, text, strlen(text));
	const int error = errno;
	json_decref(root);
	free(text);
	errno = error;
	return good;
}
