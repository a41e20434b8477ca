/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be told of a job from its ranks' reports. */
#ifndef TRACE_ANALYSIS_H
#define TRACE_ANALYSIS_H

#include <stdio.h>

#include "flights.h"

/* The reports of one communicator, in order of ranks. */
struct group {
	const struct flight *at;
	size_t n;
	int size;
	const struct exits *exits; /* of its job; NULL: unknown */
	bool told_before; /* the first that failed by itself knew that a communicator was revoked: it
			     left because of that */
};

/* group.c: words for sets of its ranks, and for times. */

#define SHOWN 5 /* of a kind; how many more there are is said */

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

/* analysis.c: for each communicator who is missing, what the fault was, what could not end and who
 * was silent in it, who differed, who was late, what took longest. */
void analysis_print(FILE *out, const struct flights *flights);

/* ends.c: did the first that failed by itself know by then that a communicator was revoked? Then
 * that is what came first. */
bool analysis_told_before(const struct flights *flights);
/* ends.c: has analysis_print_ends() said of the rank which operation was its last? */
bool analysis_says_last(const struct group *group, const struct flight *flight);
/* ends.c: how the group's ranks ended. */
void analysis_print_ends(FILE *out, const struct group *group);
/* ends.c: of ranks that failed, those of which there is no report. */
void analysis_print_unreported(FILE *out, const struct flights *flights);

/* chrome.c: the operations in Chrome's trace format. False: errno tells. */
bool chrome_write(const struct flights *flights, const char *path);

#endif
