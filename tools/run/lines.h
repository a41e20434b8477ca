/* SPDX-License-Identifier: BSD-3-Clause */
/* What one rank writes to one of its streams: lines with its label, or bytes as they are. */
#ifndef RUN_LINES_H
#define RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "sink.h"

enum { LINES_LAST = 5, LINES_LAST_BYTES = 1024 };

struct lines {
	struct sink *sink;
	char label[32]; /* "": bytes are passed on as they are */
	char *partial;	/* the line that is not complete yet, with its carriage returns */
	size_t length, capacity;
	size_t passed;			/* bytes of `partial` that the sink has already; no label */
	char (*last)[LINES_LAST_BYTES]; /* ring of the last lines that say something */
	unsigned long last_count;
};

void lines_init(struct lines *lines, struct sink *sink, int rank, bool label);
/* Bytes have arrived. */
void lines_feed(struct lines *lines, const char *bytes, size_t count);
/* No more will: a last line without a newline gets one if it has a label. */
void lines_end(struct lines *lines);
void lines_finish(struct lines *lines);

/* The last lines, oldest first: how many, and the i-th of them. */
int lines_last_count(const struct lines *lines);
const char *lines_last(const struct lines *lines, int i);

#endif
