/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the analysis of how ranks ended: who failed first and by itself, who left after an error,
 * whom tutti-run ended. */
#include <stdlib.h>
#include <string.h>

#include "exits.h"
#include "analysis.h"

static bool died(const struct flight *flight)
{
	return strcmp(flight->why, "died") == 0;
}

static void print_one(FILE *out, const char *what, const struct flight *flight,
		      const struct rank_exit *one)
{
	char how[192] = "";

	if (one)
		exit_describe(one, how, sizeof(how));
	fprintf(out, "  %s: rank %d (pid %d on %s)%s%s", what, flight->rank, flight->pid,
		flight->hostname, one ? ", " : "", how);
}

/* Without a time: others may have written the report long after the rank's end. */
static void print_last(FILE *out, const struct flight *flight)
{
	const struct op *last = ops_collective(&flight->ops, flight->ops.last);

	if (!last) {
		fprintf(out, "; it had called no collective\n");
		return;
	}
	fprintf(out, "; its last is operation %lld, %s", last->sequence, op_call(last));
	op_print_caller(out, last);
	fprintf(out, ", which %s\n",
		last->done == NEVER ? "it was in"
		: last->result	    ? "failed"
				    : "it had ended");
}

bool analysis_told_before(const struct flights *flights)
{
	const struct exits *exits = flights->nexits ? flights->exits : NULL;
	const struct rank_exit *first = exits_first_failure(exits);
	bool told = false;

	for (size_t i = 0; first && first->how == ENDED_BY_ERROR && i < flights->n && !told; i++) {
		const struct flight *flight = &flights->at[i];

		/* what others have written of it may have come after its end */
		told = flight->fault && !died(flight) && exits_of(exits, flight) == first;
	}
	return told;
}

/* How each of the group's ranks ended; NULL: unknown. */
static const struct rank_exit **find_ends(const struct group *group)
{
	const struct rank_exit **ends = need(calloc(group->n, sizeof(*ends)));

	for (size_t i = 0; i < group->n; i++)
		ends[i] = exits_of(group->exits, &group->at[i]);
	return ends;
}

static void print_first(FILE *out, const struct group *group, const struct flight *flight,
			const struct rank_exit *first)
{
	print_one(out, group->told_before ? "first to exit" : "first to fail", flight, first);
	if (group->told_before)
		fprintf(out, "\n");
	else
		print_last(out, flight);
}

/* Those by themselves. Without tutti-run's record nobody knows why a rank died. */
static void print_failures(FILE *out, const struct group *group, const struct rank_exit **ends,
			   const struct rank_exit *first)
{
	for (size_t i = 0; first && i < group->n; i++)
		if (ends[i] == first)
			print_first(out, group, &group->at[i], first);
	for (size_t i = 0; i < group->n; i++) {
		if (ends[i] == first && first)
			continue;
		if (ends[i] ? ends[i]->how != ENDED_BY_SIGNAL : !died(&group->at[i]))
			continue;
		print_one(out, "died", &group->at[i], ends[i]);
		print_last(out, &group->at[i]);
	}
}

bool analysis_says_last(const struct group *group, const struct flight *flight)
{
	const struct rank_exit *end = exits_of(group->exits, flight);

	if (end && end == exits_first_failure(group->exits))
		return !group->told_before;
	return end ? end->how == ENDED_BY_SIGNAL : died(flight);
}

/* "  left after an error: ranks 0, 2 (exit status 1)": those of one kind. */
static void print_alike(FILE *out, const struct group *group, const struct rank_exit **ends,
			enum ended how, const char *what, const char *code_is, const char *because)
{
	const char **said = need(calloc(group->n, sizeof(*said)));
	char(*codes)[96] = need(calloc(group->n, sizeof(*codes)));

	for (size_t i = 0; i < group->n; i++) {
		if (!ends[i] || ends[i]->how != how)
			continue;
		snprintf(codes[i], sizeof(codes[i]), "%s %d)%s", code_is, ends[i]->code, because);
		said[i] = codes[i];
	}
	print_said(out, group, what, " (", said);
	free(said);
	free(codes);
}

void analysis_print_ends(FILE *out, const struct group *group)
{
	const struct rank_exit *first = exits_first_failure(group->exits),
			       **ends = find_ends(group);

	print_failures(out, group, ends, first);
	for (size_t i = 0; i < group->n; i++)
		if (ends[i] &&
		    (ends[i] == first || (ends[i]->how == ENDED_WELL && !died(&group->at[i]))))
			ends[i] = NULL;
	if (group->exits) {
		print_alike(out, group, ends, ENDED_BY_ERROR,
			    "  left after an error: ", "exit status", "");
		print_alike(out, group, ends, ENDED_WELL,
			    "  left without tutti_comm_destroy: ", "exit status", "");
		print_alike(out, group, ends, ENDED_BY_LAUNCHER, "  ended by tutti-run: ", "signal",
			    group->exits->because);
	}
	free(ends);
}

void analysis_print_unreported(FILE *out, const struct flights *flights)
{
	const struct exits *exits = flights->nexits ? flights->exits : NULL;
	const struct rank_exit *first = exits_first_failure(exits);
	bool *reported = need(calloc(exits ? exits->n + 1 : 1, sizeof(*reported)));
	size_t found = 0;

	for (size_t i = 0; exits && i < flights->n; i++) {
		const struct rank_exit *one = exits_of(exits, &flights->at[i]);

		if (one)
			reported[one - exits->at] = true;
	}
	for (size_t i = 0; exits && i < exits->n; i++) {
		const struct rank_exit *one = &exits->at[i];
		char how[192];

		if (one->how == ENDED_WELL || one->how == ENDED_BY_LAUNCHER || reported[i] ||
		    found++ >= SHOWN)
			continue;
		exit_describe(one, how, sizeof(how));
		fprintf(out, "%s: rank %d of tutti-run (pid %d), of which there is no report, %s\n",
			one == first ? "first to fail" : "ended", one->rank, one->pid, how);
	}
	if (found > SHOWN)
		fprintf(out, "  and %zu more\n", found - SHOWN);
	free(reported);
}
