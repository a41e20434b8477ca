/* SPDX-License-Identifier: BSD-3-Clause */
/* That training learns, the same on any number of ranks. */
#include "claims.h"
#include "curves.h"

/* 53 is no multiple of any of the sizes, and leaves a last batch of 7 samples: less than 8 ranks.
 */
static void loss_curve_is_the_same_for_1_2_4_and_8_ranks(void **state)
{
	static const char options[] = "--epochs 8 --batch 53 --bucket 4K --dtype f64";
	const struct curve alone = train_digits(1, options);

	for (int ranks = 2; ranks <= 8; ranks *= 2) {
		const struct curve curve = train_digits(ranks, options);

		assert_int_equal(curve.ranks, ranks);
		assert_int_equal(curve.epochs, 8);
		for (int e = 0; e < 8; e++) {
			assert_close(alone.train[e], curve.train[e]);
			assert_close(alone.test[e], curve.test[e]);
		}
		assert_float_equal(alone.accuracy, curve.accuracy, 1e-12);
	}
}

static void four_ranks_reach_an_accuracy_of_96_percent(void **state)
{
	const struct curve curve = train_digits(4, "");

	assert_true(curve.accuracy >= 0.96);
	assert_true(curve.blocked > 0 && curve.blocked < 1);
	expect_output("test accuracy");
	expect_output("samples/s");
	expect_output("communication");
}

static void weights_stay_the_same_on_every_rank(void **state)
{
	train_digits(3, "--epochs 4 --batch 50 --verify");
	train_digits(4, "--epochs 2 --bucket 1 --verify");
}

static void sockets_carry_it_as_well_as_shared_memory(void **state)
{
	const struct curve shared = train_digits(3, "--epochs 3");
	struct curve sockets;

	setenv("TUTTI_TRANSPORT", "tcp", 1);
	sockets = train_digits(3, "--epochs 3 --verify --bucket 1");
	unsetenv("TUTTI_TRANSPORT");
	for (int e = 0; e < 3; e++)
		assert_close(shared.train[e], sockets.train[e]);
}

static void same_seed_and_ranks_give_the_same_bits(void **state)
{
	const struct curve one = train_digits(2, "--epochs 3 --seed 9");
	const struct curve two = train_digits(2, "--epochs 3 --seed 9");
	const struct curve other = train_digits(2, "--epochs 3 --seed 10");

	assert_memory_equal(one.train, two.train, 3 * sizeof(double));
	assert_memory_equal(one.test, two.test, 3 * sizeof(double));
	assert_memory_not_equal(one.train, other.train, 3 * sizeof(double));
}

int claims_of_learning(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_curve_is_the_same_for_1_2_4_and_8_ranks),
		cmocka_unit_test(four_ranks_reach_an_accuracy_of_96_percent),
		cmocka_unit_test(weights_stay_the_same_on_every_rank),
		cmocka_unit_test(sockets_carry_it_as_well_as_shared_memory),
		cmocka_unit_test(same_seed_and_ranks_give_the_same_bits),
	};

	return cmocka_run_group_tests_name("learning", tests, prepare, clean_up);
}
