/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be said to a training in other words, and what it tells: logs, predictions, pictures, the terminal. */
#include "claims.h"
#include "curves.h"

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
	expect_output("one                      1 allreduce  -      ");
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
	expect_output("cut                      2 allreduce  -                    unfinished");
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

static void ways_are_compared_in_one_command(void **state)
{
	static const char command[] =
		"\"$TEST_TRAIN\" compare --data %s --epochs 2 --hidden 32,16 %s";

	if (strcmp(device, "cuda") == 0)
		skip();
	expect_success(shell("mkdir logs; \"$TEST_TRAIN\" compare --data %s --epochs 2 --logs logs "
			     "--modes allreduce,pipeline+micro=2,ps,gossip+peers=random+every=3",
			     digits));
	expect_output("\nallreduce ");
	expect_output("\npipeline+micro=2 ");
	expect_output("\ngossip+peers=random");
	expect_success(
		shell("grep '^ps  *3 ps ' <<END\n%s\nEND\n[ $(ls logs | wc -l) = 4 ] && rm -r logs",
		      output));
	assert_int_equal(shell(command, digits, "--modes allreduce,zero2"), 2);
	expect_output("--modes: found 'zero2' (did you mean zero1?), expected at most 14 names");
	assert_int_equal(shell(command, digits, "--modes allreduce+micro=2"), 1);
	expect_output("found --micro without --parallel");
	expect_output("allreduce+micro=2: the training failed, as said above");
	assert_int_equal(shell(command, digits, "--save ck"), 2);
	expect_output("found --save, which the trainings cannot have in common");
	assert_int_equal(shell(command, digits, "--modes local,local"), 2);
	expect_output("expected each way once");
	assert_int_equal(shell("[ -z \"$(ls -d ${TMPDIR:-/tmp}/tutti-compare.* 2>/dev/null)\" ]"),
			 0);
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

int claims_of_output(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_are_said_in_three_ways),
		cmocka_unit_test(labels_are_predicted_in_the_order_of_the_data),
		cmocka_unit_test(the_log_may_go_to_standard_output),
		cmocka_unit_test(logs_are_compared),
		cmocka_unit_test(ways_are_compared_in_one_command),
		cmocka_unit_test(it_trains_alone_without_a_launcher),
		cmocka_unit_test(pictures_are_written),
		cmocka_unit_test(terminal_gets_a_bar_and_others_lines),
		cmocka_unit_test(without_validation_there_is_no_test_accuracy),
		cmocka_unit_test(idx_pair_is_trained_on),
	};

	return cmocka_run_group_tests_name("output", tests, prepare, clean_up);
}
