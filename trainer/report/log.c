/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the JSON log, one object per line. Owns nothing. A line that cannot be written is a
 * failure, not a loss. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "printable.h"
#include "train.h"

static bool refuse_write(const struct report *report)
{
	return why_set(TUTTI_ERR_SYSTEM, "--json: writing %s failed: %s; " OUTPUT_ADVICE,
		       report->options->json, strerror(errno));
}

/* Write `object`, which may be NULL for want of memory, as a line, and free it. */
static bool write_line(struct report *report, json_t *object)
{
	bool ok;

	if (!object)
		return why_no_memory("a line of the JSON log");
	ok = json_dumpf(object, report->json, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0 &&
	     fputc('\n', report->json) != EOF && output_flush(report->json);
	json_decref(object);
	return ok || refuse_write(report);
}

static bool close_log(struct report *report)
{
	FILE *log = report->json;

	report->json = NULL;
	return log == stdout || fclose(log) == 0 || refuse_write(report);
}

/* JSON has no NaN. */
static json_t *real_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *counts_json(const uint64_t *counts, size_t length)
{
	json_t *all = json_array();

	for (size_t i = 0; i < length; i++)
		json_array_append_new(all, json_integer((json_int_t)counts[i]));
	return all;
}

/* A name that is no UTF-8, which JSON is, as messages show it. */
static json_t *name_json(const char *name)
{
	char *shown = strdup(name);
	json_t *json = shown ? json_string(tt_printable(shown)) : NULL;

	free(shown);
	return json;
}

/* An older log stays until there is a training to tell of; what is no file cannot be emptied (EINVAL). */
bool log_start(struct report *report)
{
	const struct options *o = report->options;
	const struct training *t = report->training;

	if (report->json != stdout && ftruncate(fileno(report->json), 0) < 0 && errno != EINVAL)
		return refuse_write(report);
	return write_line(
		report,
		json_pack(
			"{s:s,s:s,s:o,s:s,s:s,s:s,s:i,s:i,s:i,s:I,s:I,s:I,s:i,s:o,s:I,s:i,s:I,s:s,s:f,s:f,s:f,s:f,s:I,s:b}",
			"event", "start", "version", tutti_version(), "data",
			name_json(o->source.path), "device", o->engine->name, "dtype",
			o->numbers->name, "sync", o->sync->name, "ranks", t->team->started,
			"stages", t->grid.stages, "ways", t->grid.ways, "train_samples",
			(json_int_t)t->split.train_rows, "test_samples",
			(json_int_t)t->split.test_rows, "features", (json_int_t)t->data.features,
			"classes", (int)t->data.classes, "hidden",
			counts_json(o->hidden, o->hidden_layers), "parameters",
			(json_int_t)model_parameter_count(t->model.width, t->model.cut.of),
			"epochs", (int)o->epochs, "batch", (json_int_t)t->batch, "optimizer",
			o->optimizer->name, "lr", o->rate, "momentum", o->rule.momentum,
			"weight_decay", o->rule.decay, "warmup_epochs", o->warmup, "seed",
			(json_int_t)o->seed, "verify", o->verify));
}

static const struct {
	const char *name;
	size_t at;
} epoch_fields[] = {
	{ "train_loss", offsetof(struct epoch, train_loss) },
	{ "train_accuracy", offsetof(struct epoch, train_accuracy) },
	{ "test_loss", offsetof(struct epoch, test_loss) },
	{ "test_accuracy", offsetof(struct epoch, test_accuracy) },
	{ "lr", offsetof(struct epoch, rate) },
	{ "seconds", offsetof(struct epoch, seconds) },
	{ "least_share", offsetof(struct epoch, least_share) },
	{ "most_share", offsetof(struct epoch, most_share) },
};

enum { EPOCH_FIELDS = sizeof(epoch_fields) / sizeof(epoch_fields[0]) };

json_t *log_epoch_json(const struct epoch *e)
{
	json_t *all = json_pack("{s:s,s:i}", "event", "epoch", "epoch", (int)e->number);

	for (int i = 0; i < EPOCH_FIELDS; i++)
		json_object_set_new(
			all, epoch_fields[i].name,
			real_or_null(*(const double *)((const char *)e + epoch_fields[i].at)));
	return all;
}

bool log_epoch_parse(const json_t *json, struct epoch *out)
{
	for (int i = 0; i < EPOCH_FIELDS; i++) {
		const json_t *value = json_object_get(json, epoch_fields[i].name);

		if (!json_is_number(value) && !json_is_null(value))
			return false;
		*(double *)((char *)out + epoch_fields[i].at) =
			json_is_null(value) ? NAN : json_number_value(value);
	}
	return true;
}

bool log_epoch(struct report *report, const struct epoch *e)
{
	return write_line(report, log_epoch_json(e));
}

/* Its epoch is the last, if all were done. */
bool log_loss(struct report *report, const struct loss *l)
{
	const int names = l->lost_count < LOSS_NAMES ? l->lost_count : LOSS_NAMES;

	return write_line(
		report,
		json_pack("{s:s,s:I,s:i,s:f,s:o,s:i,s:s,s:i,s:i,s:i,s:f,s:s}", "event", "loss",
			  "step", (json_int_t)l->step, "epoch",
			  (int)(l->epochs + (l->epochs < report->options->epochs)), "seconds",
			  l->seconds, "lost", counts_json(l->lost, (size_t)names), "lost_count",
			  l->lost_count, "how", l->by_deadline ? "deadline" : "died",
			  "ranks_before", l->ranks_before, "ranks_after", l->ranks_after,
			  "replaced", l->joined, "recovery_s", l->recovery_s, "cause", l->cause));
}

/* Checksums as text: a JSON number holds 53 bits for sure. */
static void add_rank(const struct rank_account *a, json_t *weights, json_t *ranks)
{
	char hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, a->weights);
	json_array_append_new(weights, json_string(hash));
	json_array_append_new(
		ranks, json_pack("{s:I,s:I,s:I,s:f,s:f,s:I,s:f,s:I}", "sent", (json_int_t)a->bytes,
				 "received", (json_int_t)a->received, "memory",
				 (json_int_t)a->memory, "blocked_share", a->blocked, "share",
				 a->share, "read", (json_int_t)a->read, "read_seconds", a->read_s,
				 "rows_sent", (json_int_t)a->rows_sent));
}

bool log_end(struct report *report)
{
	const struct history *h = &report->history;
	const struct training *t = report->training;
	const struct summary *s = &t->summary;
	const struct epoch *last = &h->epochs[h->epoch_count - 1];
	json_t *weights = json_array(), *ranks = json_array();
	size_t ages = STALENESS_MOST + 1; /* that gradients had */

	for (int r = 0; r < t->team->size; r++)
		add_rank(&s->accounts[r], weights, ranks);
	while (ages > 0 && s->staleness[ages - 1] == 0)
		ages--;
	return write_line(
		       report,
		       json_pack(
			       "{s:s,s:i,s:o,s:o,s:f,s:f,s:I,s:I,s:i,s:f,s:f,s:I,s:s,s:s,s:o,s:o,s:o}",
			       "event", "end", "ranks", t->team->size, "test_accuracy",
			       real_or_null(last->test_accuracy), "train_loss",
			       real_or_null(last->train_loss), "seconds", s->seconds,
			       "samples_per_s",
			       (double)t->split.train_rows * h->epoch_count / s->seconds, "steps",
			       (json_int_t)t->plan.steps, "steps_begun", (json_int_t)t->steps_begun,
			       "losses", (int)h->loss_count, "blocked_share", s->blocked_mean,
			       "blocked_share_worst", s->blocked_worst, "sent_bytes",
			       (json_int_t)s->sent_bytes, "algorithm", s->algorithm, "transports",
			       s->transports, "weights", weights, "each_rank", ranks, "staleness",
			       counts_json(s->staleness, ages))) &&
	       close_log(report);
}
