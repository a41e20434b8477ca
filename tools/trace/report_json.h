/* SPDX-License-Identifier: BSD-3-Clause */
/* A report as JSON, in the form of docs/reference/trace.md. */
#ifndef TRACE_REPORT_JSON_H
#define TRACE_REPORT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Do the first bytes of a file say that it is a report, and not JSON? */
bool report_begins(const void *bytes, size_t length);
/* The report in these bytes, of which nothing is believed; NULL: `*why` says what is wrong with
 * them, as in "is a truncated report". */
json_t *report_json(const void *bytes, size_t length, const char **why);

#endif
