/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes samples of text: the next character, to be told from those before. A character is a byte,
 * and its class is its rank among the bytes that occur. Neighbouring samples share most of their
 * characters, so that training and validation are parted by blocks, and no sample crosses from one
 * block into the next. Owns nothing. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, CONTEXT = 8 /* unless the user says more or less */ };

static const char prefix[] = "text:";

struct parser {
	const struct input *text;
	size_t context;
	size_t blocks; /* whole ones; what is left behind them is for training */
	size_t tested; /* of them, spread evenly */
	unsigned classes;
	unsigned char rank[256]; /* of the bytes that occur */
};

bool text_is(const char *path)
{
	return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* ---- what there is */

static void rank_bytes(struct parser *p)
{
	const unsigned char *bytes = (const unsigned char *)p->text->bytes;
	bool seen[256] = { false };

	for (size_t i = 0; i < p->text->length; i++)
		seen[bytes[i]] = true;
	for (unsigned byte = 0; byte < 256; byte++)
		if (seen[byte])
			p->rank[byte] = (unsigned char)p->classes++;
}

static tutti_result_t refuse_short(const struct parser *p, size_t least, const char *reason,
				   struct why *why)
{
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: found %zu characters, expected at least %zu, %s", p->text->path,
		       p->text->length, least, reason);
}

static tutti_result_t check(const struct parser *p, double test_fraction, struct why *why)
{
	if (p->context < 1 || p->context >= BLOCK)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: found a context of %zu characters, expected 1 to %d: samples "
			       "lie within blocks of %d; use another --context",
			       p->text->path, p->context, BLOCK - 1, BLOCK);
	if (test_fraction > 0 && p->blocks < 2)
		return refuse_short(p, 2 * BLOCK,
				    "a block of 1024 to train on and another to validate; give "
				    "more text, or --test-fraction 0",
				    why);
	if (p->text->length <= p->context)
		return refuse_short(p, p->context + 1,
				    "the context and one that follows; give more text", why);
	if (p->classes < 2)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: found one and the same character everywhere, expected at least "
			       "two; give another text",
			       p->text->path);
	return TUTTI_OK;
}

static void choose_blocks(struct parser *p, double test_fraction)
{
	const size_t blocks = p->text->length / BLOCK;
	const size_t wanted = (size_t)(test_fraction * (double)blocks);

	p->blocks = blocks;
	if (test_fraction > 0 && blocks > 1)
		p->tested = wanted < 1 ? 1 : wanted < blocks ? wanted : blocks - 1;
}

/* Block number `blocks` is what is left behind the whole ones. */
static bool is_tested(const struct parser *p, size_t block)
{
	return block < p->blocks &&
	       (block + 1) * p->tested / p->blocks > block * p->tested / p->blocks;
}

/* ---- the samples */

static tutti_result_t count_rows(const struct parser *p, size_t most, struct data *data,
				 struct why *why)
{
	const size_t each = BLOCK - p->context, left = p->text->length % BLOCK;
	size_t row;

	data->classes = p->classes;
	data->features = p->context * p->classes;
	data->test_rows = p->tested * each;
	data->rows = p->blocks * each + (left > p->context ? left - p->context : 0);
	data->as_is = true;
	row = data->features * sizeof(*data->x);
	if (data->rows <= most / row)
		return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: found %zu samples of %zu bytes (a context of %zu in an alphabet of %u), "
		"expected at most %zu bytes in all, which are %zu samples; give less text or "
		"a shorter --context, or raise --data-limit if memory allows",
		p->text->path, data->rows, row, p->context, p->classes, most, most / row);
}

static void add_sample(const struct parser *p, const unsigned char *at, struct data *data,
		       size_t row)
{
	float *x = data->x + row * data->features;

	for (size_t i = 0; i < p->context; i++)
		x[i * p->classes + p->rank[at[i]]] = 1;
	data->y[row] = p->rank[at[p->context]];
}

/* Every block that is for validation, or every other. Returns the row behind the last. */
static size_t add_blocks(const struct parser *p, bool tested, struct data *data, size_t row)
{
	const unsigned char *bytes = (const unsigned char *)p->text->bytes;

	for (size_t block = 0; block <= p->blocks; block++) {
		const size_t rest = p->text->length - block * BLOCK;
		const size_t length = rest < BLOCK ? rest : BLOCK;

		for (size_t i = p->context; i < length && is_tested(p, block) == tested; i++)
			add_sample(p, bytes + block * BLOCK + i - p->context, data, row++);
	}
	return row;
}

tutti_result_t text_parse(const struct input *text, unsigned context, double test_fraction,
			  size_t most, struct data *out, struct why *why)
{
	struct parser p = { .text = text, .context = context };
	struct data data = { 0 };
	tutti_result_t result;

	rank_bytes(&p);
	choose_blocks(&p, test_fraction);
	result = check(&p, test_fraction, why);
	if (result == TUTTI_OK)
		result = count_rows(&p, most, &data, why);
	if (result != TUTTI_OK)
		return result;
	data.x = calloc(data.rows * data.features, sizeof(*data.x));
	data.y = malloc(data.rows * sizeof(*data.y));
	if (!data.x || !data.y) {
		data_finish(&data);
		return why_no_memory(why, text->path);
	}
	add_blocks(&p, true, &data, add_blocks(&p, false, &data, 0));
	*out = data;
	return TUTTI_OK;
}

/* ---- the files */

static tutti_result_t append(struct input *text, const struct input *more, struct why *why)
{
	char *bytes;

	if (more->length == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: found an empty file, expected text; leave it out", more->path);
	bytes = realloc(text->bytes, text->length + more->length);
	if (!bytes)
		return why_no_memory(why, more->path);
	memcpy(bytes + text->length, more->bytes, more->length);
	text->bytes = bytes;
	text->length += more->length;
	return TUTTI_OK;
}

static tutti_result_t append_file(struct input *text, const char *name, size_t length, size_t most,
				  struct why *why)
{
	struct input more = { 0 };
	char *path;
	tutti_result_t result;

	if (length == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "--data: found '%.200s', expected text:FILE[,FILE...]", text->path);
	path = strndup(name, length);
	if (!path)
		return why_no_memory(why, "the name of a file");
	result = input_read(path, most, &more, why);
	if (result == TUTTI_OK)
		result = append(text, &more, why);
	input_finish(&more);
	free(path);
	return result;
}

tutti_result_t text_read(const struct data_source *source, struct data *out, struct why *why)
{
	struct input text = { .path = source->path };
	const char *name = source->path + strlen(prefix);
	tutti_result_t result = TUTTI_OK;

	for (bool last = false; result == TUTTI_OK && !last;) {
		const size_t length = strcspn(name, ",");

		result = append_file(&text, name, length, source->most, why);
		last = name[length] == '\0';
		name += length + 1;
	}
	if (result == TUTTI_OK)
		result = text_parse(&text, source->context ? source->context : CONTEXT,
				    source->test_fraction, source->most, out, why);
	input_finish(&text);
	return result;
}
