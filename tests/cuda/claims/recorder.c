/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what the flight recorder has of calls on streams. */
#include "claims.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "flight_report.h"

/* The report at `path`, as far as it is one of a communicator that has calls on streams. */
static bool read_report(const char *path, struct tt_flight *flight)
{
	FILE *file = fopen(path, "re");
	bool good = file && fseek(file, TT_FLIGHT_REPORT_AT, SEEK_SET) == 0 &&
		    fread(flight, sizeof(*flight), 1, file) == 1;

	if (file)
		fclose(file);
	for (uint32_t i = 0; good && i < TT_FLIGHT_STREAMS; i++)
		if (flight->streams[i].number > 0)
			return true;
	return false;
}

/* The rank's own report, made now, of the communicator that has calls on streams. */
static bool report_now(const struct gpu_rank *r, struct tt_flight *flight)
{
	char pattern[512];
	glob_t paths;
	bool found = false;

	raise(SIGUSR1);
	snprintf(pattern, sizeof(pattern), "%s/*.%d" TT_FLIGHT_REPORT_SUFFIX, getenv("TUTTI_TRACE"),
		 r->rank);
	if (glob(pattern, 0, NULL, &paths))
		return false;
	for (size_t i = 0; i < paths.gl_pathc && !found; i++)
		found = read_report(paths.gl_pathv[i], flight);
	globfree(&paths);
	return found;
}

enum said { ENDED, NOT_ENDED, CAPTURED, BY_GPUS, BY_HOST, BY_CLIQUES };

static bool is_so(const struct tt_flight *flight, const struct tt_flight_stream *call,
		  enum said said)
{
	const bool ended = call->number <= flight->streams_ended ||
			   (call->waits && call->waits <= flight->streams_waits);

	switch (said) {
	case ENDED: return !call->captured && ended;
	case NOT_ENDED: return !call->captured && !ended;
	case CAPTURED: return call->captured;
	case BY_GPUS:
		return !call->captured &&
		       (call->way == TT_FLIGHT_STAGES || call->way == TT_FLIGHT_DIRECT ||
			call->way == TT_FLIGHT_LINES);
	case BY_HOST: return !call->captured && call->way == TT_FLIGHT_BY_HOST;
	case BY_CLIQUES: return !call->captured && call->way == TT_FLIGHT_CLIQUES;
	}
	return false;
}

/* Look until the call with so many elements is said to be so: what has ended is known a few
 * milliseconds later. */
static void await_said(const struct gpu_rank *r, size_t count, enum said said)
{
	struct tt_flight *flight = aligned_alloc(4096, sizeof(*flight));
	bool so = false;

	while (flight && !so) {
		const bool found = report_now(r, flight);

		for (uint32_t i = 0; found && i < TT_FLIGHT_STREAMS; i++)
			so |= flight->streams[i].number > 0 && flight->streams[i].count == count &&
			      is_so(flight, &flight->streams[i], said);
	}
	free(flight);
}

static tutti_result_t put_behind(struct gpu_rank *r, struct vector x, struct vector y, size_t n,
				 bool messages)
{
	return messages ? swap(r, part(x, 0, n), part(y, 0, n))
			: reduce_all(r, part(x, 0, n), x, TUTTI_MAX);
}

/* One of `n` elements has ended, and one of fewer, or messages, wait for the last rank. */
static int one_waits_behind_another(struct gpu_rank *r, struct vector x, struct vector y, size_t n,
				    bool messages, atomic_int *came)
{
	const int before = atomic_load(came) / r->size, absent = r->size - 1;
	tutti_comm_t comm = r->comm;

	SUCCEEDS(reduce_all(r, part(x, 0, n), x, TUTTI_MAX));
	if (r->rank != absent) {
		SUCCEEDS(put_behind(r, x, y, n - 1, messages));
		if (!by_host()) /* there only all or nothing is known */
			await_said(r, n, ENDED);
		if (!messages || rank_before(r) == absent)
			await_said(r, n - 1, NOT_ENDED);
	}
	meet_at(came, (before + 1) * r->size);
	if (r->rank == absent)
		SUCCEEDS(put_behind(r, x, y, n - 1, messages));
	WORKS(gpu_finish(r->stream));
	await_said(r, n - 1, ENDED);
	return 0;
}

/* One that has ended, messages that have, one that has behind which another waits for the last rank,
 * and one in a graph. */
GPU_JOB(calls_are_in_the_flight_recorder, .recorded = true)
{
	const enum said way = by_cliques() ? BY_CLIQUES : by_host() ? BY_HOST : BY_GPUS;
	struct vector x, y;

	TRY(take(comm, &y, few) || begin(r, &x, came));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_MAX));
	WORKS(gpu_finish(r->stream));
	await_said(r, few, way);
	await_said(r, few, ENDED);
	SUCCEEDS(swap(r, part(x, 0, few - 4), part(y, 0, few - 4)));
	WORKS(gpu_finish(r->stream));
	await_said(r, few - 4, ENDED);
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(reduce_all(r, part(x, 0, few - 3), x, TUTTI_MAX));
	gpu_graph_t graph = gpu_captured(r->stream);
	WORKS(graph);
	TRY(ready(comm));
	WORKS(gpu_launch(graph, r->stream));
	await_said(r, few - 3, CAPTURED);
	TRY(one_waits_behind_another(r, x, y, few - 1, false, came) ||
	    one_waits_behind_another(r, x, y, few - 5, true, came));
	WORKS(gpu_graph_free(graph));
	return 0;
}
