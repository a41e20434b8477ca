/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that are cut in pieces. */
#include "claims.h"
#include "curves.h"

static void a_model_in_pieces_equals_one_process(void **state)
{
	static const struct {
		int ranks;
		const char *of, *cut;
	} cases[] = {
		{ 2, "", "pipeline" },
		{ 2, "", "pipeline --order gpipe --micro 5" },
		{ 3, "--clip 0.7", "pipeline --micro 7" },
		{ 3, "--optimizer lamb", "pipeline --order gpipe --micro 1" },
		{ 4, "--hidden 40,30,20,10 --momentum 0", "pipeline --shares 4,1,1,2" },
		{ 4, "", "data=2,pipeline=2 --bucket 4K" },
		{ 4, "--optimizer lars", "pipeline=2 --sync zero1" },
		{ 4, "--clip 0.7 --batch 53", "data=2,pipeline --sync zero1 --micro 3" },
		{ 4, "", "pipeline=2 --sync local --every 1" },
		{ 1, "", "pipeline" },
		{ 2, "--hidden 64,32,16", "tensor" },
		{ 3, "--optimizer lamb --clip 100", "tensor --micro 2" },
		{ 2, "--hidden 33,17 --optimizer lars --bucket 380", "tensor" },
		{ 4, "--optimizer lars", "data=2,tensor=2 --sync zero1" },
		{ 4, "--hidden none", "tensor" },
		{ 4, "", "pipeline,tensor=2 --order gpipe --micro 3" },
		{ 8, "--hidden 48,32,24 --clip 0.7", "data=2,pipeline=2,tensor=2 --sync zero1" },
		{ 8, "--hidden 48,32,24", "tensor=2,pipeline=2 --sync local --every 1" },
	};

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char options[160];

		snprintf(options, sizeof(options), "--epochs 3 --dtype f64 %s", cases[i].of);
		const struct curve alone = train_digits(1, options);

		snprintf(options, sizeof(options),
			 "--epochs 3 --dtype f64 --verify %s --parallel %s", cases[i].of,
			 cases[i].cut);
		const struct curve cut = train_digits(cases[i].ranks, options);

		expect_equal_curves(&alone, &cut, 1e-9);
	}
}

/* Of the steps between averages, too: those of a column average as ranks of whole models do. */
static void lines_of_stages_average_as_ranks_do(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve whole = train_digits(2, "--epochs 3 --dtype f64 --sync local --every 7"),
			   cut = train_digits(4, "--epochs 3 --dtype f64 --sync local --every 7 "
						 "--parallel pipeline=2");

	expect_equal_curves(&whole, &cut, 1e-9);
}

/* Micro-batches are added up in their order, whoever computes which layer. */
static void a_pipeline_has_the_bits_of_parts_of_a_batch(void **state)
{
	static const char *const types[] = { "f32", "bf16" }, *const orders[] = { "1f1b", "gpipe" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (int type = 0; type < 2; type++) {
		char options[128];

		snprintf(options, sizeof(options), "--epochs 20 --dtype %s --batch all --lr 0.01 ",
			 types[type]);
		strcat(options, "--accumulate 2");
		const struct curve parts = train_digits(1, options);

		for (int order = 0; order < 2; order++) {
			snprintf(options, sizeof(options),
				 "--epochs 20 --dtype %s --batch all --lr 0.01 --parallel pipeline "
				 "--micro 2 --order %s",
				 types[type], orders[order]);
			const struct curve cut = train_digits(3, options);

			assert_memory_equal(parts.train, cut.train, 20 * sizeof(double));
		}
	}
}

/* A rank has the weights of its piece alone, twice with what an optimiser keeps for them. Of five layers
 * one stage has two or three large ones of three. */
static void pieces_divide_the_memory(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	static const char options[] =
		"--data synthetic:512x64x10 --hidden 1024,1024,1024,1024 --epochs 1 "
		"--batch 64 --optimizer adam --json log";
	char line[256];

	expect_success(train(1, options));
	const double whole = range_of("memory").most;

	/* of 3.2 million weights two copies of three numbers, and gradients: 28 bytes each */
	for (int way = 0; way < 2; way++) {
		snprintf(line, sizeof(line), "%s --parallel %s", options,
			 way == 0 ? "pipeline" : "tensor");
		expect_success(train(2, line));
		const double saved = whole - range_of("memory").most,
			     expected = 28 * 3.2e6 / (way == 0 ? 3 : 2);

		if (!(saved > 0.8 * expected))
			fail_msg("%s: saved %.1f MB, expected %.1f",
				 way == 0 ? "pipeline" : "tensor", saved * 1e-6, expected * 1e-6);
	}
}

static void a_model_in_pieces_is_resumed_in_others(void **state)
{
	static const struct {
		int ranks;
		const char *parallel;
	} ways[] = { { 4, "--parallel pipeline=2 --sync zero1" },
		     { 4, "--parallel pipeline,tensor=2" },
		     { 2, "--sync zero1" } };
	static const char usual[] = "--epochs 60 --dtype f64 --optimizer adamw";

	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve whole = train_digits(1, usual);

	for (int from = 0; from < 2; from++)
		for (int to = 0; to < 3; to++) {
			char options[160];

			snprintf(options, sizeof(options), "%s %s --save ck --every-epochs 3",
				 usual, ways[from].parallel);
			train_until_killed(ways[from].ranks, digits, options);
			snprintf(options, sizeof(options), "%s %s --save ck --resume", usual,
				 ways[to].parallel);
			const struct curve resumed = train_digits(ways[to].ranks, options);

			expect_output("resumed after epoch ");
			expect_equal_curves(&whole, &resumed, 1e-9);
			assert_int_equal(shell("rm ck; rm -f ck.*.tmp"), 0);
		}
}

static void models_that_cannot_be_cut_are_refused(void **state)
{
	static const struct {
		int ranks;
		const char *options, *text;
	} cases[] = {
		{ 4, "--parallel pipeline", "found 4 stages for 3 layers" },
		{ 3, "--parallel pipeline=2",
		  "found pipeline=2 with 3 ranks, expected a multiple of 2" },
		{ 3, "--parallel tensor --hidden 2",
		  "found 3 parts of hidden layer 1, which has 2" },
		{ 4, "--parallel pipeline=2,tensor --hidden 20",
		  "found 2 stages for 2 layers in parts, expected two layers for each stage" },
		{ 3, "--parallel data=2,pipeline",
		  "found data=2,pipeline with 3 ranks, expected a multiple of 2" },
		{ 2, "--parallel data=2,pipeline=2",
		  "found data=2,pipeline=2 with 2 ranks, expected 4" },
		{ 2, "--parallel pipeline --shares 1,2,3", "found 3 numbers for 2 stages" },
	};
	char line[160];

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "--data %s %s", digits, cases[i].options);
		assert_int_equal(train(cases[i].ranks, line), 1);
		expect_output(cases[i].text);
	}
	assert_int_equal(shell("\"$TEST_RUN\" -n 2 --min-ranks 1 -- \"$TEST_TRAIN\" --data %s "
			       "--parallel pipeline",
			       digits),
			 1);
	expect_output("found --parallel with tutti-run's --min-ranks or --restart");
}

int claims_of_pieces(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_model_in_pieces_equals_one_process),
		cmocka_unit_test(lines_of_stages_average_as_ranks_do),
		cmocka_unit_test(a_pipeline_has_the_bits_of_parts_of_a_batch),
		cmocka_unit_test(pieces_divide_the_memory),
		cmocka_unit_test(a_model_in_pieces_is_resumed_in_others),
		cmocka_unit_test(models_that_cannot_be_cut_are_refused),
	};

	return cmocka_run_group_tests_name("pieces", tests, prepare, clean_up);
}
