/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the form of a report: one JSON object. Written with nothing but system calls and memory
 * on the stack, as it must be possible in a signal's handler. docs/reference/trace.md describes
 * it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "flight.h"
#include "log.h"
#include "names.h"
#include "recorder.h"
#include "registry.h"

/* ---- text */

struct out {
	int fd;
	int error;    /* errno of the first write that failed */
	bool follows; /* a comma comes before the next */
	size_t used;
	char bytes[2048];
};

static void flush(struct out *out)
{
	struct tt_file_guard guard;
	size_t done = 0;

	tt_file_guard_begin(&guard);
	while (done < out->used && !out->error) {
		const ssize_t written = write(out->fd, out->bytes + done, out->used - done);

		if (written > 0)
			done += (size_t)written;
		else if (written < 0 && errno != EINTR)
			out->error = errno;
	}
	tt_file_guard_end(&guard);
	out->used = 0;
}

static void put_byte(struct out *out, char byte)
{
	if (out->used == sizeof(out->bytes))
		flush(out);
	out->bytes[out->used++] = byte;
}

static void put(struct out *out, const char *text)
{
	while (*text)
		put_byte(out, *text++);
}

static void put_unsigned(struct out *out, uint64_t value)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	while (n > 0)
		put_byte(out, digits[--n]);
}

static void put_signed(struct out *out, int64_t value)
{
	if (value < 0)
		put_byte(out, '-');
	put_unsigned(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static void put_hex(struct out *out, uint64_t value, int digits)
{
	while (digits-- > 0)
		put_byte(out, "0123456789abcdef"[value >> 4 * digits & 15]);
}

/* Bytes of the UTF-8 character at `text`, of which there are `room`; 0: it is none. */
static size_t character(const unsigned char *text, size_t capacity)
{
	const size_t n = text[0] < 0x80	  ? 1
			 : text[0] < 0xc2 ? 0
			 : text[0] < 0xe0 ? 2
			 : text[0] < 0xf0 ? 3
			 : text[0] < 0xf5 ? 4
					  : 0;

	if (n > capacity)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* overlong, surrogates, beyond the last */
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return n;
}

/* At most `room` bytes, which need not end with a 0. */
static void put_string(struct out *out, const char *text, size_t capacity)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + strnlen(text, capacity);

	put_byte(out, '"');
	while (at < end) {
		const size_t n = character(at, (size_t)(end - at));

		if (n == 0) {
			put(out, "\\ufffd");
		} else if (*at < 0x20 || *at == 0x7f) {
			put(out, "\\u");
			put_hex(out, *at, 4);
		} else {
			if (*at == '"' || *at == '\\')
				put_byte(out, '\\');
			for (size_t i = 0; i < n; i++)
				put_byte(out, (char)at[i]);
		}
		at += n ? n : 1;
	}
	put_byte(out, '"');
}

/* ---- JSON */

static void comma(struct out *out)
{
	if (out->follows)
		put_byte(out, ',');
	out->follows = true;
}

static void open_one(struct out *out, char bracket)
{
	put_byte(out, bracket);
	out->follows = false;
}

static void close_one(struct out *out, char bracket)
{
	put_byte(out, bracket);
	out->follows = true;
}

static void key(struct out *out, const char *name)
{
	comma(out);
	put_byte(out, '"');
	put(out, name);
	put(out, "\":");
}

static void pair_text(struct out *out, const char *name, const char *text, size_t capacity)
{
	key(out, name);
	put_string(out, text, capacity);
}

static void pair_name(struct out *out, const char *name, const char *value)
{
	pair_text(out, name, value, strlen(value));
}

static void pair_signed(struct out *out, const char *name, int64_t value)
{
	key(out, name);
	put_signed(out, value);
}

/* Readers of JSON have no larger numbers than an int64_t's. */
static void pair_unsigned(struct out *out, const char *name, uint64_t value)
{
	key(out, name);
	put_unsigned(out, value < INT64_MAX ? value : INT64_MAX);
}

/* ---- time */

/* Two moments by both clocks, between which all others lie. */
struct clocks {
	uint64_t ticks[2], monotonic[2];
};

static uint64_t nanoseconds(const struct clocks *clocks, uint64_t ticks)
{
	const uint64_t span = clocks->ticks[1] - clocks->ticks[0];
	const uint64_t length = clocks->monotonic[1] - clocks->monotonic[0];
	const int64_t since = (int64_t)(ticks - clocks->ticks[0]);

	if (span == 0)
		return clocks->monotonic[0];
	return clocks->monotonic[0] + (uint64_t)(int64_t)((__int128)since * length / span);
}

static void pair_time(struct out *out, const char *name, const struct clocks *clocks,
		      uint64_t ticks)
{
	if (ticks) {
		pair_unsigned(out, name, nanoseconds(clocks, ticks));
	} else {
		key(out, name);
		put(out, "null");
	}
}

static uint64_t real_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- the parts of a report */

static void write_header(struct out *out, const struct tt_flight *flight,
			 const struct clocks *clocks, const char *why)
{
	pair_unsigned(out, "tutti_flight", 1);
	pair_text(out, "version", flight->version, sizeof(flight->version));
	pair_text(out, "job", flight->job, sizeof(flight->job));
	key(out, "communicator");
	put_byte(out, '"');
	put_hex(out, flight->comm_id, 16);
	put_byte(out, '"');
	pair_signed(out, "rank", flight->rank);
	pair_signed(out, "size", flight->size);
	pair_text(out, "host", flight->host, sizeof(flight->host));
	pair_text(out, "hostname", flight->hostname, sizeof(flight->hostname));
	pair_signed(out, "pid", flight->pid);
	pair_signed(out, "launched_as", flight->launched);
	pair_text(out, "transports", flight->transports, sizeof(flight->transports));
	pair_name(out, "why", why);
	pair_unsigned(out, "opened_ns", flight->monotonic);
	pair_unsigned(out, "monotonic_ns", clocks->monotonic[1]);
	pair_unsigned(out, "realtime_ns", real_now());
}

static void write_fault(struct out *out, const struct tt_fault *fault)
{
	key(out, "fault");
	if (!fault->result) {
		put(out, "null");
		return;
	}
	open_one(out, '{');
	pair_signed(out, "result", fault->result);
	pair_name(out, "error", tutti_strerror((tutti_result_t)fault->result));
	pair_signed(out, "rank", fault->rank);
	pair_text(out, "text", fault->text, sizeof(fault->text));
	close_one(out, '}');
}

static const char *algorithm_name(uint8_t number)
{
	for (int i = 0; tt_algorithms[i]; i++)
		if (i == number)
			return tt_algorithms[i]->name;
	return "unknown";
}

static const char *dtype_name(int dtype)
{
	const char *name = tutti_dtype_name((tutti_dtype_t)dtype);

	return name ? name : "unknown";
}

static const char *op_name(int32_t op)
{
	const char *name = tutti_op_name(op);

	return name ? name : "unknown";
}

static void write_peers(struct out *out, const struct tt_flight *flight, uint64_t place,
			const struct tt_flight_plan *plan)
{
	key(out, "peers");
	open_one(out, '[');
	for (uint64_t i = 0; i < plan->npeers; i++) {
		const struct tt_flight_peer peer = tt_flight_read_peer(flight, place, i);

		comma(out);
		open_one(out, '{');
		pair_unsigned(out, "rank", peer.rank);
		pair_unsigned(out, "sent", peer.sent);
		pair_unsigned(out, "received", peer.received);
		close_one(out, '}');
	}
	close_one(out, ']');
	pair_unsigned(out, "peers_left_out", plan->peers_left_out);
}

static void pair_op(struct out *out, int32_t op)
{
	key(out, "op");
	if (op < 0)
		put(out, "null");
	else
		put_string(out, op_name(op), 64);
	pair_signed(out, "op_number", op);
}

static void write_part(struct out *out, const struct tt_op_header *header)
{
	const char *part =
		header->part == TT_PART_GROUP ? "group" : tt_part_name((enum tt_part)header->part);

	if (part)
		pair_name(out, "part_of", part);
}

static void write_op_header(struct out *out, const struct tt_flight *flight, uint64_t place,
			    const struct tt_flight_plan *plan)
{
	const struct tt_op_header *header = &plan->header;

	comma(out);
	open_one(out, '{');
	pair_unsigned(out, "header", place);
	pair_name(out, "collective", tt_collective_name((enum tt_collective)header->collective));
	write_part(out, header);
	pair_unsigned(out, "count", tt_op_header_count(header));
	pair_name(out, "dtype", dtype_name(header->dtype));
	pair_op(out, header->op);
	pair_signed(out, "root", header->root);
	key(out, "detail"); /* a hash: no number to compute with */
	put_byte(out, '"');
	put_hex(out, header->detail, 16);
	put_byte(out, '"');
	pair_name(out, "algorithm", algorithm_name(header->algorithm));
	pair_unsigned(out, "segments", header->segments);
	write_peers(out, flight, place, plan);
	close_one(out, '}');
}

static const char *const kinds[] = { "collective", "send", "recv" };

static void write_op(struct out *out, const struct clocks *clocks, const struct tt_flight_op *op)
{
	const uint8_t kind = op->kind <= TT_FLIGHT_RECV ? op->kind : TT_FLIGHT_COLLECTIVE;

	comma(out);
	open_one(out, '{');
	pair_unsigned(out, "number", op->number);
	pair_name(out, "kind", kinds[kind]);
	pair_unsigned(out, "sequence", op->seq);
	if (kind == TT_FLIGHT_COLLECTIVE) {
		pair_unsigned(out, "header", op->what);
	} else {
		pair_signed(out, "peer", op->peer);
		pair_unsigned(out, "count", op->what);
		pair_name(out, "dtype", dtype_name(op->dtype));
		pair_unsigned(out, "bytes", op->what * tutti_dtype_size((tutti_dtype_t)op->dtype));
	}
	pair_time(out, "posted", clocks, op->posted);
	pair_time(out, "first", clocks, op->first);
	pair_time(out, "done", clocks, op->done);
	pair_signed(out, "result", op->result);
	close_one(out, '}');
}

static uint64_t last_number(const struct tt_flight *flight)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < TT_FLIGHT_OPS; i++) {
		const uint64_t number =
			atomic_load_explicit(&flight->ops[i].number, memory_order_relaxed);

		if (number % TT_FLIGHT_OPS == i && number > last)
			last = number;
	}
	return last;
}

/* The headers that operations first … last refer to, each once. */
static void write_op_headers(struct out *out, const struct tt_flight *flight, uint64_t first,
			     uint64_t last)
{
	/* one bit for each place of the ring at which a record may begin */
	uint64_t seen[TT_FLIGHT_PLANS / TT_FLIGHT_PLACES / 64] = { 0 };
	struct tt_flight_plan plan;
	struct tt_flight_op op;

	for (uint64_t number = first; number <= last; number++) {
		if (!tt_flight_read_op(flight, number, &op) || op.kind != TT_FLIGHT_COLLECTIVE)
			continue;
		const uint64_t place = op.what % TT_FLIGHT_PLANS / TT_FLIGHT_PLACES;

		if (seen[place / 64] >> place % 64 & 1 ||
		    !tt_flight_read_plan(flight, op.what, &plan))
			continue;
		seen[place / 64] |= 1ull << place % 64;
		write_op_header(out, flight, op.what, &plan);
	}
}

/* ---- calls on streams */

/* As far as is known; of a graph nobody knows. */
static const char *has_ended(const struct tt_flight *flight, const struct tt_flight_stream *call)
{
	if (call->captured)
		return "null";
	if (call->number <= atomic_load_explicit(&flight->streams_ended, memory_order_relaxed))
		return "true";
	return call->waits && call->waits <= atomic_load_explicit(&flight->streams_waits,
								  memory_order_relaxed)
		       ? "true"
		       : "false";
}

static void write_stream(struct out *out, const struct tt_flight *flight,
			 const struct clocks *clocks, const struct tt_flight_stream *call)
{
	static const char *const ways[TT_FLIGHT_WAYS] = { "stages", "windows", "rooms", "host",
							  "cliques" };
	const uint8_t kind = call->kind <= TT_FLIGHT_RECV ? call->kind : TT_FLIGHT_COLLECTIVE;

	comma(out);
	open_one(out, '{');
	pair_unsigned(out, "number", call->number);
	pair_name(out, "kind", kinds[kind]);
	if (kind == TT_FLIGHT_COLLECTIVE) {
		pair_unsigned(out, "sequence", call->sequence);
		pair_name(out, "collective",
			  tt_collective_name((enum tt_collective)call->collective));
		pair_op(out, call->op);
	}
	pair_signed(out, kind == TT_FLIGHT_COLLECTIVE ? "root" : "peer", call->root);
	pair_unsigned(out, "count", call->count);
	pair_name(out, "dtype", dtype_name(call->dtype));
	pair_signed(out, "device", call->device);
	pair_name(out, "way", call->way < TT_FLIGHT_WAYS ? ways[call->way] : "unknown");
	key(out, "captured");
	put(out, call->captured ? "true" : "false");
	pair_time(out, "posted", clocks, call->posted);
	key(out, "ended");
	put(out, has_ended(flight, call));
	close_one(out, '}');
}

static void write_streams(struct out *out, const struct tt_flight *flight,
			  const struct clocks *clocks)
{
	struct tt_flight_stream call;
	uint64_t last = 0;

	for (uint32_t i = 0; i < TT_FLIGHT_STREAMS; i++) {
		const uint64_t number =
			atomic_load_explicit(&flight->streams[i].number, memory_order_relaxed);

		if (number % TT_FLIGHT_STREAMS == i && number > last)
			last = number;
	}
	pair_unsigned(out, "streams_called", last);
	key(out, "streams");
	open_one(out, '[');
	for (uint64_t number = last > TT_FLIGHT_STREAMS ? last - TT_FLIGHT_STREAMS + 1 : 1;
	     number <= last; number++) {
		if (!tt_flight_read_stream(flight, number, &call))
			continue;
		put_byte(out, '\n');
		write_stream(out, flight, clocks, &call);
	}
	close_one(out, ']');
}

static void write_all(struct out *out, const struct tt_flight *flight, const char *why)
{
	struct clocks clocks = { .ticks = { flight->ticks }, .monotonic = { flight->monotonic } };
	const uint64_t last = last_number(flight),
		       first = last > TT_FLIGHT_OPS ? last - TT_FLIGHT_OPS + 1 : 1;
	struct tt_flight_op op;

	tt_recorder_read_clocks(flight->counter, &clocks.ticks[1], &clocks.monotonic[1]);
	open_one(out, '{');
	write_header(out, flight, &clocks, why);
	write_fault(out, &flight->fault);
	pair_unsigned(out, "operations_called", last);
	key(out, "headers");
	open_one(out, '[');
	write_op_headers(out, flight, first, last);
	close_one(out, ']');
	key(out, "operations");
	open_one(out, '[');
	for (uint64_t number = first; number <= last; number++) {
		if (!tt_flight_read_op(flight, number, &op))
			continue;
		put_byte(out, '\n');
		write_op(out, &clocks, &op);
	}
	close_one(out, ']');
	write_streams(out, flight, &clocks);
	close_one(out, '}');
	put_byte(out, '\n');
	flush(out);
}

/* ---- the file */

/* A name beside `path` that nobody else uses: several threads of a process may write the same
 * report at once. */
static void name_draft(const char *path, char *draft)
{
	static atomic_uint drafts;
	uint64_t number = (uint64_t)getpid() << 32 | atomic_fetch_add(&drafts, 1);
	size_t length = strnlen(path, TT_FLIGHT_PATH - 1);

	memcpy(draft, path, length);
	memcpy(draft + length, ".tmp", 4);
	for (length += 4; number; number >>= 4)
		draft[length++] = "0123456789abcdef"[number & 15];
	draft[length] = '\0';
}

/* The directory may have been swept away since the communicator was made. */
static bool have_directory_of(const struct tt_flight *flight)
{
	char directory[TT_FLIGHT_PATH];

	memcpy(directory, flight->report, sizeof(directory));
	*strrchr(directory, '/') = '\0';
	return tt_flight_have_directory(directory, flight->private);
}

bool tt_flight_write(const struct tt_flight *flight, const char *why)
{
	const char *path = flight->report;
	char draft[TT_FLIGHT_PATH + 32];
	struct out out = { 0 };

	if (!have_directory_of(flight))
		return false;
	name_draft(path, draft);
	out.fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out.fd < 0)
		return false;
	write_all(&out, flight, why);
	if (close(out.fd) < 0 && !out.error)
		out.error = errno;
	if (!out.error && rename(draft, path) < 0)
		out.error = errno;
	if (!out.error)
		return true;
	unlink(draft);
	errno = out.error;
	return false;
}
