/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the JSON log, one object per line. Owns nothing. A line that cannot be written is a
 * failure, not a loss. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "report.h"

static bool refuse_write(const struct report *report)
{
	return why_set(TUTTI_ERR_SYSTEM, "--json: writing %s failed: %s; " OUTPUT_ADVICE,
		       report->options->json, strerror(errno));
}

/* Write `object`, which may be NULL for want of memory, as a line, and free it. */
static bool write_line(struct report *report, json_t *object)
{
	int failed;

	if (!object)
		return why_no_memory("a line of the JSON log");
	failed = json_dumpf(object, report->json, JSON_COMPACT | JSON_REAL_PRECISION(15)) < 0 ||
		 fputc('\n', report->json) == EOF || !output_flush(report->json);
	json_decref(object);
	return !failed || refuse_write(report);
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

static json_t *hidden_json(const struct options *o)
{
	json_t *widths = json_array();

	for (unsigned i = 0; i < o->hidden_layers; i++)
		json_array_append_new(widths, json_integer((json_int_t)o->hidden[i]));
	return widths;
}

bool log_start(struct report *report)
{
	const struct options *o = report->options;
	const struct summary *s = report->summary;
	struct stat info;

	/* an older log stays until there is a training to tell of */
	if (report->json != stdout && fstat(fileno(report->json), &info) == 0 &&
	    S_ISREG(info.st_mode) && ftruncate(fileno(report->json), 0) < 0)
		return refuse_write(report);
	return write_line(
		report,
		json_pack(
			"{s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:I,s:I,s:I,s:i,s:o,s:I,s:i,s:I,s:s,s:f,s:f,s:f,s:f,s:I,s:b}",
			"event", "start", "version", tutti_version(), "data", o->source.path,
			"device", o->device == DEVICE_CUDA ? "cuda" : "host", "dtype",
			o->numbers->name, "sync", o->sync->name, "ranks", s->ranks_at_start,
			"stages", s->stages, "ways", s->ways, "train_samples",
			(json_int_t)s->train_rows, "test_samples", (json_int_t)s->test_rows,
			"features", (json_int_t)s->features, "classes", (int)s->classes, "hidden",
			hidden_json(o), "parameters", (json_int_t)s->parameters, "epochs",
			(int)o->epochs, "batch", (json_int_t)s->batch, "optimizer",
			o->optimizer->name, "lr", o->rate, "momentum", o->momentum, "weight_decay",
			o->weight_decay, "warmup_epochs", o->warmup, "seed", (json_int_t)o->seed,
			"verify", o->verify));
}

json_t *log_epoch_json(const struct epoch *e)
{
	return json_pack("{s:s,s:i,s:o,s:o,s:o,s:o,s:f,s:f,s:f,s:f}", "event", "epoch", "epoch",
			 (int)e->number, "train_loss", real_or_null(e->train_loss),
			 "train_accuracy", real_or_null(e->train_accuracy), "test_loss",
			 real_or_null(e->test_loss), "test_accuracy",
			 real_or_null(e->test_accuracy), "lr", e->rate, "seconds", e->seconds,
			 "least_share", e->least_share, "most_share", e->most_share);
}

bool log_epoch(struct report *report, const struct epoch *e)
{
	return write_line(report, log_epoch_json(e));
}

static json_t *lost_json(const struct loss *loss)
{
	json_t *ranks = json_array();

	for (int i = 0; i < loss->lost_count && i < LOSS_NAMES; i++)
		json_array_append_new(ranks, json_integer(loss->lost[i]));
	return ranks;
}

bool log_loss(struct report *report, const struct loss *l)
{
	return write_line(report,
			  json_pack("{s:s,s:I,s:i,s:f,s:o,s:i,s:s,s:i,s:i,s:i,s:f,s:s}", "event",
				    "loss", "step", (json_int_t)l->step, "epoch",
				    (int)report_loss_epoch(report, l), "seconds", l->seconds,
				    "lost", lost_json(l), "lost_count", l->lost_count, "how",
				    l->by_deadline ? "deadline" : "died", "ranks_before",
				    l->ranks_before, "ranks_after", l->ranks_after, "replaced",
				    l->joined, "recovery_s", l->recovery_s, "cause", l->cause));
}

/* Checksums as text: a JSON number holds 53 bits for sure. */
static json_t *weights_json(const struct summary *s)
{
	json_t *hashes = json_array();

	for (int r = 0; r < s->ranks; r++) {
		char text[17];

		snprintf(text, sizeof(text), "%016" PRIx64, s->accounts[r].weights);
		json_array_append_new(hashes, json_string(text));
	}
	return hashes;
}

static json_t *ranks_json(const struct summary *s)
{
	json_t *ranks = json_array();

	for (int r = 0; r < s->ranks; r++) {
		const struct rank_account *a = &s->accounts[r];

		json_array_append_new(
			ranks,
			json_pack("{s:I,s:I,s:I,s:f,s:f,s:I,s:f,s:I}", "sent", (json_int_t)a->bytes,
				  "received", (json_int_t)a->received, "memory",
				  (json_int_t)a->memory, "blocked_share", a->blocked, "share",
				  a->share, "read", (json_int_t)a->read, "read_seconds", a->read_s,
				  "rows_sent", (json_int_t)a->rows_sent));
	}
	return ranks;
}

/* How many gradients were 0, 1, … updates old; nothing where there are none. */
static json_t *staleness_json(const struct summary *s)
{
	json_t *counts = json_array();
	int end = STALENESS_MOST + 1;

	while (end > 0 && s->staleness.count[end - 1] == 0)
		end--;
	for (int i = 0; i < end; i++)
		json_array_append_new(counts, json_integer((json_int_t)s->staleness.count[i]));
	return counts;
}

bool log_end(struct report *report)
{
	const struct history *h = &report->history;
	const struct summary *s = report->summary;
	const struct epoch *last = &h->epochs[h->epoch_count - 1];
	const double samples = (double)s->train_rows * h->epoch_count;

	return write_line(
		       report,
		       json_pack(
			       "{s:s,s:i,s:o,s:o,s:f,s:f,s:I,s:I,s:i,s:f,s:f,s:I,s:s,s:s,s:o,s:o,s:o}",
			       "event", "end", "ranks", s->ranks, "test_accuracy",
			       real_or_null(last->test_accuracy), "train_loss",
			       real_or_null(last->train_loss), "seconds", s->seconds,
			       "samples_per_s", samples / s->seconds, "steps", (json_int_t)s->steps,
			       "steps_begun", (json_int_t)s->steps_begun, "losses",
			       (int)h->loss_count, "blocked_share", s->blocked_mean,
			       "blocked_share_worst", s->blocked_worst, "sent_bytes",
			       (json_int_t)s->sent_bytes, "algorithm", s->algorithm, "transports",
			       s->transports, "weights", weights_json(s), "each_rank",
			       ranks_json(s), "staleness", staleness_json(s))) &&
	       close_log(report);
}
