/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the samples of which each rank keeps a part, and their way to who trains on them. */
#include "sharded.h"

#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { WINDOWS = 8 /* of an epoch: so little of it is at a rank beside what that keeps */ };

bool sharded_read(struct training *t)
{
	const struct data_part part = { t->team->rank, t->team->size };

	t->sharded = calloc(1, sizeof(*t->sharded));
	if (!t->sharded)
		return why_no_memory("a part of the samples");
	if (data_read_part(&t->options->source, part, &t->data))
		return true;
	t->sharded->wrong = why;
	return why.result == TUTTI_ERR_INVALID;
}

void sharded_finish(struct training *t)
{
	if (!t->sharded)
		return;
	free(t->sharded->begins);
	free(t->sharded->test);
	free(t->sharded->here);
	free(t->sharded->rows);
	free(t->sharded);
	t->sharded = NULL;
}

/* ---- what all parts make together */

struct found {
	uint64_t rows[2]; /* for training, for validation */
	uint64_t same[3]; /* on all ranks that came so far: the files' origins, and the features */
	struct why wrong;
};

/* The first part's error is that of all. */
static bool compare_parts(const char *path, const struct found *all, int size)
{
	for (int r = 1; r < size; r++)
		for (int i = 0; i < 3; i++)
			if (all[r].same[i] != all[0].same[i] && all[r].same[i] && all[0].same[i])
				return data_refuse(path,
						   "rank %d reads other data than rank 0: another "
						   "file, or other samples that are made; give all "
						   "hosts the same files",
						   r);
	for (int r = 0; r < size; r++)
		if (all[r].wrong.result != TUTTI_OK) {
			why = all[r].wrong;
			return false;
		}
	return true;
}

bool sharded_join(struct training *t)
{
	struct sharded *s = t->sharded;
	const struct data *data = &t->data;
	const size_t size = (size_t)t->team->size, rank = (size_t)t->team->rank;
	const struct data_source *source = &t->options->source;
	const struct found mine = { { data->rows - data->test_rows, data->test_rows },
				    { data->origin[0], data->origin[1], data->features },
				    s->wrong };
	struct found *all = calloc(size, sizeof(*all));
	size_t *begins = s->begins = calloc(2 * size + 1, sizeof(*begins));
	bool ok = all && begins ? team_gather(t->team, &mine, all, sizeof(mine)) &&
					  compare_parts(source->path, all, t->team->size)
				: why_no_memory("what all parts are");

	for (size_t i = 0; ok && i < 2 * size; i++)
		begins[i + 1] = begins[i] + all[i % size].rows[i / size];
	free(all);
	return ok && data_judge(source, t->team, (size_t[]){ begins[rank], begins[size + rank] },
				&t->data);
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

	s->test = malloc((t->data.rows + 1) * sizeof(*s->test));
	if (!s->test)
		return why_no_memory("the rows of this rank");
	s->test_count = keep_own(t, split->test, split->test_rows, s->test);
	uint32_t *train = s->test + s->test_count;

	return standardise(&t->data, train, keep_own(t, split->train, split->train_rows, train),
			   split->train_rows, t->team);
}

/* ---- delivery */

/* The places of a step that are a rank's. The step has the places from `first` on. */
static struct slice places_of(const struct training *t, size_t first, int rank)
{
	const size_t count = training_batch(t, first / t->batch).count;
	struct slice part = shares_slice(t, count, rank, t->team->size);

	part.first += first;
	return part;
}

static void pack(const struct data *data, size_t row, float *to)
{
	memcpy(to, data->x + row * data->features, data->features * sizeof(*to));
	to[data->features] = (float)data->y[row]; /* a label is exact in a float */
}

/* Go through the window: the rows that this rank keeps go `to` [ranks] those whose places they are
 * at, and rows for its own places come `from` [ranks] those who keep them, each in the order of
 * places. Both count on from what they are. `going` NULL: this is all. */
static void walk(struct training *t, size_t *to, size_t *from, float *going)
{
	struct sharded *s = t->sharded;
	const struct slice window = s->window;
	const int rank = t->team->rank;

	for (size_t first = window.first; first < window.first + window.count; first += t->batch)
		for (int r = 0; r < t->team->size; r++) {
			const struct slice part = places_of(t, first, r);

			for (size_t p = part.first; p < part.first + part.count; p++) {
				size_t own;
				const int keeper = keeper_of(t, t->order[p], &own);

				if (keeper == rank && going)
					pack(&t->data, own, going + to[r] * (t->data.features + 1));
				if (keeper == rank)
					to[r]++;
				if (r == rank)
					s->here[p - window.first] = (uint32_t)from[keeper]++;
			}
		}
}

/* Where each rank's rows begin, by how many they are. How many there are in all. */
static size_t begin_each(const size_t *counts, int ranks, size_t *begins)
{
	size_t all = 0;

	for (int r = 0; r < ranks; r++) {
		begins[r] = all;
		all += counts[r];
	}
	return all;
}

/* The rows of the window. */
static bool deliver(struct training *t)
{
	struct sharded *s = t->sharded;
	const int ranks = t->team->size;
	const size_t width = t->data.features + 1;
	size_t *to = calloc(4 * (size_t)ranks, sizeof(*to));
	float *going = NULL;
	bool ok;

	if (!to)
		return why_no_memory("samples on their way");
	size_t *from = to + ranks, *to_at = from + ranks, *from_at = to_at + ranks;

	free(s->rows);
	free(s->here);
	s->rows = NULL;
	s->here = malloc(s->window.count * sizeof(*s->here));
	if (s->here) {
		walk(t, to, from, NULL);
		going = calloc(begin_each(to, ranks, to_at) + 1, width * sizeof(*going));
		s->rows = calloc(begin_each(from, ranks, from_at) + 1, width * sizeof(*s->rows));
	}
	ok = (going && s->rows) || why_no_memory("samples on their way");
	if (ok)
		walk(t, to_at, from_at, going);
	for (int r = 0; r < ranks; r++) { /* in numbers */
		to[r] *= width;
		from[r] *= width;
		s->sent += r == t->team->rank ? 0 : to[r] * sizeof(*going);
	}
	ok = ok && TEAM_CALL(t->team,
			     tutti_all_to_all_v(t->team->comm, going, to, NULL, s->rows, from, NULL,
						TUTTI_FLOAT32, NULL),
			     "the exchange of samples");
	free(going);
	free(to);
	return ok;
}

bool sharded_deliver(struct training *t, size_t step)
{
	struct slice *window = &t->sharded->window;
	const size_t place = step * t->batch, left = t->split.train_rows - place,
		     most = (t->plan.epoch_steps + WINDOWS - 1) / WINDOWS * t->batch;

	if (step > 0 && place >= window->first && place < window->first + window->count)
		return true;
	*window = (struct slice){ place, left < most ? left : most };
	return deliver(t);
}

const uint32_t *sharded_places(const struct sharded *s, size_t place, size_t features,
			       struct samples *out)
{
	*out = (struct samples){ s->rows, features + 1, NULL };
	return s->here + (place - s->window.first);
}
