/* SPDX-License-Identifier: BSD-3-Clause */
/* What numbers come out: the schedules of all ranks are run side by side on real numbers,
 * combined as the executors do it. The results are compared with the error bounds of
 * docs/algorithms.md, and, where an algorithm serves the reproducible mode, bit by bit with a
 * left fold. That the schedules are right is for test_schedules.c to prove. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "comm.h"
#include "kernels/isa.h"
#include "op.h"
#include "test_schedules_all.h"
#include "calls/bounds.h"
#include "calls/values.h"

enum { RANKS = 64, NUMBERS = 3, WIDEST = 8, LAYOUTS = 3, POOL = 1024, PREMUL_SUM = TUTTI_OP_COUNT };

static const enum tt_collective reductions[] = { TT_REDUCE, TT_ALL_REDUCE, TT_REDUCE_SCATTER,
						 TT_SCAN, TT_EXSCAN };
#define REDUCTIONS (sizeof(reductions) / sizeof(reductions[0]))

struct block {
	uint8_t bytes[NUMBERS * WIDEST];
	int height; /* how often one of the contributions was combined on the way, at most */
};

/* A message of a round, as its two ends see it. */
struct pair {
	int from, to;
	const struct tt_step *send, *receive;
};

struct world {
	const struct tt_algorithm *algorithm;
	enum tt_collective collective;
	int size, root, hosts, most, blocks;
	int host[RANKS];
	struct tt_sched sched[RANKS];
	struct block *place[RANKS][3]; /* of each rank: send, recv, scratch */
	struct block *input[RANKS];    /* before it is scaled */
	struct pair *pairs;	       /* in the order of rounds */
	uint32_t *round;	       /* [rounds + 1]: where the pairs of a round begin */
	uint32_t rounds;
	tutti_dtype_t dtype;
	tutti_op_t op;
	uint8_t scalar[RANKS][WIDEST];
	const uint8_t *pool; /* numbers of the type, for inputs of the operation */
	struct tutti_comm comm;
	struct tt_user_op premul_sum;
	struct tt_plan plan;
};

/* ---- building */

/* One host; all of four ranks but the last; three, in turn. */
static int place_of(int layout, int rank)
{
	return layout == 0 ? 0 : layout == 1 ? rank / 4 : rank % 3;
}

static void lay_out(struct world *w, int layout)
{
	int ranks[RANKS] = { 0 };

	w->hosts = w->most = 0;
	for (int r = 0; r < w->size; r++) { /* numbered by first appearance, as they come */
		w->host[r] = place_of(layout, r);
		w->hosts = w->host[r] + 1 > w->hosts ? w->host[r] + 1 : w->hosts;
		ranks[w->host[r]]++;
	}
	for (int host = 0; host < w->hosts; host++)
		w->most = ranks[host] > w->most ? ranks[host] : w->most;
}

static const struct tt_step *nth_send(const struct world *w, int from, int to, uint32_t round,
				      int n)
{
	const struct tt_sched *sched = &w->sched[from];

	for (uint32_t s = sched->round[round]; s < sched->round[round + 1]; s++)
		if (sched->steps[s].kind == TT_STEP_SEND && sched->steps[s].peer == to && n-- == 0)
			return &sched->steps[s];
	fail_msg("%s: a receive that nothing was sent for", w->algorithm->name);
	return NULL;
}

static bool receives(const struct tt_step *step)
{
	return step->kind == TT_STEP_RECV || step->kind == TT_STEP_RECV_REDUCE;
}

static uint32_t pair_up_round(struct world *w, int to, uint32_t round, uint32_t count)
{
	const struct tt_sched *sched = &w->sched[to];
	int from[RANKS] = { 0 };

	for (uint32_t s = sched->round[round]; s < sched->round[round + 1]; s++) {
		const struct tt_step *step = &sched->steps[s];

		if (receives(step))
			w->pairs[count++] = (struct pair){
				step->peer, to,
				nth_send(w, step->peer, to, round, from[step->peer]++), step
			};
	}
	return count;
}

static void pair_up(struct world *w)
{
	uint32_t steps = 0, count = 0;

	for (int r = 0; r < w->size; r++) {
		steps += w->sched[r].nsteps;
		w->rounds = w->sched[r].nrounds > w->rounds ? w->sched[r].nrounds : w->rounds;
	}
	w->pairs = calloc(steps + 1, sizeof(*w->pairs));
	w->round = calloc(w->rounds + 1, sizeof(*w->round));
	for (uint32_t round = 0; round < w->rounds; round++) {
		for (int r = 0; r < w->size; r++)
			if (round < w->sched[r].nrounds)
				count = pair_up_round(w, r, round, count);
		w->round[round + 1] = count;
	}
}

/* false: the algorithm does not take these ranks. */
static bool build(struct world *w, const struct tt_algorithm *algorithm,
		  enum tt_collective collective, int size, int layout)
{
	*w = (struct world){ .algorithm = algorithm, .collective = collective, .size = size };
	lay_out(w, layout);
	w->root = collective == TT_REDUCE ? 2 * size / 3 : -1;
	for (int r = 0; r < size; r++) {
		const struct tt_group group = { r, size, w->root, w->host, w->hosts };

		if (!algorithm->fits(&group, collective))
			return false;
		assert_int_equal(tt_sched_build(&w->sched[r], algorithm, &group, collective),
				 TUTTI_OK);
	}
	w->blocks = collective == TT_REDUCE_SCATTER ? size : (int)w->sched[0].blocks;
	for (int r = 0; r < size; r++) {
		for (int buffer = 0; buffer < 3; buffer++)
			w->place[r][buffer] = calloc((size_t)w->blocks + w->sched[r].scratch_slots,
						     sizeof(struct block));
		w->input[r] = calloc((size_t)w->blocks, sizeof(struct block));
	}
	pair_up(w);
	return true;
}

static void tear_down(struct world *w)
{
	for (int r = 0; r < w->size; r++) {
		tt_sched_fini(&w->sched[r]);
		for (int buffer = 0; buffer < 3; buffer++)
			free(w->place[r][buffer]);
		free(w->input[r]);
	}
	free(w->pairs);
	free(w->round);
}

/* ---- running */

static struct block *at(const struct world *w, int rank, const struct tt_ref *ref, uint32_t k)
{
	return &w->place[rank][ref->buffer][ref->slot + k];
}

static void combine(struct world *w, const struct tt_step *step, struct block *to,
		    const struct block *const *from, unsigned n)
{
	const void *src[RANKS];
	int height = 0;

	for (unsigned i = 0; i < n; i++) {
		src[i] = from[i]->bytes;
		height = from[i]->height > height ? from[i]->height : height;
	}
	tt_combine(&w->plan, w->comm.size, step, to->bytes, src, n, NUMBERS);
	to->height = height + (n > 1);
}

static void run_local(struct world *w, int rank, const struct tt_step *step)
{
	const struct block *from[RANKS];

	for (uint32_t k = 0; k < step->n; k++) {
		for (unsigned i = 0; i < step->sources; i++)
			from[i] = at(w, step[1 + i].peer, &step[1 + i].a, k);
		if (step->sources > 1 || step->final)
			combine(w, step, at(w, rank, &step->a, k), from, step->sources);
		else
			*at(w, rank, &step->a, k) = *from[0];
	}
}

static void deliver(struct world *w, const struct pair *pair)
{
	const struct tt_step *in = pair->receive;

	for (uint32_t k = 0; k < in->n; k++) {
		const struct block sent = *at(w, pair->from, &pair->send->a, k);
		struct block *to = at(w, pair->to, &in->a, k);

		if (in->kind == TT_STEP_RECV) {
			*to = sent;
			continue;
		}
		const struct block *own = at(w, pair->to, &in->b, k);
		const struct block *from[2] = { in->left ? &sent : own, in->left ? own : &sent };

		combine(w, in, to, from, 2);
	}
}

static void run(struct world *w)
{
	for (uint32_t round = 0; round < w->rounds; round++) {
		for (int r = 0; r < w->size; r++) {
			const struct tt_sched *sched = &w->sched[r];

			for (uint32_t s = round < sched->nrounds ? sched->round[round] : UINT32_MAX;
			     s != UINT32_MAX && s < sched->round[round + 1]; s++)
				if (sched->steps[s].kind == TT_STEP_REDUCE)
					run_local(w, r, &sched->steps[s]);
		}
		for (uint32_t m = w->round[round]; m < w->round[round + 1]; m++)
			deliver(w, &w->pairs[m]);
	}
}

/* ---- inputs */

static uint64_t next_random(void)
{
	static uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x * UINT64_C(0x2545f4914f6cdd1d);
}

static double next_fraction(void) /* 0 … 1 */
{
	return (double)(next_random() >> 11) * 0x1p-53;
}

static double largest(tutti_dtype_t dtype)
{
	switch (dtype) {
	case TUTTI_FLOAT16: return 65504;
	case TUTTI_FLOAT8_E4M3: return 448;
	case TUTTI_FLOAT8_E5M2: return 57344;
	case TUTTI_FLOAT64: return 0x1p1000;
	default: return 0x1p120; /* as large a sum as float32 holds */
	}
}

/* The factors of a product are near 1, and few of them are anything else in the types with the
 * shortest range. */
static double draw_factor(tutti_dtype_t dtype)
{
	const double sign = next_random() % 2 ? 1 : -1;

	if (tutti_dtype_size(dtype) == 1)
		return sign * (next_random() % 8 ? 1 : next_random() % 2 ? 1.25 : 0.75);
	return sign * (0.875 + 0.25 * next_fraction());
}

/* Of both signs and of magnitudes that differ by a factor of 1000, the largest such that nothing
 * overflows: the sum of RANKS, or, of an average, a single one. */
static double draw_term(tutti_dtype_t dtype, tutti_op_t op)
{
	const double most = op == TUTTI_AVG ? largest(dtype) : largest(dtype) / RANKS;

	return (next_random() % 2 ? 1 : -1) * most * exp2(-10 * next_fraction());
}

static void draw(struct world *w, void *buffer, size_t i)
{
	const uint64_t bits = next_random();
	const size_t bytes = tutti_dtype_size(w->dtype);

	if (!value_is_float(w->dtype))
		memcpy((uint8_t *)buffer + i * bytes, &bits, bytes);
	else
		value_set(buffer, i, w->dtype,
			  w->op == TUTTI_PROD ? draw_factor(w->dtype) : draw_term(w->dtype, w->op));
}

/* Scalars are shares, and so is their sum: at most 1. */
static void draw_scalar(struct world *w, int rank)
{
	if (value_is_float(w->dtype))
		value_set(w->scalar[rank], 0, w->dtype, 0.25 + 0.75 * next_fraction());
	else
		draw(w, w->scalar[rank], 0);
}

/* Drawn once for each type and operation: that takes longer than what is done with them. */
static const uint8_t *pool_of(struct world *w)
{
	static uint8_t pools[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT + 1][POOL * WIDEST];
	static bool drawn[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT + 1];

	for (size_t i = 0; i < POOL && !drawn[w->dtype][w->op]; i++)
		draw(w, pools[w->dtype][w->op], i);
	drawn[w->dtype][w->op] = true;
	return pools[w->dtype][w->op];
}

static void fill(struct world *w, int rank, int block)
{
	struct block *input = &w->input[rank][block], *send = &w->place[rank][TT_BUF_SEND][block];
	const size_t first = next_random() % (POOL - NUMBERS), bytes = tutti_dtype_size(w->dtype);

	memcpy(input->bytes, w->pool + first * bytes, NUMBERS * bytes);
	*send = *input;
	if (w->op == PREMUL_SUM)
		w->comm.kernels->scale[w->dtype](send->bytes, input->bytes, NUMBERS,
						 w->scalar[rank]);
}

static void prepare(struct world *w, tutti_dtype_t dtype, tutti_op_t op)
{
	w->dtype = dtype;
	w->op = op;
	w->comm.size = w->size;
	w->comm.kernels = tt_kernels();
	w->plan =
		(struct tt_plan){ .call = { .collective = w->collective, .dtype = dtype, .op = op },
				  .algorithm = w->algorithm,
				  .element = tutti_dtype_size(dtype),
				  .user_op = op == PREMUL_SUM ? &w->premul_sum : NULL };
	tt_combine_choose(w->comm.kernels, &w->plan);
	w->pool = pool_of(w);
	for (int r = 0; r < w->size; r++) {
		draw_scalar(w, r);
		for (int block = 0; block < w->blocks; block++)
			fill(w, r, block);
	}
}

/* ---- results */

/* How many ranks contribute to what `rank` gets of a block. */
static int contributors(const struct world *w, int rank, int block)
{
	switch (w->collective) {
	case TT_REDUCE: return rank == w->root ? w->size : 0;
	case TT_REDUCE_SCATTER: return rank == block ? w->size : 0;
	case TT_SCAN: return rank + 1;
	case TT_EXSCAN: return rank;
	default: return w->size;
	}
}

static struct value_way way_of(const struct world *w)
{
	static const enum what names[] = {
		[TT_REDUCE] = REDUCE,
		[TT_ALL_REDUCE] = ALL_REDUCE,
		[TT_REDUCE_SCATTER] = REDUCE_SCATTER,
		[TT_SCAN] = SCAN,
		[TT_EXSCAN] = EXSCAN,
	};

	return (struct value_way){ .algorithm = w->algorithm->name,
				   .what = names[w->collective],
				   .dtype = w->dtype,
				   .op = w->op,
				   .ranks = w->size,
				   .hosts = w->hosts,
				   .most = w->most };
}

static const char *op_name(tutti_op_t op)
{
	return op == PREMUL_SUM ? "pre-multiplied sum" : tutti_op_name(op);
}

static void check_bound(const struct world *w, int rank, int block, size_t i, int n)
{
	const struct value_way way = way_of(w);
	long double exact = w->op == TUTTI_PROD, magnitude = exact;

	for (int r = 0; r < n; r++) {
		long double number = value_get(w->input[r][block].bytes, i, w->dtype);

		if (w->op == PREMUL_SUM)
			number *= value_get(w->scalar[r], 0, w->dtype);
		exact = w->op == TUTTI_PROD ? exact * number : exact + number;
		magnitude =
			w->op == TUTTI_PROD ? magnitude * fabsl(number) : magnitude + fabsl(number);
	}
	if (w->op == TUTTI_AVG) {
		exact /= n;
		magnitude /= n;
	}
	const double found = value_get(w->place[rank][TT_BUF_RECV][block].bytes, i, w->dtype);
	const double bound = value_bound(&way, (double)magnitude);

	if (!(fabsl(found - exact) <= bound))
		fail_msg(
			"%s, collective %d, %d ranks, %s of %s: %.17g, %.3g from %.17Lg; at most %.3g were promised",
			w->algorithm->name, w->collective, w->size, op_name(w->op),
			tutti_dtype_name(w->dtype), found, (double)fabsl(found - exact), exact,
			bound);
}

static void check_fold(const struct world *w, int rank, int block, size_t i, int n)
{
	const size_t bytes = tutti_dtype_size(w->dtype), at = i * bytes;
	uint8_t scaled[RANKS][WIDEST], expected[WIDEST];
	const void *elements[RANKS];

	for (int r = 0; r < n; r++) {
		value_scale(scaled[r], w->input[r][block].bytes + at, w->scalar[r], w->dtype);
		elements[r] = w->op == PREMUL_SUM ? scaled[r] : w->input[r][block].bytes + at;
	}
	value_fold(expected, elements, n, w->dtype, w->op == PREMUL_SUM ? TUTTI_SUM : w->op);
	if (memcmp(expected, w->place[rank][TT_BUF_RECV][block].bytes + at, bytes) != 0)
		fail_msg(
			"%s, collective %d, %d ranks, %s of %s: %.17g instead of %.17g, the left fold",
			w->algorithm->name, w->collective, w->size, op_name(w->op),
			tutti_dtype_name(w->dtype),
			value_get(w->place[rank][TT_BUF_RECV][block].bytes, i, w->dtype),
			value_get(expected, 0, w->dtype));
}

static void check_height(const struct world *w, int rank, int block)
{
	const struct value_way way = way_of(w);
	const int height = w->place[rank][TT_BUF_RECV][block].height;
	const int most = w->algorithm->one_fold ? 1 : value_height(&way);

	if (height > most)
		fail_msg(
			"%s, collective %d, %d ranks on %d hosts: combined in %d steps, %d were promised",
			w->algorithm->name, w->collective, w->size, w->hosts, height, most);
	assert_int_equal(w->algorithm->one_fold, value_is_one_fold(w->algorithm->name));
}

typedef void check_fn(const struct world *w, int rank, int block, size_t i, int n);

/* Some of the results, at random; all ranks have the same of an all-reduce, as test_schedules.c
 * proves. */
static void check_some(const struct world *w, check_fn *check)
{
	for (int i = 0; i < 3; i++) {
		const int r = w->root >= 0 ? w->root : (int)(next_random() % (uint64_t)w->size);
		const int block = w->collective == TT_REDUCE_SCATTER
					  ? r
					  : (int)(next_random() % (uint64_t)w->blocks);
		const int n = contributors(w, r, block);

		for (size_t k = 0; k < NUMBERS && n > 0; k++)
			check(w, r, block, k, n);
	}
}

static void check_heights(const struct world *w)
{
	for (int r = 0; r < w->size; r++)
		for (int block = 0; block < w->blocks; block++)
			if (contributors(w, r, block) > 0)
				check_height(w, r, block);
}

/* ---- claims */

/* May the reproducible mode choose it? (src/plan/tuner.c) */
static bool is_reproducible(const struct world *w)
{
	return w->algorithm->ordered && (w->algorithm->one_fold || !value_is_narrow(w->dtype));
}

static bool is_exact(tutti_dtype_t dtype, tutti_op_t op)
{
	return !value_is_float(dtype) || op == TUTTI_MIN || op == TUTTI_MAX;
}

/* Is it refused, or never chosen? */
static bool is_left_out(const struct world *w, tutti_dtype_t dtype, tutti_op_t op)
{
	const bool prefix = w->collective == TT_SCAN || w->collective == TT_EXSCAN;

	return !(op == PREMUL_SUM || op_is_defined(op, dtype)) || (op == TUTTI_AVG && prefix) ||
	       (op == TUTTI_AVG && dtype <= TUTTI_UINT32 && !w->algorithm->one_fold);
}

static void check_world(struct world *w)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = 0; op <= PREMUL_SUM; op++) {
			if (is_left_out(w, (tutti_dtype_t)dtype, op))
				continue;
			prepare(w, (tutti_dtype_t)dtype, op);
			run(w);
			if (is_reproducible(w) || is_exact(w->dtype, op))
				check_some(w, check_fold);
			if (!is_exact(w->dtype, op))
				check_some(w, check_bound);
		}
	check_heights(w);
}

static void check_size(const struct tt_algorithm *algorithm, int size)
{
	static struct world w;
	const bool between_hosts = strstr(algorithm->name, "hierarchical") != NULL;

	for (size_t c = 0; c < REDUCTIONS; c++)
		for (int layout = between_hosts; layout < (between_hosts ? LAYOUTS : 1); layout++) {
			if (!tt_algorithm_can(algorithm, reductions[c]))
				continue;
			if (build(&w, algorithm, reductions[c], size, layout))
				check_world(&w);
			tear_down(&w);
		}
}

static void numbers_are_as_exact_as_the_documents_say(void **state)
{
	static const int sizes[] = { 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 33, 48, 64 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		check_size(*state, sizes[i]);
}

int main(void)
{
	static struct CMUnitTest tests[ALGORITHMS];
	static char names[ALGORITHMS][96];

	for (int i = 0; i < ALGORITHMS; i++) {
		snprintf(names[i], sizeof(names[i]), "%s_numbers_are_as_exact_as_the_documents_say",
			 all[i]->name);
		tests[i] =
			(struct CMUnitTest){ .name = names[i],
					     .test_func = numbers_are_as_exact_as_the_documents_say,
					     .initial_state = (void *)(uintptr_t)all[i] };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
