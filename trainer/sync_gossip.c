/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns gossip (decentralised SGD: Lian et al. 2017, algorithm 1; random pairs: Boyd et al. 2006): each
 * rank makes steps of its own, and every --every steps it averages its weights with those of its
 * neighbours, or of one other. No rank knows all weights, and their mean stays what it was.
 *
 * At the end of an epoch the mean is computed, for validation, checkpoints, and to be gone back to; ranks go
 * on from their own weights. Velocity is each rank's own. Ranks that one plays (--simulate-ranks) have the
 * same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "own.h"
#include "train.h"

enum { NEIGHBOURS = 2, PAIRS_STREAM = 0x676f7373 };

struct gossip {
	struct owns owns;
	void *mean;		/* owned: of weights and velocities, and behind them the sums */
	void *came[NEIGHBOURS]; /* owned: weights of others */
	void *before;		/* owned: of ranks that are played, all weights before a round */
	uint32_t *order;	/* owned: [ranks], of a round */
	int ranks;		/* played ones included */
	size_t rounds;
	tutti_request_t requests[2 * NEIGHBOURS]; /* the first `pending` are in flight */
	int pending;
};

static struct gossip *gossip_of(const struct training *t)
{
	return t->way;
}

static size_t weights_bytes(const struct training *t)
{
	return t->model.parameters * t->model.numbers->size;
}

/* ---- its life */

static tutti_result_t take_buffers(struct training *t, struct gossip *g, struct why *why)
{
	const size_t bytes = weights_bytes(t), replicas = t->options->replicas;
	bool there;

	g->ranks = t->team->started * (int)replicas;
	g->order = calloc((size_t)g->ranks, sizeof(*g->order));
	g->mean = malloc((owns_meant(t) + SUMS_NUMBERS) * t->model.numbers->size);
	there = g->order && g->mean;
	for (int i = 0; i < NEIGHBOURS; i++)
		there = (g->came[i] = malloc(bytes)) != NULL && there;
	if (replicas > 1)
		there = (g->before = malloc(replicas * bytes)) != NULL && there;
	return there ? TUTTI_OK : why_no_memory(why, "weights of other ranks");
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct gossip *g = calloc(1, sizeof(*g));
	tutti_result_t result;

	t->way = g;
	if (t->options->replicas > 1 && t->team->started > 1)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"--simulate-ranks: found %u with --sync gossip and %d ranks, expected one "
			"rank that plays all; start one, or leave it out",
			t->options->replicas, t->team->started);
	if (!g)
		return why_no_memory(why, "weights of other ranks");
	result = take_buffers(t, g, why);
	return result == TUTTI_OK ? owns_create(t, &g->owns, why) : result;
}

static tutti_result_t begin(struct training *t, struct why *why)
{
	struct gossip *g = t->way;

	g->ranks = t->grid.column->size * (int)t->options->replicas;
	g->rounds = t->state.step / t->options->every;
	return owns_begin(t, &g->owns, why);
}

static tutti_result_t weights(struct training *t, unsigned l, struct why *why)
{
	t->model.weights = owns_current(t, &gossip_of(t)->owns)->numbers;
	return TUTTI_OK;
}

static void finish(struct training *t)
{
	struct gossip *g = t->way;

	if (!g)
		return;
	owns_finish(t, &g->owns);
	for (int i = 0; i < NEIGHBOURS; i++)
		free(g->came[i]);
	free(g->before);
	free(g->mean);
	free(g->order);
	free(g);
}

/* ---- a round */

/* Ranks in pairs: neighbours in an order that all draw alike. The last of an odd number has none. */
static int partner_of(struct gossip *g, uint64_t seed, int rank)
{
	int place = 0;

	for (int r = 0; r < g->ranks; r++)
		g->order[r] = (uint32_t)r;
	shuffle(g->order, (size_t)g->ranks, random_stream(seed ^ g->rounds, PAIRS_STREAM));
	while ((int)g->order[place] != rank)
		place++;
	place ^= 1;
	return place < g->ranks ? (int)g->order[place] : -1;
}

/* Whom a rank averages with, each once; how many. */
static int neighbours_of(const struct training *t, int rank, int out[NEIGHBOURS])
{
	struct gossip *g = t->way;

	if (g->ranks == 1)
		return 0;
	if (t->options->peers == PEERS_RANDOM) {
		out[0] = partner_of(g, t->options->seed, rank);
		return out[0] < 0 ? 0 : 1;
	}
	out[0] = (rank + g->ranks - 1) % g->ranks;
	out[1] = (rank + 1) % g->ranks;
	return g->ranks == 2 ? 1 : 2;
}

/* A rank's weights. */
struct voice {
	int rank;
	const void *weights;
};

static int by_rank(const void *a, const void *b)
{
	const struct voice *one = a, *other = b;

	return (one->rank > other->rank) - (one->rank < other->rank);
}

/* The mean of one's own and the others', added up in order of rank: two of a pair have the same bits. */
static void average(const struct training *t, void *own, struct voice *voices, int count)
{
	const struct numbers *numbers = t->model.numbers;
	void *sum = gossip_of(t)->mean;

	qsort(voices, (size_t)count, sizeof(*voices), by_rank);
	memcpy(sum, voices[0].weights, weights_bytes(t));
	for (int i = 1; i < count; i++)
		numbers->add(sum, voices[i].weights, t->model.parameters);
	numbers->scale(sum, t->model.parameters, 1.0 / count);
	memcpy(own, sum, weights_bytes(t));
}

static tutti_result_t exchange(struct training *t, const int *others, int count, struct why *why)
{
	const size_t n = t->model.parameters;
	const tutti_dtype_t dtype = t->model.numbers->dtype;
	struct gossip *g = t->way;
	void *own = g->owns.own[0].numbers;
	struct voice voices[NEIGHBOURS + 1] = { { t->grid.column->rank, own } };
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < count && result == TUTTI_OK; i++) {
		voices[i + 1] = (struct voice){ others[i], g->came[i] };
		result = team_start_receive(t->grid.column, dtype, g->came[i], n, others[i],
					    &g->requests[g->pending++], why);
		if (result == TUTTI_OK)
			result = team_start_send(t->grid.column, dtype, own, n, others[i],
						 &g->requests[g->pending++], why);
	}
	for (int i = 0; i < g->pending && result == TUTTI_OK; i++)
		result = team_wait(t->grid.column, &g->requests[i], why);
	if (result != TUTTI_OK)
		return result;
	g->pending = 0;
	average(t, own, voices, count + 1);
	return TUTTI_OK;
}

/* As the ranks would that this one plays. */
static void play(struct training *t)
{
	struct gossip *g = t->way;

	for (int r = 0; r < g->ranks; r++)
		memcpy((char *)g->before + (size_t)r * weights_bytes(t), g->owns.own[r].numbers,
		       weights_bytes(t));
	for (int r = 0; r < g->ranks; r++) {
		struct voice voices[NEIGHBOURS + 1];
		int others[NEIGHBOURS];
		const int count = neighbours_of(t, r, others);

		for (int i = 0; i <= count; i++) {
			const int rank = i < count ? others[i] : r;

			voices[i] = (struct voice){ rank, (char *)g->before +
								  (size_t)rank * weights_bytes(t) };
		}
		average(t, g->owns.own[r].numbers, voices, count + 1);
	}
}

static tutti_result_t talk(struct training *t, struct why *why)
{
	int others[NEIGHBOURS];
	tutti_result_t result = TUTTI_OK;

	if (t->options->replicas > 1)
		play(t);
	else
		result = exchange(t, others, neighbours_of(t, t->grid.column->rank, others), why);
	gossip_of(t)->rounds++;
	return result;
}

/* ---- what --verify asks */

/* Sums of all ranks' weights, as double numbers. */
static tutti_result_t sum_weights(struct training *t, double *sums, struct why *why)
{
	const size_t n = t->model.parameters;
	double *some = malloc(n * sizeof(*some));

	if (!some)
		return why_no_memory(why, "the mean of weights");
	memset(sums, 0, n * sizeof(*sums));
	for (unsigned r = 0; r < t->options->replicas; r++) {
		t->model.numbers->load(some, gossip_of(t)->owns.own[r].numbers, n);
		for (size_t i = 0; i < n; i++)
			sums[i] += some[i];
	}
	free(some);
	return team_sum(t->grid.column, sums, n, why);
}

/* By rounding alone, of numbers that have so many digits. */
static tutti_result_t compare_sums(const struct training *t, const double *before,
				   const double *after, struct why *why)
{
	const double digits = t->model.numbers->size == sizeof(double) ? 1e-12 : 1e-4;
	double most = 0, change = 0;

	for (size_t i = 0; i < t->model.parameters; i++) {
		most = fmax(most, fabs(before[i]));
		change = fmax(change, fabs(after[i] - before[i]));
	}
	if (change <= digits * fmax(most, 1))
		return TUTTI_OK;
	return why_set(
		why, TUTTI_ERR_MISMATCH,
		"round %zu: the sum of all ranks' weights changed by %g, expected %g at most",
		gossip_of(t)->rounds, change, digits * fmax(most, 1));
}

static tutti_result_t talk_verified(struct training *t, struct why *why)
{
	const size_t n = t->model.parameters;
	double *before = malloc(2 * n * sizeof(*before)), *after = before + n;
	tutti_result_t result;

	if (!before)
		return why_no_memory(why, "the mean of weights");
	result = sum_weights(t, before, why);
	if (result == TUTTI_OK)
		result = talk(t, why);
	if (result == TUTTI_OK)
		result = sum_weights(t, after, why);
	if (result == TUTTI_OK)
		result = compare_sums(t, before, after, why);
	free(before);
	return result;
}

/* ---- steps and epochs */

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	struct owns *owns = &gossip_of(t)->owns;
	bool complete;
	const tutti_result_t result = owns_step(t, owns, step, &complete, why);

	if (result != TUTTI_OK || !complete || t->state.step % t->options->every != 0)
		return result;
	return t->options->verify ? talk_verified(t, why) : talk(t, why);
}

/* Weights and sums of all ranks, added up in order. */
static tutti_result_t sum_up(struct training *t, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	const size_t n = owns_meant(t);
	struct gossip *g = t->way;

	for (unsigned r = 0; r < t->options->replicas; r++) {
		struct own *own = &g->owns.own[r];
		const double sums[SUMS_NUMBERS] = { own->sums.loss, own->sums.correct,
						    own->sums.samples };

		/* where no velocity is meant, none is needed */
		numbers->store(numbers_at(numbers, own->numbers, n), sums, SUMS_NUMBERS);
		if (r == 0)
			memcpy(g->mean, own->numbers, (n + SUMS_NUMBERS) * numbers->size);
		else
			numbers->add(g->mean, own->numbers, n + SUMS_NUMBERS);
	}
	return team_start_sum(t->grid.column, numbers, g->mean, n + SUMS_NUMBERS, NULL, why);
}

static double square_distance(const struct training *t, const void *a, const void *b)
{
	const struct numbers *numbers = t->model.numbers;
	double x[256], y[256], sum = 0;

	for (size_t done = 0, some; done < t->model.parameters; done += some) {
		some = t->model.parameters - done < 256 ? t->model.parameters - done : 256;
		numbers->load(x, numbers_from(numbers, a, done), some);
		numbers->load(y, numbers_from(numbers, b, done), some);
		for (size_t i = 0; i < some; i++)
			sum += (x[i] - y[i]) * (x[i] - y[i]);
	}
	return sum;
}

/* Root mean square over ranks of how far each is from the mean, over that one's length. */
static tutti_result_t measure_distance(struct training *t, struct why *why)
{
	const struct gossip *g = t->way;
	const void *mean = state_now(&t->state, 0).weights;
	double sums[2] = { 0, 0 }; /* of ranks, and the length's */
	tutti_result_t result;

	for (unsigned r = 0; r < t->options->replicas; r++)
		sums[0] += square_distance(t, g->owns.own[r].numbers, mean);
	result = team_sum(t->grid.column, sums, 1, why);
	sums[1] = t->model.numbers->square_sum(mean, t->model.parameters);
	if (result == TUTTI_OK) /* of all pieces */
		result = grid_sum(&t->grid, sums, 2, why);
	t->distance = sums[1] > 0 ? sqrt(sums[0] / g->ranks / sums[1]) : 0;
	return result;
}

static tutti_result_t fetch(struct training *t, struct why *why)
{
	struct gossip *g = t->way;
	tutti_result_t result = TUTTI_OK;

	t->model.weights = state_now(&t->state, 0).weights;
	if (g->owns.ahead == 0)
		return TUTTI_OK;
	result = sum_up(t, why);
	if (result != TUTTI_OK)
		return result;
	t->model.numbers->scale(g->mean, owns_meant(t), 1.0 / g->ranks);
	owns_take_mean(t, &g->owns, g->mean);
	owns_go_on(t, &g->owns);
	t->model.weights = state_now(&t->state, 0).weights;
	return measure_distance(t, why);
}

static void drain(struct training *t)
{
	struct gossip *g = t->way;

	for (int i = 0; i < g->pending; i++)
		tutti_wait(&g->requests[i]);
	g->pending = 0;
	owns_drain(t, &g->owns);
}

const struct sync sync_gossip = {
	.name = "gossip",
	.what = "weights of neighbours, averaged",
	.create = create,
	.begin = begin,
	.work = sync_has_epochs,
	.weights = weights,
	.divisor = sync_own_samples,
	.gradients = sync_no_layer,
	.update = update,
	.fetch = fetch,
	.end = sync_nothing,
	.others = sync_no_others,
	.drain = drain,
	.give_up = sync_tells_nobody,
	.finish = finish,
};
