/* SPDX-License-Identifier: BSD-3-Clause */
/* The reports of one communicator, and words for sets of its ranks. */
#ifndef TRACE_GROUP_H
#define TRACE_GROUP_H

#include <stdio.h>

#include "flights.h"

#define SHOWN 5 /* of a kind; how many more there are is said */

/* In order of ranks. */
struct group {
	const struct flight *at;
	size_t n;
	int size;
	const struct exits *exits; /* of its job; NULL: unknown */
	bool told_before; /* the first that failed by itself knew that a communicator was revoked: it
			     left because of that */
};

/* One mark for each of so many ranks; to be freed. */
bool *new_marks(int size);
int count_marks(const bool *marks, int size);
/* "rank 3", "ranks 0-2, 5" of those with a mark. */
void print_ranks(FILE *out, const bool *marked, int size);
/* For each text of `said`, which has one or NULL for each report of the group, a line: `before`, the
 * ranks of which it is said, `after`, the text. */
void print_said(FILE *out, const struct group *group, const char *before, const char *after,
		const char *const *said);
/* "    and 3 more messages on streams", where more were found than are shown. */
void print_more(FILE *out, size_t found, const char *what, const char *where);
const char *duration(double ns, char text[32]);

#endif
