/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the cutting of a byte stream into lines, and the last words of a stream.
 *
 * Lines with a label keep their bytes, carriage returns included. A line of more than LONGEST
 * bytes is cut, each piece with its label. Only a terminal would lose the label at a carriage
 * return: there a line begins anew after each, so that a progress bar shows its last state.
 *
 * Without labels nothing is added or left out. A terminal gets the bytes as they arrive; a file or
 * a pipe gets whole lines, so that ranks do not cut each other's. */
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

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool continues_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Whole, or its beginning and a sign that there is more. */
static void keep(char out[LINES_LAST_BYTES], const char *line, size_t length)
{
	const char more[] = "…";

	if (length < LINES_LAST_BYTES) {
		snprintf(out, LINES_LAST_BYTES, "%.*s", (int)length, line);
		return;
	}
	length = LINES_LAST_BYTES - sizeof(more);
	while (length > 0 && continues_character(line[length]))
		length--;
	snprintf(out, LINES_LAST_BYTES, "%.*s%s", (int)length, line, more);
}

/* What a terminal would show of the line in the end. */
static void remember(struct lines *lines)
{
	size_t end = lines->length, start;

	while (end > 0 && is_blank(lines->partial[end - 1]))
		end--;
	if (end == 0)
		return;
	for (start = end; start > 0 && lines->partial[start - 1] != '\r';)
		start--;
	if (!lines->last && !(lines->last = calloc(LINES_LAST, sizeof(*lines->last))))
		return;
	keep(lines->last[lines->last_count++ % LINES_LAST], lines->partial + start, end - start);
}

/* Give the sink all of `partial` that it does not have yet. */
static void pass(struct lines *lines)
{
	sink_bytes(lines->sink, lines->partial + lines->passed, lines->length - lines->passed);
	lines->passed = lines->length;
}

/* The line ends here: `newline`, or nothing where it is cut. */
static void complete(struct lines *lines, const char *newline)
{
	remember(lines);
	if (*lines->label) {
		sink_live_end(lines->sink, lines);
		sink_line(lines->sink, lines->label, lines->partial, lines->length);
	} else {
		pass(lines);
		sink_bytes(lines->sink, newline, strlen(newline));
	}
	lines->length = lines->passed = 0;
}

static void append(struct lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		const size_t left = LONGEST - lines->length;
		const size_t part = count < left ? count : left;

		if (!sink_reserve(&lines->partial, &lines->capacity, lines->length + part)) {
			sink_lose(lines->sink);
			return;
		}
		memcpy(lines->partial + lines->length, bytes, part);
		lines->length += part;
		bytes += part;
		count -= part;
		if (lines->length == LONGEST)
			complete(lines, "");
	}
}

/* Bytes from `bytes` up to a line feed or just after carriage returns. */
static size_t span(const char *bytes, size_t count)
{
	size_t length = 0;

	while (length < count && bytes[length] != '\n' && bytes[length] != '\r')
		length++;
	while (length < count && bytes[length] == '\r')
		length++;
	return length;
}

/* Does what follows overwrite the line so far, as a terminal shows it? */
static bool begins_anew(const struct lines *lines)
{
	return *lines->label && lines->sink->terminal && lines->length > 0 &&
	       lines->partial[lines->length - 1] == '\r';
}

/* Show what of a line there is, where somebody looks at it. */
static void show(struct lines *lines)
{
	if (!lines->sink->terminal || lines->length == 0)
		return;
	if (*lines->label)
		sink_live(lines->sink, lines, lines->label, lines->partial, lines->length);
	else
		pass(lines);
}

void lines_feed(struct lines *lines, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t part = span(bytes, count);

		if (part > 0 && *bytes != '\r' && begins_anew(lines))
			lines->length = 0;
		append(lines, bytes, part);
		if (part < count && bytes[part] == '\n') {
			complete(lines, "\n");
			part++;
		}
		bytes += part;
		count -= part;
	}
	show(lines);
}

void lines_end(struct lines *lines)
{
	if (lines->length > 0)
		complete(lines, "");
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
