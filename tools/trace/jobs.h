/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of which there are files. */
#ifndef TRACE_JOBS_H
#define TRACE_JOBS_H

#include <stdio.h>

#include "flights.h"

/* Keep one job's files: those of `name`, or of the last one to have lived where that is NULL. False:
 * there is none. */
bool jobs_select(struct flights *flights, const char *name);
/* A line for each. */
void jobs_print(FILE *out, const struct flights *flights);

#endif
