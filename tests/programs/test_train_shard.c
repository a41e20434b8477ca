/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train --shard: the bits of a training without it, and a part of its memory. */
#include "train/curves.h"

static void unpack_digits(void)
{
	expect_success(shell("gunzip -c %s >data", digits));
}

static struct curve train_on(int ranks, const char *options)
{
	char line[600];

	snprintf(line, sizeof(line), "%.500s --json log", options);
	expect_success(train(ranks, line));
	return read_curve();
}

/* Weights and losses of training bit for bit; those of validation are added in another order. */
static void has_the_same_bits(int ranks, const char *options)
{
	char sharded[512];
	const struct curve whole = train_on(ranks, options);

	snprintf(sharded, sizeof(sharded), "%s --shard", options);
	const struct curve parts = train_on(ranks, sharded);
	assert_string_equal(parts.weights, whole.weights);
	assert_int_equal(parts.epochs, whole.epochs);
	assert_memory_equal(parts.train, whole.train, (size_t)whole.epochs * sizeof(double));
	for (int e = 0; e < whole.epochs; e++)
		if (!(fabs(parts.test[e] - whole.test[e]) <= 1e-6 * whole.test[e]))
			fail_msg("%s: epoch %d has a validation loss of %.12g, expected %.12g",
				 options, e + 1, parts.test[e], whole.test[e]);
	assert_float_equal(parts.accuracy, whole.accuracy, 1e-12);
}

static void rows_of_other_ranks_give_the_same_bits(void **state)
{
	static const char *const ways[] = {
		"--batch 53 --verify",	    "--sync zero1 --dtype f64",
		"--sync local --every 3",   "--sync gossip",
		"--shares 1,3,0.5",	    "--accumulate 2",
		"--compress int8 --verify", "--batch all --epochs 20",
	};
	char options[256];

	unpack_digits();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		snprintf(options, sizeof(options), "--data data --epochs 2 %s", ways[i]);
		has_the_same_bits(3, options);
	}
	has_the_same_bits(1, "--data data --epochs 1");
	has_the_same_bits(8, "--data data --epochs 1 --test-fraction 0.5");
	expect_success(shell("head -n 900 data >train; tail -n 897 data >test"));
	has_the_same_bits(4, "--data train --test-data test --epochs 2");
	expect_success(shell("rm train test"));
	has_the_same_bits(3, "--data synthetic:1001x7x3 --epochs 2");
}

static void idx_files_are_read_in_parts(void **state)
{
	/* 301 samples of two pixels, whose label is whether the first is lighter */
	expect_success(shell(
		"{ printf '\\0\\0\\10\\3\\0\\0\\1\\55\\0\\0\\0\\1\\0\\0\\0\\2'; for i in $(seq 301); do "
		"printf \"\\\\$(printf %%o $((i * 7 %% 101)))\\\\$(printf %%o $((i * 3 %% 97)))\"; done; } >x; "
		"{ printf '\\0\\0\\10\\1\\0\\0\\1\\55'; for i in $(seq 301); do "
		"printf \"\\\\$((i * 7 %% 101 > i * 3 %% 97))\"; done; } >y"));
	has_the_same_bits(3, "--data x --labels y --batch 16 --epochs 3");
	expect_success(shell("rm x y"));
}

/* Of rank r, a number that it told at the end. */
static double of_rank(int r, const char *key)
{
	FILE *file = open_log();
	char line[4096];
	double found = -1;

	while (fgets(line, sizeof(line), file)) {
		json_error_t error;
		json_t *object = json_loads(line, 0, &error);
		const json_t *rank =
			json_array_get(json_object_get(object, "each_rank"), (size_t)r);

		if (rank)
			found = real_of(rank, key);
		json_decref(object);
	}
	fclose(file);
	return found;
}

enum { ROWS = 40000, FEATURES = 256, RANKS = 4 };

static void each_rank_reads_and_keeps_a_part(void **state)
{
	static const char options[] = "--data synthetic:40000x256x10 --hidden 32 --epochs 1";
	const double whole = (double)ROWS * FEATURES * 4;
	char sharded[128];
	double memory = 0, sum = 0;

	train_on(RANKS, options);
	for (int r = 0; r < RANKS; r++) {
		memory = fmax(memory, of_rank(r, "memory"));
		assert_true(of_rank(r, "read") == whole);
		assert_true(of_rank(r, "rows_sent") == 0);
	}
	snprintf(sharded, sizeof(sharded), "%s --shard", options);
	train_on(RANKS, sharded);
	expect_output("MB read, at most 10.24 by a rank");
	for (int r = 0; r < RANKS; r++) {
		/* an eighth of an epoch comes and goes beside what it keeps */
		const double saved = memory - of_rank(r, "memory");

		if (saved < 0.5 * whole)
			fail_msg("rank %d saves %.0f of %.0f bytes", r, saved, whole);
		assert_true(of_rank(r, "read_seconds") > 0);
		sum += of_rank(r, "rows_sent") / ((FEATURES + 1) * 4);
		assert_true(of_rank(r, "read") == whole / RANKS);
	}
	/* of 32000 to train on three quarters are elsewhere, or so */
	assert_true(fabs(sum - 24000) < 500);
}

/* The sums of gradients are of other ranks then; the samples are the same. */
static void it_is_resumed_by_others_and_resumes_others(void **state)
{
	static const char options[] =
		"--epochs 60 --dtype f64 --save ck --every-epochs 3 --resume --shard";
	char line[256];

	unpack_digits();
	const struct curve whole = train_on(2, "--data data --epochs 60 --dtype f64");
	for (int shard = 0; shard < 2; shard++) {
		/* a part of the option is one without it */
		snprintf(line, sizeof(line), "%.*s", (int)sizeof(options) - (shard ? 0 : 9),
			 options);
		train_until_killed(3, "data", line);
		snprintf(line, sizeof(line), "--data data %.*s",
			 (int)sizeof(options) - (shard ? 9 : 0), options);
		const struct curve resumed = train_on(2, line);

		expect_output("resumed after epoch ");
		for (int e = 0; e < 60; e++)
			assert_true(fabs(resumed.train[e] - whole.train[e]) <=
				    1e-9 * whole.train[e]);
		expect_success(shell("rm ck"));
	}
}

static void what_has_no_parts_is_refused(void **state)
{
	char line[256];

	snprintf(line, sizeof(line), "--data %s --shard", digits);
	refuses(2, line, "all ranks: ");
	expect_output("found a gzip stream with --shard");
	shell("echo some text, which is long enough >data");
	refuses(2, "--data text:data --shard", "found text with --shard");
	refuses(2, "--data synthetic:100x4x2 --shard --sync ps", "found --shard and --sync ps");
	refuses(2, "--data synthetic:100x4x2 --shard --parallel pipeline",
		"found --shard and --par");
	refuses(2, "--data synthetic:100x4x2 --shard --sync local --simulate-ranks 2",
		"found --shard and --simulate-ranks");
	refuses(2, "--data synthetic:100x4x2 --shard --predict p", "found --shard and --predict");
	assert_int_not_equal(shell("\"$TEST_RUN\" -n 2 --min-ranks 1 -- \"$TEST_TRAIN\" --data "
				   "synthetic:100x4x2 --shard"),
			     0);
	expect_output("found --shard with tutti-run's --min-ranks or --restart");
}

static void a_wrong_part_ends_all_ranks(void **state)
{
	shell("{ seq 100 | sed 's/$/,1/'; seq 100 | sed 's/$/,0/'; echo 5,6,1; } >data");
	refuses(4, "--data data --shard --batch 8", "rank 3: data: line ");
	expect_output("found 3 fields, expected 2 as in line 1");
	shell("{ seq 100 | sed 's/$/,1/'; seq 100 | sed 's/$/,5,0/'; } >data");
	refuses(2, "--data data --shard --batch 8", "found 3 fields, expected 2");
	shell("{ echo 100000,0; echo 2,1,1; } >data");
	refuses(2, "--data data --shard --batch 2 --test-fraction 0",
		"all ranks: data: found 1 features in the part of rank 0 and 2 in that of rank 1");
	shell("{ seq 100 | sed 's/$/,0/'; seq 100 | sed 's/$/,3/'; } >data");
	refuses(3, "--data data --shard",
		"all ranks: data: label out of range: found 3, but no sample");
	shell("seq 100 | sed 's/$/,0/' >data");
	refuses(3, "--data data --shard", "all ranks: data: found label 0 on every sample");
	shell(": >data");
	refuses(3, "--data data --shard", "all ranks: data: found no row");
	shell("printf '1,0\\n2,1\\n' >data");
	refuses(3, "--data data --shard", "too few samples");
	expect_success(shell("! \"$TEST_RUN\" -n 2 -- sh -c 'exec \"$TEST_TRAIN\" --shard --data "
			     "synthetic:400x16x$((2 + TUTTI_RANK * 500))'"));
	expect_output("rank 1 reads other data than rank 0");
	/* of the same length */
	expect_success(shell("for r in 0 1; do seq 1000 1400 | sed \"s/.*/&,$r/\" >data$r; done"));
	expect_success(shell("! \"$TEST_RUN\" -n 2 -- sh -c "
			     "'exec \"$TEST_TRAIN\" --shard --data data$TUTTI_RANK'"));
	expect_output("rank 1 reads other data than rank 0: another file");
	shell("rm data0 data1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_other_ranks_give_the_same_bits),
		cmocka_unit_test(idx_files_are_read_in_parts),
		cmocka_unit_test(each_rank_reads_and_keeps_a_part),
		cmocka_unit_test(it_is_resumed_by_others_and_resumes_others),
		cmocka_unit_test(what_has_no_parts_is_refused),
		cmocka_unit_test(a_wrong_part_ends_all_ranks),
	};

	return cmocka_run_group_tests(tests, prepare, clean_up);
}
