/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the cutting of a byte stream into labelled lines, and the last words of a stream.
 *
 * A carriage return starts the line anew, as on a terminal: what it overwrites is shown live on a
 * terminal and left out elsewhere. "\r\n" ends a line as "\n" does. A line of more than LONGEST
 * bytes is cut, each piece with its label. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

enum { LONGEST = 1 << 20 };

/* colours that can be read on light and dark ground */
static const int colours[] = { 36, 33, 32, 35, 34, 31 };

void lines_init(struct lines *lines, struct sink *sink, int rank, bool label)
{
	const int colour = colours[(size_t)rank % (sizeof(colours) / sizeof(colours[0]))];

	*lines = (struct lines){ .sink = sink };
	if (label && sink->colour)
		snprintf(lines->label, sizeof(lines->label), "\033[%dm[%d]\033[0m ", colour, rank);
	else if (label)
		snprintf(lines->label, sizeof(lines->label), "[%d] ", rank);
}

static void remember(struct lines *lines)
{
	size_t length = lines->length;

	while (length > 0 &&
	       (lines->partial[length - 1] == ' ' || lines->partial[length - 1] == '\t'))
		length--;
	if (length == 0)
		return;
	if (!lines->last && !(lines->last = calloc(LINES_LAST, sizeof(*lines->last))))
		return;
	char *line = lines->last[lines->last_count++ % LINES_LAST];
	if (length > LINES_LAST_BYTES - 1)
		length = LINES_LAST_BYTES - 1;
	memcpy(line, lines->partial, length);
	line[length] = '\0';
}

static void complete(struct lines *lines)
{
	remember(lines);
	sink_live_end(lines->sink, lines);
	sink_line(lines->sink, lines->label, lines->partial, lines->length);
	lines->length = 0;
	lines->returned = false;
}

static bool make_space(struct lines *lines, size_t count)
{
	size_t capacity = lines->capacity ? lines->capacity : 256;
	char *partial;

	while (capacity < lines->length + count)
		capacity *= 2;
	if (capacity == lines->capacity)
		return true;
	partial = realloc(lines->partial, capacity);
	if (!partial)
		return false;
	lines->partial = partial;
	lines->capacity = capacity;
	return true;
}

static void append(struct lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		const size_t left = LONGEST - lines->length;
		const size_t part = count < left ? count : left;

		/* without memory these bytes are lost; ending the job for that would lose more */
		if (!make_space(lines, part))
			return;
		memcpy(lines->partial + lines->length, bytes, part);
		lines->length += part;
		bytes += part;
		count -= part;
		if (lines->length == LONGEST)
			complete(lines);
	}
}

void lines_feed(struct lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t plain = 0;

		while (plain < count && bytes[plain] != '\n' && bytes[plain] != '\r')
			plain++;
		if (plain > 0 && lines->returned) {
			lines->length = 0;
			lines->returned = false;
		}
		append(lines, bytes, plain);
		if (plain < count && bytes[plain] == '\n')
			complete(lines);
		else if (plain < count)
			lines->returned = true;
		plain += plain < count;
		bytes += plain;
		count -= plain;
	}
	if (lines->length > 0)
		sink_live(lines->sink, lines, lines->label, lines->partial, lines->length);
}

void lines_end(struct lines *lines)
{
	if (lines->length > 0)
		complete(lines);
}

void lines_finish(struct lines *lines)
{
	free(lines->partial);
	free(lines->last);
}

int lines_last_count(const struct lines *lines)
{
	return lines->last_count < LINES_LAST ? (int)lines->last_count : LINES_LAST;
}

const char *lines_last(const struct lines *lines, int i)
{
	const unsigned long first = lines->last_count - (unsigned long)lines_last_count(lines);

	return lines->last[(first + (unsigned long)i) % LINES_LAST];
}
