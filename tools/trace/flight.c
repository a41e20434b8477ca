/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a report says: it is read, checked, and put into words. */
#include "flights.h"

#include <stdlib.h>
#include <string.h>

#define MONOTONIC_MAX  ((int64_t)1 << 60) /* 36 years; their sums and differences fit */
#define REALTIME_MAX   ((int64_t)1 << 62)
#define BYTES_MAX      ((int64_t)1 << 60) /* of an operation; twice as many can be counted */
#define SEQUENCE_MAX   ((int64_t)1 << 62)
#define SIZE_MAX_RANKS 1000000

/* ---- headers and operations */

#define NAME_MAX_BYTES 40
#define DATA_BYTES     64 /* "float32 × 4096 in all"; a call of longest names fits with it */

/* The call of a collective. */
struct called {
	const char *collective, *dtype, *op; /* `op` NULL: none */
	json_int_t count, op_number, root;
};

static bool read_called(json_t *object, struct called *call, json_error_t *error)
{
	if (json_unpack_ex(object, error, 0, "{s:s,s:I,s:s,s:I,s:I}", "collective",
			   &call->collective, "count", &call->count, "dtype", &call->dtype,
			   "op_number", &call->op_number, "root", &call->root))
		return false;
	call->op = json_string_value(json_object_get(object, "op"));
	return strlen(call->collective) <= NAME_MAX_BYTES &&
	       strlen(call->dtype) <= NAME_MAX_BYTES &&
	       (!call->op || strlen(call->op) <= NAME_MAX_BYTES);
}

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

/* `data`: the type, and maybe the count, which not all ranks need have alike. */
static void describe(const struct called *call, const char *data, char *out, size_t size)
{
	const bool barrier = strcmp(call->collective, "barrier") == 0;
	int used = snprintf(out, size, "%s(%s", call->collective, barrier ? "" : data);

	if (call->op)
		used += snprintf(out + used, size - (size_t)used, ", %s", call->op);
	if (call->op && strcmp(call->op, "user") == 0)
		used += snprintf(out + used, size - (size_t)used, " %lld", call->op_number);
	if (call->root >= 0)
		used += snprintf(out + used, size - (size_t)used, ", root %lld", call->root);
	snprintf(out + used, size - (size_t)used, ")");
}

#define GROUP "group" /* what `part_of` says of calls that travel as one */

static void describe_header(const struct called *call, bool group, char *out, size_t size)
{
	const int used = snprintf(out, size, "%s", group ? "a group of " : "");
	char data[DATA_BYTES];

	snprintf(data, sizeof(data), "%s × %lld%s", call->dtype, call->count,
		 group || has_table(call->collective) ? " in all" : "");
	describe(call, data, out + used, size - (size_t)used);
}

static bool read_op_header(json_t *object, struct header *header, json_error_t *error)
{
	/* NULL: it is part of nothing */
	const char *const part = json_string_value(json_object_get(object, "part_of"));
	const char *algorithm;
	json_int_t segments, sent, received;
	struct called call;
	json_t *peers, *peer;
	size_t i;

	if (!read_called(object, &call, error) ||
	    json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s:o}", "header", &header->number,
			   "algorithm", &algorithm, "segments", &segments, "peers", &peers))
		return false;
	if ((part && strlen(part) > NAME_MAX_BYTES) || strlen(algorithm) > 60)
		return false;
	if (part && strcmp(part, GROUP) != 0)
		snprintf(header->call, sizeof(header->call), "%s", part);
	else
		describe_header(&call, part != NULL, header->call, sizeof(header->call));
	if (segments > 1)
		snprintf(header->how, sizeof(header->how), "by %s in %lld segments", algorithm,
			 segments);
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
	header->key = read_key(object, call.collective);
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
			 bytes);
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
		 dtype, count);
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
	json_int_t count;

	if (json_unpack_ex(object, error, 0, "{s:i,s:I,s:s,s:I}", "peer", &op->peer, "count",
			   &count, "dtype", &dtype, "bytes", &op->bytes))
		return false;
	if (op->kind == ONE_SIDED)
		describe_one_sided(kind, op->peer, op->bytes, op->call, sizeof(op->call));
	else
		describe_message(op->kind, op->peer, dtype, count, op->call, sizeof(op->call));
	return true;
}

static bool read_op(json_t *object, struct flight *flight, struct op *op, json_error_t *error)
{
	json_int_t header = 0;
	const char *kind;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s?:I,s:i}", "number", &op->number,
			   "kind", &kind, "sequence", &op->sequence, "header", &header, "result",
			   &op->result))
		return false;
	op->kind = kind_named(kind);
	op->caller = json_string_value(json_object_get(object, "caller")); /* NULL: none */
	if (!read_time(object, "posted", &op->posted) || !read_time(object, "first", &op->first) ||
	    !read_time(object, "done", &op->done))
		return false;
	op->end = op->done == NEVER || op->result ? UNFINISHED : ENDED;
	if (op->posted == NEVER)
		op->posted = op->first != NEVER ? op->first : op->done;
	if (op->posted == NEVER || op->sequence < 0 || op->sequence > SEQUENCE_MAX)
		return false;
	if (op->kind != COLLECTIVE)
		return read_message(object, kind, op, error);
	const struct header wanted = { .number = header };
	op->header = bsearch(&wanted, flight->headers, flight->nheaders, sizeof(wanted), by_number);
	op->bytes = op->header ? op->header->sent + op->header->received : 0;
	return true;
}

/* ---- calls on streams */

static bool read_stream_collective(json_t *object, struct op *op, struct header *header,
				   json_error_t *error)
{
	struct called call;
	char data[DATA_BYTES];

	if (!read_called(object, &call, error) ||
	    json_unpack_ex(object, error, 0, "{s:I}", "sequence", &op->sequence) ||
	    op->sequence < 0 || op->sequence > SEQUENCE_MAX)
		return false;
	if (has_own_count(call.collective) || has_table(call.collective))
		snprintf(data, sizeof(data), "%s", call.dtype);
	else
		snprintf(data, sizeof(data), "%s × %lld", call.dtype, call.count);
	describe(&call, data, header->call, sizeof(header->call));
	header->key = need(strdup(header->call));
	op->header = header;
	return true;
}

static bool read_stream_call(json_t *object, struct flight *flight, struct op *op,
			     json_error_t *error)
{
	const json_t *end = json_object_get(object, "ended");
	const char *kind, *dtype;
	json_int_t count;

	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:I,s:s,s:i,s:s,s?:i}", "number",
			   &op->number, "kind", &kind, "count", &count, "dtype", &dtype, "device",
			   &op->device, "way", &op->way, "peer", &op->peer) ||
	    !read_time(object, "posted", &op->posted) || op->posted == NEVER || count < 0)
		return false;
	op->first = op->done = NEVER;
	op->kind = kind_named(kind);
	op->end = json_is_true(end) ? ENDED : json_is_false(end) ? UNFINISHED : UNKNOWABLE;
	if (op->kind == COLLECTIVE)
		return read_stream_collective(object, op, &flight->headers[flight->nheaders++],
					      error);
	describe_message(op->kind, op->peer, dtype, count, op->call, sizeof(op->call));
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

const struct op *ops_collective(const struct ops *ops, json_int_t sequence)
{
	size_t low = 0, high = ops->n;

	/* messages lie between; collectives are in order */
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		size_t at = middle;

		while (at < high && ops->at[at].kind != COLLECTIVE)
			at++;
		const struct op *op = at < high ? &ops->at[at] : NULL;
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

void flight_finish(struct flight *flight)
{
	for (size_t i = 0; i < flight->nheaders; i++)
		free(flight->headers[i].key);
	free(flight->headers);
	free(flight->ops.at);
	free(flight->streams.at);
	free(flight->path);
	json_decref(flight->report);
}

typedef bool read_fn(json_t *object, struct flight *flight, struct op *op, json_error_t *error);

static bool read_ops(json_t *list, struct flight *flight, read_fn *read, struct ops *ops,
		     json_error_t *error)
{
	json_t *object;
	size_t i;

	ops->at = need(calloc(json_array_size(list) + 1, sizeof(*ops->at)));
	json_array_foreach(list, i, object) {
		struct op *op = &ops->at[ops->n++];

		if (!read(object, flight, op, error))
			return false;
		if (op->kind == COLLECTIVE && op->sequence <= ops->last)
			return false;
		if (op->kind == COLLECTIVE)
			ops->last = op->sequence;
	}
	return true;
}

/* `streams` NULL: the report is of a library that knew of none. */
static bool read_lists(struct flight *flight, json_t *headers, json_t *ops, json_t *streams,
		       json_error_t *error)
{
	/* calls on streams have headers of their own, behind the others */
	const size_t most = json_array_size(headers) + json_array_size(streams);
	json_t *object;
	size_t i;

	flight->headers = need(calloc(most + 1, sizeof(*flight->headers)));
	json_array_foreach(headers, i, object)
		if (!read_op_header(object, &flight->headers[flight->nheaders++], error))
			return false;
	qsort(flight->headers, flight->nheaders, sizeof(*flight->headers), by_number);
	return read_ops(ops, flight, read_op, &flight->ops, error) &&
	       read_ops(streams, flight, read_stream_call, &flight->streams, error);
}

static bool read_header(struct flight *flight, json_t **headers, json_t **ops, json_error_t *error)
{
	json_t *fault;

	if (json_unpack_ex(flight->report, error, 0,
			   "{s:s,s:s,s:i,s:i,s:s,s:s,s:i,s:s,s:I,s:I,s:o,s:o,s:o}", "job",
			   &flight->job, "communicator", &flight->communicator, "rank",
			   &flight->rank, "size", &flight->size, "host", &flight->host, "hostname",
			   &flight->hostname, "pid", &flight->pid, "why", &flight->why,
			   "monotonic_ns", &flight->monotonic, "realtime_ns", &flight->realtime,
			   "fault", &fault, "headers", headers, "operations", ops))
		return false;
	json_unpack(flight->report, "{s?:i}", "launched_as", &flight->launched_as);
	if (!json_is_null(fault) &&
	    json_unpack_ex(fault, error, 0, "{s:s}", "text", &flight->fault))
		return false;
	return flight->size > 0 && flight->size <= SIZE_MAX_RANKS && flight->rank >= 0 &&
	       flight->rank < flight->size && flight->monotonic >= 0 &&
	       flight->monotonic <= MONOTONIC_MAX && flight->realtime >= 0 &&
	       flight->realtime <= REALTIME_MAX;
}

static void last_seen(const struct ops *ops, int64_t *last)
{
	for (size_t i = 0; i < ops->n; i++) {
		const struct op *op = &ops->at[i];
		const int64_t seen = op->done != NEVER	  ? op->done
				     : op->first != NEVER ? op->first
							  : op->posted;

		*last = seen > *last ? seen : *last;
	}
}

/* A report of a rank that died is as old as what it did last, and not as the report, which may be
 * written much later. */
static bool find_alive(struct flight *flight)
{
	int64_t last = NEVER;

	flight->alive = flight->realtime;
	if (strcmp(flight->why, "died") != 0)
		return true;
	if (json_object_get(flight->report, "opened_ns") &&
	    !read_time(flight->report, "opened_ns", &last))
		return false;
	last_seen(&flight->ops, &last);
	last_seen(&flight->streams, &last);
	flight->alive = last == NEVER		   ? NEVER
			: last > flight->monotonic ? flight->realtime
						   : flight->realtime - (flight->monotonic - last);
	return true;
}

bool flight_read(struct flight *flight, json_error_t *error)
{
	json_t *headers, *ops;

	return read_header(flight, &headers, &ops, error) &&
	       read_lists(flight, headers, ops, json_object_get(flight->report, "streams"),
			  error) &&
	       find_alive(flight);
}
