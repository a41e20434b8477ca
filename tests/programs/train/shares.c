/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are not equally fast. */
#include "../../patience.h"
#include "claims.h"
#include "curves.h"

/* The last line of the log has what each rank had at the end. */
static double share_of_rank_0(void)
{
	expect_success(shell(
		"tail -n 1 log | sed 's/.*\"each_rank\":\\[[^}]*\"share\":\\([0-9.]*\\).*/\\1/'"));
	return atof(output);
}

/* Of a batch, in epoch `from` (of 0) and after it: what the slower of two ranks had. */
static struct range range_of_shares(const struct curve *c, int from)
{
	struct range range = { INFINITY, -INFINITY };

	for (int i = from; i < c->epochs; i++) {
		range.least = fmin(range.least, c->least_share[i]);
		range.most = fmax(range.most, c->least_share[i]);
	}
	return range;
}

static void a_slow_rank_gets_a_smaller_share_by_itself(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve alone = train_digits(1, "--epochs 4 --dtype f64"),
			   together = train_digits(2, "--epochs 4 --dtype f64 --shares auto "
						      "--slow 0:8");

	expect_equal_curves(&alone, &together, 1e-9);
	/* a ninth, if nothing else runs */
	assert_true(machine_may_be_busy() || range_of_shares(&together, 1).least < 0.4);
	train_digits(2, "--epochs 1 --shares 1,3");
	assert_float_equal(share_of_rank_0(), 0.25, 1e-9);
}

/* A rank of a twentieth of the speed has 0.05 of a batch, and one of the same speed 0.5. Others that run on
 * the same cores may keep that from some epochs, not from all. */
static void shares_follow_a_rank_that_changes_its_speed(void **state)
{
	if (strcmp(device, "cuda") == 0 || machine_may_be_busy())
		skip();
	const struct curve slower = train_digits(2, "--epochs 12 --shares auto --slow 0:20:4"),
			   faster = train_digits(
				   2, "--epochs 12 --shares auto --slow 0:1:4 --slow 0:20");

	assert_true(range_of_shares(&slower, 4).least < 0.2);
	assert_true(range_of_shares(&faster, 4).most > 0.25);
	assert_true(range_of_shares(&faster, 1).least < 0.2);
	assert_int_equal(train(2, "--data nowhere --epochs 3 --slow 0:2:4"), 1);
	expect_output("--slow: found epoch 4, expected one from 1 to 3 (--epochs)");
}

int claims_of_shares(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_rank_gets_a_smaller_share_by_itself),
		cmocka_unit_test(shares_follow_a_rank_that_changes_its_speed),
	};

	return cmocka_run_group_tests_name("shares", tests, prepare, clean_up);
}
