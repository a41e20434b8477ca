/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the judgement: who was silent, who differed, who was late, what took long. */
#include "exits.h"
#include "analysis.h"

#include <stdlib.h>
#include <string.h>

/* ---- what there is */

static void print_missing(FILE *out, const struct group *group)
{
	bool *missing = new_marks(group->size);

	memset(missing, true, (size_t)group->size * sizeof(*missing));
	for (size_t i = 0; i < group->n; i++)
		missing[group->at[i].rank] = false;
	if (count_marks(missing, group->size) > 0) {
		fprintf(out, "  no report: ");
		print_ranks(out, missing, group->size);
		fprintf(out,
			" (on another host, left in order before, never joined, or still writing it)\n");
	}
	free(missing);
}

static void print_faults(FILE *out, const struct group *group)
{
	const char **faults = need(calloc(group->n, sizeof(*faults)));

	for (size_t i = 0; i < group->n; i++)
		faults[i] = group->at[i].fault;
	print_said(out, group, "  revoked on ", ": ", faults);
	free(faults);
}

/* Of each communicator it is judged what ranks called themselves, and then what they called on
 * streams. Of the latter it is known when they were called, and of some by now that they have
 * ended. */
static const struct ops *ops_of(const struct flight *flight, bool on_streams)
{
	return on_streams ? &flight->streams : &flight->ops;
}

/* ---- who was silent */

/* The first collective that a rank could not end; NULL: there is none. */
static const struct op *first_unfinished(const struct ops *ops)
{
	for (size_t i = 0; i < ops->n; i++)
		if (ops->at[i].kind == COLLECTIVE && ops->at[i].end == UNFINISHED)
			return &ops->at[i];
	return NULL;
}

static void print_silent_rank(FILE *out, const struct flight *flight, bool on_streams)
{
	const struct ops *ops = ops_of(flight, on_streams);
	const struct op *last = ops_collective(ops, ops->last);
	const char *where = on_streams ? " on a stream" : "";
	char text[32];

	if (!last) {
		fprintf(out, "    rank %d has called no collective%s\n", flight->rank, where);
		return;
	}
	fprintf(out, "    rank %d: its last%s is operation %lld, %s", flight->rank, where,
		last->sequence, op_call(last));
	op_print_caller(out, last);
	if (on_streams)
		fprintf(out, ", called %s before its report was written\n",
			duration((double)(flight->realtime - last->posted), text));
	else if (last->done == NEVER)
		fprintf(out, ", which it is still in\n");
	else
		fprintf(out, ", which it ended %s before its report was written\n",
			duration((double)(flight->realtime - last->done), text));
}

/* Where the ranks that wait in it called it, if their programs say so. */
static void print_callers(FILE *out, const struct group *group, json_int_t sequence)
{
	const char **callers = need(calloc(group->n, sizeof(*callers)));

	for (size_t i = 0; i < group->n; i++) {
		const struct op *op = ops_collective(&group->at[i].ops, sequence);

		callers[i] = op && op->end == UNFINISHED ? op->caller : NULL;
	}
	print_said(out, group, "    ", " called it at ", callers);
	free(callers);
}

static void print_unfinished(FILE *out, const struct group *group, const struct op *op,
			     bool on_streams)
{
	bool *waiting = new_marks(group->size), *silent = new_marks(group->size),
	     *done = new_marks(group->size);

	for (size_t i = 0; i < group->n; i++) {
		const int rank = group->at[i].rank;
		const struct ops *ops = ops_of(&group->at[i], on_streams);
		const struct op *own = ops_collective(ops, op->sequence);

		silent[rank] = ops->last < op->sequence;
		waiting[rank] = own && own->end == UNFINISHED;
		done[rank] = !on_streams && !silent[rank] && !waiting[rank];
	}
	fprintf(out, "  %s: operation %lld, %s%s%s, on ",
		on_streams ? "on streams, not seen to end" : "unfinished", op->sequence,
		op_call(op), on_streams ? ", by " : "", on_streams ? op->way : "");
	print_ranks(out, waiting, group->size);
	if (count_marks(done, group->size) > 0) {
		fprintf(out, "; ended on ");
		print_ranks(out, done, group->size);
	}
	fprintf(out, "\n");
	if (!on_streams)
		print_callers(out, group, op->sequence);
	if (count_marks(silent, group->size) > 0) {
		fprintf(out, "  silent%s: ", on_streams ? " on streams" : "");
		print_ranks(out, silent, group->size);
		fprintf(out, " never called operation %lld\n", op->sequence);
	}
	for (size_t i = 0; i < group->n; i++)
		if (silent[group->at[i].rank] &&
		    (on_streams || !analysis_says_last(group, &group->at[i])))
			print_silent_rank(out, &group->at[i], on_streams);
	free(waiting);
	free(silent);
	free(done);
}

/* The earliest that somebody could not end: what comes later waits for it. */
static void print_silent(FILE *out, const struct group *group, bool on_streams)
{
	const struct op *earliest = NULL;
	size_t more = 0;

	for (size_t i = 0; i < group->n; i++) {
		const struct op *op = first_unfinished(ops_of(&group->at[i], on_streams));

		if (op && (!earliest || op->sequence < earliest->sequence))
			earliest = op;
	}
	if (!earliest)
		return;
	print_unfinished(out, group, earliest, on_streams);
	for (size_t i = 0; i < group->n && !on_streams; i++)
		for (size_t k = 0; k < group->at[i].ops.n; k++)
			more += group->at[i].ops.at[k].kind == COLLECTIVE &&
				group->at[i].ops.at[k].end == UNFINISHED &&
				group->at[i].ops.at[k].sequence > earliest->sequence;
	if (more)
		fprintf(out, "    %zu call%s of later operations wait%s behind it\n", more,
			more == 1 ? "" : "s", more == 1 ? "s" : "");
}

/* ---- messages */

static const struct flight *flight_of(const struct group *group, int rank)
{
	for (size_t i = 0; i < group->n; i++)
		if (group->at[i].rank == rank)
			return &group->at[i];
	return NULL;
}

/* Did `flight` call the other side of this message of `rank`? */
static bool has_counterpart(const struct flight *flight, int rank, const struct op *op)
{
	const enum kind kind = op->kind == SEND ? RECV : SEND;

	for (size_t i = 0; i < flight->ops.n; i++)
		if (flight->ops.at[i].kind == kind && flight->ops.at[i].peer == rank &&
		    flight->ops.at[i].sequence >= op->sequence)
			return true;
	return false;
}

static void print_message(FILE *out, const struct group *group, const struct flight *flight,
			  const struct op *op)
{
	const bool has_sides = op->kind != ONE_SIDED;
	const struct flight *peer = flight_of(group, op->peer);

	fprintf(out, "  unfinished: rank %d: %s", flight->rank, op_call(op));
	if (has_sides && op->peer >= 0)
		fprintf(out, ", message %lld", op->sequence);
	op_print_caller(out, op);
	if (!has_sides)
		fprintf(out, "\n");
	else if (op->peer < 0)
		fprintf(out, "; no rank has sent what it waits for\n");
	else if (!peer)
		fprintf(out, "; of rank %d there is no report\n", op->peer);
	else
		fprintf(out, "; rank %d %s called its side\n", op->peer,
			has_counterpart(peer, flight->rank, op) ? "has" : "never");
}

static void print_messages(FILE *out, const struct group *group, bool on_streams)
{
	size_t found = 0;

	for (size_t i = 0; i < group->n; i++) {
		const struct ops *ops = ops_of(&group->at[i], on_streams);

		for (size_t k = 0; k < ops->n; k++) {
			const struct op *op = &ops->at[k];

			if (op->kind == COLLECTIVE || op->end != UNFINISHED || found++ >= SHOWN)
				continue;
			if (on_streams)
				fprintf(out, "  on a stream of rank %d, not seen to end: %s\n",
					group->at[i].rank, op_call(op));
			else
				print_message(out, group, &group->at[i], op);
		}
	}
	print_more(out, found, "message", on_streams ? " on streams" : "");
}

/* ---- operations that several ranks know */

/* The same collective on all ranks of a group that still have it. */
struct meeting {
	bool on_streams;
	json_int_t sequence;
	size_t n;	      /* ranks that have it */
	const struct op **op; /* [group->n]; NULL where a rank does not */
	size_t *next;	      /* [group->n]: where to look for its next one */
};

/* Before the first one. */
static struct meeting meeting_begin(const struct group *group, bool on_streams)
{
	return (struct meeting){ .on_streams = on_streams,
				 .op = need(calloc(group->n, sizeof(const struct op *))),
				 .next = need(calloc(group->n, sizeof(size_t))) };
}

static void meeting_finish(struct meeting *meeting)
{
	free(meeting->op);
	free(meeting->next);
}

/* Go on to the next one, in order; false: there is none. */
static bool meeting_next(const struct group *group, struct meeting *meeting)
{
	meeting->sequence = INT64_MAX;
	meeting->n = 0;
	for (size_t i = 0; i < group->n; i++) {
		const struct ops *ops = ops_of(&group->at[i], meeting->on_streams);
		size_t *next = &meeting->next[i];

		while (*next < ops->n && ops->at[*next].kind != COLLECTIVE)
			++*next;
		meeting->op[i] = *next < ops->n ? &ops->at[*next] : NULL;
		if (meeting->op[i] && meeting->op[i]->sequence < meeting->sequence)
			meeting->sequence = meeting->op[i]->sequence;
	}
	for (size_t i = 0; i < group->n; i++) {
		if (meeting->op[i] && meeting->op[i]->sequence != meeting->sequence)
			meeting->op[i] = NULL;
		meeting->n += meeting->op[i] != NULL;
		meeting->next[i] += meeting->op[i] != NULL;
	}
	return meeting->n > 0;
}

/* ---- who differed */

/* Of calls whose header is no longer known nobody knows. */
static bool same_call(const struct op *a, const struct op *b)
{
	if (!a->header || !b->header)
		return a->header == b->header;
	return strcmp(a->header->key, b->header->key) == 0;
}

static void print_difference(const struct group *group, const struct meeting *meeting, FILE *out)
{
	bool plain = true; /* the calls look different, so how they are done need not be said */

	for (size_t i = 0; i < group->n; i++)
		for (size_t k = 0; k < i; k++)
			if (meeting->op[i] && meeting->op[k] &&
			    !same_call(meeting->op[i], meeting->op[k]))
				plain &= strcmp(op_call(meeting->op[i]), op_call(meeting->op[k])) !=
					 0;
	fprintf(out, "  differed%s: operation %lld:\n", meeting->on_streams ? " on streams" : "",
		meeting->sequence);
	for (size_t i = 0; i < group->n; i++) {
		bool *same = new_marks(group->size), told = false;

		for (size_t k = 0; meeting->op[i] && k < group->n; k++) {
			if (!meeting->op[k] || !same_call(meeting->op[i], meeting->op[k]))
				continue;
			told |= k < i;
			same[group->at[k].rank] = true;
		}
		if (meeting->op[i] && !told) {
			fprintf(out, "    ");
			print_ranks(out, same, group->size);
			fprintf(out, " called %s", op_call(meeting->op[i]));
			if (!plain && meeting->op[i]->header)
				fprintf(out, " %s", meeting->op[i]->header->how);
			fprintf(out, "\n");
		}
		free(same);
	}
}

static bool differs(const struct group *group, const struct meeting *meeting)
{
	const struct op *one = NULL;
	bool differ = false;

	for (size_t i = 0; i < group->n; i++) {
		if (!meeting->op[i] || !meeting->op[i]->header)
			continue;
		one = one ? one : meeting->op[i];
		differ |= !same_call(one, meeting->op[i]);
	}
	return differ;
}

static void print_different(FILE *out, const struct group *group, bool on_streams)
{
	struct meeting meeting = meeting_begin(group, on_streams);
	size_t found = 0;

	while (meeting_next(group, &meeting))
		if (differs(group, &meeting) && found++ < SHOWN)
			print_difference(group, &meeting, out);
	print_more(out, found, "operation", "");
	meeting_finish(&meeting);
}

/* ---- who was late, and what took long */

struct lateness {
	size_t times; /* it was the last to call */
	double alone; /* ns while all others waited for it */
	double longest;
	json_int_t longest_in; /* sequence */
};

struct slow {
	int64_t time; /* from the last call to the last end */
	const struct op *op;
};

struct course {
	size_t met;	       /* operations that all ranks called */
	struct lateness *late; /* [group->n] */
	struct slow slow[SHOWN];
	size_t nslow;
};

static void note_slow(struct course *course, int64_t time, const struct op *op)
{
	size_t at = course->nslow;

	if (at < SHOWN)
		course->nslow++;
	else if (course->slow[--at].time >= time)
		return;
	for (; at > 0 && course->slow[at - 1].time < time; at--)
		course->slow[at] = course->slow[at - 1];
	course->slow[at] = (struct slow){ time, op };
}

static void follow(struct course *course, const struct group *group, const struct meeting *meeting)
{
	size_t last = 0;
	bool ended = true;
	int64_t before = NEVER, end = NEVER;

	if (meeting->n < (size_t)group->size)
		return;
	course->met++;
	for (size_t i = 1; i < group->n; i++)
		if (meeting->op[i]->posted > meeting->op[last]->posted)
			last = i;
	for (size_t i = 0; i < group->n; i++) {
		if (i != last && meeting->op[i]->posted > before)
			before = meeting->op[i]->posted;
		ended &= meeting->op[i]->end == ENDED;
		if (meeting->op[i]->done > end)
			end = meeting->op[i]->done;
	}
	struct lateness *late = &course->late[last];
	const double alone = (double)(meeting->op[last]->posted - before);
	late->times++;
	late->alone += alone;
	if (alone > late->longest) {
		late->longest = alone;
		late->longest_in = meeting->sequence;
	}
	if (ended)
		note_slow(course, end - meeting->op[last]->posted, meeting->op[last]);
}

static void print_course(FILE *out, const struct group *group)
{
	struct course course = { .late = need(calloc(group->n, sizeof(*course.late))) };
	struct meeting meeting = meeting_begin(group, false);
	char all[32], longest[32];

	while (group->size > 1 && meeting_next(group, &meeting))
		follow(&course, group, &meeting);
	meeting_finish(&meeting);
	if (course.met > 0)
		fprintf(out, "  late, in %zu operation%s that all ranks called:\n", course.met,
			course.met == 1 ? "" : "s");
	for (size_t shown = 0; course.met > 0 && shown < SHOWN; shown++) {
		size_t worst = 0;

		for (size_t i = 1; i < group->n; i++)
			if (course.late[i].alone > course.late[worst].alone)
				worst = i;
		struct lateness *late = &course.late[worst];
		if (late->times == 0 || late->alone < 0)
			break;
		fprintf(out,
			"    rank %d was last in %zu (%.0f%%); the others waited for it alone %s, at most %s in operation %lld\n",
			group->at[worst].rank, late->times,
			100.0 * (double)late->times / (double)course.met,
			duration(late->alone, all), duration(late->longest, longest),
			late->longest_in);
		late->alone = -1; /* told */
	}
	if (course.nslow > 0)
		fprintf(out, "  slowest, from the last call to the last end:\n");
	for (size_t i = 0; i < course.nslow; i++)
		fprintf(out, "    %s: operation %lld, %s %s\n",
			duration((double)course.slow[i].time, all), course.slow[i].op->sequence,
			op_call(course.slow[i].op),
			course.slow[i].op->header ? course.slow[i].op->header->how : "");
	free(course.late);
}

/* ---- all */

static bool several_hosts(const struct group *group)
{
	for (size_t i = 1; i < group->n; i++)
		if (strcmp(group->at[i].host, group->at[0].host) != 0)
			return true;
	return false;
}

static void print_group(FILE *out, const struct group *group)
{
	fprintf(out, "communicator %s: %zu of %d rank%s", group->at[0].communicator, group->n,
		group->size, group->size == 1 ? "" : "s");
	if (several_hosts(group))
		fprintf(out,
			", on several hosts: their times are as comparable as their clocks are alike");
	fprintf(out, "\n");
	print_missing(out, group);
	if (group->told_before)
		print_faults(out, group);
	analysis_print_ends(out, group);
	if (!group->told_before)
		print_faults(out, group);
	for (int on_streams = 0; on_streams < 2; on_streams++) {
		print_silent(out, group, on_streams);
		print_messages(out, group, on_streams);
		print_different(out, group, on_streams);
	}
	print_course(out, group);
}

void analysis_print(FILE *out, const struct flights *flights)
{
	const struct exits *exits = flights->nexits ? flights->exits : NULL;
	const bool told_before = analysis_told_before(flights);

	fprintf(out, "job %s\n", flights->n ? flights->at[0].job : exits->job);
	analysis_print_unreported(out, flights);
	for (size_t first = 0; first < flights->n;) {
		struct group group = { .at = &flights->at[first],
				       .size = flights->at[first].size,
				       .exits = exits,
				       .told_before = told_before };

		while (first < flights->n &&
		       strcmp(flights->at[first].communicator, group.at->communicator) == 0 &&
		       flights->at[first].size == group.size) {
			group.n++;
			first++;
		}
		print_group(out, &group);
	}
}
