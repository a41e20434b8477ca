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

/* A bucket is cut evenly, so that all ranks can begin when it is ready; workers have no shard. */
static struct slice part_of(const struct training *t, const struct bucket *b, int r)
{
	const int servers = (int)t->options->servers;

	if (servers == 0)
		return slice_of(b->count, r, t->grid.column->size);
	return r < servers ? kept_shard(t, (unsigned)r) : (struct slice){ 0 };
}

bool kept_lay_out(struct training *t)
{
	const size_t ranks = (size_t)t->grid.column->size;
	struct buckets *buckets = &t->buckets;
	struct kept *k = &t->kept;

	if (t->options->servers > 0)
		*buckets = (struct buckets){ 1, .bucket[0].count = t->model.parameters };
	buckets->apart = true;
	free(k->counts);
	k->counts = calloc(buckets->count * ranks, sizeof(*k->counts));
	if (!k->counts)
		return why_no_memory("the shares of ranks");
	k->count = 0;
	for (unsigned i = 0; i < buckets->count; i++) {
		struct bucket *b = &buckets->bucket[i];
		size_t *counts = k->counts + i * ranks;

		for (size_t r = 0; r < ranks; r++)
			counts[r] = part_of(t, b, (int)r).count;
		b->counts = counts;
		b->mine = part_of(t, b, t->grid.column->rank);
		b->mine.first += b->first;
		b->place = k->count;
		k->count += b->mine.count;
	}
	return true;
}

bool kept_exchange(struct training *t, void *velocity, bool collects)
{
	const struct numbers *numbers = t->model.numbers;
	const struct kept *k = &t->kept;
	bool ok = true;

	for (unsigned v = 0; v < t->options->optimizer->velocities; v++)
		for (unsigned i = 0; i < t->buckets.count && ok; i++) {
			const struct bucket *b = &t->buckets.bucket[i];
			void *own = numbers_at(numbers, k->now, v * k->count + b->place),
			     *all = sync_velocity(t, velocity, v);

			all = all ? numbers_at(numbers, all, b->first) : NULL;
			ok = team_exchange(t->grid.column, numbers, b->counts, own, all, collects);
		}
	return ok;
}

/* Rank 0 keeps what it has until all have theirs, which a sum that ends well says: else once more,
 * when ranks have settled again. */
static bool share_out(struct training *t)
{
	double has = 1;

	if (!kept_exchange(t, t->velocity, false) || !team_sum(t->grid.column, &has, 1))
		return false;
	free(t->velocity);
	t->velocity = NULL;
	t->resumes = false;
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
	k->of = t->buckets.bucket[0].mine;
	k->step = t->state.step;
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

bool kept_is_of_shard(const struct training *t)
{
	const struct slice *shard = &t->buckets.bucket[0].mine, *of = &t->kept.of;

	return t->kept.now && of->first == shard->first && of->count == shard->count;
}

/* All go on from a step that all of them have settled on before, or from a later one: who is beyond
 * it has made that step since. */
bool kept_is_current(struct training *t)
{
	struct kept *k = &t->kept;

	if (k->step == t->state.step + 1) {
		swap(k);
		k->step--;
	}
	return kept_is_of_shard(t) && k->step == t->state.step;
}

void kept_advance(struct training *t)
{
	swap(&t->kept);
	t->kept.step = t->state.step + 1;
}

void kept_finish(struct kept *k)
{
	forget(k);
	free(k->counts);
	*k = (struct kept){ 0 };
}

struct stretch kept_stretch(const struct training *t, unsigned bucket)
{
	const struct bucket *b = &t->buckets.bucket[bucket];
	const struct numbers *numbers = t->model.numbers;
	const struct kept *k = &t->kept;
	struct stretch stretch = { .of = b->mine,
				   .from = trained_at(numbers, k->now, k->now, k->count, b->place),
				   .to = trained_at(numbers, k->next, k->next, k->count,
						    b->place) };

	stretch.from.weights = state_now(&t->state, b->mine.first).weights;
	stretch.to.weights = state_next(&t->state, b->mine.first).weights;
	return stretch;
}
