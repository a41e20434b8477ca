/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns words for sets of ranks, and for times. */
#include "group.h"

#include <stdlib.h>

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
	int count = 0;
	const char *before = "";

	for (int rank = 0; rank < size; rank++)
		count += marked[rank];
	fprintf(out, count == 1 ? "rank " : "ranks ");
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
