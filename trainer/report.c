/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the JSON log and the history of epochs. A line that cannot be written is a failure, not a
 * loss. */
#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "team.h"

enum { BAR_WIDTH = 24 };

tutti_result_t report_open(const struct options *options, bool on, struct report *out,
			   struct why *why)
{
	struct report report = { .on = on, .bar = isatty(STDOUT_FILENO), .options = options };
	tutti_result_t result = TUTTI_OK;

	*out = (struct report){ 0 };
	if (!on)
		return TUTTI_OK;
	if (options->plot_count)
		result = plot_check(options, why);
	if (result != TUTTI_OK)
		return result;
	report.epochs = calloc(options->epochs, sizeof(*report.epochs));
	if (!report.epochs)
		return why_no_memory(why, "the history of epochs");
	if (options->json)
		report.json = fopen(options->json, "we");
	if (options->json && !report.json) {
		result = why_set(why, TUTTI_ERR_SYSTEM, "--json: %s cannot be written: %s",
				 options->json, strerror(errno));
		report_finish(&report);
		return result;
	}
	*out = report;
	return TUTTI_OK;
}

void report_interrupt(struct report *report)
{
	if (report->bar_open)
		putchar('\n');
	report->bar_open = false;
	fflush(stdout);
}

void report_finish(struct report *report)
{
	report_interrupt(report);
	if (report->json)
		fclose(report->json);
	free(report->epochs);
	*report = (struct report){ 0 };
}

/* Write `object`, which may be NULL for want of memory, as a line, and free it. */
static tutti_result_t write_json(struct report *report, json_t *object, struct why *why)
{
	int failed;

	if (!object)
		return why_no_memory(why, "a line of the JSON log");
	failed = json_dumpf(object, report->json, JSON_COMPACT | JSON_REAL_PRECISION(15)) < 0 ||
		 fputc('\n', report->json) == EOF || fflush(report->json) == EOF;
	json_decref(object);
	if (failed)
		return why_set(why, TUTTI_ERR_SYSTEM, "--json: writing %s failed: %s",
			       report->options->json, strerror(errno));
	return TUTTI_OK;
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

static tutti_result_t start_json(struct report *report, const struct summary *s, struct why *why)
{
	const struct options *o = report->options;

	return write_json(
		report,
		json_pack(
			"{s:s,s:s,s:s,s:i,s:I,s:I,s:I,s:i,s:o,s:I,s:i,s:I,s:f,s:f,s:f,s:f,s:I,s:b}",
			"event", "start", "version", tutti_version(), "data", o->source.path,
			"ranks", s->ranks, "train_samples", (json_int_t)s->train_rows,
			"test_samples", (json_int_t)s->test_rows, "features",
			(json_int_t)s->features, "classes", (int)s->classes, "hidden",
			hidden_json(o), "parameters", (json_int_t)s->parameters, "epochs",
			(int)o->epochs, "batch", (json_int_t)o->batch, "lr", o->rate, "momentum",
			o->momentum, "weight_decay", o->weight_decay, "warmup_epochs", o->warmup,
			"seed", (json_int_t)o->seed, "verify", o->verify),
		why);
}

tutti_result_t report_start(struct report *report, const struct summary *s, struct why *why)
{
	if (!report->on)
		return TUTTI_OK;
	printf("%zu samples to train on, %zu to validate: %zu features, %u classes\n",
	       s->train_rows, s->test_rows, s->features, s->classes);
	printf("%zu weights in %u bucket%s; %d rank%s, %zu samples per step of all ranks "
	       "together\n",
	       s->parameters, s->buckets, s->buckets == 1 ? "" : "s", s->ranks,
	       s->ranks == 1 ? "" : "s", report->options->batch);
	fflush(stdout);
	return report->json ? start_json(report, s, why) : TUTTI_OK;
}

static void draw_bar(struct report *report, double done)
{
	const struct epoch *last = report->count ? &report->epochs[report->count - 1] : NULL;
	const int filled = (int)(done * BAR_WIDTH + 0.5);

	printf("\r[%.*s%*s] %3.0f %%", filled, "########################", BAR_WIDTH - filled, "",
	       100 * done);
	if (last)
		printf("  epoch %u  loss %.4f", last->number, last->train_loss);
	if (last && !isnan(last->test_accuracy))
		printf("  accuracy %.4f", last->test_accuracy);
	printf("\033[K");
	report->bar_open = true;
	fflush(stdout);
}

void report_step(struct report *report, unsigned epoch, size_t step, size_t steps)
{
	double now;

	if (!report->on || !report->bar)
		return;
	now = now_s();
	if (now - report->drawn_s < 0.05)
		return;
	report->drawn_s = now;
	draw_bar(report, ((double)epoch + (double)(step + 1) / (double)steps) /
				 (double)report->options->epochs);
}

static void print_epoch(const struct report *report, const struct epoch *e)
{
	printf("epoch %*u/%u  loss %.4f  accuracy %.4f", report->options->epochs < 100 ? 2 : 4,
	       e->number, report->options->epochs, e->train_loss, e->train_accuracy);
	if (!isnan(e->test_accuracy))
		printf("  validation loss %.4f  accuracy %.4f", e->test_loss, e->test_accuracy);
	printf("  %.2f s\n", e->seconds);
	fflush(stdout);
}

tutti_result_t report_epoch(struct report *report, const struct epoch *e, struct why *why)
{
	if (!report->on)
		return TUTTI_OK;
	report->epochs[report->count++] = *e;
	if (report->bar)
		draw_bar(report, (double)e->number / (double)report->options->epochs);
	else
		print_epoch(report, e);
	if (!report->json)
		return TUTTI_OK;
	return write_json(report,
			  json_pack("{s:s,s:i,s:o,s:o,s:o,s:o,s:f,s:f}", "event", "epoch", "epoch",
				    (int)e->number, "train_loss", real_or_null(e->train_loss),
				    "train_accuracy", real_or_null(e->train_accuracy), "test_loss",
				    real_or_null(e->test_loss), "test_accuracy",
				    real_or_null(e->test_accuracy), "lr", e->rate, "seconds",
				    e->seconds),
			  why);
}

static tutti_result_t end_json(struct report *report, const struct summary *s, struct why *why)
{
	const struct epoch *last = &report->epochs[report->count - 1];
	const double samples = (double)s->train_rows * report->count;

	return write_json(
		report,
		json_pack("{s:s,s:i,s:o,s:o,s:f,s:f,s:I,s:f,s:f,s:I}", "event", "end", "ranks",
			  s->ranks, "test_accuracy", real_or_null(last->test_accuracy),
			  "train_loss", real_or_null(last->train_loss), "seconds", s->seconds,
			  "samples_per_s", samples / s->seconds, "steps", (json_int_t)s->steps,
			  "blocked_share", s->blocked_mean, "blocked_share_worst", s->blocked_worst,
			  "reduced_bytes", (json_int_t)s->reduced_bytes),
		why);
}

static void print_end(struct report *report, const struct summary *s)
{
	const struct epoch *last = &report->epochs[report->count - 1];
	const double samples = (double)s->train_rows * report->count;

	report_interrupt(report);
	if (!isnan(last->test_accuracy))
		printf("test accuracy   %.4f (%.0f of %zu samples)\n", last->test_accuracy,
		       last->test_accuracy * (double)s->test_rows, s->test_rows);
	printf("time            %.2f s for %u epochs, %.0f samples/s on %d rank%s\n", s->seconds,
	       report->count, samples / s->seconds, s->ranks, s->ranks == 1 ? "" : "s");
	printf("communication   %.1f %% of the time (worst rank %.1f %%): blocked in tutti's "
	       "calls, "
	       "waiting for slower ranks included\n",
	       100 * s->blocked_mean, 100 * s->blocked_worst);
}

tutti_result_t report_end(struct report *report, const struct summary *s, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	if (!report->on)
		return TUTTI_OK;
	print_end(report, s);
	if (report->json)
		result = end_json(report, s, why);
	for (unsigned i = 0; i < report->options->plot_count && result == TUTTI_OK; i++) {
		const char *path = report->options->plots[i];

		result = plot_write(path, report->epochs, report->count, why);
		if (result == TUTTI_OK)
			printf("curves          %s\n", path);
	}
	if (result == TUTTI_OK && (fflush(stdout) == EOF || ferror(stdout)))
		result = why_set(why, TUTTI_ERR_SYSTEM, "writing to standard output failed: %s",
				 strerror(errno));
	return result;
}
