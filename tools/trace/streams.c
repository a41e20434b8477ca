/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is told of calls on streams. Of those it is known when they were made, and of some
 * by now that they have ended. */
#include <stdlib.h>
#include <string.h>

#include "analysis.h"

/* The collective on a stream with this sequence number; NULL: it was not called, or is too long
 * ago. */
static const struct stream_call *collective_of(const struct flight *flight, json_int_t sequence)
{
	for (size_t i = 0; i < flight->nstreams; i++)
		if (flight->streams[i].kind == COLLECTIVE &&
		    flight->streams[i].sequence == sequence)
			return &flight->streams[i];
	return NULL;
}

/* ---- who differed */

/* Do ranks call different things as the one with this sequence number? They are told if it is one of
 * the first that are `found`. */
static bool compare_calls(FILE *out, const struct group *group, json_int_t sequence, size_t found)
{
	const char **calls = need(calloc(group->n, sizeof(*calls))), *one = NULL;
	bool differ = false;

	for (size_t i = 0; i < group->n; i++) {
		const struct stream_call *call = collective_of(&group->at[i], sequence);

		if (!call)
			continue;
		calls[i] = call->call;
		one = one ? one : call->call;
		differ |= strcmp(one, call->call) != 0;
	}
	if (differ && found < SHOWN) {
		fprintf(out, "  differed on streams: operation %lld:\n", sequence);
		print_said(out, group, "    ", " called ", calls);
	}
	free(calls);
	return differ;
}

/* Of one of the ranks that have the most, which has all that can be compared. */
static void print_different(FILE *out, const struct group *group)
{
	size_t most = 0, found = 0;

	for (size_t i = 1; i < group->n; i++)
		if (group->at[i].last_stream > group->at[most].last_stream)
			most = i;
	for (size_t k = 0; k < group->at[most].nstreams; k++) {
		const struct stream_call *call = &group->at[most].streams[k];

		if (call->kind == COLLECTIVE)
			found += compare_calls(out, group, call->sequence, found);
	}
	print_more(out, found, "operation", "");
}

/* ---- who was silent */

static void print_last(FILE *out, const struct flight *flight)
{
	const struct stream_call *last = collective_of(flight, flight->last_stream);
	char text[32];

	if (!last)
		fprintf(out, "    rank %d has called no collective on a stream\n", flight->rank);
	else
		fprintf(out,
			"    rank %d: its last on a stream is operation %lld, %s, called %s before its report was written\n",
			flight->rank, last->sequence, last->call,
			duration((double)(flight->realtime - last->posted), text));
}

/* `call`: the earliest that somebody's streams were not seen to end. */
static void print_unfinished(FILE *out, const struct group *group, const struct stream_call *call)
{
	bool *waiting = new_marks(group->size), *silent = new_marks(group->size);

	for (size_t i = 0; i < group->n; i++) {
		const struct flight *flight = &group->at[i];
		const struct stream_call *own = collective_of(flight, call->sequence);

		waiting[flight->rank] = own && own->end == NOT_SEEN;
		silent[flight->rank] = flight->last_stream < call->sequence;
	}
	fprintf(out, "  on streams, not seen to end: operation %lld, %s, by %s, on ",
		call->sequence, call->call, call->way);
	print_ranks(out, waiting, group->size);
	fprintf(out, "\n");
	if (count_marks(silent, group->size) > 0) {
		fprintf(out, "  silent on streams: ");
		print_ranks(out, silent, group->size);
		fprintf(out, " never called operation %lld\n", call->sequence);
	}
	for (size_t i = 0; i < group->n; i++)
		if (silent[group->at[i].rank])
			print_last(out, &group->at[i]);
	free(waiting);
	free(silent);
}

static void print_silent(FILE *out, const struct group *group)
{
	const struct stream_call *earliest = NULL;

	for (size_t i = 0; i < group->n; i++) {
		for (size_t k = 0; k < group->at[i].nstreams; k++) {
			const struct stream_call *call = &group->at[i].streams[k];

			if (call->kind == COLLECTIVE && call->end == NOT_SEEN &&
			    (!earliest || call->sequence < earliest->sequence))
				earliest = call;
		}
	}
	if (earliest)
		print_unfinished(out, group, earliest);
}

/* ---- messages */

static void print_messages(FILE *out, const struct group *group)
{
	size_t found = 0;

	for (size_t i = 0; i < group->n; i++) {
		for (size_t k = 0; k < group->at[i].nstreams; k++) {
			const struct stream_call *call = &group->at[i].streams[k];

			if (call->kind != COLLECTIVE && call->end == NOT_SEEN && found++ < SHOWN)
				fprintf(out, "  on a stream of rank %d, not seen to end: %s\n",
					group->at[i].rank, call->call);
		}
	}
	print_more(out, found, "message", " on streams");
}

void analysis_print_streams(FILE *out, const struct group *group)
{
	print_silent(out, group);
	print_messages(out, group);
	print_different(out, group);
}
