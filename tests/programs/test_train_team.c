/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of tutti-train say to each other, with ranks as threads of this process. */
#include "tests.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../patience.h"
#include "train.h"

enum { RANKS = 3, PARAMETERS = (4 + 1) * 5 + (5 + 1) * 3 };

struct rank {
	struct team team;
	tutti_store_t store;
	bool (*body)(struct rank *);
	/* what the body finds, for the test to judge: assertions belong to the main thread */
	struct why why;
	struct alike alike;
	double values[PARAMETERS + SUMS_NUMBERS];
};

static struct rank ranks[RANKS];

static void *run_rank(void *argument)
{
	struct rank *rank = argument;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_result_t result;

	config.timeout_s = bound_s(30);
	rank->team.origins = calloc(RANKS, sizeof(int));
	for (int r = 0; r < RANKS; r++)
		rank->team.origins[r] = r;
	result = tutti_comm_create(rank->store, rank->team.rank, RANKS, &config, &rank->team.comm);
	if (result != TUTTI_OK ? !why_set(result, "%s", tutti_last_error(NULL)) : !rank->body(rank))
		rank->why = why;
	team_leave(&rank->team);
	return NULL;
}

/* Run `body` on every rank at the same time. */
static void run_ranks(bool (*body)(struct rank *))
{
	char address[64];
	pthread_t threads[RANKS];

	snprintf(address, sizeof(address), "unix:tutti-train-team-%d", (int)getpid());
	memset(ranks, 0, sizeof(ranks));
	for (int r = 0; r < RANKS; r++) {
		ranks[r].team.rank = r;
		ranks[r].team.origin = r;
		ranks[r].team.size = RANKS;
		ranks[r].body = body;
		assert_int_equal(tutti_store_open(address, r == 0, bound_s(30), &ranks[r].store),
				 TUTTI_OK);
	}
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(pthread_join(threads[r], NULL), 0);
	for (int r = RANKS - 1; r >= 0; r--) /* its host closes last */
		tutti_store_close(ranks[r].store);
}

static void expect(tutti_result_t result, const char *error_text)
{
	for (int r = 0; r < RANKS; r++) {
		if (ranks[r].why.result != result)
			fail_msg("rank %d: result %d: %s", r, ranks[r].why.result,
				 ranks[r].why.text);
		if (!strstr(ranks[r].why.text, error_text))
			fail_msg("rank %d: expected '%s' in '%s'", r, error_text,
				 ranks[r].why.text);
	}
}

static void ends(bool (*body)(struct rank *), tutti_result_t result, const char *error_text)
{
	run_ranks(body);
	expect(result, error_text);
}

static bool one_bit_differs;

static bool verify(struct rank *rank)
{
	for (int i = 0; i < PARAMETERS; i++)
		rank->values[i] = 1.0 / (i + 1);
	if (one_bit_differs && rank->team.rank == 1)
		((unsigned char *)rank->values)[100] ^= 1;
	return team_verify(&rank->team, rank->values, PARAMETERS * sizeof(double), 7);
}

TEST(verify_passes_equal_weights_and_names_ranks_that_differ)
{
	one_bit_differs = false;
	ends(verify, TUTTI_OK, "");
	one_bit_differs = true;
	ends(verify, TUTTI_ERR_MISMATCH, "step 7: the weights of rank 1 differ");
}

static bool agree_data(struct rank *rank)
{
	const uint64_t data = rank->team.rank == 0 ? 5 : 6;

	return team_agree(&rank->team, true, 1, data, NULL);
}

static bool agree_failure(struct rank *rank)
{
	const bool mine = rank->team.rank != 2 || why_set(TUTTI_ERR_SYSTEM, "its own sentence");

	return team_agree(&rank->team, mine, 1, 2, &rank->alike);
}

TEST(disagreement_is_told_to_every_rank)
{
	ends(agree_data, TUTTI_ERR_INVALID, "rank 1, 2 read other data than rank 0");
	run_ranks(agree_failure);
	assert_int_equal(ranks[2].why.result, TUTTI_ERR_SYSTEM);
	assert_string_equal(ranks[2].why.text, "its own sentence");
	assert_string_equal(ranks[2].alike.ranks, "rank 2");
	assert_string_equal(ranks[0].alike.ranks, "rank 0, 1");
	assert_true(ranks[1].alike.repeats && !ranks[0].alike.repeats && !ranks[2].alike.repeats);
	ranks[2] = ranks[1];
	expect(TUTTI_ERR_INVALID, "rank 2 could not start");
}

/* Three are left of five, of whom the launcher knows them by 0, 2 and 4. */
static bool name_by_the_launcher(struct rank *rank)
{
	struct team *team = &rank->team, part;
	bool ok;

	team->origin = 2 * team->rank;
	team->counted_anew = true;
	if (!team_agree(team, true, 1, 2, NULL) || team->counted_anew)
		return false;
	one_bit_differs = true;
	ok = !verify(rank) && strstr(why.text, "the weights of rank 2 differ from those of rank 0");
	ok = ok && team_divide(team, team->rank > 0, 1, &part);
	if (ok && team->rank > 0)
		ok = part.origins[0] == 2 && part.origins[1] == 4;
	team_leave(&part);
	return ok && team_agree(team, true, (uint64_t)team->rank, 2, NULL);
}

TEST(ranks_are_named_by_the_launchers_numbers)
{
	ends(name_by_the_launcher, TUTTI_ERR_INVALID, "rank 2, 4 has other options than rank 0");
}

static bool told_each_other;

static bool lose_rank_1(struct rank *rank)
{
	struct team *team = &rank->team;
	uint64_t all[RANKS] = { 0 };

	team->origin = 2 * team->rank;
	team->counted_anew = true;
	if (told_each_other && !team_agree(team, true, 1, 2, NULL))
		return false;
	/* once rank 1 has come through this the others have agreed */
	if (!team_gather(team, &all[team->rank], all, sizeof(*all)))
		return false;
	if (team->rank == 1)
		tutti_comm_abort(team->comm, "an error of its own");
	return team_gather(team, &all[team->rank], all, sizeof(*all));
}

TEST(a_lost_rank_is_named_by_the_launchers_number_once_it_is_known)
{
	told_each_other = true;
	ends(lose_rank_1, TUTTI_ERR_ABORTED, "; rank 1 of these is rank 2 of all");
	told_each_other = false;
	ends(lose_rank_1, TUTTI_ERR_ABORTED,
	     "; rank 1 of these is one of the 3 that there are now");
}

/* Two buckets of a model's gradients, of which the first is in flight while `write_layer` still writes
 * the second, and the sums behind them. */
static bool sum(struct rank *rank, const struct numbers *numbers,
		void (*write_layer)(struct rank *rank, const struct layer *layer))
{
	static const size_t width[] = { 4, 5, 3 };
	struct buckets buckets;
	struct model model;
	bool ok = true;

	if (!model_create(numbers, width, (struct cut){ 0, 2, 2 }, 1, &model))
		return false;
	model.gradients = rank->values;
	buckets_init(&buckets, &model, 1);
	for (unsigned l = 2; l-- > 0 && ok;) {
		write_layer(rank, &model.layer[l]);
		ok = buckets_layer_ready(&buckets, &model, l, &rank->team);
	}
	for (unsigned i = 0; i < buckets.count && ok; i++)
		ok = buckets_wait(&buckets, i, &rank->team);
	if (ok && buckets.apart_request)
		ok = why_set(TUTTI_ERR_INVALID, "sums are in flight");
	buckets_drain(&buckets);
	model_finish(&model);
	return ok;
}

static void write_places(struct rank *rank, const struct layer *layer)
{
	for (size_t i = 0; i < layer->count; i++)
		rank->values[layer->offset + i] = (double)i + 1000.0 * rank->team.rank;
}

static bool sum_buckets(struct rank *rank)
{
	for (int i = 0; i < SUMS_NUMBERS; i++)
		rank->values[PARAMETERS + i] = i + 1;
	return sum(rank, &numbers_f64, write_places);
}

TEST(buckets_sum_gradients_of_all_ranks)
{
	const int last = (5 + 1) * 3;

	ends(sum_buckets, TUTTI_OK, "");
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < PARAMETERS; i++) {
			const int place = i < last ? i : i - last;

			assert_true(ranks[r].values[i] == 3.0 * place + 3000);
		}
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < SUMS_NUMBERS; i++)
			assert_true(ranks[r].values[PARAMETERS + i] == 3.0 * (i + 1));
}

static void *sums_of_halves(struct rank *rank)
{
	return (char *)rank->values + numbers_sums_offset(&numbers_bf16, PARAMETERS);
}

static void leave_as_it_is(struct rank *rank, const struct layer *layer)
{
}

/* Gradients of two bytes, and sums behind them that go first, by themselves. */
static bool sum_buckets_of_halves(struct rank *rank)
{
	const double gradients[PARAMETERS] = { 1, 2, 3 },
		     sums[SUMS_NUMBERS] = { 1e9 + rank->team.rank, 0.5 };

	numbers_bf16.gradients->store(rank->values, gradients, PARAMETERS);
	numbers_f64.store(sums_of_halves(rank), sums, SUMS_NUMBERS);
	return sum(rank, &numbers_bf16, leave_as_it_is);
}

TEST(sums_behind_gradients_of_another_type_travel_by_themselves)
{
	double found[PARAMETERS];

	ends(sum_buckets_of_halves, TUTTI_OK, "");
	for (int r = 0; r < RANKS; r++) {
		numbers_f64.load(found, sums_of_halves(&ranks[r]), SUMS_NUMBERS);
		assert_true(found[0] == 3e9 + 3 && found[1] == 1.5);
		numbers_bf16.gradients->load(found, ranks[r].values, PARAMETERS);
		assert_true(found[0] == 3 && found[1] == 6 && found[2] == 9 && found[3] == 0);
	}
}

/* ---- shares, by the speeds that ranks say they had */

enum { EPOCHS = 4, BATCH = 110 };

static const struct speeds {
	struct share_options said;
	double pace_us[EPOCHS][RANKS]; /* of a sample; 0: the rank has none in this epoch */
	size_t slices[EPOCHS][RANKS];  /* of a batch, after it */
} * speeds;

/* Of rank 0's steps one takes a hundred times as long: another process had the core. */
static void note_epoch(struct training *t, double pace_us)
{
	t->ordered++;
	for (int step = 0; step < 5; step++)
		shares_note(t, pace_us > 0 ? 10 : 0,
			    1e-5 * pace_us * (t->team->rank == 0 && step == 2 ? 100 : 1));
}

static bool divide_by_speed(struct rank *rank)
{
	const struct options said = { .shares = speeds->said };
	struct training t = { .options = &said, .team = &rank->team, .batch = BATCH };
	bool ok = shares_begin(&t);

	for (int epoch = 0; epoch < EPOCHS && ok; epoch++) {
		note_epoch(&t, speeds->pace_us[epoch][rank->team.rank]);
		ok = shares_adapt(&t);
		for (int r = 0; r < RANKS; r++)
			rank->values[epoch * RANKS + r] =
				(double)shares_slice(&t, BATCH, r, RANKS).count;
	}
	shares_finish(&t.shares);
	return ok;
}

static void expect_slices(const struct speeds *of)
{
	speeds = of;
	ends(divide_by_speed, TUTTI_OK, "");
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < EPOCHS * RANKS; i++)
			assert_int_equal(ranks[r].values[i], of->slices[i / RANKS][i % RANKS]);
}

TEST(shares_follow_the_speeds_of_the_epoch_before)
{
	expect_slices(&(struct speeds){
		.said.by_themselves = 1,
		.pace_us = { { 1, 2, 3 }, { 3, 2, 1 }, { 1, 1, 1 }, { 1, 1, 20 } },
		.slices = { { 60, 30, 20 }, { 20, 30, 60 }, { 37, 36, 37 }, { 54, 53, 3 } } });
}

TEST(a_rank_that_is_made_slow_has_less_from_that_epoch_on)
{
	expect_slices(&(struct speeds){
		.said = { .by_themselves = 1,
			  .slow = { { 1, 9, 2 }, { 1, 1, 4 } },
			  .slow_count = 2 },
		.pace_us = { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } },
		.slices = { { 37, 36, 37 }, { 52, 6, 52 }, { 52, 6, 52 }, { 37, 36, 37 } } });
}

TEST(each_rank_has_a_sample_however_slow_it_is)
{
	/* and one that had none is as fast as before */
	expect_slices(&(struct speeds){
		.said.by_themselves = 1,
		.pace_us = { { 1, 1, 1000 }, { 1, 1, 0 }, { 1, 1, 1 }, { 1, 0, 0 } },
		.slices = { { 55, 54, 1 }, { 55, 54, 1 }, { 37, 36, 37 }, { 37, 36, 37 } } });
}

TEST(shares_that_are_said_stay)
{
	expect_slices(&(struct speeds){
		.said = { .of = { 1, 3, 7 }, .count = 3 },
		.pace_us = { { 1, 2, 3 }, { 3, 2, 1 }, { 1, 1, 1 }, { 1, 1, 0 } },
		.slices = { { 10, 30, 70 }, { 10, 30, 70 }, { 10, 30, 70 }, { 10, 30, 70 } } });
}

/* ---- settling */

static struct options options = { .epochs = 4 };

/* What a rank holds before settling, and is then judged by. */
struct place {
	size_t step;
	double number; /* all of its weights */
	unsigned epochs, losses;
	bool newcomer, losing, settled;
	int origin;
};

static struct place places[RANKS], settled[RANKS];
static struct loss losses[RANKS];
static double elapsed[RANKS];

static void put_at(struct training *t, const struct place *place)
{
	struct history *h = &t->report->history;

	for (size_t i = 0; i < t->state.parameters; i++)
		*(double *)state_now(&t->state, i).weights = place->number;
	t->state.step = place->step;
	h->epoch_count = place->epochs;
	for (unsigned i = 0; i < place->epochs; i++)
		h->epochs[i] = (struct epoch){ .number = i + 1, .train_loss = place->number };
	t->settled = place->settled;
	t->team->newcomer = place->newcomer;
	/* ranks 0 to 3 were there */
	t->survival.before = place->losing ? calloc(4, sizeof(struct stand)) : NULL;
	for (int i = 0; place->losing && i < 4; i++)
		t->survival.before[i].origin = i;
	t->survival.loss.ranks_before = 4;
	t->survival.restarts = place->newcomer ? 0 : 7;
	t->start_s = now_s() - (place->newcomer ? 0 : 100);
}

static bool settle_places(struct rank *rank)
{
	const int r = rank->team.rank;
	struct report report;
	struct training t = { .options = &options, .team = &rank->team, .report = &report };
	bool ok;

	rank->team.origin = places[r].origin;
	if (!report_create(&options, &report) || !state_create(&numbers_f64, 5, 5, &t.state) ||
	    !survival_init(&t.survival, &rank->team))
		return false;
	put_at(&t, &places[r]);
	ok = settle(&t);
	settled[r] = (struct place){
		.step = t.state.step,
		.number = *(double *)state_now(&t.state, 4).weights,
		.epochs = report.history.epoch_count,
		.losses = report.history.loss_count,
		.settled = t.settled,
		.losing = t.survival.before != NULL,
		.origin = t.survival.restarts,
	};
	elapsed[r] = now_s() - t.start_s;
	if (report.history.loss_count > 0)
		losses[r] = report.history.losses[0];
	report_finish(&report);
	state_finish(&t.state);
	survival_finish(&t.survival);
	return ok;
}

static void expect_settled(const struct place *expected)
{
	ends(settle_places, TUTTI_OK, "");
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(settled[r].step, expected->step);
		assert_true(settled[r].number == expected->number);
		assert_int_equal(settled[r].epochs, expected->epochs);
		assert_int_equal(settled[r].losses, expected->losses);
		assert_true(settled[r].settled);
		assert_false(settled[r].losing);
		assert_int_equal(settled[r].origin, 7); /* restarts */
		assert_true(elapsed[r] >= 100 && elapsed[r] < 200);
	}
}

TEST(ranks_at_the_same_place_stay_there)
{
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .step = 9, .number = 2, .epochs = 2, .origin = r };
	expect_settled(&places[0]);
}

TEST(the_state_of_the_furthest_is_that_of_all)
{
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .step = 9 + (r == 1), .number = r, .origin = r };
	expect_settled(&places[1]);
	/* the same steps, but the end of an epoch was told to one only */
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .step = 10, .number = 3, .epochs = 1 + (r == 2) };
	expect_settled(&places[2]);
}

TEST(of_different_states_of_one_step_the_lowest_ranks_counts)
{
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .number = 4 - r, .origin = r };
	expect_settled(&places[0]);
}

TEST(a_newcomer_gets_all_and_a_loss_is_told_to_all)
{
	struct place expected;

	places[0] = (struct place){ .step = 9, .number = 1, .epochs = 1, .losing = true };
	places[1] = places[0];
	places[1].origin = 3;
	places[2] = (struct place){ .newcomer = true, .origin = 2 };
	expected = places[0];
	expected.losses = 1;
	expect_settled(&expected);
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(losses[r].lost_count, 2);
		assert_int_equal(losses[r].lost[0], 1);
		assert_int_equal(losses[r].lost[1], 2);
		assert_int_equal(losses[r].ranks_before, 4);
		assert_int_equal(losses[r].ranks_after, 3);
		assert_int_equal(losses[r].joined, 1);
	}
}

TEST(newcomers_alone_have_nothing_to_go_on_from)
{
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .newcomer = true, .origin = r };
	ends(settle_places, TUTTI_ERR_PEER_LOST, "no rank is left that holds the state");
}

/* Rank 0 alone reads the checkpoint. If it is lost before the ranks have settled, what the others hold is
 * the start of a training, of which they would make a second one. */
TEST(without_the_reader_of_a_checkpoint_nothing_begins)
{
	options.resume = true;
	for (int r = 0; r < RANKS; r++)
		places[r] = (struct place){ .number = 2, .origin = r + 1, .losing = true };
	ends(settle_places, TUTTI_ERR_PEER_LOST,
	     "rank 0 was lost before the others had its checkpoint");
	/* one of them got to know that all had settled with it, before it was lost */
	places[1].settled = true;
	ends(settle_places, TUTTI_OK, "");
	/* rank 0 is there: others were lost */
	places[0] = (struct place){ .step = 9, .number = 1, .epochs = 2, .losing = true };
	places[1].settled = false;
	ends(settle_places, TUTTI_OK, "");
	assert_true(settled[2].step == 9 && settled[2].epochs == 2 && settled[2].number == 1);
	options.resume = false;
}
