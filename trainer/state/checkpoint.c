/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes checkpoints (checkpoint.h has the format). Owns the memory of those that were
 * read, and nothing between calls. A file is trusted in nothing: what its header says is checked before
 * memory is taken for it, and its length has to be what that implies. */
#include "checkpoint.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "replace.h"

#define KIND	 "tutti-train checkpoint"
#define BEGIN	 "{\"" KIND "\":"
#define FEATURES ((json_int_t)1 << 32) /* at most */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie");
/* The largest model that the limits allow has less than 2^49 parameters, 2^54 bytes of state. */
static_assert(sizeof(size_t) == 8, "no sum of sizes below overflows");

static const char old_begin[] = "\x89tuttick"; /* of formats 1 and 2, whose number is behind it */
static const char advice[] = "use another copy of it, or an older checkpoint";

/* What an array is of. */
struct array_of {
	const char *name;
	const struct numbers *numbers;
	size_t count, bytes;
};

static struct array_of array_of(const struct checkpoint *c, enum checkpoint_array which)
{
	const size_t weights = model_parameter_count(c->width, c->layers);
	struct array_of of[CHECKPOINT_ARRAYS] = {
		[MEAN] = { "mean", &numbers_f64, c->width[0] },
		[FACTOR] = { "factor", &numbers_f64, c->width[0] },
		[WEIGHTS] = { "weights", c->numbers, weights },
		[VELOCITY] = { "velocity", c->numbers, c->velocities * weights },
	};

	of[which].bytes = of[which].count * of[which].numbers->size;
	return of[which];
}

static size_t all_bytes(const struct checkpoint *c)
{
	size_t bytes = 0;

	for (int a = 0; a < CHECKPOINT_ARRAYS; a++)
		bytes += array_of(c, a).bytes;
	return bytes;
}

/* A sum of squares is finite if they all are, since larger ones are none that a training comes to. */
static bool check_finite(const char *path, const struct checkpoint *c)
{
	for (int a = 0; a < CHECKPOINT_ARRAYS; a++) {
		const struct array_of of = array_of(c, a);

		if (!isfinite(of.numbers->square_sum(c->array[a], of.count)))
			return data_refuse(
				path,
				"%s: found a number that is not finite; the training has diverged: "
				"use a smaller --lr, a longer --warmup, or an older checkpoint",
				of.name);
	}
	return true;
}

/* ---- to memory */

static json_t *arrays_json(const struct checkpoint *c)
{
	json_t *all = json_array();

	for (int a = 0; a < CHECKPOINT_ARRAYS; a++) {
		const struct array_of of = array_of(c, a);

		json_array_append_new(all, json_pack("[s,s,I]", of.name,
						     of.numbers->size == 8 ? "<f8" : "<f4",
						     (json_int_t)of.count));
	}
	return all;
}

static json_t *header_json(const struct checkpoint *c)
{
	json_t *width = json_array(), *epochs = json_array();
	char data[17];

	snprintf(data, sizeof(data), "%016llx", (unsigned long long)c->data);
	for (unsigned i = 0; i <= c->layers; i++)
		json_array_append_new(width, json_integer((json_int_t)c->width[i]));
	for (unsigned i = 0; i < c->epoch_count; i++)
		json_array_append_new(epochs, log_epoch_json(&c->epochs[i]));
	return json_pack("{s:i,s:O,s:s,s:o,s:I,s:i,s:f,s:o,s:o}", KIND, CHECKPOINT_FORMAT,
			 "options", c->options, "data", data, "width", width, "steps",
			 (json_int_t)c->step, "ranks", c->ranks, "seconds", c->seconds, "epochs",
			 epochs, "arrays", arrays_json(c));
}

bool checkpoint_pack(const char *path, const struct checkpoint *c, void **bytes, size_t *length)
{
	json_t *json = header_json(c);
	char *header = json_dumps(json, JSON_COMPACT);
	const size_t end = (header ? strlen(header) : 0) + 1 + all_bytes(c);
	char *all = header ? malloc(end + sizeof(uint32_t)) : NULL, *at = all;
	uint32_t sum;

	if (all) {
		at = stpcpy(at, header);
		*at++ = '\n';
		for (int a = 0; a < CHECKPOINT_ARRAYS; a++)
			at = mempcpy(at, c->array[a], array_of(c, a).bytes);
		sum = (uint32_t)crc32_z(0, (unsigned char *)all, end);
		memcpy(at, &sum, sizeof(sum));
	}
	json_decref(json);
	free(header);
	*bytes = all;
	*length = end + sizeof(sum);
	return all || why_no_memory(path);
}

/* ---- from memory */

static bool refuse_format(const char *path, int found)
{
	return data_refuse(path,
			   "was written by another tutti-train (format %d), expected format %d; "
			   "use that one, or begin anew",
			   found, CHECKPOINT_FORMAT);
}

static bool refuse_header(const char *path, const char *what)
{
	return data_refuse(path, "the header is damaged: %s; %s", what, advice);
}

static bool begins(const char *bytes, size_t length, const char *begin)
{
	return length >= strlen(begin) && memcmp(bytes, begin, strlen(begin)) == 0;
}

/* The first line, and what is behind it. */
static bool load_header(const char *path, const char *bytes, size_t length, json_t **out,
			const char **behind)
{
	const char *end = memchr(bytes, '\n', length);
	json_error_t error;
	int format = 0;

	if (begins(bytes, length, old_begin))
		return refuse_format(path,
				     length > strlen(old_begin) ? bytes[strlen(old_begin)] : 0);
	if (!begins(bytes, length, BEGIN))
		return data_refuse(
			path, "is not a checkpoint of tutti-train; give a file that --save wrote");
	if (!end)
		return refuse_header(path, "it has no end");
	*behind = end + 1;
	*out = json_loadb(bytes, (size_t)(end - bytes), JSON_REJECT_DUPLICATES, &error);
	if (!*out || json_unpack_ex(*out, &error, 0, "{s:i}", KIND, &format) < 0)
		return refuse_header(path, error.text);
	return format == CHECKPOINT_FORMAT || refuse_format(path, format);
}

static bool check_sum(const char *path, const char *bytes, size_t length)
{
	const size_t end = length - sizeof(uint32_t);
	const uint32_t found = (uint32_t)crc32_z(0, (const unsigned char *)bytes, end);
	uint32_t said;

	memcpy(&said, bytes + end, sizeof(said));
	return found == said ||
	       data_refuse(path, "is truncated or damaged: found checksum %08x, expected %08x; %s",
			   found, said, advice);
}

static bool get_types(const char *dtype, const char *optimizer, struct checkpoint *c)
{
	const struct numbers *const *type = numbers_types;
	const struct optimizer *const *o = optimizers;

	while (*type && strcmp((*type)->name, dtype) != 0)
		type++;
	while (*o && strcmp((*o)->name, optimizer) != 0)
		o++;
	c->velocities = *o ? (*o)->velocities : 0;
	c->numbers = *type;
	return *type && *o;
}

static bool get_widths(const json_t *widths, struct checkpoint *c)
{
	const size_t count = json_array_size(widths);
	bool ok = count >= 2 && count <= MODEL_LAYERS_MAX + 1;

	c->layers = ok ? (unsigned)count - 1 : 0;
	for (unsigned i = 0; ok && i <= c->layers; i++) {
		const json_int_t found = json_integer_value(json_array_get(widths, i));

		ok = found >= (i == c->layers ? 2 : 1) &&
		     found <= (i == 0 ? FEATURES : DATA_LABEL_MAX + 1);
		c->width[i] = (size_t)found;
	}
	return ok;
}

static bool get_epochs(const char *path, const json_t *epochs, struct checkpoint *c)
{
	const size_t count = json_array_size(epochs);

	c->epochs = calloc(count + 1, sizeof(*c->epochs)); /* there may be none */
	if (!c->epochs)
		return why_no_memory(path);
	for (; c->epoch_count < count; c->epoch_count++) {
		struct epoch *e = &c->epochs[c->epoch_count];

		e->number = c->epoch_count + 1;
		if (!log_epoch_parse(json_array_get(epochs, c->epoch_count), e))
			return refuse_header(path, "its epochs lack numbers");
	}
	return true;
}

/* The checksum is right: it is another program that can have written what is not. */
static bool get_header(const char *path, json_t *json, struct checkpoint *c)
{
	json_t *width, *epochs, *arrays, *expected;
	json_int_t step;
	const char *data, *dtype, *optimizer, *wrong = NULL;
	json_error_t error;

	if (json_unpack_ex(json, &error, 0, "{s:O,s:{s:s,s:s},s:s,s:o,s:I,s:i,s:F,s:o,s:o}",
			   "options", &c->options, "options", "dtype", &dtype, "optimizer",
			   &optimizer, "data", &data, "width", &width, "steps", &step, "ranks",
			   &c->ranks, "seconds", &c->seconds, "epochs", &epochs, "arrays",
			   &arrays) < 0)
		return refuse_header(path, error.text);
	c->data = strtoull(data, NULL, 16);
	c->step = (size_t)step;
	if (!get_types(dtype, optimizer, c))
		wrong = "its dtype or optimizer is none of tutti-train's";
	else if (!get_widths(width, c))
		wrong = "its widths are none of a model";
	else if (step < (json_int_t)json_array_size(epochs) || c->ranks < 1)
		wrong = "fewer steps than epochs, or no rank";
	else {
		expected = arrays_json(c);
		if (!json_equal(arrays, expected))
			wrong = "arrays: found others than those of its widths";
		json_decref(expected);
	}
	return wrong ? refuse_header(path, wrong) : get_epochs(path, epochs, c);
}

/* Of `length` bytes, which the checksum ends. */
static bool get_arrays(const char *path, const char *at, size_t length, struct checkpoint *c)
{
	const size_t expected = all_bytes(c) + sizeof(uint32_t);

	if (length != expected)
		return data_refuse(path, "found %zu bytes behind the header, expected %zu; %s",
				   length, expected, advice);
	for (int a = 0; a < CHECKPOINT_ARRAYS; a++) {
		const size_t bytes = array_of(c, a).bytes;

		c->array[a] = malloc(bytes + 1); /* there may be no velocity */
		if (!c->array[a])
			return why_no_memory(path);
		memcpy(c->array[a], at, bytes);
		at += bytes;
	}
	return check_finite(path, c);
}

bool checkpoint_parse(const char *path, const void *bytes, size_t length, struct checkpoint *out)
{
	const char *arrays = NULL, *end = (const char *)bytes + length;
	json_t *json = NULL;

	*out = (struct checkpoint){ 0 };
	const bool ok = load_header(path, bytes, length, &json, &arrays) &&
			check_sum(path, bytes, length) && get_header(path, json, out) &&
			get_arrays(path, arrays, (size_t)(end - arrays), out);

	json_decref(json);
	if (!ok)
		checkpoint_finish(out);
	return ok;
}

void checkpoint_finish(struct checkpoint *c)
{
	json_decref(c->options);
	free(c->epochs);
	for (int a = 0; a < CHECKPOINT_ARRAYS; a++)
		free(c->array[a]);
	*c = (struct checkpoint){ 0 };
}

/* ---- files */

bool checkpoint_read(const char *path, struct checkpoint *out)
{
	struct input input = { 0 };

	*out = (struct checkpoint){ 0 };
	const bool ok = input_read(path, DATA_WHOLE, INPUT_PLAIN, &input) &&
			checkpoint_parse(path, input.bytes, input.length, out);

	input_finish(&input);
	return ok;
}

bool checkpoint_write(const char *path, const struct checkpoint *c)
{
	void *bytes = NULL;
	size_t length = 0;
	const bool ok = check_finite(path, c) && checkpoint_pack(path, c, &bytes, &length) &&
			replace_file(path, bytes, length);

	free(bytes);
	return ok;
}
