/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the JSON log of a training. Owns nothing. A log may end early, as that of a training that
 * was killed or still runs; but what there is has to be a log's. */
#include "logs.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

enum { MOST_EPOCHS = 100000, MOST_LOSSES = 100000 };

struct reader {
	const char *path;
	size_t line;
	struct logged *log;
	bool started;
	struct why *why;
};

static tutti_result_t refuse(const struct reader *r, const char *found)
{
	return why_set(r->why, TUTTI_ERR_INVALID,
		       "%s: line %zu: %s; give a file that tutti-train --json wrote", r->path,
		       r->line, found);
}

/* A finite number from `low` on. */
static tutti_result_t take_real(const struct reader *r, const json_t *object, const char *key,
				double low, double *to)
{
	const json_t *value = json_object_get(object, key);
	char text[96];

	*to = json_number_value(value);
	if (json_is_number(value) && isfinite(*to) && *to >= low)
		return TUTTI_OK;
	snprintf(text, sizeof(text), "found no \"%s\" that is a number from %g on", key, low);
	return refuse(r, text);
}

/* The same, or null, a NaN. */
static tutti_result_t take_maybe(const struct reader *r, const json_t *object, const char *key,
				 double *to)
{
	if (!json_is_null(json_object_get(object, key)))
		return take_real(r, object, key, 0, to);
	*to = NAN;
	return TUTTI_OK;
}

static tutti_result_t take_text(const struct reader *r, const json_t *object, const char *key,
				char **to)
{
	const char *value = json_string_value(json_object_get(object, key));
	char text[96];

	if (!value) {
		snprintf(text, sizeof(text), "found no \"%s\" that is a text", key);
		return refuse(r, text);
	}
	*to = strdup(value);
	if (!*to)
		return why_no_memory(r->why, r->path);
	tt_printable(*to);
	return TUTTI_OK;
}

/* What tells ways apart whose "sync" is the same; older logs have none of it. */
static tutti_result_t take_way(const struct reader *r, const json_t *object, char **way)
{
	const bool stages = json_integer_value(json_object_get(object, "stages")) > 1,
		   parts = json_integer_value(json_object_get(object, "ways")) > 1;
	const char *name = stages && parts ? "grid" : stages ? "pipeline" : parts ? "tensor" : NULL;

	if (!name)
		return take_text(r, object, "sync", way);
	*way = strdup(name);
	return *way ? TUTTI_OK : why_no_memory(r->why, r->path);
}

static tutti_result_t take_start(struct reader *r, const json_t *object)
{
	struct logged *log = r->log;
	double ranks = 0;
	tutti_result_t result =
		r->started ? refuse(r, "found a second start") : take_way(r, object, &log->way);

	if (result == TUTTI_OK)
		result = take_text(r, object, "data", &log->data);
	if (result == TUTTI_OK)
		result = take_text(r, object, "dtype", &log->dtype);
	if (result == TUTTI_OK)
		result = take_real(r, object, "ranks", 1, &ranks);
	if (result == TUTTI_OK)
		result = take_real(r, object, "parameters", 1, &log->parameters);
	if (result == TUTTI_OK)
		result = take_real(r, object, "batch", 1, &log->batch);
	if (result == TUTTI_OK)
		result = take_real(r, object, "train_samples", 1, &log->train_samples);
	log->ranks = ranks < 1e6 ? (int)ranks : 1000000;
	r->started = true;
	return result;
}

static tutti_result_t take_epoch(struct reader *r, const json_t *object)
{
	struct logged *log = r->log;
	struct point point = { 0 };
	tutti_result_t result = take_real(r, object, "seconds", 0, &point.seconds);
	struct point *more;

	if (result == TUTTI_OK)
		result = take_real(r, object, "train_loss", 0, &point.train_loss);
	if (result == TUTTI_OK)
		result = take_maybe(r, object, "test_loss", &point.test_loss);
	if (result == TUTTI_OK)
		result = take_maybe(r, object, "test_accuracy", &point.test_accuracy);
	if (result == TUTTI_OK && log->point_count == MOST_EPOCHS)
		result = refuse(r, "found more than 100000 epochs");
	if (result != TUTTI_OK)
		return result;
	more = realloc(log->points, (log->point_count + 1) * sizeof(*more));
	if (!more)
		return why_no_memory(r->why, r->path);
	log->points = more;
	more[log->point_count++] = point;
	return TUTTI_OK;
}

static tutti_result_t take_loss(struct reader *r, const json_t *object)
{
	struct logged *log = r->log;
	double seconds, *more;
	tutti_result_t result = take_real(r, object, "seconds", 0, &seconds);

	if (result == TUTTI_OK && log->loss_count == MOST_LOSSES)
		result = refuse(r, "found more than 100000 losses of ranks");
	if (result != TUTTI_OK)
		return result;
	more = realloc(log->losses, (log->loss_count + 1) * sizeof(*more));
	if (!more)
		return why_no_memory(r->why, r->path);
	log->losses = more;
	more[log->loss_count++] = seconds;
	return TUTTI_OK;
}

/* Logs of before have no such lists. */
static tutti_result_t take_ranks(struct reader *r, const json_t *object)
{
	const json_t *all = json_object_get(object, "each_rank");
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < json_array_size(all) && result == TUTTI_OK; i++) {
		double received = 0;

		result = take_real(r, json_array_get(all, i), "received", 0, &received);
		r->log->received_bytes = fmax(r->log->received_bytes, received);
	}
	return result;
}

static tutti_result_t take_staleness(struct reader *r, const json_t *object)
{
	const json_t *all = json_object_get(object, "staleness");
	struct logged *log = r->log;

	if (json_array_size(all) > LOGGED_STALENESS)
		return refuse(r, "found more than 64 numbers of \"staleness\"");
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *value = json_array_get(all, i);

		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return refuse(r, "found a \"staleness\" that is no list of counts");
		log->staleness[log->staleness_count++] = (double)json_integer_value(value);
	}
	return TUTTI_OK;
}

static tutti_result_t take_end(struct reader *r, const json_t *object)
{
	struct logged *log = r->log;
	tutti_result_t result = log->ended ? refuse(r, "found a second end")
					   : take_real(r, object, "seconds", 0, &log->seconds);

	if (result == TUTTI_OK)
		result = take_real(r, object, "samples_per_s", 0, &log->samples_per_s);
	if (result == TUTTI_OK)
		result = take_real(r, object, "blocked_share", 0, &log->blocked);
	if (result == TUTTI_OK)
		result = take_real(r, object, "sent_bytes", 0, &log->sent_bytes);
	if (result == TUTTI_OK)
		result = take_real(r, object, "steps", 1, &log->steps);
	if (result == TUTTI_OK)
		result = take_real(r, object, "steps_begun", 0, &log->steps_begun);
	if (result == TUTTI_OK)
		result = take_text(r, object, "algorithm", &log->algorithm);
	if (result == TUTTI_OK)
		result = take_text(r, object, "transports", &log->transports);
	if (result == TUTTI_OK)
		result = take_ranks(r, object);
	if (result == TUTTI_OK)
		result = take_staleness(r, object);
	log->ended = true;
	return result;
}

static tutti_result_t take_line(struct reader *r, const char *line, size_t length)
{
	json_error_t error;
	json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	const char *event = json_string_value(json_object_get(object, "event"));
	tutti_result_t result = TUTTI_OK;

	if (!event)
		result = refuse(r, object ? "found an object without \"event\"" : "is not JSON");
	else if (!r->started && strcmp(event, "start") != 0)
		result = refuse(r, "found another event than start");
	else if (strcmp(event, "start") == 0)
		result = take_start(r, object);
	else if (strcmp(event, "epoch") == 0)
		result = take_epoch(r, object);
	else if (strcmp(event, "loss") == 0)
		result = take_loss(r, object);
	else if (strcmp(event, "end") == 0)
		result = take_end(r, object);
	json_decref(object);
	return result;
}

tutti_result_t logged_parse(const char *path, const char *bytes, size_t length, struct logged *out,
			    struct why *why)
{
	struct logged log = { 0 };
	struct reader reader = { .path = path, .log = &log, .why = why };
	tutti_result_t result = TUTTI_OK;

	for (size_t at = 0; at < length && result == TUTTI_OK;) {
		const char *end = memchr(bytes + at, '\n', length - at);
		const size_t line = end ? (size_t)(end - bytes) - at : length - at;

		reader.line++;
		if (end || line == 0) /* the last may be half of one */
			result = take_line(&reader, bytes + at, line);
		else if (!reader.started)
			result = refuse(&reader, "is no line");
		at += line + 1;
	}
	if (result == TUTTI_OK && log.point_count == 0)
		result = why_set(
			why, TUTTI_ERR_INVALID,
			"%s: found no epoch, expected one at least; let the training go on", path);
	if (result != TUTTI_OK) {
		logged_finish(&log);
		return result;
	}
	*out = log;
	return TUTTI_OK;
}

void logged_finish(struct logged *log)
{
	free(log->way);
	free(log->data);
	free(log->dtype);
	free(log->algorithm);
	free(log->transports);
	free(log->points);
	free(log->losses);
	*log = (struct logged){ 0 };
}
