/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the optimiser keeps of the weights whose updates are this rank's alone. */
#include "kept.h"

#include <stdio.h>
#include <stdlib.h>

#include "train.h"

struct slice kept_shard(const struct training *t, unsigned server)
{
	return slice_of(t->model.parameters, (int)server, (int)t->options->servers);
}

bool kept_serves(const struct training *t)
{
	return t->team->rank < (int)t->options->servers;
}

/* What of run `i` is rank r's: a bucket is cut evenly, so that all ranks can begin when it is ready. */
static struct slice part_of(const struct training *t, unsigned i, int r)
{
	const int servers = (int)t->options->servers;

	if (servers == 0)
		return slice_of(t->buckets.bucket[i].count, r, t->grid.column->size);
	return r < servers ? kept_shard(t, (unsigned)r) : (struct slice){ 0 };
}

bool kept_lay_out(struct training *t)
{
	const size_t ranks = (size_t)t->grid.column->size;
	struct kept *k = &t->kept;

	free(k->counts);
	k->runs = t->options->servers > 0 ? 1 : t->buckets.count;
	k->counts = calloc(k->runs * ranks, sizeof(*k->counts));
	if (!k->counts)
		return why_no_memory("the shares of ranks");
	k->count = 0;
	for (unsigned i = 0; i < k->runs; i++) {
		const struct slice mine = part_of(t, i, t->grid.column->rank);
		const size_t first = t->options->servers > 0 ? 0 : t->buckets.bucket[i].first;

		k->run[i] = (struct run){
			first, k->counts + i * ranks, { first + mine.first, mine.count }, k->count
		};
		for (size_t r = 0; r < ranks; r++)
			k->run[i].counts[r] = part_of(t, i, (int)r).count;
		k->count += mine.count;
	}
	return true;
}

/* ---- velocity. Vector `v` of it, of a run: where that is in those of all weights, and in this rank's. */

static void *in_all(const struct training *t, void *all, unsigned v, const struct run *run)
{
	void *velocity = sync_velocity(t, all, v);

	return velocity ? numbers_at(t->model.numbers, velocity, run->first) : NULL;
}

static void *in_own(const struct training *t, unsigned v, const struct run *run)
{
	return numbers_at(t->model.numbers, t->kept.now, v * t->kept.count + run->place);
}

/* A sum ends well only when everybody has come to it. */
static bool all_have_theirs(struct training *t)
{
	double has = 1;

	return team_sum(t->grid.column, &has, 1);
}

/* Rank 0 keeps what it has until all have theirs: else once more, when ranks have settled again. */
static bool share_out(struct training *t)
{
	for (unsigned v = 0; v < t->options->optimizer->velocities; v++)
		for (unsigned i = 0; i < t->kept.runs; i++) {
			const struct run *run = &t->kept.run[i];

			if (!team_share_out(t->grid.column, t->model.numbers,
					    in_all(t, t->velocity, v, run), run->counts,
					    in_own(t, v, run)))
				return false;
		}
	if (!all_have_theirs(t))
		return false;
	free(t->velocity);
	t->velocity = NULL;
	t->resumes = false;
	return true;
}

bool kept_collect(struct training *t, void *velocity)
{
	for (unsigned v = 0; v < t->options->optimizer->velocities; v++)
		for (unsigned i = 0; i < t->kept.runs; i++) {
			const struct run *run = &t->kept.run[i];

			if (!team_collect(t->grid.column, t->model.numbers, in_own(t, v, run),
					  run->counts, in_all(t, velocity, v, run)))
				return false;
		}
	return true;
}

static void forget(struct kept *k)
{
	free(k->now);
	free(k->next);
	k->now = k->next = NULL;
}

bool kept_renew(struct training *t, const char *lost)
{
	const size_t numbers = t->options->optimizer->velocities * t->kept.count + 1;
	struct kept *k = &t->kept;

	forget(k);
	k->now = calloc(numbers, t->model.numbers->size);
	if (t->sync->each_step)
		k->next = calloc(numbers, t->model.numbers->size);
	if (!k->now || (t->sync->each_step && !k->next))
		return why_no_memory("the velocity of a share");
	k->of = k->run[0].mine;
	k->step = t->state.step;
	k->went = false;
	t->velocity_since = t->resumes ? 0 : t->state.step;
	if (t->resumes)
		return share_out(t);
	if (lost && t->report->history.loss_count > 0 && sync_keeps(t))
		fprintf(stderr, "tutti-train: the %s of %s was lost with a rank, and begins anew\n",
			t->options->optimizer->kept, lost);
	return true;
}

static void swap(struct kept *k)
{
	void *was = k->now;

	k->now = k->next;
	k->next = was;
}

bool kept_is_current(struct training *t)
{
	const struct slice *shard = &t->kept.run[0].mine;
	struct kept *k = &t->kept;

	if (!k->now || k->of.first != shard->first || k->of.count != shard->count)
		return false;
	if (k->went && k->step == t->state.step + 1) {
		swap(k);
		k->step--;
		k->went = false;
	}
	return k->step == t->state.step;
}

void kept_advance(struct training *t)
{
	swap(&t->kept);
	t->kept.step = t->state.step + 1;
	t->kept.went = true;
}

void kept_finish(struct kept *k)
{
	forget(k);
	free(k->counts);
	*k = (struct kept){ 0 };
}

struct stretch kept_stretch(const struct training *t, unsigned run)
{
	const struct kept *k = &t->kept;
	const struct run *r = &k->run[run];
	const struct numbers *numbers = t->model.numbers;
	struct stretch stretch = { .of = r->mine,
				   .from = trained_at(numbers, k->now, k->now, k->count, r->place),
				   .to = trained_at(numbers, k->next, k->next, k->count,
						    r->place) };

	stretch.from.weights = state_now(&t->state, r->mine.first).weights;
	stretch.to.weights = state_next(&t->state, r->mine.first).weights;
	return stretch;
}
