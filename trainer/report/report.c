/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the history of epochs and losses, and what was told of it. Standard output and the log are
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
	if (h->loss_count > 0) /* by another rank; how far its log came is not certain */
		report->printed = (struct told){ true, h->epoch_count, h->loss_count - 1 };
	if (path) /* log_start() empties it */
		report->json = strcmp(path, "-") == 0 ? stdout : fopen(path, "ae");
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
	report->printed.epochs = report->history.epoch_count;
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

static const char *plural(int count)
{
	return count == 1 ? "" : "s";
}

static bool print_start(struct report *report)
{
	const struct training *t = report->training;
	const int buckets = (int)t->buckets.count, ranks = t->team->started;

	printf("%zu samples to train on, %zu to validate: %zu features, %u classes\n",
	       t->split.train_rows, t->split.test_rows, t->data.features, t->data.classes);
	printf("%zu weights in %d bucket%s; %d rank%s, %zu samples per step of all ranks "
	       "together\n",
	       model_parameter_count(t->model.width, t->model.cut.of), buckets, plural(buckets),
	       ranks, plural(ranks), t->batch);
	if (t->grid.ways > 1)
		printf("%d parts of each layer\n", t->grid.ways);
	if (t->grid.stages > 1)
		printf("%d stages of the model, %u micro-batches of a batch, %s\n", t->grid.stages,
		       t->grid.parts, t->options->order == ORDER_GPIPE ? "gpipe" : "1f1b");
	return true;
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

static bool print_epoch(struct report *report, const struct epoch *e)
{
	const double done = (double)e->number / (double)report->options->epochs;
	char text[LOSS_TEXT], left[LEFT_TEXT];

	if (report->bar) {
		draw_bar(report, done);
		return true;
	}
	printf("epoch %*u/%u  loss %s  accuracy %.4f", report->options->epochs < 100 ? 2 : 4,
	       e->number, report->options->epochs, loss_text(e->train_loss, text),
	       e->train_accuracy);
	if (!isnan(e->test_accuracy))
		printf("  validation loss %s  accuracy %.4f", loss_text(e->test_loss, text),
		       e->test_accuracy);
	printf("  %.2f s%s\n", e->seconds, left_text(report, done, ", ", left));
	return true;
}

static bool print_loss(struct report *report, const struct loss *l)
{
	report_interrupt(report);
	printf("lost rank%s", plural(l->lost_count));
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
	return true;
}

/* ---- the history, on standard output and in the log */

/* How what happened is told in one place. */
struct teller {
	bool (*start)(struct report *report);
	bool (*epoch)(struct report *report, const struct epoch *epoch);
	bool (*loss)(struct report *report, const struct loss *loss);
};

static const struct teller text = { print_start, print_epoch, print_loss };
static const struct teller json = { log_start, log_epoch, log_loss };

/* What is not there yet, in the order in which things happened. */
static bool tell(struct report *report, const struct teller *teller, struct told *told)
{
	const struct history *h = &report->history;
	bool ok = told->start || teller->start(report);

	told->start = true;
	while (ok && (told->epochs < h->epoch_count || told->losses < h->loss_count)) {
		if (told->losses < h->loss_count &&
		    (told->epochs == h->epoch_count ||
		     h->losses[told->losses].epochs <= told->epochs))
			ok = teller->loss(report, &h->losses[told->losses++]);
		else
			ok = teller->epoch(report, &h->epochs[told->epochs++]);
	}
	return ok;
}

bool report_show(struct report *report)
{
	const bool ok = !report->on || ((report->quiet || tell(report, &text, &report->printed)) &&
					(!report->json || tell(report, &json, &report->logged)));

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

static void print_staleness(const uint64_t *count)
{
	uint64_t all = 0, sum = 0;
	int most = 0;

	for (int i = 0; i <= STALENESS_MOST; i++) {
		all += count[i];
		sum += count[i] * (uint64_t)i;
		most = count[i] > 0 ? i : most;
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
	       h->epoch_count, plural((int)h->epoch_count), speed, t->team->size,
	       plural(t->team->size));
	if (*s->algorithm)
		printf("exchange        %s: %s over %s, at least %.1f MB by the rank that sent most\n",
		       what_goes(t), s->algorithm, s->transports, s->sent_bytes * 1e-6);
	print_staleness(s->staleness);
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
		 slash ? slash + 1 : data, t->team->size, plural(t->team->size), t->sync->name,
		 t->batch, kind, t->summary.seconds);
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
	ok = !report->json || log_end(report);
	for (unsigned i = 0; i < report->options->plot_count && ok; i++)
		ok = draw(report, report->options->plots[i]);
	return ok;
}
