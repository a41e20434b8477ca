/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimisers on several ranks, and resumed. */
#include "claims.h"
#include "curves.h"

/* Whoever has the sums, the shares of layers and the numbers that an optimiser keeps. */
static void each_optimiser_equals_one_process(void **state)
{
	static const char *const names[] = { "sgd",  "momentum", "nesterov", "adagrad",
					     "adam", "adamw",	 "lars",     "lamb" };
	static const char *const ways[] = { "allreduce --bucket 8K", "zero1", "ps" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t o = 0; o < sizeof(names) / sizeof(names[0]); o++) {
		char options[128];

		snprintf(options, sizeof(options), "--epochs 2 --dtype f64 --optimizer %s",
			 names[o]);
		const struct curve alone = train_digits(1, options);

		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
			for (int ranks = 2; ranks <= 4; ranks += 2) {
				snprintf(options, sizeof(options),
					 "--epochs 2 --dtype f64 --optimizer %s --sync %s",
					 names[o], ways[i]);
				const struct curve together = train_digits(ranks, options);

				expect_equal_curves(&alone, &together, 1e-9);
			}
	}
}

/* With as many numbers for each weight as there are, wherever they are kept. */
static void optimisers_are_resumed_bit_for_bit_and_by_no_other(void **state)
{
	static const char *const ways[] = { "sgd --sync zero1", "nesterov", "adamw",
					    "lamb --sync zero1", "adam --sync ps" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char options[64];

		snprintf(options, sizeof(options), "--optimizer %s", ways[i]);
		expect_resumed(options);
		refuse_to_resume("", "is of a training with other ");
	}
}

int claims_of_optimisers(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_optimiser_equals_one_process),
		cmocka_unit_test(optimisers_are_resumed_bit_for_bit_and_by_no_other),
	};

	return cmocka_run_group_tests_name("optimisers", tests, prepare, clean_up);
}
