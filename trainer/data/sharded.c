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
	free(t->sharded->at);
	free(t->sharded->rows);
	free(t->sharded);
	t->sharded = NULL;
}

/* ---- what all parts make together */

struct found {
	uint64_t rows[2]; /* for training, for validation */
	uint64_t origin[2];
	struct why wrong;
};

/* Ranks read the same files, as far as they came: and then the first one's error is that of all. */
static bool compare_parts(const char *path, const struct found *all, int size)
{
	for (int r = 1; r < size; r++)
		for (int file = 0; file < 2; file++)
			if (all[r].origin[file] != all[0].origin[file] && all[r].origin[file] &&
			    all[0].origin[file])
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
				    { data->origin[0], data->origin[1] },
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

/* Pack the rows that this rank keeps, for each rank those of its places, in their order: `to`
 * [ranks] has how many numbers. In `at` is who keeps a place's row; `ranks` if it is another
 * rank's place. */
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
				to[r] += n + 1;
				s->sent += r == rank ? 0 : (n + 1) * sizeof(*row);
			}
		}
}

/* Rows come in the order of those who send them, and then of places. `from` [ranks + 1]: how many
 * numbers, the last of other ranks' places; `next`: as long, zeros. How many come in all. */
static size_t place_rows(struct sharded *s, size_t places, size_t ranks, size_t width, size_t *from,
			 size_t *next)
{
	size_t coming;

	for (size_t i = 0; i < places; i++)
		from[s->at[i]] += width;
	for (size_t r = 0; r < ranks; r++)
		next[r + 1] = next[r] + from[r] / width;
	coming = next[ranks] * width;
	for (size_t i = 0; i < places; i++)
		s->at[i] = (uint32_t)next[s->at[i]]++;
	return coming;
}

/* `places`: of the steps at hand. */
static bool deliver(struct training *t, size_t places)
{
	struct sharded *s = t->sharded;
	const size_t width = t->data.features + 1, ranks = (size_t)t->team->size;
	size_t *to = calloc(3 * (ranks + 1), sizeof(*to)), *from = to ? to + ranks + 1 : NULL;
	float *going = NULL;
	bool ok;

	free(s->rows);
	free(s->at);
	s->rows = NULL;
	s->at = malloc(places * sizeof(*s->at));
	if (s->at) /* for now, those that go */
		going = calloc(keep_own(t, t->order + s->first_place, places, s->at) + 1,
			       width * sizeof(*going));
	if (from && going) {
		pack(t, going, to);
		s->rows = calloc(place_rows(s, places, ranks, width, from, from + ranks + 1) + 1,
				 sizeof(float));
	}
	ok = s->rows ? team_exchange(t->team, going, to, s->rows, from)
		     : why_no_memory("samples on their way");
	free(going);
	free(to);
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
