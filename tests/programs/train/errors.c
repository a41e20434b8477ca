/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends a training: every rank, with an error message, in time. */
#include "claims.h"
#include "curves.h"

static void missing_file_ends_all_ranks_with_one_message_that_names_them(void **state)
{
	refuses(4, "--data nowhere.csv", "all ranks: nowhere.csv: cannot be read: No such file");
}

static void broken_csv_ends_all_ranks(void **state)
{
	shell("printf '1,2,0\\n3,4,1\\n5,1\\n' >data");
	refuses(4, "--data data", "data: line 3: found 2 fields, expected 3");
	shell("printf '1,2,0\\n3,nan,1\\n' >data");
	refuses(2, "--data data", "data: line 2, field 2: found 'nan'");
	shell("printf '1,2,0\\n3,4,-1\\n' >data");
	refuses(2, "--data data", "data: line 2, field 3: found '-1', expected a label");
	shell("printf '1,2,0\\n3,4,9\\n' >data");
	refuses(2, "--data data --classes 3", "label out of range: found 9, expected 0 to 2");
}

static void truncated_files_end_all_ranks(void **state)
{
	shell("head -c 20000 %s >data", digits);
	refuses(4, "--data data", "data: truncated: the gzip stream ends early");
	shell("printf '\\0\\0\\10\\1\\0\\0\\0\\11\\1\\2' >data");
	refuses(4, "--data data --labels data", "data: truncated: found 10 bytes");
}

static void too_few_samples_end_all_ranks(void **state)
{
	shell("printf '1,0\\n2,1\\n3,0\\n4,1\\n' >data");
	refuses(4, "--data data --test-fraction 0.4", "too few samples: found 3 to train on and 1");
	shell("printf '1,0\\n2,1\\n3,0\\n4,1\\n' >data");
	refuses(4, "--data data --batch 4", "which --test-fraction 0.2 leaves none to validate");
	shell("printf '1,0\\n2,1\\n3,0\\n4,1\\n5,0\\n6,1\\n' >data");
	refuses(4, "--data data --batch 2", "--batch: found 2 samples per step for 4 ranks");
	if (strcmp(device, "cuda") != 0)
		refuses(1, "--data data --batch 2 --test-fraction 0 --predict labels",
			"found --predict, but no samples to validate");
}

static void results_that_cannot_be_written_end_all_ranks(void **state)
{
	char options[256];

	snprintf(options, sizeof(options), "--data %s --json nowhere/log", digits);
	refuses(4, options, "--json: nowhere/log cannot be written");
	expect_output("cannot go on: rank 0 could not start");
	/* found out when the others are already training */
	snprintf(options, sizeof(options), "--data %s --json /dev/full", digits);
	refuses(4, options, "--json: writing /dev/full failed: No space left on device");
}

static void diverged_training_ends_all_ranks(void **state)
{
	char options[256];

	snprintf(options, sizeof(options), "--data %s --lr 1e5", digits);
	refuses(4, options, "the training diverged");
}

static void one_rank_without_data_ends_all(void **state)
{
	shell("cp %s data; printf '1,0\\n2,1\\n' >data.2", digits);
	refuses_unequal("if [ $TUTTI_RANK = 1 ]; then exec \"$1\" --data nowhere; fi; "
			"exec \"$1\" --data data",
			"rank 0, 2: cannot go on: rank 1 could not start");
	expect_output("rank 1: nowhere: cannot be read");
	shell("cp data data.0; zcat data | sed 1d >data.1; cp data data.2");
	refuses_unequal("exec \"$1\" --data data.$TUTTI_RANK",
			"rank 1 read other data than rank 0");
	refuses_unequal("exec \"$1\" --data data --seed $((TUTTI_RANK / 2))",
			"rank 2 has other options than rank 0");
	expect_success(shell("rm data data.0 data.1 data.2"));
}

static void wrong_options_end_with_status_2(void **state)
{
	assert_int_equal(shell("\"$TEST_TRAIN\" --data d --batch none"), 2);
	expect_output("--batch: found 'none'");
	assert_int_equal(shell("\"$TEST_TRAIN\" --data d --device cuda --dtype bf16"), 2);
	expect_output("found --device cuda and --dtype bf16");
	assert_int_equal(shell("\"$TEST_TRAIN\""), 2);
	assert_int_equal(shell("\"$TEST_TRAIN\" --data d --rank 0"), 2);
	expect_output("found --rank, expected --size and --store as well");
	assert_int_equal(shell("\"$TEST_TRAIN\" --data d --size 2"), 2);
	expect_output("found --size, expected --rank and --store as well");
	assert_int_equal(shell("\"$TEST_TRAIN\" --help"), 0);
	expect_output("Usage: tutti-train");
	assert_int_equal(shell("\"$TEST_TRAIN\" --version"), 0);
	expect_output("tutti-train 0.");
}

/* An error of all ranks is printed by one of them, before any exits. */
static void one_rank_prints_the_error_of_all(void **state)
{
	static const char *const wrong[][2] = {
		{ "--data d --lr 1e9", "--lr: found '1e9', expected a number from 1e-12 to 1e6" },
		{ "--data d --schedule cosin", "found 'cosin' (did you mean cosine?)" },
		{ "--data d --epoch-s 3", "unknown option --epoch-s (did you mean --epochs?)" },
		{ "--data nowhere", "nowhere: cannot be read" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(train(4, wrong[i][0]), i < 3 ? 2 : 1);
		expect_output(wrong[i][1]);
		if (strstr(strstr(output, "] tutti-train: ") + 1, "] tutti-train: "))
			fail_msg("printed more than once: %s", output);
	}
}

int claims_of_errors(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_file_ends_all_ranks_with_one_message_that_names_them),
		cmocka_unit_test(broken_csv_ends_all_ranks),
		cmocka_unit_test(truncated_files_end_all_ranks),
		cmocka_unit_test(too_few_samples_end_all_ranks),
		cmocka_unit_test(results_that_cannot_be_written_end_all_ranks),
		cmocka_unit_test(diverged_training_ends_all_ranks),
		cmocka_unit_test(one_rank_without_data_ends_all),
		cmocka_unit_test(wrong_options_end_with_status_2),
		cmocka_unit_test(one_rank_prints_the_error_of_all),
	};

	return cmocka_run_group_tests_name("errors", tests, prepare, clean_up);
}
