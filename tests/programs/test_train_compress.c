/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train --compress: bytes, accuracy, bits, and what it does not go together with. */
#include "train/curves.h"

#define SIZES "--epochs 20 --bucket 1 --verify" /* each layer is a bucket */
enum { RANKS = 4, FEATURES = 64, CLASSES = 10 };
static const int widths[] = { FEATURES, 128, 64, CLASSES };
enum { LAYERS = 3, BLOCK = 128 };

/* Numbers of one. */
static double layer(int l)
{
	return (double)(widths[l] + 1) * widths[l + 1];
}

/* What a rank sends of an all-reduce of so many bytes, or of all ranks' blocks. */
static double of_sum(double bytes)
{
	return 2 * bytes * (RANKS - 1) / RANKS;
}

static double of_blocks(double bytes)
{
	return bytes * (RANKS - 1);
}

static double as_narrow(double numbers, double bytes)
{
	return of_sum(numbers * bytes);
}

static double in_blocks(double numbers, double unused)
{
	return of_sum(ceil(numbers / BLOCK) * (BLOCK + 4));
}

static double largest(double numbers, double share)
{
	return of_blocks(ceil(numbers * share) * 8);
}

/* What is not shorter as two factors goes as it is. */
static double factors(int l, double rank)
{
	const double in = widths[l], out = widths[l + 1];

	if (rank * (in + out) >= in * out)
		return of_sum(4 * layer(l));
	return of_sum(4 * (rank * (in + out) + out));
}

struct compressed {
	const char *how;
	double (*bytes)(double numbers, double parameter);
	double parameter;
};

static double bytes_of_step(const struct compressed *c)
{
	double sum = of_sum(3 * 4); /* loss, hits and samples */

	for (int l = 0; l < LAYERS; l++)
		sum += c->bytes ? c->bytes(layer(l), c->parameter) : factors(l, c->parameter);
	return sum;
}

static const struct compressed all[] = {
	{ "bf16", as_narrow, 2 },  { "fp16", as_narrow, 2 },	   { "fp8", in_blocks, 0 },
	{ "int8", in_blocks, 0 },  { "topk:0.01", largest, 0.01 }, { "topk:0.1", largest, 0.1 },
	{ "powersgd:2", NULL, 2 }, { "powersgd:10", NULL, 10 },
};
#define ALL ((int)(sizeof(all) / sizeof(all[0])))

static void bytes_are_as_computed_and_accuracy_stays_within_a_point(void **state)
{
	const struct curve plain = train_digits(RANKS, SIZES);

	assert_true(plain.accuracy > 0.95);
	for (int i = 0; i < ALL; i++) {
		char options[128];

		snprintf(options, sizeof(options), SIZES " --compress %s", all[i].how);
		const struct curve curve = train_digits(RANKS, options);
		const double computed = bytes_of_step(&all[i]), sent = curve.sent / curve.steps;
		/* whole bytes of each message, and what begins and ends the training */
		if (fabs(sent - computed) > 100 + 0.002 * computed)
			fail_msg("%s: %.1f bytes of a step were sent, %.1f computed", all[i].how,
				 sent, computed);
		if (curve.accuracy < plain.accuracy - 0.01)
			fail_msg("%s: accuracy %.4f, expected %.4f", all[i].how, curve.accuracy,
				 plain.accuracy);
	}
}

/* What int8 rounds away in each step, and topk leaves out, comes later. */
static void what_is_owed_is_paid(void **state)
{
	const struct curve plain = train_digits(RANKS, "--epochs 20"),
			   narrow = train_digits(RANKS, "--epochs 20 --compress int8"),
			   few = train_digits(RANKS, "--epochs 20 --compress topk:0.001");

	assert_true(fabs(narrow.train[19] - plain.train[19]) < 0.05 * plain.train[19]);
	assert_true(few.accuracy > 0.9); /* 17 numbers of 17226 in each step */
}

/* A layer of which nothing is active at first has no gradient, and factors that are 0. */
static void factors_that_vanish_begin_anew(void **state)
{
	const struct curve curve =
		train_digits(1, "--hidden 2 --batch 1 --lr 0.01 --epochs 5 --compress powersgd:1");

	assert_true(curve.train[4] < 2.2); /* a guess has 2.3 */
}

static void none_has_the_bits_of_nothing_said(void **state)
{
	const struct curve plain = train_digits(3, "--epochs 3"),
			   none = train_digits(3, "--epochs 3 --compress none");

	assert_string_equal(plain.weights, none.weights);
	assert_memory_equal(plain.train, none.train, 3 * sizeof(double));
}

static void the_same_ranks_have_the_same_bits_over_any_transport(void **state)
{
	for (int i = 0; i < ALL; i++) {
		char options[128];

		snprintf(options, sizeof(options), "--epochs 2 --bucket 4K --compress %s",
			 all[i].how);
		const struct curve shared = train_digits(3, options);
		if (all[i].bytes) /* floats of factors are added in the order of the algorithm */
			setenv("TUTTI_TRANSPORT", "tcp", 1);
		const struct curve again = train_digits(3, options);
		unsetenv("TUTTI_TRANSPORT");
		assert_string_equal(shared.weights, again.weights);
	}
}

/* One rank sends nothing: narrow formats change nothing there. */
static void one_rank_alone_is_not_rounded(void **state)
{
	const struct curve plain = train_digits(1, "--epochs 2"),
			   narrow = train_digits(1, "--epochs 2 --compress int8");

	assert_string_equal(plain.weights, narrow.weights);
	train_digits(1, "--epochs 2 --compress topk:0.01");
	train_digits(1, "--epochs 2 --compress powersgd:2");
}

static void it_goes_with_optimisers_clipping_and_parts_of_a_batch(void **state)
{
	static const char *const more[] = { "--optimizer adam", "--optimizer lamb", "--clip 1",
					    "--accumulate 2" };

	for (int i = 0; i < 4; i++)
		for (int k = 3; k < 8; k += 2) {
			char options[160];

			snprintf(options, sizeof(options), SIZES " --compress %s %s",
				 all[k - (k == 7)].how, more[i]);
			const struct curve curve = train_digits(RANKS, options);
			if (curve.accuracy < 0.93)
				fail_msg("%s: accuracy %.4f", options, curve.accuracy);
		}
}

static void refuses_option(const char *options, const char *expected)
{
	char line[512];

	snprintf(line, sizeof(line), "--data %s --epochs 1 %s", digits, options);
	assert_int_equal(train(2, line), 2);
	expect_output(expected);
}

static void what_it_cannot_do_is_refused(void **state)
{
	static const char *const wrong[] = {
		"int9",	      "topk",	      "topk:",	     "topk:0",	  "topk:1.1", "topk:x",
		"powersgd:0", "powersgd:257", "powersgd:2x", "auto:int8", "''"
	};
	char options[64];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(options, sizeof(options), "--compress %s", wrong[i]);
		refuses_option(
			options,
			"expected none, bf16, fp16, fp8, int8, topk:F with F from 1e-6 to 1");
	}
	refuses_option("--compress int8 --sync zero1", "expected --sync allreduce on the host");
	refuses_option("--compress int8 --parallel pipeline",
		       "expected --sync allreduce on the host");
	refuses_option("--compress int8 --dtype f64", "expected --dtype f32");
	train_digits(2, "--epochs 1 --compress int8 --save ck");
	snprintf(options, sizeof(options), "--epochs 2 --save ck --resume");
	assert_int_equal(shell("\"$TEST_TRAIN\" --data %s %s", digits, options), 1);
	expect_output("other options");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_as_computed_and_accuracy_stays_within_a_point),
		cmocka_unit_test(what_is_owed_is_paid),
		cmocka_unit_test(factors_that_vanish_begin_anew),
		cmocka_unit_test(none_has_the_bits_of_nothing_said),
		cmocka_unit_test(the_same_ranks_have_the_same_bits_over_any_transport),
		cmocka_unit_test(one_rank_alone_is_not_rounded),
		cmocka_unit_test(it_goes_with_optimisers_clipping_and_parts_of_a_batch),
		cmocka_unit_test(what_it_cannot_do_is_refused),
	};

	return cmocka_run_group_tests(tests, prepare, clean_up);
}
