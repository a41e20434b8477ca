/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns words for sets of ranks, and for times. */
#include "analysis.h"

#include <stdlib.h>
#include <string.h>

const char *duration(double ns, char text[32])
{
	const double s = ns / 1e9;

	if (s < 0.9995e-6)
		snprintf(text, 32, "%.0f ns", ns);
	else if (s < 0.9995e-3)
		snprintf(text, 32, "%.3g µs", s * 1e6);
	else if (s < 0.9995)
		snprintf(text, 32, "%.3g ms", s * 1e3);
	else
		snprintf(text, 32, "%.4g s", s);
	return text;
}

void print_ranks(FILE *out, const bool *marked, int size)
{
	const char *before = "";

	fprintf(out, count_marks(marked, size) == 1 ? "rank " : "ranks ");
	for (int rank = 0; rank < size; rank++) {
		int last = rank;

		if (!marked[rank])
			continue;
		while (last + 1 < size && marked[last + 1])
			last++;
		fprintf(out,
			last > rank + 1 ? "%s%d-%d"
			: last > rank	? "%s%d, %d"
					: "%s%d",
			before, rank, last);
		before = ", ";
		rank = last;
	}
}

bool *new_marks(int size)
{
	return need(calloc((size_t)size, sizeof(bool)));
}

int count_marks(const bool *marks, int size)
{
	int count = 0;

	for (int rank = 0; rank < size; rank++)
		count += marks[rank];
	return count;
}

void print_said(FILE *out, const struct group *group, const char *before, const char *after,
		const char *const *said)
{
	for (size_t i = 0; i < group->n; i++) {
		bool *alike = new_marks(group->size), told = false;

		for (size_t k = 0; said[i] && k < group->n; k++) {
			if (!said[k] || strcmp(said[k], said[i]) != 0)
				continue;
			told |= k < i;
			alike[group->at[k].rank] = true;
		}
		if (said[i] && !told) {
			fputs(before, out);
			print_ranks(out, alike, group->size);
			fprintf(out, "%s%s\n", after, said[i]);
		}
		free(alike);
	}
}

void print_more(FILE *out, size_t found, const char *what, const char *where)
{
	if (found > SHOWN)
		fprintf(out, "    and %zu more %s%s%s\n", found - SHOWN, what,
			found - SHOWN == 1 ? "" : "s", where);
}
