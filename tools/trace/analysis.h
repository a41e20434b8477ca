/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be told of a job from its ranks' reports. */
#ifndef TRACE_ANALYSIS_H
#define TRACE_ANALYSIS_H

#include <stdio.h>

#include "group.h"

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

/* streams.c: of calls on streams, who differed, which have not been seen to end, and who was
 * silent in them. */
void analysis_print_streams(FILE *out, const struct group *group);

/* chrome.c: the operations in Chrome's trace format. False: errno tells. */
bool chrome_write(const struct flights *flights, const char *path);

#endif
