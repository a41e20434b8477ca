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
	fprintf(out, "  %s: rank %d (pid %d on %s)%s%s\n", what, flight->rank, flight->pid,
		flight->hostname, one ? ", " : "", how);
}

/* How each of the group's ranks ended; NULL: unknown. */
static const struct rank_exit **find_ends(const struct group *group)
{
	const struct rank_exit **ends = need(calloc(group->n, sizeof(*ends)));

	for (size_t i = 0; i < group->n; i++)
		ends[i] = exits_of(group->exits, &group->at[i]);
	return ends;
}

/* Those by themselves. Without tutti-run's record nobody knows why a rank died. */
static void print_failures(FILE *out, const struct group *group, const struct rank_exit **ends,
			   const struct rank_exit *first)
{
	for (size_t i = 0; first && i < group->n; i++)
		if (ends[i] == first)
			print_one(out, "first to fail", &group->at[i], first);
	for (size_t i = 0; i < group->n; i++)
		if (ends[i] ? ends[i]->how == ENDED_BY_SIGNAL && ends[i] != first
			    : died(&group->at[i]))
			print_one(out, "died", &group->at[i], ends[i]);
}

/* "  left after an error: ranks 0, 2 (exit status 1)": those of one kind, codes in turn. Those that
 * are told are forgotten. */
static void print_alike(FILE *out, const struct group *group, const struct rank_exit **ends,
			enum ended how, const char *what, const char *code_is, const char *because)
{
	for (size_t i = 0; i < group->n; i++) {
		if (!ends[i] || ends[i]->how != how)
			continue;
		const int code = ends[i]->code;
		bool *alike = new_marks(group->size);

		for (size_t k = i; k < group->n; k++) {
			if (!ends[k] || ends[k]->how != how || ends[k]->code != code)
				continue;
			alike[group->at[k].rank] = true;
			ends[k] = NULL;
		}
		fprintf(out, "  %s: ", what);
		print_ranks(out, alike, group->size);
		fprintf(out, " (%s %d)%s\n", code_is, code, because);
		free(alike);
	}
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
		print_alike(out, group, ends, ENDED_BY_ERROR, "left after an error", "exit status",
			    "");
		print_alike(out, group, ends, ENDED_WELL, "left without tutti_comm_destroy",
			    "exit status", "");
		print_alike(out, group, ends, ENDED_BY_LAUNCHER, "ended by tutti-run", "signal",
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
