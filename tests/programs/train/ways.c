/* SPDX-License-Identifier: BSD-3-Clause */
/* Each way to train together against one process. */
#include "claims.h"
#include "curves.h"

/* Its last batch of an epoch has 7 samples: less than 8 ranks. */
static void each_way_to_train_equals_one_process(void **state)
{
	static const char *const ways[] = {
		"--sync zero1 --bucket 4K --verify", "--sync local --every 1",
		"--accumulate 3 --verify",	     "--sync ps --verify",
		"--shares 1,3,0.5,2 --verify",	     "--sync zero1 --shares 1,3,0.5,2",
	};
	struct curve alone, clipped;

	if (strcmp(device, "cuda") == 0)
		skip();
	alone = train_digits(1, "--epochs 4 --batch 53 --dtype f64");
	clipped = train_digits(1, "--epochs 4 --batch 53 --dtype f64 --clip 0.7");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		for (int ranks = least_ranks(ways[i]); ranks <= 4; ranks *= 2) {
			/* who steps alone shortens gradients of its own, and a server sees a part */
			const bool unclipped = strstr(ways[i], "local") || strstr(ways[i], "ps");
			char options[128];

			snprintf(options, sizeof(options),
				 "--epochs 4 --batch 53 --dtype f64 %s %s",
				 unclipped ? "" : "--clip 0.7", ways[i]);
			const struct curve curve = train_digits(ranks, options);

			expect_equal_curves(unclipped ? &alone : &clipped, &curve, 1e-9);
		}
}

/* Weights and velocity have two copies. Of the 2n numbers of velocity, zero1 leaves 2n/P on a rank. */
static void zero1_divides_the_memory_of_velocity_by_the_ranks(void **state)
{
	static const char options[] = "--data synthetic:256x784x10 --hidden 2048,2048 --batch 128 "
				      "--epochs 1 --json log --sync";
	const double bytes = 4.0 * (785 * 2048 + 2049 * 2048 + 2049 * 10);

	if (strcmp(device, "cuda") == 0)
		skip();
	for (int ranks = 2; ranks <= 4; ranks += 2) {
		char line[160];

		snprintf(line, sizeof(line), "%s allreduce", options);
		expect_success(train(ranks, line));
		const struct range whole = range_of("memory");

		snprintf(line, sizeof(line), "%s zero1", options);
		expect_success(train(ranks, line));
		const struct range shared = range_of("memory");
		const double saved = whole.least - shared.most,
			     expected = bytes * (2 - 2.0 / ranks);

		if (!(saved > 0.8 * expected))
			fail_msg("%d ranks: saved %.1f MB, expected %.1f", ranks, saved * 1e-6,
				 expected * 1e-6);
	}
}

/* With the order of sums that TUTTI_REPRODUCIBLE promises. */
static void ranks_that_average_are_the_same_bits_as_one_that_plays_them(void **state)
{
	static const char *const each[] = { "--every 5", "--every 7 --outer nesterov,0.7,0.9",
					    "--every 23 --outer sgd,0.9 --momentum 0 --dtype f64",
					    "--every 5 --dtype bf16" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		for (int ranks = 2; ranks <= 4; ranks *= 2) {
			char options[160];

			snprintf(options, sizeof(options), "--epochs 3 --batch 53 --sync local %s",
				 each[i]);
			setenv("TUTTI_REPRODUCIBLE", "1", 1);
			const struct curve together = train_digits(ranks, options);

			unsetenv("TUTTI_REPRODUCIBLE");
			snprintf(options + strlen(options), 40, " --simulate-ranks %d", ranks);
			const struct curve played = train_digits(1, options);

			assert_string_equal(together.weights, played.weights);
			assert_memory_equal(together.train, played.train, 3 * sizeof(double));
		}
}

/* --verify: the sum of all ranks' weights stays what it was, in each round. */
static void ranks_that_gossip_are_the_same_bits_as_one_that_plays_them(void **state)
{
	static const char *const each[] = { "--dtype f64 --verify", "--every 4",
					    "--peers random --verify",
					    "--peers random --every 3 --optimizer adam" };

	if (strcmp(device, "cuda") == 0)
		skip();
	setenv("TUTTI_REPRODUCIBLE", "1", 1);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		for (int ranks = 2; ranks <= 5; ranks++) {
			char options[160];

			snprintf(options, sizeof(options), "--epochs 3 --batch 53 --sync gossip %s",
				 each[i]);
			const struct curve together = train_digits(ranks, options);

			snprintf(options + strlen(options), 40, " --simulate-ranks %d", ranks);
			const struct curve played = train_digits(1, options);

			assert_string_equal(together.weights, played.weights);
			assert_memory_equal(together.train, played.train, 3 * sizeof(double));
		}
	unsetenv("TUTTI_REPRODUCIBLE");
	/* who hears of a few others now and then is apart from them; the mean is as good */
	const struct curve apart =
		train_digits(4, "--epochs 12 --sync gossip --peers random --every 5");

	assert_true(apart.accuracy > 0.9);
	expect_success(
		shell("grep '\"event\":\"epoch\"' log | sed 's/.*\"distance\":\\([^}]*\\)}/\\1/' | "
		      "awk '$1 > 1e-4 { n++ } END { exit n < 6 }'"));
	assert_int_equal(train(2, "--data nowhere --sync gossip --simulate-ranks 2"), 1);
}

int claims_of_ways(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_to_train_equals_one_process),
		cmocka_unit_test(zero1_divides_the_memory_of_velocity_by_the_ranks),
		cmocka_unit_test(ranks_that_average_are_the_same_bits_as_one_that_plays_them),
		cmocka_unit_test(ranks_that_gossip_are_the_same_bits_as_one_that_plays_them),
	};

	return cmocka_run_group_tests_name("ways", tests, prepare, clean_up);
}
