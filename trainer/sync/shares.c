/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the shares of ranks. All ranks hold the same numbers, and come to the same slices. */
#include "shares.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "train.h"

static double said_of(const struct share_options *o, int origin)
{
	return origin >= 0 && origin < o->count ? o->of[origin] : 1;
}

bool shares_check(const struct training *t)
{
	const struct share_options *o = &t->options->shares;
	const int started = t->team->started;
	const bool cut = grid_is_cut(&t->grid);
	const int expected = cut ? t->grid.stages : started;

	if (o->count > 0 && o->count != expected)
		return why_invalid(
			"--shares: found %d number%s for %d %s%s, expected one for each%s",
			o->count, o->count == 1 ? "" : "s", expected, cut ? "stage" : "rank",
			expected == 1 ? "" : "s",
			cut ? "" : "; give as many, or start as many ranks");
	for (int i = 0; i < o->slow_count; i++) {
		if (o->slow[i].rank >= started)
			return why_invalid(
				"--slow: found rank %d, expected a rank of this job, 0 to %d",
				o->slow[i].rank, started - 1);
		if (o->slow[i].epoch > t->options->epochs)
			return why_invalid(
				"--slow: found epoch %u, expected one from 1 to %u (--epochs)",
				o->slow[i].epoch, t->options->epochs);
	}
	return true;
}

bool shares_begin(struct training *t)
{
	const struct share_options *o = &t->options->shares;
	double *of;

	shares_finish(&t->shares);
	if ((o->count == 0 && !o->by_themselves) || grid_is_cut(&t->grid))
		return true;
	of = calloc((size_t)t->team->size, sizeof(*of));
	if (!of)
		return why_no_memory("the shares of ranks");
	for (int r = 0; r < t->team->size; r++)
		of[r] = said_of(o, t->team->origins[r]);
	t->shares.of = of;
	return true;
}

void shares_finish(struct shares *shares)
{
	free(shares->of);
	*shares = (struct shares){ 0 };
}

struct slice shares_slice(const struct training *t, size_t total, int index, int count)
{
	const double *of = t->shares.of;
	double before = 0, all = 0;

	if (!of)
		return slice_of(total, index, count);
	of += t->team->size - count; /* servers stand first, and have none */
	for (int i = 0; i < count; i++) {
		all += of[i];
		before += i < index ? of[i] : 0;
	}
	const size_t first = (size_t)llround((double)total * (before / all)),
		     end = index == count - 1
				   ? total
				   : (size_t)llround((double)total * ((before + of[index]) / all));

	return (struct slice){ first, end - first };
}

struct slice shares_own(const struct training *t, size_t total)
{
	const struct worker worker = sync_worker(t);

	return worker.index < 0 ? (struct slice){ 0 }
				: shares_slice(t, total, worker.index, worker.count);
}

void shares_range(const struct training *t, double *least, double *most)
{
	const int count = t->sync->epoch ? 0 : sync_worker(t).count; /* of async: as it comes */

	*least = count > 0 ? 1 : 0;
	*most = 0;
	for (int i = 0; i < count; i++) {
		const double part =
			(double)shares_slice(t, t->batch, i, count).count / (double)t->batch;

		*least = fmin(*least, part);
		*most = fmax(*most, part);
	}
}

/* The last that has begun counts; of those of one epoch the last that was said. */
static double slowness_of(const struct share_options *o, int origin, unsigned epoch)
{
	unsigned since = 0;
	double factor = 1;

	for (int i = 0; i < o->slow_count; i++)
		if (o->slow[i].rank == origin && o->slow[i].epoch <= epoch &&
		    o->slow[i].epoch >= since) {
			since = o->slow[i].epoch;
			factor = o->slow[i].factor;
		}
	return factor;
}

/* A machine that is slow takes no cores from others: nor does one that is made so. */
static void sleep_s(double seconds)
{
	const struct timespec time = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };

	nanosleep(&time, NULL);
}

void shares_note(struct training *t, size_t samples, double busy_s)
{
	const double factor = slowness_of(&t->options->shares, t->team->origin, t->ordered);

	if (factor > 1)
		sleep_s(busy_s * (factor - 1));
	if (samples > 0)
		t->shares.pace[t->shares.paced++ % PACES] = busy_s * factor / (double)samples;
}

static int compare_paces(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of the steps: a step may take many times as long where the system gives the core to
 * another process, and says nothing of the next epoch. Samples a second; 0: none were measured. */
static double take_speed(struct shares *s)
{
	const size_t count = s->paced < PACES ? s->paced : PACES;

	s->paced = 0;
	if (count == 0)
		return 0;
	qsort(s->pace, count, sizeof(s->pace[0]), compare_paces);
	return s->pace[count / 2] > 0 ? 1 / s->pace[count / 2] : 0;
}

/* Samples a second; a rank that had none is as fast as its share says. Each gets a sample of a
 * batch at least: without any it could not be measured again. */
static void take_speeds(struct training *t, const double *all)
{
	double *of = t->shares.of, sum = 0;

	for (int r = 0; r < t->team->size; r++) {
		of[r] = all[r] > 0 ? all[r] : of[r];
		sum += r < (int)t->options->servers ? 0 : of[r];
	}
	for (int r = 0; r < t->team->size; r++)
		of[r] = fmax(of[r], sum / (double)t->batch);
}

bool shares_adapt(struct training *t)
{
	const double mine = take_speed(&t->shares);
	double *all;
	bool ok;

	if (!t->options->shares.by_themselves)
		return true;
	all = calloc((size_t)t->team->size, sizeof(*all));
	if (!all)
		return why_no_memory("the speeds of ranks");
	ok = team_gather(t->team, &mine, all, sizeof(mine));
	if (ok)
		take_speeds(t, all);
	free(all);
	return ok;
}
