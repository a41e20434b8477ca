/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the history of epochs and losses, and what was shown of it. Standard output and the log are
 * brought up to the history when something is added: so it makes no difference whether a rank
 * showed it from the start or takes over. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "pipeline.h"
#include "printable.h"
#include "train.h"

/* A bar with all that follows it fits into the 80 columns of a terminal: a line that wraps could
 * not be drawn over. */
enum { BAR_WIDTH = 10, LOSS_TEXT = 24, LEFT_TEXT = 40 };

#define FIRST_SECOND 1.0 /* before it, a few steps' speed says little about all */

/* ---- the history */

bool history_reserve(struct history *history, unsigned losses)
{
	struct loss *more =
		reallocarray(history->losses, history->loss_count + losses, sizeof(*more));

	if (!more && losses > 0)
		return why_no_memory("the history of lost ranks");
	history->losses = more;
	return true;
}

/* ---- life */

bool report_create(const struct options *options, struct report *out)
{
	*out = (struct report){ .options = options };
	out->history.epochs = calloc(options->epochs, sizeof(*out->history.epochs));
	return out->history.epochs || why_no_memory("the history of epochs");
}

bool report_open(struct report *report)
{
	const struct history *h = &report->history;
	const char *path = report->options->json;

	if (report->on)
		return true;
	if (h->loss_count >
	    0) /* what another rank has printed stays; the end of its log is not certain */
		report->told = (struct shown){ true, h->epoch_count, h->loss_count - 1 };
	if (path)
		report->json = strcmp(path, "-") == 0
				       ? stdout
				       : fopen(path, "ae"); /* log_start() empties it */
	if (path && !report->json)
		return why_set(
			TUTTI_ERR_SYSTEM,
			"--json: %s cannot be written: %s; give a file in a directory that exists "
			"and can be written, or - for standard output",
			path, strerror(errno));
	report->on = true;
	report->quiet = report->json == stdout;
	report->bar = isatty(STDOUT_FILENO) && !report->quiet;
	return true;
}

void report_resumed(struct report *report)
{
	report->told.epochs = report->history.epoch_count;
	if (!report->quiet)
		printf("resumed after epoch %u: %s\n", report->history.epoch_count,
		       report->options->save);
}

void report_begin(struct report *report, double done)
{
	report->begun = done;
	report->begun_s = now_s();
}

void report_interrupt(struct report *report)
{
	if (report->bar_open)
		putchar('\n');
	report->bar_open = false;
	output_flush(stdout);
}

void report_finish(struct report *report)
{
	report_interrupt(report);
	if (report->json && report->json != stdout)
		fclose(report->json);
	free(report->history.epochs);
	free(report->history.losses);
	*report = (struct report){ 0 };
}

/* ---- text */

static void print_start(const struct training *t)
{
	printf("%zu samples to train on, %zu to validate: %zu features, %u classes\n",
	       t->split.train_rows, t->split.test_rows, t->data.features, t->data.classes);
	printf("%zu weights in %u bucket%s; %d rank%s, %zu samples per step of all ranks "
	       "together\n",
	       model_parameter_count(t->model.width, t->model.cut.of), t->buckets.count,
	       t->buckets.count == 1 ? "" : "s", t->team->started, t->team->started == 1 ? "" : "s",
	       t->batch);
	if (t->grid.ways > 1)
		printf("%d parts of each layer\n", t->grid.ways);
	if (t->grid.stages > 1)
		printf("%d stages of the model, %u micro-batches of a batch, %s\n", t->grid.stages,
		       t->grid.micro, t->options->order == ORDER_GPIPE ? "gpipe" : "1f1b");
}

/* By the speed since report_begin(); "" if little was done since then, or nothing is left. */
static const char *left_text(const struct report *report, double done, const char *before,
			     char text[LEFT_TEXT])
{
	const double gained = done - report->begun, took = now_s() - report->begun_s;
	const double left = gained > 0 ? ceil(fmin(took * (1 - done) / gained, 1e9)) : 0;
	const unsigned long s = left > 0 ? (unsigned long)left : 0;

	text[0] = '\0';
	if (took > FIRST_SECOND && s >= 3600)
		snprintf(text, LEFT_TEXT, "%s%lu:%02lu:%02lu left", before, s / 3600, s / 60 % 60,
			 s % 60);
	else if (took > FIRST_SECOND && s > 0)
		snprintf(text, LEFT_TEXT, "%s%lu:%02lu left", before, s / 60, s % 60);
	return text;
}

static void draw_bar(struct report *report, double done)
{
	const struct history *h = &report->history;
	const struct epoch *last = h->epoch_count ? &h->epochs[h->epoch_count - 1] : NULL;
	const int filled = (int)(done * BAR_WIDTH + 0.5);
	char text[LEFT_TEXT];

	printf("\r[%.*s%*s] %3.0f %%", filled, "##########", BAR_WIDTH - filled, "", 100 * done);
	if (last)
		printf("  epoch %u  loss %.4f", last->number, last->train_loss);
	if (last && !isnan(last->test_accuracy))
		printf("  test accuracy %.4f", last->test_accuracy);
	printf("%s\033[K", left_text(report, done, "  ", text));
	report->bar_open = true;
	output_flush(stdout);
}

void report_step(struct report *report, unsigned epoch, size_t step, size_t steps)
{
	const double now = now_s();

	if (!report->bar || now - report->drawn_s < 0.05)
		return;
	report->drawn_s = now;
	draw_bar(report, ((double)epoch + (double)(step + 1) / (double)steps) /
				 (double)report->options->epochs);
}

static const char *loss_text(double loss, char text[LOSS_TEXT])
{
	snprintf(text, LOSS_TEXT, loss < 1e4 ? "%.4f" : "%.3e", loss);
	return text;
}

static void print_epoch(struct report *report, const struct epoch *e)
{
	const double done = (double)e->number / (double)report->options->epochs;
	char text[LOSS_TEXT], left[LEFT_TEXT];

	if (report->bar) {
		draw_bar(report, done);
		return;
	}
	printf("epoch %*u/%u  loss %s  accuracy %.4f", report->options->epochs < 100 ? 2 : 4,
	       e->number, report->options->epochs, loss_text(e->train_loss, text),
	       e->train_accuracy);
	if (!isnan(e->test_accuracy))
		printf("  validation loss %s  accuracy %.4f", loss_text(e->test_loss, text),
		       e->test_accuracy);
	printf("  %.2f s%s\n", e->seconds, left_text(report, done, ", ", left));
}

static void print_loss(struct report *report, const struct loss *l)
{
	report_interrupt(report);
	printf("lost rank%s", l->lost_count == 1 ? "" : "s");
	for (int i = 0; i < l->lost_count && i < LOSS_NAMES; i++)
		printf("%s %d", i ? "," : "", (int)l->lost[i]);
	if (l->lost_count > LOSS_NAMES)
		printf(" and %d more", l->lost_count - LOSS_NAMES);
	if (l->epochs < report->options->epochs)
		printf(" in epoch %u, after step %zu: %s\n", l->epochs + 1, l->step, l->cause);
	else
		printf(" after the last epoch: %s\n", l->cause);
	printf("%d of %d ranks go on", l->ranks_after - l->joined, l->ranks_before);
	if (l->joined > 0)
		printf(", %d replaced", l->joined);
	if (l->recovery_s > 0)
		printf("; that took %.3f s", l->recovery_s);
	putchar('\n');
}

/* ---- the history, on standard output and in the log */

static bool show_start(struct report *report)
{
	report->shown.start = true;
	if (!report->quiet && !report->told.start)
		print_start(report->training);
	return log_empty(report) && log_line(report, log_start_json(report->training));
}

static bool show_loss(struct report *report, const struct loss *loss)
{
	if (report->shown.losses++ >= report->told.losses && !report->quiet)
		print_loss(report, loss);
	return log_line(report, log_loss_json(loss, report->options->epochs));
}

static bool show_epoch(struct report *report, const struct epoch *epoch)
{
	if (report->shown.epochs++ >= report->told.epochs && !report->quiet)
		print_epoch(report, epoch);
	return log_line(report, log_epoch_json(epoch));
}

/* In the order in which things happened. */
bool report_show(struct report *report)
{
	const struct history *h = &report->history;
	const struct shown *shown = &report->shown;
	bool ok = !report->on || shown->start || show_start(report);

	while (ok && report->on &&
	       (shown->epochs < h->epoch_count || shown->losses < h->loss_count)) {
		const struct loss *loss = &h->losses[shown->losses];

		if (shown->losses < h->loss_count &&
		    (shown->epochs == h->epoch_count || loss->epochs <= shown->epochs))
			ok = show_loss(report, loss);
		else
			ok = show_epoch(report, &h->epochs[shown->epochs]);
	}
	output_flush(stdout);
	return ok;
}

bool report_epoch(struct report *report, const struct epoch *epoch)
{
	report->history.epochs[report->history.epoch_count++] = *epoch;
	return report_show(report);
}

bool report_loss(struct report *report, const struct loss *loss)
{
	if (!history_reserve(&report->history, 1))
		return false;
	report->history.losses[report->history.loss_count++] = *loss;
	return report_show(report);
}

/* ---- the end */

static void print_staleness(const struct staleness *s)
{
	uint64_t all = 0, sum = 0;
	int most = 0;

	for (int i = 0; i <= STALENESS_MOST; i++) {
		all += s->count[i];
		sum += s->count[i] * (uint64_t)i;
		most = s->count[i] > 0 ? i : most;
	}
	if (all > 0)
		printf("staleness       %.2f updates in the mean, %d%s at most\n",
		       (double)sum / (double)all, most, most == STALENESS_MOST ? " or more" : "");
}

/* What ranks read side by side. */
static void print_reading(const struct training *t)
{
	double all = 0, most = 0, longest = 0, sent = 0;

	for (int r = 0; r < t->team->size; r++) {
		const struct rank_account *a = &t->summary.accounts[r];

		all += (double)a->read;
		most = fmax(most, (double)a->read);
		longest = fmax(longest, a->read_s);
		sent += (double)a->rows_sent;
	}
	printf("samples         %.2f MB read, at most %.2f by a rank, in %.3f s (%.1f MB/s together); "
	       "%.2f MB sent to where they were trained on\n",
	       all * 1e-6, most * 1e-6, longest, longest > 0 ? all * 1e-6 / longest : 0,
	       sent * 1e-6);
}

static const char *what_goes(const struct training *t)
{
	if (t->grid.ways > 1)
		return "sums over parts of layers";
	return t->grid.stages > 1 ? "activations between stages" : t->sync->what;
}

static void print_end(struct report *report)
{
	const struct history *h = &report->history;
	const struct training *t = report->training;
	const struct summary *s = &t->summary;
	const struct epoch *last = &h->epochs[h->epoch_count - 1];
	const double speed = (double)t->split.train_rows * h->epoch_count / s->seconds;

	report_interrupt(report);
	if (!isnan(last->test_accuracy))
		printf("test accuracy   %.4f (%.0f of %zu samples)\n", last->test_accuracy,
		       last->test_accuracy * (double)t->split.test_rows, t->split.test_rows);
	printf("time            %.2f s for %u epoch%s, %.0f samples/s on %d rank%s\n", s->seconds,
	       h->epoch_count, h->epoch_count == 1 ? "" : "s", speed, t->team->size,
	       t->team->size == 1 ? "" : "s");
	if (*s->algorithm)
		printf("exchange        %s: %s over %s, at least %.1f MB by the rank that sent most\n",
		       what_goes(t), s->algorithm, s->transports, s->sent_bytes * 1e-6);
	print_staleness(&s->staleness);
	if (t->sharded)
		print_reading(t);
	printf("communication   %.1f %% of the time (worst rank %.1f %%): blocked in tutti's "
	       "calls, waiting for slower ranks included\n",
	       100 * s->blocked_mean, 100 * s->blocked_worst);
}

static bool draw(const struct report *report, const char *path)
{
	const struct history *h = &report->history;
	const struct training *t = report->training;
	const char *data = t->options->source.path, *slash = strrchr(data, '/');
	/* what the extremes are called */
	const char *kind = t->batch == 1		     ? " (one-sample SGD)"
			   : t->batch == t->split.train_rows ? " (gradient descent)"
							     : "";
	char heading[256];

	snprintf(heading, sizeof(heading), "tutti-train, %s, %d rank%s, %s, batch %zu%s, %.3g s",
		 slash ? slash + 1 : data, t->team->size, t->team->size == 1 ? "" : "s",
		 t->sync->name, t->batch, kind, t->summary.seconds);
	if (!plot_write(path, tt_printable(heading), h->epochs, h->epoch_count))
		return false;
	if (!report->quiet)
		printf("curves          %s\n", path);
	return true;
}

bool report_end(struct report *report)
{
	bool ok;

	if (!report->on)
		return true;
	if (!report->quiet)
		print_end(report);
	ok = log_line(report, log_end_json(report->training)) && log_close(report);
	for (unsigned i = 0; i < report->options->plot_count && ok; i++)
		ok = draw(report, report->options->plots[i]);
	return ok;
}
