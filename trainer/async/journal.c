/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the files of journals. */
#include "journal.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "output.h"

enum { WORKERS_MOST = 1 << 20, EPOCHS_MOST = 100000, PATH_ROOM = 4096 };

#define JOURNAL_MOST ((size_t)1 << 32) /* bytes */
#define NUMBER_MOST  ((uint64_t)1 << 53)

static void name_of(const char *path, unsigned server, unsigned servers, char name[PATH_ROOM])
{
	if (servers == 1)
		snprintf(name, PATH_ROOM, "%s", path);
	else
		snprintf(name, PATH_ROOM, "%s.%u", path, server);
}

/* ---- writing */

static tutti_result_t refuse_write(const struct journal_writer *w, struct why *why)
{
	return why_set(why, TUTTI_ERR_SYSTEM, "--journal: writing %s failed: %s; " OUTPUT_ADVICE,
		       w->path, strerror(errno));
}

tutti_result_t journal_open(const char *path, const struct journal_head *h,
			    struct journal_writer *out, struct why *why)
{
	struct journal_writer w = { .path = path, .servers = h->servers };
	char name[PATH_ROOM];

	name_of(path, h->server, h->servers, name);
	w.file = fopen(name, "we");
	if (!w.file)
		return why_set(why, TUTTI_ERR_SYSTEM, "--journal: %s cannot be written: %s", name,
			       strerror(errno));
	*out = w;
	if (fprintf(w.file,
		    "{\"journal\":1,\"server\":%u,\"servers\":%u,\"workers\":%u,"
		    "\"options\":\"%016" PRIx64 "\",\"data\":\"%016" PRIx64 "\",\"step\":%" PRIu64
		    "}\n",
		    h->server, h->servers, h->workers, h->options, h->data, h->step) < 0)
		return refuse_write(&w, why);
	return TUTTI_OK;
}

tutti_result_t journal_add(struct journal_writer *w, const struct journal_entry *e, struct why *why)
{
	int wrote;

	if (!w->file)
		return TUTTI_OK;
	wrote = fprintf(w->file,
			"{\"update\":%" PRIu64 ",\"worker\":%" PRIu64 ",\"task\":%" PRIu64
			",\"age\":%" PRIu64 ",\"seconds\":%.6f,\"versions\":[",
			e->update, e->worker, e->task, e->age, e->seconds);
	for (unsigned s = 0; s < w->servers && wrote >= 0; s++)
		wrote = fprintf(w->file, "%s%" PRIu64, s ? "," : "", e->versions[s]);
	if (wrote >= 0)
		wrote = fputs("]}\n", w->file);
	return wrote < 0 ? refuse_write(w, why) : TUTTI_OK;
}

tutti_result_t journal_end_epoch(struct journal_writer *w, unsigned epoch, struct why *why)
{
	if (w->file && (fprintf(w->file, "{\"epoch\":%u}\n", epoch) < 0 || fflush(w->file) == EOF))
		return refuse_write(w, why);
	return TUTTI_OK;
}

void journal_close(struct journal_writer *w)
{
	if (w->file)
		fclose(w->file);
	*w = (struct journal_writer){ 0 };
}

/* ---- reading */

struct reader {
	const char *path;
	size_t line;
	uint64_t update; /* the last */
	struct journal *journal;
	struct why *why;
};

static tutti_result_t refuse(const struct reader *r, const char *found)
{
	return why_set(r->why, TUTTI_ERR_INVALID,
		       "%s: line %zu: %s; give a file that tutti-train --journal wrote", r->path,
		       r->line, found);
}

static tutti_result_t refuse_key(const struct reader *r, const char *key, const char *expected)
{
	char text[128];

	snprintf(text, sizeof(text), "found no \"%s\" that is %s", key, expected);
	return refuse(r, text);
}

static tutti_result_t take_number(const struct reader *r, const json_t *object, const char *key,
				  uint64_t low, uint64_t high, uint64_t *to)
{
	const json_t *value = json_object_get(object, key);
	const json_int_t number = json_integer_value(value);
	char text[96];

	*to = (uint64_t)number;
	if (json_is_integer(value) && number >= 0 && *to >= low && *to <= high)
		return TUTTI_OK;
	snprintf(text, sizeof(text), "a whole number from %" PRIu64 " to %" PRIu64, low, high);
	return refuse_key(r, key, text);
}

static tutti_result_t take_unsigned(const struct reader *r, const json_t *object, const char *key,
				    uint64_t low, uint64_t high, unsigned *to)
{
	uint64_t number = 0;
	const tutti_result_t result = take_number(r, object, key, low, high, &number);

	*to = (unsigned)number;
	return result;
}

static tutti_result_t take_hash(const struct reader *r, const json_t *object, const char *key,
				uint64_t *to)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return refuse_key(r, key, "a checksum");
	*to = strtoull(text, NULL, 16);
	return TUTTI_OK;
}

static tutti_result_t take_head(const struct reader *r, const json_t *object)
{
	struct journal_head *h = &r->journal->head;
	uint64_t version;
	tutti_result_t result = take_number(r, object, "journal", 1, 1, &version);

	if (result == TUTTI_OK)
		result = take_unsigned(r, object, "servers", 1, SERVERS_MAX, &h->servers);
	if (result == TUTTI_OK)
		result = take_unsigned(r, object, "server", 0, h->servers - 1, &h->server);
	if (result == TUTTI_OK)
		result = take_unsigned(r, object, "workers", 1, WORKERS_MOST, &h->workers);
	if (result == TUTTI_OK)
		result = take_hash(r, object, "options", &h->options);
	if (result == TUTTI_OK)
		result = take_hash(r, object, "data", &h->data);
	return result == TUTTI_OK ? take_number(r, object, "step", 0, NUMBER_MOST, &h->step)
				  : result;
}

static tutti_result_t take_versions(const struct reader *r, const json_t *object,
				    struct journal_entry *e)
{
	const json_t *all = json_object_get(object, "versions");
	const unsigned servers = r->journal->head.servers;

	if (!json_is_array(all) || json_array_size(all) != servers)
		return refuse_key(r, "versions", "a list of one number for each server");
	for (unsigned s = 0; s < servers; s++) {
		const json_t *value = json_array_get(all, s);

		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return refuse_key(r, "versions", "a list of whole numbers from 0 on");
		e->versions[s] = (uint64_t)json_integer_value(value);
	}
	return TUTTI_OK;
}

/* Updates are counted without gaps. */
static tutti_result_t check_update(struct reader *r, const struct journal_entry *e)
{
	if (e->update != 0 && e->update != r->update && e->update != r->update + 1)
		return refuse(r, "its update is neither that of the entry before nor the next");
	r->update = e->update ? e->update : r->update;
	return TUTTI_OK;
}

static tutti_result_t append(struct reader *r, const struct journal_entry *e)
{
	struct journal *j = r->journal;

	if (j->count == j->capacity) {
		const size_t capacity = 2 * j->capacity + 256;
		struct journal_entry *more = realloc(j->entries, capacity * sizeof(*more));

		if (!more)
			return why_no_memory(r->why, "a journal");
		j->entries = more;
		j->capacity = capacity;
	}
	j->entries[j->count++] = *e;
	return TUTTI_OK;
}

static tutti_result_t take_entry(struct reader *r, const json_t *object)
{
	struct journal_entry e = { 0 };
	tutti_result_t result = take_number(r, object, "update", 0, NUMBER_MOST, &e.update);

	if (result == TUTTI_OK)
		result = take_number(r, object, "worker", 0, WORKERS_MOST, &e.worker);
	if (result == TUTTI_OK)
		result = take_number(r, object, "task", 0, NUMBER_MOST, &e.task);
	if (result == TUTTI_OK)
		result = take_number(r, object, "age", 0, NUMBER_MOST, &e.age);
	if (result == TUTTI_OK)
		result = take_versions(r, object, &e);
	if (result == TUTTI_OK)
		result = check_update(r, &e);
	return result == TUTTI_OK ? append(r, &e) : result;
}

static tutti_result_t take_end(struct reader *r, const json_t *object)
{
	struct journal *j = r->journal;
	unsigned epoch;
	size_t *more;
	tutti_result_t result = take_unsigned(r, object, "epoch", 1, EPOCHS_MOST, &epoch);

	if (result != TUTTI_OK)
		return result;
	more = realloc(j->ends, (j->epochs + 1) * sizeof(*more));
	if (!more)
		return why_no_memory(r->why, "a journal");
	j->ends = more;
	j->ends[j->epochs++] = j->count;
	return TUTTI_OK;
}

static tutti_result_t take_line(struct reader *r, const char *line, size_t length)
{
	json_error_t error;
	json_t *object = json_loadb(line, length, 0, &error);
	tutti_result_t result;

	r->line++;
	if (!json_is_object(object))
		result = refuse(r, "found no JSON object");
	else if (r->line == 1)
		result = take_head(r, object);
	else if (json_object_get(object, "epoch"))
		result = take_end(r, object);
	else
		result = take_entry(r, object);
	json_decref(object);
	return result;
}

tutti_result_t journal_parse(const char *path, const char *bytes, size_t length,
			     struct journal *out, struct why *why)
{
	struct journal journal = { 0 };
	struct reader r = { .path = path, .journal = &journal, .why = why };
	tutti_result_t result = TUTTI_OK;
	size_t at = 0;

	while (at < length && result == TUTTI_OK) {
		const char *end = memchr(bytes + at, '\n', length - at);

		if (!end)
			break; /* a line that was not written to its end */
		result = take_line(&r, bytes + at, (size_t)(end - (bytes + at)));
		at = (size_t)(end - bytes) + 1;
	}
	if (result == TUTTI_OK && r.line == 0)
		result = why_set(why, TUTTI_ERR_INVALID,
				 "%s: found no line; give a file that tutti-train --journal wrote",
				 path);
	if (result != TUTTI_OK) {
		journal_finish(&journal);
		return result;
	}
	journal.count = journal.epochs > 0 ? journal.ends[journal.epochs - 1] : 0;
	*out = journal;
	return TUTTI_OK;
}

tutti_result_t journal_workers(const char *path, unsigned servers, size_t *workers, struct why *why)
{
	struct journal journal = { 0 };
	char name[PATH_ROOM], *line = NULL;
	size_t room = 0;
	FILE *file;
	ssize_t length;
	tutti_result_t result;

	name_of(path, 0, servers, name);
	file = fopen(name, "re");
	if (!file)
		return why_set(why, TUTTI_ERR_SYSTEM,
			       "--replay: %s cannot be read: %s; of several servers give the name "
			       "without its number",
			       name, strerror(errno));
	length = getline(&line, &room, file);
	fclose(file);
	result = journal_parse(name, line, length > 0 ? (size_t)length : 0, &journal, why);
	*workers = journal.head.workers;
	journal_finish(&journal);
	free(line);
	return result;
}

tutti_result_t journal_read(const char *path, unsigned server, unsigned servers,
			    struct journal *out, struct why *why)
{
	struct input input = { 0 };
	char name[PATH_ROOM];
	tutti_result_t result;

	name_of(path, server, servers, name);
	result = input_read(name, JOURNAL_MOST, &input, why);
	if (result == TUTTI_OK)
		result = journal_parse(name, input.bytes, input.length, out, why);
	input_finish(&input);
	if (result == TUTTI_OK && (out->head.server != server || out->head.servers != servers)) {
		result = why_set(why, TUTTI_ERR_INVALID,
				 "%s: is of server %u of %u, expected %u of %u; give the --servers "
				 "of the training",
				 name, out->head.server, out->head.servers, server, servers);
		journal_finish(out);
	}
	return result;
}

void journal_finish(struct journal *j)
{
	free(j->entries);
	free(j->ends);
	*j = (struct journal){ 0 };
}
