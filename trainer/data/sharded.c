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
	return t->sharded ? data_read_part(&t->options->source, part, &t->sharded->own)
			  : why_no_memory("a part of the samples");
}

void sharded_finish(struct training *t)
{
	struct sharded *s = t->sharded;

	if (!s)
		return;
	data_finish(&s->own);
	free(s->begins[0]);
	free(s->begins[1]);
	free(s->test);
	free(s->at);
	free(s->rows);
	free(s);
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
	struct sharded *s = t->sharded;
	const int size = t->team->size;
	size_t next = 0;

	for (int file = 0; file < 2; file++) {
		s->begins[file] = malloc(((size_t)size + 1) * sizeof(*s->begins[file]));
		if (!s->begins[file])
			return why_no_memory("where parts of the samples begin");
		for (int r = 0; r < size; r++) {
			s->begins[file][r] = next;
			next += (size_t)all[r].rows[file];
		}
		s->begins[file][size] = next;
	}
	t->data.rows = next;
	t->data.test_rows = next - s->begins[1][0];
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
	const struct data *own = &t->sharded->own;
	const struct told mine = { { own->rows - own->test_rows, own->test_rows },
				   own->rows > 0 ? own->features : 0,
				   own->classes,
				   own->origin };
	struct told *all = calloc((size_t)t->team->size, sizeof(*all));
	bool ok = (all ? team_gather(t->team, &mine, all, sizeof(mine))
		       : why_no_memory("all parts of the samples")) &&
		  compare_features(t, all) && number_rows(t, all);
	free(all);
	return ok;
}

/* What else there is to know, once rows have their numbers. */
struct facts {
	uint64_t hash;
	struct labels labels, test;
};

static void note_facts(const struct training *t, struct facts *facts)
{
	const struct sharded *s = t->sharded;
	const struct data *own = &s->own;
	const size_t train = own->rows - own->test_rows;
	const int rank = t->team->rank;

	data_note_labels(own, 0, train, &facts->labels);
	data_note_labels(own, train, own->test_rows, &facts->test);
	facts->hash = data_hash_rows(own, 0, train, s->begins[0][rank]) +
		      data_hash_rows(own, train, own->test_rows, s->begins[1][rank]);
}

static void add_labels(struct labels *to, const struct labels *from)
{
	for (size_t i = 0; i < sizeof(to->seen) / sizeof(to->seen[0]); i++)
		to->seen[i] |= from->seen[i];
}

static bool judge_facts(struct training *t, struct facts *all)
{
	struct facts *sum = &all[0];
	bool ok = true;

	for (int r = 1; r < t->team->size; r++) {
		sum->hash += all[r].hash;
		add_labels(&sum->labels, &all[r].labels);
		add_labels(&sum->test, &all[r].test);
	}
	if (t->data.classes == 0) /* of what is made they are known, and alike */
		ok = data_count_classes(&t->options->source, &sum->labels, &sum->test, &t->data);
	t->data_hash = data_hash_of(t->data.rows, t->data.test_rows, t->data.features,
				    t->data.classes, sum->hash);
	return ok;
}

bool sharded_join(struct training *t)
{
	bool ok = join_counts(t);

	if (!ok)
		return false;
	t->sharded->own.features = t->data.features;
	struct facts *all = calloc((size_t)t->team->size + 1, sizeof(*all));

	if (!all)
		return why_no_memory("the labels of all parts");
	note_facts(t, &all[t->team->size]);
	ok = team_gather(t->team, &all[t->team->size], all, sizeof(*all)) && judge_facts(t, all);
	free(all);
	return ok;
}

/* Who keeps a row, and which of its own it is. */
static int keeper_of(const struct training *t, size_t row, size_t *own)
{
	const struct sharded *s = t->sharded;
	const int file = row >= s->begins[1][0];
	const size_t *begins = s->begins[file];
	int low = 0, high = t->team->size - 1;

	while (low < high) { /* the last that begins at or before it */
		const int middle = (low + high + 1) / 2;

		if (begins[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	*own = row - begins[low] + (file ? s->begins[0][low + 1] - s->begins[0][low] : 0);
	return low;
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

/* ---- standardised like the whole */

/* The sums of all ranks: added up in the order of ranks. `all` has room for them. */
static bool add_up(struct training *t, struct exact *sums, struct exact *all)
{
	const size_t n = t->data.features;
	const bool ok = team_gather(t->team, sums, all, n * sizeof(*sums));

	memset(sums, 0, n * sizeof(*sums));
	for (size_t i = 0; ok && i < n * (size_t)t->team->size; i++) {
		exact_add(&sums[i % n], all[i].high);
		exact_add(&sums[i % n], all[i].low);
	}
	return ok;
}

static bool find_means(struct training *t, const uint32_t *rows, size_t count, struct exact *sums)
{
	struct data *own = &t->sharded->own;
	const size_t n = t->data.features;
	struct exact *all = sums + n;
	bool ok;

	sum_features(own, rows, count, NULL, sums);
	if (!add_up(t, sums, all))
		return false;
	feature_means(sums, n, t->split.train_rows, own->mean);
	memset(sums, 0, n * sizeof(*sums));
	sum_features(own, rows, count, own->mean, sums);
	ok = add_up(t, sums, all);
	if (ok)
		feature_inverses(sums, own->mean, n, t->split.train_rows, own->inverse);
	return ok;
}

bool sharded_standardise(struct training *t)
{
	struct sharded *s = t->sharded;
	const size_t n = t->data.features, rows = s->own.rows;
	struct exact *sums = calloc(n * ((size_t)t->team->size + 1), sizeof(*sums));
	uint32_t *train = malloc((rows + 1) * sizeof(*train));
	bool ok = true;

	s->own.mean = calloc(n, sizeof(*s->own.mean));
	s->own.inverse = calloc(n, sizeof(*s->own.inverse));
	s->test = malloc((rows + 1) * sizeof(*s->test));
	if (!sums || !train || !s->own.mean || !s->own.inverse || !s->test)
		ok = why_no_memory("the features' means");
	if (ok) {
		s->test_count = keep_own(t, t->split.test, t->split.test_rows, s->test);
		ok = find_means(t, train, keep_own(t, t->split.train, t->split.train_rows, train),
				sums);
	}
	if (ok)
		standardise_by(&s->own);
	free(train);
	free(sums);
	return ok;
}

/* ---- delivery */

/* Rows between two ranks, and where they lie in the buffers, by the other rank. */
struct flows {
	size_t *to, *from;	       /* [ranks]: how many */
	size_t *to_place, *from_place; /* [ranks]: of the next, in rows */
	float *going;
};

static bool flows_create(int ranks, struct flows *flows)
{
	size_t *counts = calloc(4 * (size_t)ranks, sizeof(*counts));

	*flows = (struct flows){ .to = counts };
	if (!counts)
		return false;
	flows->from = flows->to + ranks;
	flows->to_place = flows->from + ranks;
	flows->from_place = flows->to_place + ranks;
	return true;
}

static void flows_finish(struct flows *flows)
{
	free(flows->to);
	free(flows->going);
}

/* One place of the steps at hand, and who trains on it. */
typedef void visit_fn(struct training *t, struct flows *flows, size_t place, int trainer);

static void visit_step(struct training *t, struct flows *flows, size_t step, visit_fn *visit)
{
	const size_t first = step * t->batch, left = t->split.train_rows - first;
	const size_t count = left < t->batch ? left : t->batch;
	const int ranks = t->team->size;

	for (int r = 0; r < ranks; r++) {
		const struct slice part = shares_slice(t, count, r, ranks);

		for (size_t i = 0; i < part.count; i++)
			visit(t, flows, first + part.first + i, r);
	}
}

static void visit_all(struct training *t, struct flows *flows, visit_fn *visit)
{
	const struct sharded *s = t->sharded;

	for (size_t k = 0; k < s->steps; k++)
		visit_step(t, flows, s->first_step + k, visit);
}

static void count_row(struct training *t, struct flows *flows, size_t place, int trainer)
{
	size_t own;
	const int keeper = keeper_of(t, t->order[place], &own);

	if (keeper == t->team->rank)
		flows->to[trainer]++;
	if (trainer == t->team->rank)
		flows->from[keeper]++;
}

static void pack_row(struct training *t, struct flows *flows, size_t place, int trainer)
{
	const struct data *kept = &t->sharded->own;
	const size_t n = kept->features;
	size_t own;
	const int keeper = keeper_of(t, t->order[place], &own);

	if (keeper == t->team->rank) {
		float *row = flows->going + flows->to_place[trainer]++ * (n + 1);

		memcpy(row, kept->x + own * n, n * sizeof(*row));
		row[n] = (float)kept->y[own]; /* a label is exact in a float */
	}
	if (trainer == t->team->rank)
		t->sharded->at[place - t->sharded->first_place] =
			(uint32_t)flows->from_place[keeper]++;
}

static size_t lay_out(const size_t *counts, int ranks, size_t *places)
{
	size_t next = 0;

	for (int r = 0; r < ranks; r++) {
		places[r] = next;
		next += counts[r];
	}
	return next;
}

/* Buffers for so many rows, and for all places. */
static bool make_room(struct training *t, struct flows *flows, size_t going, size_t coming)
{
	struct sharded *s = t->sharded;
	const size_t width = (t->data.features + 1) * sizeof(float);

	free(s->rows);
	free(s->at);
	flows->going = malloc(going * width + 1);
	s->rows = malloc(coming * width + 1);
	s->at = malloc(s->steps * t->batch * sizeof(*s->at));
	return (flows->going && s->rows && s->at) || why_no_memory("samples on their way");
}

static bool exchange(struct training *t, struct flows *flows)
{
	struct sharded *s = t->sharded;
	const size_t width = t->data.features + 1;
	const int ranks = t->team->size;

	for (int r = 0; r < ranks; r++) {
		flows->to[r] *= width;
		flows->from[r] *= width;
		s->sent += r == t->team->rank ? 0 : flows->to[r] * sizeof(float);
	}
	return team_exchange(t->team, flows->going, flows->to, s->rows, flows->from);
}

static bool deliver(struct training *t, struct flows *flows)
{
	const int ranks = t->team->size;

	visit_all(t, flows, count_row);
	const size_t going = lay_out(flows->to, ranks, flows->to_place),
		     coming = lay_out(flows->from, ranks, flows->from_place);

	if (!make_room(t, flows, going, coming))
		return false;
	visit_all(t, flows, pack_row);
	return exchange(t, flows);
}

bool sharded_deliver(struct training *t, size_t step)
{
	struct sharded *s = t->sharded;
	const size_t most = (t->steps_per_epoch + WINDOWS - 1) / WINDOWS,
		     left = t->steps_per_epoch - step;
	struct flows flows;
	bool ok;

	if (step > 0 && step >= s->first_step && step < s->first_step + s->steps)
		return true;
	s->first_step = step;
	s->steps = left < most ? left : most;
	s->first_place = step * t->batch;
	ok = flows_create(t->team->size, &flows) ? deliver(t, &flows)
						 : why_no_memory("samples on their way");
	flows_finish(&flows);
	return ok;
}

const uint32_t *sharded_places(const struct sharded *s, size_t place, size_t features,
			       struct samples *out)
{
	*out = (struct samples){ s->rows, features + 1, NULL };
	return s->at + (place - s->first_place);
}
