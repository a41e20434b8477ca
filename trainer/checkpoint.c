/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes checkpoints (checkpoint.h has the format). Owns the memory of those that were
 * read, and nothing between calls. A file is trusted in nothing: its length must be what its header
 * implies before any memory is taken for it, and its checksum right before its numbers are looked
 * at. A file is never changed, but replaced (replace.h). */
#include "checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bits.h"
#include "replace.h"
#include "state.h"

static const unsigned char magic[8] = { 0x89, 't', 'u', 't', 't', 'i', 'c', 'k' };

enum {
	WORD = 8, /* bytes of a width, a real, the checksum */
	VERSION_END = sizeof(magic) + 4,
	FIXED_END = VERSION_END + 5 * 4 + 4 * WORD,
	HEADER_MAX = FIXED_END + (MODEL_LAYERS_MAX + 1) * WORD,
	EPOCH_BYTES = 4 + 6 * WORD,
	SUMS_BYTES = SUMS_NUMBERS * WORD,
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the state is written as it lies");
static_assert(sizeof(double) == WORD && sizeof(struct sums) == SUMS_BYTES, "the file's reals");
/* The largest model that the limits allow has less than 2^49 parameters, 2^54 bytes of state. */
static_assert(sizeof(size_t) == 8, "no sum of sizes below overflows");

static const char damaged[] = "the file is damaged; use another copy of it, or an older checkpoint";

/* What the file calls each type: the bytes of its gradients. */
static const struct numbers *const types[] = { &numbers_f32, &numbers_f64, &numbers_bf16 };

/* ---- fields */

static void put(unsigned char **at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*(*at)++ = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char **at, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = bytes; i-- > 0;)
		value = value << 8 | (*at)[i];
	*at += bytes;
	return value;
}

static void put_real(unsigned char **at, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put(at, bits, WORD);
}

static double get_real(const unsigned char **at)
{
	const uint64_t bits = get(at, WORD);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void put_epoch(unsigned char **at, const struct epoch *e)
{
	put(at, e->number, 4);
	put_real(at, e->train_loss);
	put_real(at, e->train_accuracy);
	put_real(at, e->test_loss);
	put_real(at, e->test_accuracy);
	put_real(at, e->rate);
	put_real(at, e->seconds);
}

static void get_epoch(const unsigned char **at, struct epoch *e)
{
	e->number = (unsigned)get(at, 4);
	e->train_loss = get_real(at);
	e->train_accuracy = get_real(at);
	e->test_loss = get_real(at);
	e->test_accuracy = get_real(at);
	e->rate = get_real(at);
	e->seconds = get_real(at);
}

/* ---- lengths */

static size_t header_bytes(const struct checkpoint *c)
{
	return FIXED_END + ((size_t)c->layers + 1) * WORD;
}

static size_t implied_state_bytes(const struct checkpoint *c)
{
	return state_bytes_of(c->numbers, (1 + (size_t)c->velocities) *
						  model_parameter_count(c->width, c->layers));
}

size_t checkpoint_bytes(const struct checkpoint *c)
{
	return header_bytes(c) + (size_t)c->epoch_count * EPOCH_BYTES + 2 * c->width[0] * WORD +
	       implied_state_bytes(c) + WORD;
}

/* ---- what the fields may be */

static tutti_result_t check_range(const char *path, const char *what, uint64_t found, uint64_t low,
				  uint64_t high, struct why *why)
{
	if (found >= low && found <= high)
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: %s: found %" PRIu64 ", expected %" PRIu64 " to %" PRIu64 "; %s", path,
		       what, found, low, high, damaged);
}

static tutti_result_t check_width(const char *path, const struct checkpoint *c, unsigned i,
				  struct why *why)
{
	char what[32];

	if (i == 0)
		return check_range(path, "features", c->width[i], 1, CHECKPOINT_FEATURES_MAX, why);
	if (i == c->layers)
		return check_range(path, "classes", c->width[i], 2, CHECKPOINT_CLASSES_MAX, why);
	snprintf(what, sizeof(what), "width of hidden layer %u", i);
	return check_range(path, what, c->width[i], 1, CHECKPOINT_HIDDEN_MAX, why);
}

/* Finite, or perhaps a NaN. */
static tutti_result_t check_real(const char *path, const char *what, double found, bool or_nan,
				 struct why *why)
{
	if (isfinite(found) || (or_nan && isnan(found)))
		return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: %s: found %g, expected a finite number; the training has diverged: use a "
		"smaller --lr, a longer --warmup, or an older checkpoint",
		path, what, found);
}

static tutti_result_t check_epoch(const char *path, const struct epoch *e, unsigned number,
				  struct why *why)
{
	const struct {
		const char *what;
		double value;
		bool or_nan;
	} reals[] = {
		{ "training loss", e->train_loss, false },
		{ "training accuracy", e->train_accuracy, false },
		{ "validation loss", e->test_loss, true },
		{ "validation accuracy", e->test_accuracy, true },
		{ "rate", e->rate, false },
		{ "seconds", e->seconds, false },
	};
	char what[64];

	if (e->number != number)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: epochs: found number %u, expected %u; %s", path, e->number,
			       number, damaged);
	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		snprintf(what, sizeof(what), "epoch %u, %s", number, reals[i].what);
		const tutti_result_t result =
			check_real(path, what, reals[i].value, reals[i].or_nan, why);

		if (result != TUTTI_OK)
			return result;
	}
	return TUTTI_OK;
}

static tutti_result_t check_reals(const char *path, const char *what, const double *values,
				  size_t count, struct why *why)
{
	char place[64];

	for (size_t i = 0; i < count; i++)
		if (!isfinite(values[i])) {
			snprintf(place, sizeof(place), "%s %zu", what, i);
			return check_real(path, place, values[i], false, why);
		}
	return TUTTI_OK;
}

/* `count` numbers of the model from `first` on. */
static tutti_result_t check_numbers(const char *path, const struct checkpoint *c, const char *what,
				    size_t first, size_t count, struct why *why)
{
	double values[256];
	char place[64];

	for (size_t done = 0, some; done < count; done += some) {
		some = count - done < 256 ? count - done : 256;
		c->numbers->load(values, numbers_from(c->numbers, c->state, first + done), some);
		for (size_t i = 0; i < some; i++)
			if (!isfinite(values[i])) {
				snprintf(place, sizeof(place), "%s %zu", what, done + i);
				return check_real(path, place, values[i], false, why);
			}
	}
	return TUTTI_OK;
}

static tutti_result_t check_state(const char *path, const struct checkpoint *c, struct why *why)
{
	const size_t parameters = model_parameter_count(c->width, c->layers);
	double sums[SUMS_NUMBERS];
	tutti_result_t result = check_numbers(path, c, "weight", 0, parameters, why);

	if (result == TUTTI_OK)
		result = check_numbers(path, c, "velocity", parameters, c->velocities * parameters,
				       why);
	memcpy(sums, (const char *)c->state + c->state_bytes - SUMS_BYTES, sizeof(sums));
	return result == TUTTI_OK ? check_reals(path, "sum of the epoch", sums, SUMS_NUMBERS, why)
				  : result;
}

/* Everything but what the header implies. */
static tutti_result_t check_contents(const char *path, const struct checkpoint *c, struct why *why)
{
	tutti_result_t result = check_real(path, "seconds", c->seconds, false, why);

	for (unsigned i = 0; i < c->epoch_count && result == TUTTI_OK; i++)
		result = check_epoch(path, &c->epochs[i], i + 1, why);
	if (result == TUTTI_OK && c->mean)
		result = check_reals(path, "mean of feature", c->mean, c->width[0], why);
	if (result == TUTTI_OK && c->inverse)
		result = check_reals(path, "factor of feature", c->inverse, c->width[0], why);
	return result == TUTTI_OK ? check_state(path, c, why) : result;
}

/* ---- from memory */

static tutti_result_t refuse_short(const char *path, size_t found, const char *at_least,
				   size_t expected, struct why *why)
{
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: truncated: found %zu bytes, expected %s%zu; use another copy of it, or "
		       "an older checkpoint",
		       path, found, at_least, expected);
}

/* Is it one of ours, and of a version that this program knows? */
static tutti_result_t check_kind(const char *path, const unsigned char *bytes, size_t length,
				 struct why *why)
{
	const unsigned char *at;

	if (length < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)) != 0)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: is not a checkpoint of tutti-train; give a file that --save wrote",
			path);
	if (length < FIXED_END)
		return refuse_short(path, length, "at least ", FIXED_END, why);
	at = bytes + sizeof(magic);
	const unsigned version = (unsigned)get(&at, 4);
	if (version > CHECKPOINT_VERSION)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: was written by a newer tutti-train (format %u), expected at most %d; "
			"use that one",
			path, version, CHECKPOINT_VERSION);
	if (version < CHECKPOINT_VERSION)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: was written by an older tutti-train (format %u), expected format %d; "
			"use that one, or begin anew",
			path, version, CHECKPOINT_VERSION);
	return TUTTI_OK;
}

/* NULL: there is no such type. */
static const struct numbers *type_of(uint64_t code)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i]->gradients->size == code)
			return types[i];
	return NULL;
}

static tutti_result_t get_fixed(const char *path, const unsigned char *at, struct checkpoint *c,
				struct why *why)
{
	const uint64_t type = get(&at, 4), layers = get(&at, 4), velocities = get(&at, 4),
		       epochs = get(&at, 4), ranks = get(&at, 4);
	tutti_result_t result;

	c->numbers = type_of(type);
	c->layers = (unsigned)layers;
	c->velocities = (unsigned)velocities;
	c->epoch_count = (unsigned)epochs;
	c->options = get(&at, WORD);
	c->data = get(&at, WORD);
	c->step = get(&at, WORD);
	c->seconds = get_real(&at);
	if (!c->numbers)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s: type: found %" PRIu64
			       ", expected 4 (f32), 8 (f64) or 2 (bf16); %s",
			       path, type, damaged);
	result = check_range(path, "layers", layers, 1, MODEL_LAYERS_MAX, why);
	if (result == TUTTI_OK)
		result = check_range(path, "numbers kept for each weight", velocities, 0,
				     OPTIMIZER_VELOCITIES, why);
	if (result == TUTTI_OK)
		result = check_range(path, "ranks", ranks, 1, INT_MAX, why);
	if (result == TUTTI_OK)
		result = check_range(path, "steps", c->step, epochs, UINT64_MAX, why);
	if (result == TUTTI_OK)
		c->ranks = (int)ranks;
	return result;
}

static tutti_result_t get_widths(const char *path, const unsigned char *at, struct checkpoint *c,
				 struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (unsigned i = 0; i <= c->layers && result == TUTTI_OK; i++) {
		c->width[i] = (size_t)get(&at, WORD);
		result = check_width(path, c, i, why);
	}
	return result;
}

/* Of a file of `length` bytes the first `have` are here: all of it, or HEADER_MAX. On success the
 * file is as long as it should be. */
static tutti_result_t get_header(const char *path, const unsigned char *bytes, size_t have,
				 size_t length, struct checkpoint *c, struct why *why)
{
	tutti_result_t result = check_kind(path, bytes, have, why);

	if (result == TUTTI_OK)
		result = get_fixed(path, bytes + VERSION_END, c, why);
	if (result != TUTTI_OK)
		return result;
	if (have < header_bytes(c))
		return refuse_short(path, have, "at least ", header_bytes(c), why);
	result = get_widths(path, bytes + FIXED_END, c, why);
	if (result != TUTTI_OK)
		return result;
	c->state_bytes = implied_state_bytes(c);
	const size_t expected = checkpoint_bytes(c);
	if (length < expected)
		return refuse_short(path, length, "", expected, why);
	if (length > expected)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: %zu bytes longer than its header says: found %zu bytes, expected %zu; "
			"%s",
			path, length - expected, length, expected, damaged);
	return TUTTI_OK;
}

static tutti_result_t check_sum(const char *path, const unsigned char *bytes, size_t length,
				struct why *why)
{
	const unsigned char *at = bytes + length - WORD;
	const uint64_t found = hash_bytes(0, bytes, length - WORD), expected = get(&at, WORD);

	if (found == expected)
		return TUTTI_OK;
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: found checksum %016" PRIx64 ", expected %016" PRIx64 "; %s", path,
		       found, expected, damaged);
}

static double *get_reals(const unsigned char **at, size_t count)
{
	double *values = malloc(count * sizeof(*values));

	for (size_t i = 0; values && i < count; i++)
		values[i] = get_real(at);
	return values;
}

static tutti_result_t get_contents(const char *path, const unsigned char *at, struct checkpoint *c,
				   struct why *why)
{
	void *state;

	c->epochs = calloc((size_t)c->epoch_count + 1, sizeof(*c->epochs)); /* there may be none */
	if (!c->epochs)
		return why_no_memory(why, path);
	for (unsigned i = 0; i < c->epoch_count; i++)
		get_epoch(&at, &c->epochs[i]);
	c->mean = get_reals(&at, c->width[0]);
	if (c->mean)
		c->inverse = get_reals(&at, c->width[0]);
	c->state = state = malloc(c->state_bytes);
	if (!c->inverse || !state)
		return why_no_memory(why, path);
	memcpy(state, at, c->state_bytes);
	return check_contents(path, c, why);
}

tutti_result_t checkpoint_parse(const char *path, const void *bytes, size_t length,
				struct checkpoint *out, struct why *why)
{
	struct checkpoint c = { 0 };
	tutti_result_t result = get_header(path, bytes, length, length, &c, why);

	*out = (struct checkpoint){ 0 };
	if (result == TUTTI_OK)
		result = check_sum(path, bytes, length, why);
	if (result == TUTTI_OK)
		result = get_contents(path, (const unsigned char *)bytes + header_bytes(&c), &c,
				      why);
	if (result != TUTTI_OK) {
		checkpoint_finish(&c);
		return result;
	}
	*out = c;
	return TUTTI_OK;
}

void checkpoint_finish(struct checkpoint *c)
{
	free(c->epochs);
	free(c->mean);
	free(c->inverse);
	free((void *)c->state);
	*c = (struct checkpoint){ 0 };
}

/* ---- to memory */

static void put_header(unsigned char **at, const struct checkpoint *c)
{
	memcpy(*at, magic, sizeof(magic));
	*at += sizeof(magic);
	put(at, CHECKPOINT_VERSION, 4);
	put(at, c->numbers->gradients->size, 4);
	put(at, c->layers, 4);
	put(at, c->velocities, 4);
	put(at, c->epoch_count, 4);
	put(at, (uint64_t)c->ranks, 4);
	put(at, c->options, WORD);
	put(at, c->data, WORD);
	put(at, c->step, WORD);
	put_real(at, c->seconds);
	for (unsigned i = 0; i <= c->layers; i++)
		put(at, c->width[i], WORD);
}

void checkpoint_put(const struct checkpoint *c, void *to)
{
	unsigned char *at = to;

	put_header(&at, c);
	for (unsigned i = 0; i < c->epoch_count; i++)
		put_epoch(&at, &c->epochs[i]);
	for (size_t i = 0; i < c->width[0]; i++)
		put_real(&at, c->mean ? c->mean[i] : 0);
	for (size_t i = 0; i < c->width[0]; i++)
		put_real(&at, c->inverse ? c->inverse[i] : 1);
	memcpy(at, c->state, c->state_bytes);
	at += c->state_bytes;
	put(&at, hash_bytes(0, to, (size_t)(at - (unsigned char *)to)), WORD);
}

/* ---- from a file */

static tutti_result_t open_regular(const char *path, int *fd, size_t *length, struct why *why)
{
	struct stat status;

	/* opening a FIFO does not wait for its other end here */
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return why_set(why, TUTTI_ERR_SYSTEM,
			       "%s: cannot be read: %s; give a checkpoint of tutti-train", path,
			       strerror(errno));
	if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode)) {
		*length = (size_t)status.st_size;
		return TUTTI_OK;
	}
	close(*fd);
	return why_set(why, TUTTI_ERR_INVALID,
		       "%s: is not a regular file; give a checkpoint of tutti-train", path);
}

/* The first `length` bytes. */
static tutti_result_t read_first(const char *path, int fd, unsigned char *to, size_t length,
				 struct why *why)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < length && n != 0) {
		n = pread(fd, to + done, length - done, (off_t)done);
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			return why_set(why, TUTTI_ERR_SYSTEM,
				       "%s: read failed after %zu of %zu bytes: %s; use another "
				       "copy of it, or an older checkpoint",
				       path, done, length, strerror(errno));
	}
	return done == length ? TUTTI_OK : refuse_short(path, done, "", length, why);
}

static tutti_result_t read_all(const char *path, int fd, size_t length, struct checkpoint *out,
			       struct why *why)
{
	unsigned char header[HEADER_MAX], *bytes;
	const size_t have = length < HEADER_MAX ? length : HEADER_MAX;
	struct checkpoint c = { 0 };
	tutti_result_t result = read_first(path, fd, header, have, why);

	if (result == TUTTI_OK)
		result = get_header(path, header, have, length, &c, why);
	if (result != TUTTI_OK)
		return result;
	bytes = malloc(length);
	if (!bytes)
		return why_no_memory(why, path);
	result = read_first(path, fd, bytes, length, why);
	if (result == TUTTI_OK)
		result = checkpoint_parse(path, bytes, length, out, why);
	free(bytes);
	return result;
}

tutti_result_t checkpoint_read(const char *path, struct checkpoint *out, struct why *why)
{
	int fd;
	size_t length = 0;
	tutti_result_t result;

	*out = (struct checkpoint){ 0 };
	result = open_regular(path, &fd, &length, why);
	if (result != TUTTI_OK)
		return result;
	result = read_all(path, fd, length, out, why);
	close(fd);
	return result;
}

/* ---- to a file */

tutti_result_t checkpoint_write(const char *path, const struct checkpoint *c, struct why *why)
{
	unsigned char *bytes;
	tutti_result_t result;

	assert(c->state_bytes == implied_state_bytes(c) && c->ranks > 0);
	assert(c->step >= c->epoch_count && !c->mean == !c->inverse);
	result = check_contents(path, c, why);
	if (result != TUTTI_OK)
		return result;
	bytes = malloc(checkpoint_bytes(c));
	if (!bytes)
		return why_no_memory(why, path);
	checkpoint_put(c, bytes);
	result = replace_file(path, bytes, checkpoint_bytes(c), why);
	free(bytes);
	return result;
}
