/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the writing of reports, with nothing but system calls and memory on the stack, as it must be
 * possible in a signal's handler. What is empty is left out: the file has holes there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "flight_report.h"
#include "names.h"
#include "recorder.h"
#include "registry.h"

#define BATCH 32u /* lines or, of plans, 64 bytes, that are copied at a time */

struct out {
	int fd;
	int error; /* errno of the first write that failed */
};

/* At this place of the file. */
static void put(struct out *out, size_t at, const void *bytes, size_t length)
{
	if (!out->error)
		out->error = tt_file_write(out->fd, at, bytes, length);
}

/* ---- the parts */

static void write_ops(struct out *out, const struct tt_flight *flight)
{
	struct tt_flight_op lines[BATCH];

	for (uint32_t first = 0; first < TT_FLIGHT_OPS; first += BATCH) {
		bool some = false;

		memset(lines, 0, sizeof(lines));
		for (uint32_t i = 0; i < BATCH; i++) {
			const uint64_t number = atomic_load_explicit(&flight->ops[first + i].number,
								     memory_order_relaxed);

			if (number == 0 || number % TT_FLIGHT_OPS != first + i)
				continue;
			if (tt_flight_read_op(flight, number, &lines[i]))
				some = true;
			else /* it is written again */
				memset(&lines[i], 0, sizeof(lines[i]));
		}
		if (some)
			put(out, TT_FLIGHT_REPORT_AT + offsetof(struct tt_flight, ops[first]),
			    lines, sizeof(lines));
	}
}

/* Of lines that are words; number n at n modulo their count. */
static void write_lines(struct out *out, const struct tt_flight *flight, const void *lines,
			size_t bytes, uint32_t count)
{
	uint64_t line[sizeof(struct tt_flight_caller) / 8]; /* the longer one */

	for (uint32_t i = 0; i < count; i++) {
		const void *from = (const uint8_t *)lines + i * bytes;
		const size_t at = (size_t)((const uint8_t *)from - (const uint8_t *)flight);
		const uint64_t number =
			atomic_load_explicit((const _Atomic uint64_t *)from, memory_order_relaxed);

		if (number % count == i && tt_flight_read_line(from, number, line, bytes))
			put(out, TT_FLIGHT_REPORT_AT + at, line, bytes);
	}
}

/* Word by word; whoever reads a record in the copy finds by `plans_end`, which is read behind them,
 * whether it was written over meanwhile. */
static void write_plans(struct out *out, const struct tt_flight *flight)
{
	uint64_t words[BATCH * 8];
	const uint64_t end = atomic_load_explicit(&flight->plans_end, memory_order_relaxed);

	for (size_t first = 0; first < TT_FLIGHT_PLANS / 8 && first * 8 < end; first += BATCH * 8) {
		for (size_t i = 0; i < BATCH * 8; i++)
			/* acquire: pairs with the release in tt_recorder_plan(), for the words
			 * behind a record's place */
			words[i] = atomic_load_explicit(&flight->plans[first + i],
							memory_order_acquire);
		put(out, TT_FLIGHT_REPORT_AT + offsetof(struct tt_flight, plans[first]), words,
		    sizeof(words));
	}
}

/* All in front of the operations, and what stands behind the calls on streams. */
static void write_rest(struct out *out, const struct tt_flight *flight)
{
	const uint64_t ended = atomic_load_explicit(&flight->streams_ended, memory_order_relaxed),
		       waits = atomic_load_explicit(&flight->streams_waits, memory_order_relaxed);

	put(out, TT_FLIGHT_REPORT_AT, flight, offsetof(struct tt_flight, plans_end) + 8);
	put(out, TT_FLIGHT_REPORT_AT + offsetof(struct tt_flight, streams_ended), &ended,
	    sizeof(ended));
	put(out, TT_FLIGHT_REPORT_AT + offsetof(struct tt_flight, streams_waits), &waits,
	    sizeof(waits));
}

static void copy_name(char out[TT_FLIGHT_NAME], const char *name)
{
	if (name)
		memcpy(out, name, strnlen(name, TT_FLIGHT_NAME - 1));
}

static void fill_names(struct tt_flight_report *head)
{
	static_assert(TT_COLLECTIVE_COUNT <= sizeof(head->collectives) / TT_FLIGHT_NAME &&
			      TT_PART_COUNT <= sizeof(head->parts) / TT_FLIGHT_NAME,
		      "each has a name");
	const int most = (int)(sizeof(head->algorithms) / TT_FLIGHT_NAME);

	for (int i = 0; i < TT_COLLECTIVE_COUNT; i++) {
		copy_name(head->collectives[i], tt_collective_name((enum tt_collective)i));
		head->own_counts[i] = tt_collective_knows_own_counts((enum tt_collective)i);
	}
	for (int i = 0; i < TT_PART_COUNT; i++)
		copy_name(head->parts[i],
			  i == TT_PART_GROUP ? "group" : tt_part_name((enum tt_part)i));
	for (int i = 0; i < most && tt_algorithms[i]; i++)
		copy_name(head->algorithms[i], tt_algorithms[i]->name);
}

static void write_head(struct out *out, const struct tt_flight *flight, const char *why)
{
	struct tt_flight_report head = { .magic = TT_FLIGHT_REPORT_MAGIC,
					 .flight_magic = TT_FLIGHT_MAGIC,
					 .head_bytes = TT_FLIGHT_REPORT_AT,
					 .flight_bytes = sizeof(*flight) };
	struct timespec now;

	memcpy(head.version, flight->version, sizeof(head.version));
	memcpy(head.why, why, strnlen(why, sizeof(head.why) - 1));
	tt_recorder_read_clocks(flight->counter, &head.ticks, &head.monotonic);
	clock_gettime(CLOCK_REALTIME, &now);
	head.realtime = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	fill_names(&head);
	put(out, 0, &head, sizeof(head));
}

static void write_all(struct out *out, const struct tt_flight *flight, const char *why)
{
	if (tt_file_resize(out->fd, TT_FLIGHT_REPORT_AT + sizeof(*flight)) < 0)
		out->error = errno;
	write_ops(out, flight);
	write_lines(out, flight, flight->streams, sizeof(flight->streams[0]), TT_FLIGHT_STREAMS);
	write_lines(out, flight, flight->callers, sizeof(flight->callers[0]), TT_FLIGHT_CALLERS);
	write_plans(out, flight);
	write_rest(out, flight);
	write_head(out, flight, why);
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
