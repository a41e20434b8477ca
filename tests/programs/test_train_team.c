/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of tutti-train say to each other, with ranks as threads of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buckets.h"
#include "team.h"

enum { RANKS = 3, PARAMETERS = (4 + 1) * 5 + (5 + 1) * 3 };

struct rank {
	struct team team;
	tutti_store_t store;
	void (*body)(struct rank *);
	/* what the body finds, for the test to judge: assertions belong to the main thread */
	tutti_result_t result;
	struct why why;
	double values[PARAMETERS];
};

static void *run_rank(void *argument)
{
	struct rank *rank = argument;
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.timeout_s = 30;
	rank->result =
		tutti_comm_create(rank->store, rank->team.rank, RANKS, &config, &rank->team.comm);
	if (rank->result == TUTTI_OK)
		rank->body(rank);
	else
		why_set(&rank->why, rank->result, "%s", tutti_last_error(NULL));
	team_leave(&rank->team);
	return NULL;
}

/* Run `body` on every rank at the same time. */
static void run_ranks(struct rank *ranks, void (*body)(struct rank *))
{
	char address[64];
	pthread_t threads[RANKS];

	snprintf(address, sizeof(address), "unix:tutti-train-team-%d", (int)getpid());
	memset(ranks, 0, RANKS * sizeof(*ranks));
	for (int r = 0; r < RANKS; r++) {
		ranks[r].team.rank = r;
		ranks[r].team.size = RANKS;
		ranks[r].body = body;
		assert_int_equal(tutti_store_open(address, r == 0, 30, &ranks[r].store), TUTTI_OK);
	}
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(pthread_join(threads[r], NULL), 0);
	for (int r = RANKS - 1; r >= 0; r--) /* its host closes last */
		tutti_store_close(ranks[r].store);
}

static void expect(const struct rank *ranks, tutti_result_t result, const char *sentence)
{
	for (int r = 0; r < RANKS; r++) {
		if (ranks[r].result != result)
			fail_msg("rank %d: result %d: %s", r, ranks[r].result, ranks[r].why.text);
		if (!strstr(ranks[r].why.text, sentence))
			fail_msg("rank %d: expected '%s' in '%s'", r, sentence, ranks[r].why.text);
	}
}

static void verify_equal(struct rank *rank)
{
	for (int i = 0; i < PARAMETERS; i++)
		rank->values[i] = 1.0 / (i + 1);
	rank->result = team_verify(&rank->team, rank->values, PARAMETERS, 7, &rank->why);
}

static void verify_one_bit(struct rank *rank)
{
	for (int i = 0; i < PARAMETERS; i++)
		rank->values[i] = 1.0 / (i + 1);
	if (rank->team.rank == 1)
		((unsigned char *)rank->values)[100] ^= 1;
	rank->result = team_verify(&rank->team, rank->values, PARAMETERS, 7, &rank->why);
}

static void verify_passes_equal_weights_and_names_ranks_that_differ(void **state)
{
	struct rank ranks[RANKS];

	run_ranks(ranks, verify_equal);
	expect(ranks, TUTTI_OK, "");
	run_ranks(ranks, verify_one_bit);
	expect(ranks, TUTTI_ERR_MISMATCH, "step 7: the weights of rank 1 differ");
}

static void agree_data(struct rank *rank)
{
	const uint64_t data = rank->team.rank == 0 ? 5 : 6;

	rank->result = team_agree(&rank->team, TUTTI_OK, 1, data, &rank->why);
}

static void agree_failure(struct rank *rank)
{
	tutti_result_t mine = TUTTI_OK;

	if (rank->team.rank == 2)
		mine = why_set(&rank->why, TUTTI_ERR_SYSTEM, "its own sentence");
	rank->result = team_agree(&rank->team, mine, 1, 2, &rank->why);
}

static void disagreement_is_told_to_every_rank(void **state)
{
	struct rank ranks[RANKS];

	run_ranks(ranks, agree_data);
	expect(ranks, TUTTI_ERR_INVALID, "rank 1, 2 read other data than rank 0");
	run_ranks(ranks, agree_failure);
	assert_int_equal(ranks[2].result, TUTTI_ERR_SYSTEM);
	assert_string_equal(ranks[2].why.text, "its own sentence");
	ranks[2] = ranks[1];
	expect(ranks, TUTTI_ERR_INVALID, "rank 2 could not start");
}

/* Two buckets, of which the first is in flight while the second is still written. */
static void sum_buckets(struct rank *rank)
{
	static const size_t width[] = { 4, 5, 3 };
	struct buckets buckets;
	struct model model;
	tutti_result_t result = model_create(width, 2, 1, rank->values, &model, &rank->why);

	if (result != TUTTI_OK) {
		rank->result = result;
		return;
	}
	buckets_init(&buckets, &model, 1);
	for (unsigned l = 2; l-- > 0 && result == TUTTI_OK;) {
		for (size_t i = 0; i < model.layer[l].count; i++)
			rank->values[model.layer[l].offset + i] =
				(double)i + 1000.0 * rank->team.rank;
		result = buckets_layer_ready(&buckets, &model, l, &rank->team, &rank->why);
	}
	for (unsigned i = 0; i < buckets.count && result == TUTTI_OK; i++)
		result = buckets_wait(&buckets, i, &rank->team, &rank->why);
	buckets_drain(&buckets);
	model_finish(&model);
	rank->result = result;
}

static void buckets_sum_gradients_of_all_ranks(void **state)
{
	struct rank ranks[RANKS];
	const int last = (5 + 1) * 3;

	run_ranks(ranks, sum_buckets);
	expect(ranks, TUTTI_OK, "");
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < PARAMETERS; i++) {
			const int place = i < last ? i : i - last;

			assert_true(ranks[r].values[i] == 3.0 * place + 3000);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verify_passes_equal_weights_and_names_ranks_that_differ),
		cmocka_unit_test(disagreement_is_told_to_every_rank),
		cmocka_unit_test(buckets_sum_gradients_of_all_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
