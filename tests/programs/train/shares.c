/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are not equally fast. */
#include "claims.h"
#include "curves.h"

/* The last line of the log has what each rank had at the end. */
static double share_of_rank_0(void)
{
	expect_success(shell(
		"tail -n 1 log | sed 's/.*\"each_rank\":\\[[^}]*\"share\":\\([0-9.]*\\).*/\\1/'"));
	return atof(output);
}

/* Of a batch, after epoch 1: what the slower of two ranks had at least. */
static double least_share(const struct curve *c)
{
	double least = INFINITY;

	for (int i = 1; i < c->epochs; i++)
		least = fmin(least, c->least_share[i]);
	return least;
}

static void a_slow_rank_gets_a_smaller_share_by_itself(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve alone = train_digits(1, "--epochs 4 --dtype f64"),
			   together = train_digits(2, "--epochs 4 --dtype f64 --shares auto "
						      "--slow 0:100");

	expect_equal_curves(&alone, &together, 1e-9);
	/* a hundredth, if nothing else runs */
	assert_true(least_share(&together) < 0.4);
	train_digits(2, "--epochs 1 --shares 1,3");
	assert_float_equal(share_of_rank_0(), 0.25, 1e-9);
}

static void a_rank_cannot_be_slow_from_an_epoch_that_there_is_not(void **state)
{
	assert_int_equal(train(2, "--data nowhere --epochs 3 --slow 0:2:4"), 1);
	expect_output("--slow: found epoch 4, expected one from 1 to 3 (--epochs)");
}

int claims_of_shares(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_rank_gets_a_smaller_share_by_itself),
		cmocka_unit_test(a_rank_cannot_be_slow_from_an_epoch_that_there_is_not),
	};

	return cmocka_run_group_tests_name("shares", tests, prepare, clean_up);
}
