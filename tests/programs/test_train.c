/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train as a user runs it: under tutti-run, on real and on broken data. The environment names
 * the programs and the data: TEST_RUN, TEST_TRAIN, DIGITS. With TRAIN_DEVICE=cuda all of that is
 * done on GPUs, and what there is beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EPOCHS_MAX = 64 };

static char directory[32];
static const char *digits, *device;
static char output[1 << 16]; /* of the last command, both streams */

/* Run a shell command line; its exit status. */
static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...)
{
	char line[2048];
	size_t length = 0, got;
	va_list args;
	FILE *pipe;
	int used, status;

	used = snprintf(line, sizeof(line), "cd %s && { ", directory);
	va_start(args, format);
	used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	snprintf(line + used, sizeof(line) - (size_t)used, "; } 2>&1");
	pipe = popen(line, "r");
	assert_non_null(pipe);
	while ((got = fread(output + length, 1, sizeof(output) - 1 - length, pipe)) > 0)
		length += got;
	output[length] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* tutti-train on `ranks` ranks; its exit status. */
static int train(int ranks, const char *options)
{
	return shell("timeout 120 \"$TEST_RUN\" -n %d -- \"$TEST_TRAIN\" --device %s %s", ranks,
		     device, options);
}

static void expect_output(const char *error_text)
{
	if (!strstr(output, error_text))
		fail_msg("expected '%s' in:\n%s", error_text, output);
}

static void expect_success(int status)
{
	if (status != 0)
		fail_msg("exit status %d:\n%s", status, output);
}

/* ---- the JSON log */

struct curve {
	int epochs;
	double train[EPOCHS_MAX], test[EPOCHS_MAX];
	double hits[EPOCHS_MAX]; /* in training: a sum over samples */
	double accuracy, blocked;
	double samples, parameters, steps, sent; /* bytes, by the rank that sent most */
	int ranks;
	char weights[20]; /* checksum of rank 0's */
};

static double real_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

static void take_line(const char *line, struct curve *curve)
{
	json_error_t error;
	json_t *object = json_loads(line, 0, &error);
	const char *event;

	if (!object)
		fail_msg("not JSON: %s", line);
	event = json_string_value(json_object_get(object, "event"));
	assert_non_null(event);
	if (strcmp(event, "start") == 0) {
		assert_int_equal(curve->epochs, 0);
		assert_non_null(json_object_get(object, "device"));
		curve->ranks = (int)real_of(object, "ranks");
		curve->samples = real_of(object, "train_samples");
		curve->parameters = real_of(object, "parameters");
	} else if (strcmp(event, "epoch") == 0) {
		assert_true(curve->epochs < EPOCHS_MAX);
		assert_int_equal(real_of(object, "epoch"), curve->epochs + 1);
		curve->train[curve->epochs] = real_of(object, "train_loss");
		curve->hits[curve->epochs] = real_of(object, "train_accuracy") * curve->samples;
		curve->test[curve->epochs++] = real_of(object, "test_loss");
	} else {
		assert_string_equal(event, "end");
		curve->accuracy = real_of(object, "test_accuracy");
		curve->blocked = real_of(object, "blocked_share");
		curve->steps = real_of(object, "steps");
		curve->sent = real_of(object, "sent_bytes");
		snprintf(curve->weights, sizeof(curve->weights), "%s",
			 json_string_value(json_array_get(json_object_get(object, "weights"), 0)));
		assert_true(real_of(object, "seconds") > 0);
		assert_true(real_of(object, "samples_per_s") > 0);
	}
	json_decref(object);
}

static struct curve read_curve(void)
{
	struct curve curve = { .accuracy = -1 };
	char path[64], line[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/log", directory);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		take_line(line, &curve);
	fclose(file);
	assert_true(curve.ranks > 0 && curve.epochs > 0 && curve.accuracy >= 0);
	return curve;
}

static struct curve train_digits(int ranks, const char *options)
{
	char line[512];

	snprintf(line, sizeof(line), "--data %s --json log %s", digits, options);
	expect_success(train(ranks, line));
	return read_curve();
}

static void assert_close(double a, double b)
{
	if (!(fabs(a - b) <= 1e-4 * fabs(a)))
		fail_msg("found %.9g and %.9g, expected less than 1e-4 between them", a, b);
}

/* ---- on real data */

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

/* Numbers of the log, whichever way ranks train. */
static void expect_equal_curves(const struct curve *one, const struct curve *other, double most)
{
	assert_int_equal(one->epochs, other->epochs);
	for (int e = 0; e < one->epochs; e++)
		if (!(fabs(one->train[e] - other->train[e]) <= most * one->train[e]) ||
		    !(fabs(one->test[e] - other->test[e]) <= most * one->test[e]))
			fail_msg("epoch %d: found losses %.12g and %.12g, expected %.12g and %.12g",
				 e + 1, other->train[e], other->test[e], one->train[e],
				 one->test[e]);
}

/* Servers need a worker, and each rank a share. */
static int least_ranks(const char *way)
{
	return strstr(way, "--shares") ? 4 : strstr(way, "ps") ? 2 : 1;
}

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

static void adagrad_equals_one_process(void **state)
{
	static const char *const ways[] = { "allreduce", "zero1", "ps" };
	struct curve alone;

	if (strcmp(device, "cuda") == 0)
		skip();
	alone = train_digits(1, "--epochs 3 --dtype f64 --optimizer adagrad --lr 0.02");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char options[128];

		snprintf(options, sizeof(options),
			 "--epochs 3 --dtype f64 --optimizer adagrad --lr 0.02 --sync %s", ways[i]);
		const struct curve curve = train_digits(3, options);

		expect_equal_curves(&alone, &curve, 1e-9);
	}
}

/* ---- in mixed precision */

/* Of twelve seeds, 1, 2 and 4 ranks and all ways, losses in training differed by up to 0.8 %, in
 * validation by up to 3.2 %, and accuracy by one sample of 359. At five times the rate, which is the
 * usual one, curves part half-way, as they do from one number of ranks to another. */
#define BFLOAT16_OPTIONS "--epochs 30 --lr 0.02 --dtype bf16 "
static const double train_apart = 0.02, test_apart = 0.06, accuracy_apart = 2.5 / 359;

static void expect_like(const struct curve *one, const struct curve *other, const char *what)
{
	assert_int_equal(one->epochs, other->epochs);
	for (int e = 0; e < one->epochs; e++)
		if (!(fabs(one->train[e] - other->train[e]) <= train_apart * one->train[e]) ||
		    !(fabs(one->test[e] - other->test[e]) <= test_apart * one->test[e]))
			fail_msg("%d ranks, %s, epoch %d: found losses %g and %g, expected %g and "
				 "%g",
				 other->ranks, what, e + 1, other->train[e], other->test[e],
				 one->train[e], one->test[e]);
	assert_float_equal(one->accuracy, other->accuracy, accuracy_apart);
}

/* They do not lose their digits: each epoch's hits are a whole number. */
static void expect_whole_hits(const struct curve *curve)
{
	for (int e = 0; e < curve->epochs; e++)
		assert_float_equal(curve->hits[e], round(curve->hits[e]), 1e-6);
}

static void bfloat16_trains_like_float32_on_any_number_of_ranks_by_each_way(void **state)
{
	static const char *const ways[] = {
		"--sync allreduce --bucket 4K", "--sync zero1 --clip 5",	"--sync ps",
		"--sync local --every 3",	"--sync local --every 1",	"--accumulate 3",
		"--optimizer adagrad",		"--sync ps --optimizer adagrad"
	};

	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve alone = train_digits(1, BFLOAT16_OPTIONS);

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		for (int ranks = least_ranks(ways[i]); ranks <= 4; ranks *= 2) {
			char options[128];

			snprintf(options, sizeof(options), BFLOAT16_OPTIONS "--verify %s", ways[i]);
			const struct curve half = train_digits(ranks, options);

			snprintf(options, sizeof(options), "--epochs 30 --lr 0.02 %s", ways[i]);
			const struct curve whole = train_digits(ranks, options);

			expect_like(&whole, &half, ways[i]);
			expect_whole_hits(&half);
			if (!strstr(ways[i], "adagrad") && !strstr(ways[i], "--every 3"))
				expect_like(&alone, &half, ways[i]);
		}
}

/* To the byte: gradients, and of each step three sums; and those of validation of each epoch. */
static void bfloat16_sends_half_of_the_bytes(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve half = train_digits(2, "--epochs 2 --dtype bf16"),
			   whole = train_digits(2, "--epochs 2");

	assert_true(half.sent == half.steps * (2 * half.parameters + 3 * 8) + 2 * 3 * 8);
	assert_true(whole.sent == whole.steps * (4 * whole.parameters + 3 * 4) + 2 * 3 * 8);
}

static void bfloat16_gives_the_same_bits_for_the_same_ranks(void **state)
{
	static const char *const ways[] = { "--clip 5", "--sync zero1", "--sync ps",
					    "--sync local --every 5" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char options[128];

		snprintf(options, sizeof(options), "--epochs 3 --dtype bf16 %s", ways[i]);
		const struct curve one = train_digits(3, options), two = train_digits(3, options);

		assert_string_equal(one.weights, two.weights);
		assert_memory_equal(one.train, two.train, 3 * sizeof(double));
	}
}

/* Until it has saved something. */
static void train_until_killed(const char *options)
{
	expect_success(shell("\"$TEST_RUN\" -n 2 -- \"$TEST_TRAIN\" --data %s %s >/dev/null 2>&1 & "
			     "p=$!; until [ -e ck ]; do kill -0 $p || exit 1; sleep 0.01; done; "
			     "kill $p; wait $p; true",
			     digits, options));
}

static void bfloat16_is_resumed_bit_for_bit_and_by_no_other_type(void **state)
{
	static const char *const ways[] = { "allreduce", "zero1", "ps", "local" };

	if (strcmp(device, "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char options[160];
		const int used = snprintf(options, sizeof(options),
					  "--epochs 60 --dtype bf16 --sync %s", ways[i]);
		const struct curve whole = train_digits(2, options);

		snprintf(options + used, sizeof(options) - (size_t)used,
			 " --save ck --every-epochs 3 --resume");
		train_until_killed(options);
		const struct curve resumed = train_digits(2, options);

		expect_output("resumed after epoch ");
		assert_string_equal(whole.weights, resumed.weights);
		assert_memory_equal(whole.train, resumed.train, 60 * sizeof(double));
		snprintf(options, sizeof(options),
			 "--data %s --epochs 60 --sync %s --save ck --resume", digits, ways[i]);
		assert_int_equal(train(2, options), 1);
		expect_output("is of a training with other --dtype");
		assert_int_equal(shell("rm ck; rm -f ck.*.tmp"), 0);
	}
}

/* ---- ranks that are not equally fast, and other ways to say what is meant */

/* The last line of the log has what each rank had at the end. */
static double share_of_rank_0(void)
{
	expect_success(shell(
		"tail -n 1 log | sed 's/.*\"each_rank\":\\[[^}]*\"share\":\\([0-9.]*\\).*/\\1/'"));
	return atof(output);
}

static void a_slow_rank_gets_a_smaller_share_by_itself(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	const struct curve alone = train_digits(1, "--epochs 4 --dtype f64"),
			   together = train_digits(2, "--epochs 4 --dtype f64 --shares auto "
						      "--slow 0:8");

	expect_equal_curves(&alone, &together, 1e-9);
	assert_true(share_of_rank_0() < 0.4); /* a ninth, if nothing else runs */
	train_digits(2, "--epochs 1 --shares 1,3");
	assert_float_equal(share_of_rank_0(), 0.25, 1e-9);
}

/* A rank of a twentieth of the speed has 0.05 of a batch, and one of the same speed 0.5. What lies between
 * them is for others that run on the same cores. */
static void shares_follow_a_rank_that_changes_its_speed(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	train_digits(2, "--epochs 7 --shares auto --slow 0:20:4");
	assert_true(share_of_rank_0() < 0.2);
	train_digits(2, "--epochs 7 --shares auto --slow 0:1:4 --slow 0:20");
	assert_true(share_of_rank_0() > 0.25);
	assert_int_equal(train(2, "--data nowhere --epochs 3 --slow 0:2:4"), 1);
	expect_output("--slow: found epoch 4, expected one from 1 to 3 (--epochs)");
}

/* A number of each rank in the last line of the log: the least and the most. */
struct range {
	double least, most;
};

static struct range range_of(const char *key)
{
	struct range range = { INFINITY, -INFINITY };

	expect_success(shell("tail -n 1 log | grep -o '\"%s\":[0-9]*' | cut -d : -f 2", key));
	for (const char *line = output; *line; line = strchr(line, '\n') + 1) {
		range.least = fmin(range.least, atof(line));
		range.most = fmax(range.most, atof(line));
	}
	assert_true(range.least > 0 && range.least <= range.most);
	return range;
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

static void batches_are_said_in_three_ways(void **state)
{
	const struct curve whole = train_digits(2, "--epochs 2 --batch 48 --dtype f64"),
			   each = train_digits(2, "--epochs 2 --batch-per-rank 24 --dtype f64");

	expect_equal_curves(&whole, &each, 0);
	expect_success(shell("\"$TEST_TRAIN\" --device %s --data %s --epochs 3 --batch all "
			     "--lr-scaling none --json log",
			     device, digits));
	expect_success(shell("grep -q '\"batch\":1438' log && grep -q '\"steps\":3,' log"));
	expect_success(
		shell("\"$TEST_TRAIN\" --device %s --data %s --epochs 1 --batch 1 --json log",
		      device, digits));
	expect_success(shell("grep -q '\"steps\":1438,' log"));
}

/* Of samples in a file of their own, in its order: as many are right as the accuracy says. */
static void labels_are_predicted_in_the_order_of_the_data(void **state)
{
	if (strcmp(device, "cuda") == 0)
		skip();
	expect_success(shell("gzip -dc %s >all && head -n 300 all >test && tail -n +301 all >train",
			     digits));
	expect_success(train(2, "--data train --test-data test --epochs 6 --save model --json log "
				"--predict labels"));
	const double right = 300 * read_curve().accuracy;

	expect_success(shell("paste -d , test labels | awk -F , '$65 == $66' | wc -l"));
	assert_int_equal(atoi(output), (int)(right + 0.5));
	/* once more, by the model that was saved */
	expect_success(train(1, "--data train --test-data test --epochs 6 --save model --resume "
				"--predict again"));
	expect_success(shell("cmp labels again && rm all test train model labels again"));
}

static void the_log_may_go_to_standard_output(void **state)
{
	expect_success(shell("\"$TEST_TRAIN\" --data %s --epochs 2 --json - | "
			     "cut -d '\"' -f 4 | tr '\\n' ' '",
			     digits));
	assert_string_equal(output, "start epoch epoch end ");
}

/* Those of logs_are_compared(). */
static void logs_are_drawn(void)
{
	if (shell("command -v gnuplot") != 0)
		return;
	expect_success(
		shell("\"$TEST_TRAIN\" report one two cut --plot a.svg && grep -q 'Loss over time' "
		      "a.svg && grep -q 'Bytes of a step' a.svg && ! grep -q 'Age of "
		      "gradients' a.svg"));
	if (strcmp(device, "cuda") == 0)
		return; /* there is one way */
	expect_success(train(3, "--data $DIGITS --epochs 2 --sync async --json async"));
	expect_success(shell("\"$TEST_TRAIN\" report one async --plot a.svg && grep -q 'Age of "
			     "gradients' a.svg && rm async"));
}

static void logs_are_compared(void **state)
{
	expect_success(
		train(1, "--data $DIGITS --epochs 2 --dtype f64 --test-fraction 0 --json one"));
	expect_success(train(2, "--data $DIGITS --epochs 3 --dtype f64 --json two"));
	expect_success(shell("\"$TEST_TRAIN\" report one two"));
	expect_output("one                      1 allreduce -      ");
	expect_output("two                      2 allreduce ");
	if (strcmp(device, "host") == 0)
		expect_output("/shm  ");
	expect_output("not the same data: 1797 samples of digits.csv.gz in one, 1438 samples of "
		      "digits.csv.gz in two");
	assert_null(strstr(output, "not the same batch"));
	assert_null(strstr(output, "not the same model"));
	expect_success(
		train(1, "--data $DIGITS --epochs 1 --batch 32 --hidden 9 --dtype f64 --json 3"));
	expect_success(shell("\"$TEST_TRAIN\" report two two 3"));
	expect_output("not the same batch: 64 samples in two, 32 samples in 3; speeds and losses");
	expect_output("not the same model: 17226 weights of f64 in two, 685 weights of f64 in 3");
	assert_null(strstr(output, "not the same data"));
	expect_success(shell("sed 's/digits/\\\\u001b[2J/' two >3; \"$TEST_TRAIN\" report two 3"));
	expect_output("1438 samples of ?[2J.csv.gz in 3");
	/* one that was cut off in a line is one of a training that was killed */
	expect_success(shell("head -c -20 two > cut; \"$TEST_TRAIN\" report one cut"));
	expect_output("cut                      2 allreduce -                    unfinished");
	assert_int_equal(shell("\"$TEST_TRAIN\" report nowhere"), 1);
	expect_output("tutti-train report: nowhere: cannot be read");
	assert_int_equal(shell("\"$TEST_TRAIN\" report $DIGITS"), 1);
	expect_output("line 1: is not JSON; give a file that tutti-train --json wrote");
	assert_int_equal(shell("\"$TEST_TRAIN\" report"), 2);
	expect_output("found 0 logs, expected 1 to 14");
	assert_int_equal(shell("\"$TEST_TRAIN\" report one --plot a.gif"), 2);
	expect_output("--plot: found 'a.gif'");
	logs_are_drawn();
	shell("rm -f one two 3 cut a.svg");
}

static void it_trains_alone_without_a_launcher(void **state)
{
	expect_success(shell("\"$TEST_TRAIN\" --data %s --epochs 2 --json log", digits));
	assert_int_equal(read_curve().ranks, 1);
}

static void pictures_are_written(void **state)
{
	if (shell("command -v gnuplot") != 0) {
		print_message("skipped: gnuplot was not found\n");
		skip();
	}
	train_digits(2, "--epochs 2 --plot a.svg --plot a.png");
	expect_success(shell("test -s a.svg && test -s a.png && rm a.svg a.png"));
}

static void terminal_gets_a_bar_and_others_lines(void **state)
{
	expect_success(shell("script -qec \"$TEST_TRAIN --data %s --epochs 2\" /dev/null", digits));
	expect_output("100 %");
	assert_null(strstr(output, "epoch  1/2"));
	expect_success(shell("\"$TEST_TRAIN\" --data %s --epochs 2", digits));
	expect_output("epoch  1/2");
	assert_null(strstr(output, "100 %"));
}

static void without_validation_there_is_no_test_accuracy(void **state)
{
	expect_success(
		shell("\"$TEST_TRAIN\" --data %s --epochs 2 --test-fraction 0 --json log", digits));
	assert_null(strstr(output, "test accuracy"));
	expect_success(shell("cat log"));
	expect_output("\"test_loss\":null,\"test_accuracy\":null");
}

static void idx_pair_is_trained_on(void **state)
{
	/* 64 samples of one pixel: label 0 where it is dark, 1 where it is light */
	expect_success(shell("{ printf '\\0\\0\\10\\3\\0\\0\\0\\100\\0\\0\\0\\1\\0\\0\\0\\1'; "
			     "for i in $(seq 32); do printf '\\12\\310'; done; } >x; "
			     "{ printf '\\0\\0\\10\\1\\0\\0\\0\\100'; "
			     "for i in $(seq 32); do printf '\\0\\1'; done; } | gzip >y"));
	expect_success(train(2, "--data x --labels y --batch 16 --epochs 20 --json log"));
	assert_true(read_curve().accuracy == 1);
	expect_success(shell("rm x y"));
}

/* ---- what ends a training: every rank, with an error message, in time */

static void refuses(int ranks, const char *options, const char *error_text)
{
	const int status = train(ranks, options);

	expect_output(error_text);
	assert_true(status != 0 && status != 124);
}

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

/* `sh` gives each rank options of its own. */
static void refuses_unequal(const char *options, const char *error_text)
{
	const int status =
		shell("timeout 120 \"$TEST_RUN\" -n 3 -- sh -c '%s' sh \"$TEST_TRAIN\"", options);

	expect_output(error_text);
	assert_true(status != 0 && status != 124);
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

/* ---- on GPUs */

static void gpus_reach_the_losses_of_the_host(void **state)
{
	static const char *const each[] = {
		"--epochs 8 --batch 53 --bucket 4K --dtype f64",
		"--epochs 5 --hidden none --seed 3 --dtype f64",
		"--epochs 3 --hidden 50,40,30,20,10 --bucket 1 --momentum 0 --schedule constant "
		"--dtype f64",
	};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct curve host;

		device = "host";
		host = train_digits(1, each[i]);
		device = "cuda";
		for (int ranks = 1; ranks <= 4; ranks *= 2) {
			const struct curve curve = train_digits(ranks, each[i]);

			assert_int_equal(curve.ranks, ranks);
			assert_int_equal(curve.epochs, host.epochs);
			for (int e = 0; e < host.epochs; e++) {
				assert_close(host.train[e], curve.train[e]);
				assert_close(host.test[e], curve.test[e]);
			}
			assert_float_equal(host.accuracy, curve.accuracy, 1e-12);
		}
	}
}

/* As their memory cannot be mapped by others. */
static void gpus_that_do_not_reach_each_other_do_it_too(void **state)
{
	static const char options[] = "--epochs 3 --batch 50 --verify --dtype f64";
	struct curve host, curve;

	if (!getenv("STANDIN_PEERS"))
		skip();
	device = "host";
	host = train_digits(1, options);
	device = "cuda";
	setenv("STANDIN_PEERS", "none", 1);
	curve = train_digits(3, options);
	setenv("STANDIN_PEERS", "all", 1);
	for (int e = 0; e < 3; e++)
		assert_close(host.train[e], curve.train[e]);
}

static void without_is_explained(const char *variable, const char *value, const char *error_text)
{
	const char *was = getenv(variable);
	char options[256];

	was = was ? strdup(was) : NULL;
	setenv(variable, value, 1);
	snprintf(options, sizeof(options), "--data %s --epochs 1", digits);
	refuses(2, options, error_text);
	if (was)
		setenv(variable, was, 1);
	else
		unsetenv(variable);
	free((char *)was);
}

static void what_is_not_there_is_explained(void **state)
{
	if (!getenv("STANDIN_PEERS")) /* no stand-in */
		skip();
	without_is_explained(
		"TUTTI_CUDA_LIBRARY", "/nowhere/libcuda.so",
		"--device cuda: CUDA's driver cannot be opened: /nowhere/libcuda.so: cannot open");
	without_is_explained("STANDIN_DEVICES", "0", "--device cuda: cuInit: ");
	without_is_explained(
		"TUTTI_CUBLAS_LIBRARY", "/nowhere/libcublas.so",
		"--device cuda: cuBLAS was not found: /nowhere/libcublas.so: cannot open");
	without_is_explained("TUTTI_CUBLAS_LIBRARY", getenv("TUTTI_CUDA_LIBRARY"),
			     "has no cublasGetStatusString: expected cuBLAS of CUDA 12 or 13");
	without_is_explained("CUBLAS_FAILS", "1",
			     "cuBLAS failed to begin: CUBLAS_STATUS_NOT_INITIALIZED");
	without_is_explained(
		"TUTTI_TRAIN_KERNELS", "/nowhere/kernels",
		"TUTTI_TRAIN_KERNELS is \"/nowhere/kernels\", which cannot be read: No such file");
	without_is_explained("STANDIN_FAILS", "cuModuleLoadData",
			     "cannot be loaded into this GPU: cuModuleLoadData: ");
	without_is_explained("STANDIN_MEMORY", "100000", "--device cuda: the GPU has no ");
	if (!getenv("TRAIN_HAS_KERNELS"))
		without_is_explained(
			"TUTTI_TRAIN_KERNELS", "",
			"--device cuda: tutti-train was built without CUDA's compiler");
}

static void gpus_that_fail_end_all_ranks(void **state)
{
	if (!getenv("STANDIN_PEERS"))
		skip();
	without_is_explained("STANDIN_FAILS", "work:200", "the GPU ");
	without_is_explained("STANDIN_FAILS", "cuLaunchKernel:300", "CUDA");
}

static void ranks_on_host_and_gpu_do_not_mix(void **state)
{
	char options[512];

	snprintf(
		options, sizeof(options),
		"if [ $TUTTI_RANK = 1 ]; then exec \"$1\" --data %s; fi; exec \"$1\" --device cuda --data %s",
		digits, digits);
	refuses_unequal(options, "rank 1 has other options than rank 0");
}

static int prepare(void **state)
{
	device = getenv("TRAIN_DEVICE");
	device = device ? device : "host";
	digits = getenv("DIGITS");
	strcpy(directory, "/tmp/tutti-train-XXXXXX"); /* each group's own */
	return digits && getenv("TEST_RUN") && getenv("TEST_TRAIN") && mkdtemp(directory) ? 0 : -1;
}

static int clean_up(void **state)
{
	shell("rm -f log data ck ck.*.tmp");
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_curve_is_the_same_for_1_2_4_and_8_ranks),
		cmocka_unit_test(four_ranks_reach_an_accuracy_of_96_percent),
		cmocka_unit_test(weights_stay_the_same_on_every_rank),
		cmocka_unit_test(sockets_carry_it_as_well_as_shared_memory),
		cmocka_unit_test(same_seed_and_ranks_give_the_same_bits),
		cmocka_unit_test(each_way_to_train_equals_one_process),
		cmocka_unit_test(adagrad_equals_one_process),
		cmocka_unit_test(bfloat16_trains_like_float32_on_any_number_of_ranks_by_each_way),
		cmocka_unit_test(bfloat16_sends_half_of_the_bytes),
		cmocka_unit_test(bfloat16_gives_the_same_bits_for_the_same_ranks),
		cmocka_unit_test(bfloat16_is_resumed_bit_for_bit_and_by_no_other_type),
		cmocka_unit_test(zero1_divides_the_memory_of_velocity_by_the_ranks),
		cmocka_unit_test(ranks_that_average_are_the_same_bits_as_one_that_plays_them),
		cmocka_unit_test(a_slow_rank_gets_a_smaller_share_by_itself),
		cmocka_unit_test(shares_follow_a_rank_that_changes_its_speed),
		cmocka_unit_test(batches_are_said_in_three_ways),
		cmocka_unit_test(labels_are_predicted_in_the_order_of_the_data),
		cmocka_unit_test(the_log_may_go_to_standard_output),
		cmocka_unit_test(logs_are_compared),
		cmocka_unit_test(it_trains_alone_without_a_launcher),
		cmocka_unit_test(pictures_are_written),
		cmocka_unit_test(terminal_gets_a_bar_and_others_lines),
		cmocka_unit_test(without_validation_there_is_no_test_accuracy),
		cmocka_unit_test(idx_pair_is_trained_on),
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

	const struct CMUnitTest on_gpus[] = {
		cmocka_unit_test(gpus_reach_the_losses_of_the_host),
		cmocka_unit_test(gpus_that_do_not_reach_each_other_do_it_too),
		cmocka_unit_test(what_is_not_there_is_explained),
		cmocka_unit_test(gpus_that_fail_end_all_ranks),
		cmocka_unit_test(ranks_on_host_and_gpu_do_not_mix),
	};
	const int failed = cmocka_run_group_tests(tests, prepare, clean_up);

	if (failed || !getenv("TRAIN_DEVICE"))
		return failed;
	return cmocka_run_group_tests(on_gpus, prepare, clean_up);
}
