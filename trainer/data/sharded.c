/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples of which each rank keeps a part, and their way to the ranks that train on them. */
#include "sharded.h"

#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { WINDOWS = 8 /* of an epoch: so little of it is at a rank beside what that keeps */ };

bool sharded_read(struct training *t)
{
	const struct data_part part = { t->team->rank, t->team->size };

	t->sharded = calloc(1, sizeof(*t->sharded));
	return t->sharded ? data_read_part(&t->options->source, part, &t->data)
			  : why_no_memory("a part of the samples");
}

void sharded_finish(struct training *t)
{
	if (!t->sharded)
		return;
	free(t->sharded->begins);
	free(t->sharded->test);
	free(t->sharded->at);
	free(t->sharded->rows);
	free(t->sharded);
	t->sharded = NULL;
}

/* ---- what all parts make together */

/* What ranks tell of their parts. */
struct told {
	uint64_t rows[2], features, classes; /* of both files; classes: of what is made */
	uint64_t origin;
};

static bool number_rows(struct training *t, const struct told *all)
{
	const size_t size = (size_t)t->team->size;
	size_t *begins = t->sharded->begins = calloc(2 * size + 1, sizeof(*begins));

	if (!begins)
		return why_no_memory("where parts of the samples begin");
	for (size_t i = 0; i < 2 * size; i++)
		begins[i + 1] = begins[i] + (size_t)all[i % size].rows[i / size];
	return true;
}

/* Parts of a file have rows of one kind. */
static bool compare_features(struct training *t, const struct told *all)
{
	int first = -1;
	uint64_t rows = 0;

	for (int r = 0; r < t->team->size; r++) {
		if (all[r].origin != all[0].origin)
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: rank %d reads other data than rank 0: another file, or other "
				"samples that are made; give all hosts the same files",
				t->options->source.path, r);
		rows += all[r].rows[0];
		if (all[r].features == 0) /* it has no row */
			continue;
		if (first >= 0 && all[r].features != all[first].features)
			return why_set(
				TUTTI_ERR_INVALID,
				"%s: found %zu features in the part of rank %d and %zu in that "
				"of rank %d, expected as many in all",
				t->options->source.path, (size_t)all[first].features, first,
				(size_t)all[r].features, r);
		first = first < 0 ? r : first;
	}
	if (rows == 0)
		return why_set(TUTTI_ERR_INVALID,
			       "%s: found no row, expected rows of numbers with commas between "
			       "them, the label last",
			       t->options->source.path);
	t->data.features = (size_t)all[first].features;
	t->data.classes = (unsigned)all[first].classes;
	return true;
}

static bool join_counts(struct training *t)
{
	const struct data *own = &t->data;
	const struct told mine = { { own->rows - own->test_rows, own->test_rows },
				   own->rows > 0 ? own->features : 0,
				   own->classes,
				   own->origin };
	struct told *all = calloc((size_t)t->team->size, sizeof(*all));
	const bool ok = (all ? team_gather(t->team, &mine, all, sizeof(mine))
			     : why_no_memory("all parts of the samples")) &&
			compare_features(t, all) && number_rows(t, all);

	free(all);
	return ok;
}

bool sharded_join(struct training *t)
{
	const int rank = t->team->rank, size = t->team->size;
	struct facts *all = calloc((size_t)size + 1, sizeof(*all));
	bool ok = all ? join_counts(t) : why_no_memory("the labels of all parts");

	if (ok) {
		const size_t *begins = t->sharded->begins;

		data_note(&t->data, begins[rank], begins[size + rank], &all[size]);
		ok = team_gather(t->team, &all[size], all, sizeof(*all));
	}
	for (int r = 1; ok && r < size; r++)
		data_add_facts(&all[0], &all[r]);
	ok = ok && data_judge(&t->options->source, &all[0], &t->data);
	free(all);
	return ok;
}

/* Who keeps a row, and which of its own it is. */
static int keeper_of(const struct training *t, size_t row, size_t *own)
{
	const size_t *begins = t->sharded->begins;
	const int size = t->team->size;
	int low = 0, high = 2 * size - 1;

	while (low < high) { /* the last that begins at or before it */
		const int middle = (low + high + 1) / 2;

		if (begins[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	*own = row - begins[low];
	if (low >= size) /* behind its rows for training */
		*own += begins[low - size + 1] - begins[low - size];
	return low % size;
}

/* Of these rows of the whole, those that this rank keeps: which of its own they are. */
static size_t keep_own(const struct training *t, const uint32_t *rows, size_t count, uint32_t *out)
{
	size_t kept = 0, own;

	for (size_t i = 0; i < count; i++)
		if (keeper_of(t, rows[i], &own) == t->team->rank)
			out[kept++] = (uint32_t)own;
	return kept;
}

bool sharded_standardise(struct training *t)
{
	struct sharded *s = t->sharded;
	const struct split *split = &t->split;
	uint32_t *train = malloc((t->data.rows + 1) * sizeof(*train));
	bool ok;

	s->test = malloc((t->data.rows + 1) * sizeof(*s->test));
	ok = (train && s->test) || why_no_memory("the rows of this rank");
	if (ok) {
		s->test_count = keep_own(t, split->test, split->test_rows, s->test);
		ok = standardise(&t->data, train,
				 keep_own(t, split->train, split->train_rows, train),
				 split->train_rows, t->team);
	}
	free(train);
	return ok;
}

/* ---- delivery */

/* The places of a step that are a rank's. */
static struct slice places_of(const struct training *t, size_t step, int rank)
{
	const size_t first = step * t->batch, left = t->split.train_rows - first;
	struct slice part = shares_slice(t, left < t->batch ? left : t->batch, rank, t->team->size);

	part.first += first;
	return part;
}

/* Pack the rows that this rank keeps, for each rank those that it trains on, in the order of their places. Say
 * of each place who keeps its row, if it is this rank's, else `ranks`. */
static void pack(struct training *t, float *row, size_t *to)
{
	struct sharded *s = t->sharded;
	const size_t n = t->data.features;
	const int rank = t->team->rank, ranks = t->team->size;

	for (int r = 0; r < ranks; r++)
		for (size_t k = 0; k < s->steps; k++) {
			const struct slice part = places_of(t, s->first_step + k, r);

			for (size_t p = part.first; p < part.first + part.count; p++) {
				size_t own;
				const int keeper = keeper_of(t, t->order[p], &own);

				s->at[p - s->first_place] = (uint32_t)(r == rank ? keeper : ranks);
				if (keeper != rank)
					continue;
				memcpy(row, t->data.x + own * n, n * sizeof(*row));
				row[n] = (float)t->data.y[own]; /* a label is exact in a float */
				row += n + 1;
				to[r]++;
			}
		}
}

/* Rows come in the order of those who send them, and then of their places. Of `from` and `next` [ranks + 1] the
 * last is that of other ranks' places. How many come. */
static size_t place_rows(struct sharded *s, size_t places, int ranks, size_t *from, size_t *next)
{
	size_t coming;

	for (size_t i = 0; i < places; i++)
		from[s->at[i]]++;
	for (int r = 0; r < ranks; r++)
		next[r + 1] = next[r] + from[r];
	coming = next[ranks];
	for (size_t i = 0; i < places; i++)
		s->at[i] = (uint32_t)next[s->at[i]]++;
	return coming;
}

static bool exchange(struct training *t, const float *going, size_t *to, size_t *from)
{
	struct sharded *s = t->sharded;
	const size_t width = t->data.features + 1;

	for (int r = 0; r < t->team->size; r++) {
		to[r] *= width;
		from[r] *= width;
		s->sent += r == t->team->rank ? 0 : to[r] * sizeof(*going);
	}
	return team_exchange(t->team, going, to, s->rows, from);
}

/* `places`: of the steps at hand. */
static bool deliver(struct training *t, size_t places)
{
	struct sharded *s = t->sharded;
	const size_t row = (t->data.features + 1) * sizeof(float), ranks = (size_t)t->team->size;
	size_t *counts = calloc(3 * (ranks + 1), sizeof(*counts));
	float *going = NULL;
	bool ok;

	free(s->rows);
	free(s->at);
	s->rows = NULL;
	s->at = malloc(places * sizeof(*s->at));
	if (s->at) /* for now, those that go */
		going = malloc(row * keep_own(t, t->order + s->first_place, places, s->at) + 1);
	if (counts && going) {
		size_t *from = counts + ranks + 1;

		pack(t, going, counts);
		s->rows = malloc(
			row * place_rows(s, places, t->team->size, from, from + ranks + 1) + 1);
	}
	ok = s->rows ? exchange(t, going, counts, counts + ranks + 1)
		     : why_no_memory("samples on their way");
	free(going);
	free(counts);
	return ok;
}

bool sharded_deliver(struct training *t, size_t step)
{
	struct sharded *s = t->sharded;
	const size_t most = (t->steps_per_epoch + WINDOWS - 1) / WINDOWS,
		     left = t->steps_per_epoch - step;

	if (step > 0 && step >= s->first_step && step < s->first_step + s->steps)
		return true;
	s->first_step = step;
	s->steps = left < most ? left : most;
	s->first_place = step * t->batch;
	const size_t places = s->steps * t->batch, rest = t->split.train_rows - s->first_place;

	return deliver(t, places < rest ? places : rest);
}

const uint32_t *sharded_places(const struct sharded *s, size_t place, size_t features,
			       struct samples *out)
{
	*out = (struct samples){ s->rows, features + 1, NULL };
	return s->at + (place - s->first_place);
}
