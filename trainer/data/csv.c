/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rows of comma-separated numbers, strictly: every row has as many fields as the first, each
 * is a finite number, and one, usually the last, is a label. A first line without any number is a
 * header. What people's files have otherwise (an index, a label that comes first, a header of
 * numbers) is refused where it shows. Owns nothing. */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "team.h"

/* Where the reader is. `end` is the line's end, before any "\r\n". */
struct cursor {
	const struct input *input;
	const char *at, *end, *next;
	size_t line; /* of [at, end), from 1 */
};

/* Go to the next line; false at the end of the file, and that line is blank. */
static bool next_line(struct cursor *c)
{
	const char *const stop = c->input->bytes + c->input->length;
	const char *newline = memchr(c->next, '\n', (size_t)(stop - c->next));
	const bool found = c->next < stop;

	c->at = c->next;
	c->end = newline ? newline : stop;
	c->next = newline ? newline + 1 : stop;
	if (c->end > c->at && c->end[-1] == '\r')
		c->end--;
	c->line++;
	return found;
}

/* A field of the line. Zeroed is before the first. */
struct field {
	const char *at, *end;
	size_t number; /* from 1 */
};

static bool next_field(const struct cursor *c, struct field *f)
{
	if (f->end == c->end)
		return false;
	f->at = f->number > 0 ? f->end + 1 : c->at;
	f->end = memchr(f->at, ',', (size_t)(c->end - f->at));
	f->end = f->end ? f->end : c->end;
	f->number++;
	return true;
}

static size_t count_fields(const struct cursor *c)
{
	struct field f = { 0 };

	while (next_field(c, &f))
		continue;
	return f.number;
}

/* Without `off` at both of its ends. */
static struct field trimmed(struct field f, const char *off)
{
	while (f.at < f.end && strchr(off, *f.at))
		f.at++;
	while (f.end > f.at && strchr(off, f.end[-1]))
		f.end--;
	return f;
}

/* A number, blanks around it allowed. An empty field must not reach strtod(), which would skip line
 * ends; it cannot pass the field's end, since neither a comma nor a line end continues a number. */
static bool parse_number(struct field f, double *value)
{
	char *rest;

	f = trimmed(f, " \t");
	if (f.at == f.end || memchr(" \t\r\n\v\f", *f.at, 6))
		return false;
	*value = strtod(f.at, &rest);
	return rest == f.end && !memchr(f.at, 'x', (size_t)(f.end - f.at)) &&
	       !memchr(f.at, 'X', (size_t)(f.end - f.at)); /* it reads hexadecimal numbers, too */
}

/* Of a line of the file, by its number among those that were read. */
static size_t number_of(const struct cursor *c, size_t line)
{
	const bool in_head = c->at < c->input->bytes + c->input->head;

	return in_head ? line : line + input_lines_left_out(c->input);
}

static bool refuse_field(const struct cursor *c, const struct field *f, const char *expected)
{
	const int shown = f->end - f->at > 40 ? 40 : (int)(f->end - f->at);

	return data_refuse(c->input->path, "line %zu, field %zu: found '%.*s', expected %s",
			   number_of(c, c->line), f->number, shown, f->at, expected);
}

/* ---- the header */

static bool is_header(const struct cursor *c)
{
	double ignored;

	for (struct field f = { 0 }; next_field(c, &f);)
		if (parse_number(f, &ignored))
			return false;
	return c->end > c->at;
}

static bool names_label(struct field name)
{
	static const char *const labels[] = { "label", "labels", "class", "target", "y" };
	const size_t length = (size_t)(name.end - name.at);

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		if (length == strlen(labels[i]) && strncasecmp(name.at, labels[i], length) == 0)
			return true;
	return false;
}

static bool check_header(const struct cursor *c, size_t label_column)
{
	bool first = false, last = false; /* is it the label's name? */

	for (struct field f = { 0 }; next_field(c, &f);) {
		const struct field name = trimmed(f, " \t\"");

		last = names_label(name);
		first = f.number == 1 ? last : first;
		if (name.at == name.end)
			return data_refuse(c->input->path,
					   "line 1: found no name for field %zu, as in a header "
					   "that pandas writes for an index; leave the index out "
					   "(index=False), or name the field",
					   f.number);
	}
	return label_column > 0 || last || !first ||
	       data_refuse(c->input->path,
			   "line 1: found a label's name for the first field and none for the "
			   "last, expected the label last; give --label-column 1, or another name");
}

/* ---- rows */

/* Of a feature: its ends, and what a float has at most lost of a number. */
struct spread {
	double least, most, lost;
};

/* The next row of `data`. */
static bool parse_row(const struct cursor *c, bool first, struct csv *csv, struct data *data)
{
	float *x = data->x + data->rows * data->features;
	struct spread *s = csv->spreads;

	for (struct field f = { 0 }; next_field(c, &f);) {
		double value;

		if (!parse_number(f, &value))
			return refuse_field(c, &f, "a number");
		if (f.number == csv->label) {
			if (!(value >= 0 && value <= DATA_LABEL_MAX) || value != floor(value))
				return refuse_field(c, &f, "a label: an integer from 0 to 65535");
			data->y[data->rows] = (uint32_t)value;
			csv->alike += data->y[data->rows] == data->features;
			continue;
		}
		*x = (float)value;
		if (!isfinite(*x))
			return refuse_field(c, &f, "a finite number within a float's range");
		s->least = first ? value : fmin(s->least, value);
		s->most = first ? value : fmax(s->most, value);
		s->lost = fmax(s->lost, fabs(value - (double)*x++));
		s++;
	}
	data->rows++;
	return true;
}

/* The lines behind this one, that of the first row, which all others are like. Blank lines may only
 * end the file. */
static bool parse_rows(struct cursor *c, struct csv *csv, struct data *data)
{
	const size_t fields = count_fields(c), first = c->line;
	const char *const begin = c->input->bytes + c->input->head;
	size_t blank = 0;

	while (c->input->part.index > 0 && c->next < begin)
		next_line(c); /* the head is in the first part */
	while (next_line(c)) {
		const size_t found = count_fields(c);

		if (c->end == c->at) {
			blank = blank ? blank : c->line;
			continue;
		}
		if (blank)
			break;
		if (found != fields)
			return data_refuse(
				c->input->path,
				"line %zu: found %zu field%s, expected %zu as in line %zu",
				number_of(c, c->line), found, found == 1 ? "" : "s", fields, first);
		if (!parse_row(c, false, csv, data))
			return false;
	}
	return !blank || (c->end == c->at && input_ends_blank(c->input)) ||
	       data_refuse(c->input->path,
			   "line %zu: found a blank line, expected %zu fields as in line %zu",
			   number_of(c, blank), fields, first);
}

/* Is the row 0, 1, 2 …, the last of which is the label? */
static bool counts_up(const struct data *data, size_t row, size_t label)
{
	bool up = data->features > 1 && label > data->features && data->y[row] == data->features;

	for (size_t j = 0; j < data->features; j++)
		up = up && data->x[row * data->features + j] == (float)j;
	return up;
}

/* As a spreadsheet or an archive has, or text of two bytes for each character. */
static bool check_text(const struct input *input)
{
	const size_t at = strcspn(input->bytes, "\1\2\3\4\5\6\7\b\16\17\20\21\22\23\24\25\26\27"
						"\30\31\32\33\34\35\36\37");

	return at == input->length ||
	       data_refuse(input->path,
			   "found byte 0x%02x at %zu, which no text has, expected rows of numbers "
			   "with commas between them; unpack the file, or save it as CSV in UTF-8",
			   (unsigned)input->bytes[at],
			   at < input->head ? at : at - input->head + input->begins);
}

/* Go to the first line of numbers. Spreadsheets begin a file with a byte-order mark in UTF-8. */
static bool find_rows(struct cursor *c, size_t label_column)
{
	if (strncmp(c->next, "\xef\xbb\xbf", 3) == 0)
		c->next += 3;
	next_line(c);
	if (is_header(c)) {
		if (!check_header(c, label_column))
			return false;
		next_line(c);
	}
	return c->end > c->at ||
	       data_refuse(c->input->path,
			   "found no row at the start, expected rows of numbers with commas "
			   "between them, the label last");
}

bool csv_parse(const struct input *input, const struct data_source *source, struct csv *csv,
	       struct data *out)
{
	struct cursor c = { .input = input, .next = input->bytes };

	if (!check_text(input) || !find_rows(&c, source->label_column))
		return false;
	const size_t fields = count_fields(&c);
	const bool labelled = fields != source->features;
	const size_t last = source->label_column ? source->label_column : fields;

	csv->label = labelled ? last : 0;
	if (fields == labelled || csv->label > fields)
		return data_refuse(input->path,
				   "line %zu: found %zu field%s, expected features and a label, "
				   "with commas between them, and as many as --label-column says",
				   c.line, fields, fields == 1 ? "" : "s");
	/* a row has a byte for each field, and one behind it */
	if (!data_grow(source, input->length / (2 * fields) + 2, fields - labelled, labelled, out))
		return false;
	csv->spreads = calloc(out->features, sizeof(*csv->spreads));
	if (!csv->spreads)
		return why_no_memory(input->path);
	if (!parse_row(&c, true, csv, out))
		return false;
	csv->header = counts_up(out, out->rows - 1, csv->label) ? c.line : 0;
	if (input->part.index > 0) { /* all parts are like the first row, and one has it */
		out->rows--;
		csv->alike = 0;
	}
	return parse_rows(&c, csv, out);
}

/* ---- what all parts together say */

static void add_spread(void *sum, const void *part)
{
	struct spread *s = sum;
	const struct spread *other = part;

	s->least = fmin(s->least, other->least);
	s->most = fmax(s->most, other->most);
	s->lost = fmax(s->lost, other->lost);
}

/* A float loses a thousandth of the feature's range, or more. Numbers that differ by what doubles
 * are rounded by are taken for equal. */
static bool is_lost(const struct spread *s)
{
	const double width = s->most - s->least;

	return width > 1e-12 * fmax(fabs(s->least), fabs(s->most)) && s->lost > width / 1000;
}

bool csv_judge(const char *path, size_t features, struct team *team, struct csv *csv)
{
	if (!csv->spreads)
		return true;
	if (!join_parts(team, csv->spreads, features, sizeof(*csv->spreads), add_spread) ||
	    (team && !team_sum(team, &csv->alike, 1)))
		return false;
	for (size_t j = 0; j < features; j++)
		if (is_lost(&csv->spreads[j]))
			return data_refuse(path,
					   "field %zu: found numbers from %.17g to %.17g, whose "
					   "differences float32 does not hold; subtract the first "
					   "one from all of them, or leave the field out",
					   j + 1 + (csv->label > 0 && j + 1 >= csv->label),
					   csv->spreads[j].least, csv->spreads[j].most);
	return csv->header == 0 || csv->alike > 1 ||
	       data_refuse(path,
			   "line %zu: found the numbers of the fields, from 0 to %zu, and label "
			   "%zu on no other line, expected a sample; leave out that line, a header "
			   "as of pandas",
			   csv->header, features, features);
}
