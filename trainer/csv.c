/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rows of comma-separated numbers, strictly: every row has as many fields as the first, each
 * is a finite number, and the last is a label. A first line without any number is a header. Owns
 * nothing. */
#include "data.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the reader is. `end` is the line's end, before any "\r\n". */
struct cursor {
	const struct input *input;
	const char *at, *end, *next;
	size_t line; /* of [at, end), from 1 */
};

/* Go to the next line; false at the end of the file. */
static bool next_line(struct cursor *c)
{
	const char *const stop = c->input->bytes + c->input->length;
	const char *newline;

	if (c->next >= stop)
		return false;
	newline = memchr(c->next, '\n', (size_t)(stop - c->next));
	c->at = c->next;
	c->end = newline ? newline : stop;
	c->next = newline ? newline + 1 : stop;
	if (c->end > c->at && c->end[-1] == '\r')
		c->end--;
	c->line++;
	return true;
}

static const char *field_end(const struct cursor *c, const char *field)
{
	const char *comma = memchr(field, ',', (size_t)(c->end - field));

	return comma ? comma : c->end;
}

static size_t count_fields(const struct cursor *c)
{
	size_t fields = 1;

	for (const char *p = c->at; p < c->end; p++)
		fields += *p == ',';
	return fields;
}

/* The number in [field, end), blanks around it allowed. strtod() would skip line ends, so that an
 * empty field must not reach it, and cannot pass `end`, since neither a comma nor a line end
 * continues a number. */
static bool parse_number(const char *field, const char *end, double *value)
{
	char *rest;

	while (field < end && (*field == ' ' || *field == '\t'))
		field++;
	while (end > field && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (field == end || memchr(" \t\r\n\v\f", *field, 6))
		return false;
	*value = strtod(field, &rest);
	return rest == end;
}

static bool is_header(const struct cursor *c)
{
	double ignored;

	for (const char *field = c->at;; field++) {
		const char *end = field_end(c, field);

		if (parse_number(field, end, &ignored))
			return false;
		if (end == c->end)
			return true;
		field = end;
	}
}

/* Spreadsheets begin a file with a byte-order mark in UTF-8. */
static size_t mark_length(const struct input *input)
{
	static const char mark[] = { '\xef', '\xbb', '\xbf' };

	return input->begins == 0 && input->length >= sizeof(mark) &&
			       memcmp(input->bytes, mark, sizeof(mark)) == 0
		       ? sizeof(mark)
		       : 0;
}

static struct cursor first_line(const struct input *input, bool *found)
{
	struct cursor c = { .input = input, .next = input->bytes + mark_length(input) };

	*found = next_line(&c);
	if (*found && c.end > c.at && input->begins == 0 && is_header(&c))
		*found = next_line(&c);
	return c;
}

/* "line 7", or of a part of a file " of those from byte 4096 on" behind it. */
enum { PLACE = 96 };
static const char *place(const struct cursor *c, size_t line, char text[PLACE])
{
	if (c->input->begins > 0)
		snprintf(text, PLACE, "line %zu of those from byte %zu on", line, c->input->begins);
	else
		snprintf(text, PLACE, "line %zu", line);
	return text;
}

static tutti_result_t bad_field(const struct cursor *c, size_t column, const char *field,
				const char *end, const char *expected, struct why *why)
{
	const int shown = end - field > 40 ? 40 : (int)(end - field);
	char text[PLACE];

	return why_set(why, TUTTI_ERR_INVALID, "%s: %s, field %zu: found '%.*s', expected %s",
		       c->input->path, place(c, c->line, text), column, shown, field, expected);
}

static tutti_result_t parse_row(const struct cursor *c, size_t features, float *x, uint32_t *y,
				struct why *why)
{
	const char *field = c->at;

	for (size_t i = 0; i < features + (y != NULL); i++) {
		const char *end = field_end(c, field);
		double value;

		if (!parse_number(field, end, &value))
			return bad_field(c, i + 1, field, end, "a number", why);
		if (i == features) {
			if (!(value >= 0 && value <= DATA_LABEL_MAX) || value != floor(value))
				return bad_field(c, i + 1, field, end,
						 "a label: an integer from 0 to 65535", why);
			*y = (uint32_t)value;
		} else {
			x[i] = (float)value;
			if (!isfinite(x[i]))
				return bad_field(c, i + 1, field, end,
						 "a finite number within a float's range", why);
		}
		field = end + 1;
	}
	return TUTTI_OK;
}

/* How many rows there are, all of `fields` fields. Blank lines may only end the file. */
static tutti_result_t count_rows(struct cursor c, size_t fields, size_t *rows, struct why *why)
{
	const size_t first = c.line;
	char text[PLACE];
	size_t blank = 0;

	*rows = 0;
	do {
		const size_t found = count_fields(&c);

		if (c.end == c.at) {
			blank = blank ? blank : c.line;
			continue;
		}
		if (blank)
			return why_set(why, TUTTI_ERR_INVALID,
				       "%s: %s: found a blank line, expected %zu fields as "
				       "in line %zu",
				       c.input->path, place(&c, blank, text), fields, first);
		if (found != fields)
			return why_set(why, TUTTI_ERR_INVALID,
				       "%s: %s: found %zu field%s, expected %zu as in line %zu",
				       c.input->path, place(&c, c.line, text), found,
				       found == 1 ? "" : "s", fields, first);
		++*rows;
	} while (next_line(&c));
	return TUTTI_OK;
}

static tutti_result_t parse_rows(struct cursor c, struct data *data, struct why *why)
{
	for (size_t row = 0; row < data->rows; row++) {
		const tutti_result_t result =
			parse_row(&c, data->features, data->x + row * data->features,
				  data->y ? data->y + row : NULL, why);

		if (result != TUTTI_OK)
			return result;
		next_line(&c);
	}
	return TUTTI_OK;
}

/* Nothing but blank lines from here on, which may end a file. */
static bool is_blank(struct cursor c)
{
	while (c.end == c.at)
		if (!next_line(&c))
			return true;
	return false;
}

tutti_result_t csv_parse(const struct input *input, struct data *out, struct why *why)
{
	struct data data = { 0 };
	bool found;
	const struct cursor first = first_line(input, &found);
	tutti_result_t result;

	if (input->part && (!found || is_blank(first))) { /* none begins there */
		*out = data;
		return TUTTI_OK;
	}
	if (!found || first.end == first.at)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: found no row at the start, expected rows of numbers with commas "
			"between them, the label last",
			input->path);
	const size_t fields = count_fields(&first);
	const bool labelled = fields != input->features;

	data.features = fields - labelled;
	if (data.features == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: line %zu: found 1 field, expected features and a label, with "
			       "commas between them",
			       input->path, first.line);
	result = count_rows(first, fields, &data.rows, why);
	if (result != TUTTI_OK)
		return result;
	data.x = malloc(data.rows * data.features * sizeof(*data.x));
	data.y = labelled ? malloc(data.rows * sizeof(*data.y)) : NULL;
	result = data.x && (data.y || !labelled) ? parse_rows(first, &data, why)
						 : why_no_memory(why, input->path);
	if (result != TUTTI_OK) {
		data_finish(&data);
		return result;
	}
	*out = data;
	return TUTTI_OK;
}
