/* SPDX-License-Identifier: BSD-3-Clause */
/* One place that output goes to: standard output or standard error of tutti-run. */
#ifndef RUN_SINK_H
#define RUN_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct sink {
	int fd;
	bool terminal;
	bool colour;
	bool broken; /* cannot be written to any more: what is put in is dropped */
	int error;   /* why something was not written, if not because nobody reads */
	char *queue; /* not written yet: `length` bytes from `head` on */
	size_t head, length, capacity;
	bool midline; /* the last byte put in ended no line */
	/* terminal only: a line that is not complete yet, below all others */
	const void *live_owner;
	char *live;
	bool live_shown;
};

/* Let `*bytes` have room for `needed` of them; false: there is no memory. */
bool sink_reserve(char **bytes, size_t *capacity, size_t needed);

void sink_init(struct sink *sink, int fd);
void sink_finish(struct sink *sink);

/* Queue `text` as it is. */
void sink_bytes(struct sink *sink, const char *text, size_t length);
/* Queue `prefix`, `text` and a newline, as a line of its own. */
void sink_line(struct sink *sink, const char *prefix, const char *text, size_t length);
/* On a terminal, show the line that `owner` has begun until it changes or is complete. */
void sink_live(struct sink *sink, const void *owner, const char *prefix, const char *text,
	       size_t length);
void sink_live_end(struct sink *sink, const void *owner);

/* Write what can be written without waiting; true when nothing is left to write. */
bool sink_flush(struct sink *sink);
/* There was no memory for bytes: the job goes on, as ending it would lose more. */
void sink_lose(struct sink *sink);
/* Nobody reads any more. */
void sink_break(struct sink *sink);
/* So much is queued that those who fill it should wait. */
bool sink_congested(const struct sink *sink);

#endif
