/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rows of comma-separated numbers, strictly: every row has as many fields as the first, each
 * is a finite number, and one, usually the last, is a label. A first line without any number is a
 * header. What people's files have otherwise (an index, a label that comes first, a header of numbers)
 * is refused where it shows. Owns nothing. */
#include "data.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Take `off` from both ends of [*field, *end). */
static void trim(const char **field, const char **end, const char *off)
{
	while (*field < *end && strchr(off, **field))
		++*field;
	while (*end > *field && strchr(off, (*end)[-1]))
		--*end;
}

/* The number in [field, end), blanks around it allowed. strtod() would skip line ends, so that an
 * empty field must not reach it, and cannot pass `end`, since neither a comma nor a line end
 * continues a number. */
static bool parse_number(const char *field, const char *end, double *value)
{
	char *rest;

	trim(&field, &end, " \t");
	if (field == end || memchr(" \t\r\n\v\f", *field, 6))
		return false;
	*value = strtod(field, &rest);
	return rest == end && !memchr(field, 'x', (size_t)(end - field)) &&
	       !memchr(field, 'X', (size_t)(end - field)); /* it reads hexadecimal numbers, too */
}

/* ---- the header */

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

static bool names_label(const char *name, size_t length)
{
	static const char *const labels[] = { "label", "labels", "class", "target", "y" };
	bool found = false;

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		found = found ||
			(length == strlen(labels[i]) && strncasecmp(name, labels[i], length) == 0);
	return found;
}

static bool check_header(const struct cursor *c, size_t label_column)
{
	bool first = false, last = false; /* is it the label's name? */
	size_t column = 0;

	for (const char *field = c->at, *end = NULL; end != c->end; field = end + 1) {
		const char *name = field, *stop = end = field_end(c, field);

		column++;
		trim(&name, &stop, " \t\"");
		last = names_label(name, (size_t)(stop - name));
		first = column == 1 ? last : first;
		if (name == stop)
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: line 1: found no name for field %zu, as in a header that "
				"pandas writes for an index; leave the index out "
				"(index=False), or name the field",
				c->input->path, column);
	}
	if (label_column > 0 || last || !first)
		return true;
	return why_set(
		TUTTI_ERR_INVALID,
		"%s: line 1: found a label's name for the first field and none for the last, "
		"expected the label last; give --label-column 1, or another name",
		c->input->path);
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

/* The first line of numbers, if any is `found`. */
static bool first_line(const struct input *input, size_t label_column, struct cursor *out,
		       bool *found)
{
	struct cursor c = { .input = input, .next = input->bytes + mark_length(input) };
	bool ok = true;

	*found = next_line(&c);
	if (*found && c.end > c.at && input->begins == 0 && is_header(&c)) {
		ok = check_header(&c, label_column);
		*found = next_line(&c);
	}
	*out = c;
	return ok;
}

/* ---- rows */

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

static bool bad_field(const struct cursor *c, size_t column, const char *field, const char *end,
		      const char *expected)
{
	const int shown = end - field > 40 ? 40 : (int)(end - field);
	char text[PLACE];

	return why_set(TUTTI_ERR_INVALID, "%s: %s, field %zu: found '%.*s', expected %s",
		       c->input->path, place(c, c->line, text), column, shown, field, expected);
}

/* Of a feature: its ends, and what a float has at most lost of a number. */
struct spread {
	double least, most, lost;
};

static void note(struct spread *s, double value, float kept, bool first)
{
	s->least = first ? value : fmin(s->least, value);
	s->most = first ? value : fmax(s->most, value);
	s->lost = fmax(s->lost, fabs(value - (double)kept));
}

/* `label`: the place of the label, from 0. */
static bool parse_row(const struct cursor *c, struct data *data, size_t row, size_t label,
		      struct spread *spreads)
{
	float *x = data->x + row * data->features;
	const char *field = c->at;

	for (size_t i = 0, j = 0; i < data->features + (data->y != NULL); i++) {
		const char *end = field_end(c, field);
		double value;

		if (!parse_number(field, end, &value))
			return bad_field(c, i + 1, field, end, "a number");
		if (i == label) {
			if (!(value >= 0 && value <= DATA_LABEL_MAX) || value != floor(value))
				return bad_field(c, i + 1, field, end,
						 "a label: an integer from 0 to 65535");
			data->y[row] = (uint32_t)value;
		} else {
			x[j] = (float)value;
			if (!isfinite(x[j]))
				return bad_field(c, i + 1, field, end,
						 "a finite number within a float's range");
			note(&spreads[j], value, x[j], row == 0);
			j++;
		}
		field = end + 1;
	}
	return true;
}

/* How many rows there are, all of `fields` fields. Blank lines may only end the file. */
static bool count_rows(struct cursor c, size_t fields, size_t *rows)
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
			return why_set(TUTTI_ERR_INVALID,
				       "%s: %s: found a blank line, expected %zu fields as "
				       "in line %zu",
				       c.input->path, place(&c, blank, text), fields, first);
		if (found != fields)
			return why_set(TUTTI_ERR_INVALID,
				       "%s: %s: found %zu field%s, expected %zu as in line %zu",
				       c.input->path, place(&c, c.line, text), found,
				       found == 1 ? "" : "s", fields, first);
		++*rows;
	} while (next_line(&c));
	return true;
}

/* A float loses a thousandth of the feature's range, or more. Numbers that differ by what doubles are
 * rounded by are taken for equal. */
static bool check_spreads(const struct input *input, const struct spread *spreads, size_t features,
			  size_t label)
{
	for (size_t j = 0; j < features; j++) {
		const struct spread *s = &spreads[j];
		const double width = s->most - s->least;

		if (width > 1e-12 * fmax(fabs(s->least), fabs(s->most)) && s->lost > width / 1000)
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: field %zu: found numbers from %.17g to %.17g, whose differences "
				"float32 does not hold; subtract the first one from all of them, "
				"or leave the field out",
				input->path, j + 1 + (j >= label), s->least, s->most);
	}
	return true;
}

/* 0, 1, 2 … in the first line, the last of which is a label that no other has. */
static bool check_first_row(const struct input *input, const struct data *data, size_t line)
{
	bool header = data->features > 1 && data->y[0] == data->features;

	for (size_t j = 0; j < data->features; j++)
		header = header && data->x[j] == (float)j;
	for (size_t row = 1; row < data->rows; row++)
		header = header && data->y[row] != data->y[0];
	return !header ||
	       why_set(TUTTI_ERR_INVALID,
		       "%s: line %zu: found the numbers of the fields, from 0 to %zu, and "
		       "label %u on no other line, expected a sample; leave out that line, a "
		       "header as of pandas",
		       input->path, line, data->features, data->y[0]);
}

static bool parse_rows(const struct cursor first, size_t label, struct data *data)
{
	struct spread *spreads = calloc(data->features, sizeof(*spreads));
	bool ok = spreads || why_no_memory(first.input->path);
	struct cursor c = first;

	for (size_t row = 0; row < data->rows && ok; row++) {
		ok = parse_row(&c, data, row, label, spreads);
		next_line(&c);
	}
	ok = ok && check_spreads(first.input, spreads, data->features, label);
	/* a part does not know the labels of the others */
	if (ok && data->y && !first.input->part && label == data->features)
		ok = check_first_row(first.input, data, first.line);
	free(spreads);
	return ok;
}

/* Nothing but blank lines from here on, which may end a file. */
static bool is_blank(struct cursor c)
{
	while (c.end == c.at)
		if (!next_line(&c))
			return true;
	return false;
}

/* As a spreadsheet or an archive has, or text of two bytes for each character. */
static bool check_text(const struct input *input)
{
	for (size_t i = 0; i < input->length; i++) {
		const unsigned char byte = (unsigned char)input->bytes[i];

		if (byte < ' ' && (byte == '\0' || !strchr("\t\n\v\f\r", byte)))
			return why_set(TUTTI_ERR_INVALID,
				       "%s: found byte 0x%02x at %zu, which no text has, expected "
				       "rows of numbers with commas between them; unpack the file, "
				       "or save it as CSV in UTF-8",
				       input->path, byte, input->begins + i);
	}
	return true;
}

bool csv_parse(const struct input *input, size_t label_column, struct data *out)
{
	struct data data = { 0 };
	struct cursor first;
	bool found;
	bool ok = check_text(input) && first_line(input, label_column, &first, &found);

	if (!ok)
		return false;
	if (input->part && (!found || is_blank(first))) { /* none begins there */
		*out = data;
		return true;
	}
	if (!found || first.end == first.at)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: found no row at the start, expected rows of numbers with commas "
			"between them, the label last",
			input->path);
	const size_t fields = count_fields(&first);
	const bool labelled = fields != input->features;

	data.features = fields - labelled;
	if (data.features == 0 || (labelled && label_column > fields))
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: line %zu: found %zu field%s, expected features and a label, with "
			"commas between them, and as many as --label-column says",
			input->path, first.line, fields, fields == 1 ? "" : "s");
	if (!count_rows(first, fields, &data.rows))
		return false;
	data.x = malloc(data.rows * data.features * sizeof(*data.x));
	data.y = labelled ? malloc(data.rows * sizeof(*data.y)) : NULL;
	ok = data.x && (data.y || !labelled)
		     ? parse_rows(first,
				  label_column && labelled ? label_column - 1 : data.features,
				  &data)
		     : why_no_memory(input->path);
	if (!ok) {
		data_finish(&data);
		return false;
	}
	*out = data;
	return true;
}
