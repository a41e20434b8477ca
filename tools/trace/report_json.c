/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from a report to JSON. A name that is none becomes "unknown", and text that is no
 * UTF-8 loses what cannot be shown. */
#include "report_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flight_report.h"
#include "printable.h"

struct report {
	const struct tt_flight_report *head;
	const struct tt_flight *flight;
};

/* ---- values */

static json_t *text_of(const char *bytes, size_t capacity)
{
	char copy[TT_ERROR_MAX + 1];
	const size_t length = strnlen(bytes, capacity < TT_ERROR_MAX ? capacity : TT_ERROR_MAX);
	json_t *text = json_stringn(bytes, length);

	if (text)
		return text;
	memcpy(copy, bytes, length);
	copy[length] = '\0';
	return json_string(tt_printable(copy));
}

/* Readers of JSON have no larger numbers than an int64_t's. */
static json_t *number(uint64_t value)
{
	return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *hex(uint64_t value)
{
	char digits[17];

	snprintf(digits, sizeof(digits), "%016" PRIx64, value);
	return json_string(digits);
}

/* Nanoseconds of the monotonic clock; null for a moment that has not come. Two moments by both
 * clocks are known, between which all others lie. */
static json_t *time_of(const struct report *r, uint64_t ticks)
{
	const uint64_t span = r->head->ticks - r->flight->ticks,
		       length = r->head->monotonic - r->flight->monotonic;
	const int64_t since = (int64_t)(ticks - r->flight->ticks);

	if (ticks == 0)
		return json_null();
	if (span == 0)
		return number(r->flight->monotonic);
	return number(r->flight->monotonic +
		      (uint64_t)(int64_t)((__int128)since * (__int128)length / (__int128)span));
}

static json_t *name_in(const char names[][TT_FLIGHT_NAME], size_t n, size_t i)
{
	return i < n && names[i][0] ? text_of(names[i], TT_FLIGHT_NAME) : json_string("unknown");
}

#define NAME(names, i) name_in(names, sizeof(names) / TT_FLIGHT_NAME, i)

/* Behind the types are those of float32 that travels as something else (tt_narrow_dtype()). */
static json_t *dtype_of(int dtype)
{
	const char *name = tutti_dtype_name((tutti_dtype_t)dtype),
		   *wire = tutti_wire_name(dtype - TUTTI_DTYPE_COUNT);

	if (!name && wire && dtype > TUTTI_DTYPE_COUNT + TUTTI_WIRE_FLOAT32)
		return json_sprintf("float32 as %s", wire);
	return json_string(name ? name : "unknown");
}

/* null: it has none. */
static json_t *op_of(int32_t op)
{
	const char *name = tutti_op_name(op);

	return op < 0 ? json_null() : json_string(name ? name : "unknown");
}

/* ---- operations */

static json_t *peers_of(const struct report *r, uint64_t place, const struct tt_flight_plan *plan)
{
	json_t *peers = json_array();

	for (uint64_t i = 0; i < plan->npeers; i++) {
		const struct tt_flight_peer peer = tt_flight_read_peer(r->flight, place, i);

		json_array_append_new(peers, json_pack("{s:o,s:o,s:o}", "rank", number(peer.rank),
						       "sent", number(peer.sent), "received",
						       number(peer.received)));
	}
	return peers;
}

static uint64_t count_of(const struct report *r, const struct tt_op_header *header)
{
	const bool own = header->collective < sizeof(r->head->own_counts) &&
			 r->head->own_counts[header->collective];

	return own ? header->own : header->count;
}

static json_t *header_of(const struct report *r, uint64_t place, const struct tt_flight_plan *plan)
{
	const struct tt_op_header *header = &plan->header;
	json_t *object = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:o,s:o,s:o,s:o,s:o}", "header", number(place),
		"collective", NAME(r->head->collectives, header->collective), "count",
		number(count_of(r, header)), "dtype", dtype_of(header->dtype), "op",
		op_of(header->op), "op_number", (int)header->op, "root", (int)header->root,
		"detail", hex(header->detail), "algorithm",
		NAME(r->head->algorithms, header->algorithm), "segments", number(header->segments),
		"peers", peers_of(r, place, plan), "peers_left_out", number(plan->peers_left_out));

	if (header->part < sizeof(r->head->parts) / TT_FLIGHT_NAME &&
	    r->head->parts[header->part][0])
		json_object_set_new(object, "part_of", NAME(r->head->parts, header->part));
	return object;
}

static const char *const kinds[] = { "collective", "send",	"recv",	 "put",
				     "get",	   "fetch_add", "flush", "wait_signal" };
static_assert(sizeof(kinds) / sizeof(kinds[0]) == TT_FLIGHT_KINDS, "every kind has a name");

static uint8_t kind_of(uint8_t kind)
{
	return kind < TT_FLIGHT_KINDS ? kind : TT_FLIGHT_COLLECTIVE;
}

static json_t *operation_of(const struct report *r, const struct tt_flight_op *op)
{
	const uint8_t kind = kind_of(op->kind);
	json_t *object = json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:i}", "number", number(op->number),
				   "kind", kinds[kind], "sequence", number(op->seq), "posted",
				   time_of(r, op->posted), "first", time_of(r, op->first), "done",
				   time_of(r, op->done), "result", (int)op->result);
	struct tt_flight_caller caller;

	if (tt_flight_read_line(&r->flight->callers[op->number % TT_FLIGHT_CALLERS], op->number,
				&caller, sizeof(caller)))
		json_object_set_new(object, "caller", text_of(caller.text, sizeof(caller.text)));
	if (kind == TT_FLIGHT_COLLECTIVE) {
		json_object_set_new(object, "header", number(op->what));
		return object;
	}
	json_object_set_new(object, "peer", json_integer(op->peer));
	json_object_set_new(object, "count", number(op->what));
	json_object_set_new(object, "dtype", dtype_of(op->dtype));
	json_object_set_new(object, "bytes",
			    number(op->what * tutti_dtype_size((tutti_dtype_t)op->dtype)));
	return object;
}

/* The highest number in a ring of so many lines, each of which begins with its own. */
static uint64_t last_number(const void *lines, size_t bytes, uint32_t count)
{
	uint64_t last = 0, number;

	for (uint32_t i = 0; i < count; i++) {
		memcpy(&number, (const uint8_t *)lines + i * bytes, sizeof(number));
		if (number % count == i && number > last)
			last = number;
	}
	return last;
}

/* The header that the operation refers to, unless it is there already or was written over. */
static void add_header(const struct report *r, const struct tt_flight_op *op, uint64_t *seen,
		       json_t *headers)
{
	const uint64_t place = op->what % TT_FLIGHT_PLANS / TT_FLIGHT_PLACES;
	struct tt_flight_plan plan;

	if (kind_of(op->kind) != TT_FLIGHT_COLLECTIVE || (seen[place / 64] >> place % 64 & 1) ||
	    !tt_flight_read_plan(r->flight, op->what, &plan))
		return;
	seen[place / 64] |= 1ull << place % 64;
	json_array_append_new(headers, header_of(r, op->what, &plan));
}

static void add_operations(const struct report *r, json_t *object)
{
	/* one bit for each place of the ring at which a record may begin */
	uint64_t seen[TT_FLIGHT_PLANS / TT_FLIGHT_PLACES / 64] = { 0 };
	json_t *headers = json_array(), *operations = json_array();
	const uint64_t last = last_number(r->flight->ops, sizeof(r->flight->ops[0]), TT_FLIGHT_OPS);
	struct tt_flight_op op;

	for (uint64_t n = last > TT_FLIGHT_OPS ? last - TT_FLIGHT_OPS + 1 : 1; n <= last; n++) {
		if (!tt_flight_read_op(r->flight, n, &op))
			continue;
		add_header(r, &op, seen, headers);
		json_array_append_new(operations, operation_of(r, &op));
	}
	json_object_set_new(object, "operations_called", number(last));
	json_object_set_new(object, "headers", headers);
	json_object_set_new(object, "operations", operations);
}

/* ---- calls on streams */

/* As far as is known; of a graph nobody knows. */
static json_t *has_ended(const struct tt_flight *flight, const struct tt_flight_stream *call)
{
	if (call->captured)
		return json_null();
	return json_boolean(call->number <= flight->streams_ended ||
			    (call->waits && call->waits <= flight->streams_waits));
}

static json_t *stream_of(const struct report *r, const struct tt_flight_stream *call)
{
	static const char *const ways[TT_FLIGHT_WAYS] = { "stages", "direct",  "rooms",
							  "host",   "cliques", "lines" };
	const uint8_t kind = kind_of(call->kind);
	json_t *object = json_pack(
		"{s:o,s:s,s:i,s:o,s:o,s:i,s:s,s:b,s:o,s:o}", "number", number(call->number), "kind",
		kinds[kind], kind == TT_FLIGHT_COLLECTIVE ? "root" : "peer", (int)call->root,
		"count", number(call->count), "dtype", dtype_of(call->dtype), "device",
		(int)call->device, "way", call->way < TT_FLIGHT_WAYS ? ways[call->way] : "unknown",
		"captured", (int)(call->captured != 0), "posted", time_of(r, call->posted), "ended",
		has_ended(r->flight, call));

	if (kind == TT_FLIGHT_COLLECTIVE) {
		json_object_set_new(object, "sequence", number(call->sequence));
		json_object_set_new(object, "collective",
				    NAME(r->head->collectives, call->collective));
		json_object_set_new(object, "op", op_of(call->op));
		json_object_set_new(object, "op_number", json_integer(call->op));
	}
	return object;
}

static void add_streams(const struct report *r, json_t *object)
{
	json_t *streams = json_array();
	struct tt_flight_stream call;
	const uint64_t last =
		last_number(r->flight->streams, sizeof(r->flight->streams[0]), TT_FLIGHT_STREAMS);

	for (uint64_t n = last > TT_FLIGHT_STREAMS ? last - TT_FLIGHT_STREAMS + 1 : 1; n <= last;
	     n++)
		if (tt_flight_read_line(&r->flight->streams[n % TT_FLIGHT_STREAMS], n, &call,
					sizeof(call)))
			json_array_append_new(streams, stream_of(r, &call));
	json_object_set_new(object, "streams_called", number(last));
	json_object_set_new(object, "streams", streams);
}

/* ---- all of it */

static json_t *fault_of(const struct tt_fault *fault)
{
	if (!fault->result)
		return json_null();
	return json_pack("{s:i,s:s,s:i,s:o}", "result", (int)fault->result, "error",
			 tutti_strerror((tutti_result_t)fault->result), "rank", (int)fault->rank,
			 "text", text_of(fault->text, sizeof(fault->text)));
}

static json_t *object_of(const struct report *r)
{
	const struct tt_flight_report *head = r->head;
	const struct tt_flight *flight = r->flight;
	json_t *object = json_pack(
		"{s:i,s:o,s:o,s:o,s:i,s:i,s:o,s:o,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o}", "tutti_flight",
		1, "version", text_of(head->version, sizeof(head->version)), "job",
		text_of(flight->job, sizeof(flight->job)), "communicator", hex(flight->comm_id),
		"rank", (int)flight->rank, "size", (int)flight->size, "host",
		text_of(flight->host, sizeof(flight->host)), "hostname",
		text_of(flight->hostname, sizeof(flight->hostname)), "pid", (int)flight->pid,
		"launched_as", (int)flight->launched, "transports",
		text_of(flight->transports, sizeof(flight->transports)), "why",
		text_of(head->why, sizeof(head->why)), "opened_ns", number(flight->monotonic),
		"monotonic_ns", number(head->monotonic), "realtime_ns", number(head->realtime),
		"fault", fault_of(&flight->fault));

	if (!object)
		return NULL;
	add_operations(r, object);
	add_streams(r, object);
	return object;
}

bool report_begins(const void *bytes, size_t length)
{
	static const uint64_t magic = TT_FLIGHT_REPORT_MAGIC;

	return length >= sizeof(magic) && memcmp(bytes, &magic, sizeof(magic)) == 0;
}

static const char *fault_in(const void *bytes, size_t length)
{
	struct tt_flight_report head;

	if (!report_begins(bytes, length))
		return "is no report of tutti";
	if (length < sizeof(head))
		return "ends too early, a truncated report";
	memcpy(&head, bytes, sizeof(head));
	if (head.flight_magic != TT_FLIGHT_MAGIC || head.head_bytes != TT_FLIGHT_REPORT_AT ||
	    head.flight_bytes != sizeof(struct tt_flight))
		return "is a report of another version of tutti: read it with the tutti-trace of that version";
	if (length < TT_FLIGHT_REPORT_AT + sizeof(struct tt_flight))
		return "ends too early, a truncated report";
	if (length > TT_FLIGHT_REPORT_AT + sizeof(struct tt_flight))
		return "goes on behind its end: it is no whole report";
	return NULL;
}

json_t *report_json(const void *bytes, size_t length, const char **why)
{
	struct tt_flight *flight;
	json_t *object;

	*why = fault_in(bytes, length);
	if (*why)
		return NULL;
	flight = aligned_alloc(4096, sizeof(*flight));
	if (!flight) {
		*why = "cannot be read: no memory";
		return NULL;
	}
	memcpy(flight, (const uint8_t *)bytes + TT_FLIGHT_REPORT_AT, sizeof(*flight));
	object = object_of(&(struct report){ bytes, flight });
	free(flight);
	if (!object)
		*why = "has no JSON form: no memory";
	return object;
}
