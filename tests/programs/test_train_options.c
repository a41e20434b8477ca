/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti-train: what is read, what is refused, and what makes trainings the same. */
#include "tests.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "why.h"

static enum options_outcome parse(const char *line, struct options *o)
{
	static char words[512];
	char *argv[32], *rest;
	int argc = 0;

	snprintf(words, sizeof(words), "tutti-train %s", line);
	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	argv[argc] = NULL;
	return options_parse(argc, argv, o);
}

static struct options read_options(const char *line)
{
	struct options o;

	if (parse(line, &o) != OPTIONS_RUN)
		fail_msg("%s: %s", line, why.text);
	return o;
}

TEST(options_are_read)
{
	struct options o =
		read_options("--data d.csv --hidden 9,8,7 --batch 128 --lr 0.5 --lr-scaling sqrt "
			     "--schedule constant --bucket 3K --seed 7 --verify --plot a.svg "
			     "--plot=b.png --test-fraction 0");
	assert_string_equal(o.source.path, "d.csv");
	assert_int_equal(o.hidden_layers, 3);
	assert_int_equal(o.hidden[2], 7);
	assert_int_equal(o.batch, 128);
	assert_int_equal(o.scaling, SCALE_SQRT);
	assert_int_equal(o.schedule.course, RATE_CONSTANT);
	assert_int_equal(o.bucket_bytes, 3072);
	assert_int_equal(o.plot_count, 2);
	assert_true(o.verify && o.rate == 0.5 && o.seed == 7 && o.source.test_fraction == 0);
	assert_ptr_equal(o.numbers, &numbers_f32);
	o = read_options("--data d --device cuda --sync allreduce");
	assert_ptr_equal(o.numbers, &numbers_f32);
	o = read_options("--data d --dtype bf16");
	assert_ptr_equal(o.numbers, &numbers_bf16);
	o = read_options("--data d --batch all --sync local --every 5 "
			 "--outer nesterov,0.7,0.9 --clip 2");
	assert_true(o.batch == 0 && o.sync == &sync_local && o.every == 5);
	assert_true(o.outer.nesterov && o.outer.rate == 0.7 && o.outer.momentum == 0.9);
	assert_true(o.clip == 2);
	assert_string_equal(o.optimizer->name, "momentum");
	assert_true(o.rate == 0.1 && o.rule.momentum == 0.9 && o.scaling == SCALE_SQRT);
	o = read_options("--data d --optimizer adamw --beta2 0.95 --schedule step:7:0.25");
	assert_true(o.rate == 0.001 && o.rule.momentum == 0.9 && o.rule.momentum2 == 0.95);
	assert_int_equal(o.scaling, SCALE_SQRT);
	assert_true(o.schedule.course == RATE_STEP && o.schedule.every == 7 &&
		    o.schedule.factor == 0.25);
	o = read_options("--data d --hidden none");
	assert_int_equal(o.hidden_layers, 0);
}

static void refuses_options(const char *line, const char *error_text)
{
	struct options o;

	if (parse(line, &o) != OPTIONS_WRONG || !strstr(why.text, error_text))
		fail_msg("%s: found \"%s\", expected \"%s\"", line, why.text, error_text);
}

TEST(wrong_options_are_refused_by_name)
{
	static const char *const cases[][2] = {
		/* behind --data d */
		{ "--frob", "unknown option --frob; see --help" },
		{ "--hiden 3", "unknown option --hiden (did you mean --hidden?)" },
		{ "--verify=1", "--verify takes no value" },
		{ "-x", "unknown option -x" },
		{ "extra", "the argument extra" },
		{ "--batch 0", "--batch: found '0'" },
		{ "--batch -1", "--batch: found '-1'" },
		{ "--batch 6x", "--batch: found '6x'" },
		{ "--epochs 99999999999999999999", "--epochs: found" },
		{ "--lr nan", "--lr: found 'nan'" },
		{ "--lr 0", "--lr: found '0', expected a number from 1e-12 to 1000000" },
		{ "--lr 1e9", "--lr: found '1e9', expected a number from 1e-12 to 1000000" },
		{ "--momentum 1", "--momentum: found '1'" },
		{ "--optimizer adams", "'adams' (did you mean adam?), expected sgd, momentum" },
		{ "--optimizer adagrad --momentum 0.5",
		  "--momentum without an --optimizer that has it" },
		{ "--parallel", "--parallel needs a value" },
		{ "--parallel tensors",
		  "--parallel: found 'tensors', expected pipeline or tensor" },
		{ "--parallel tensor,pipeline", "--parallel: found 'tensor,pipeline'" },
		{ "--parallel tensor=2,tensor=2", "--parallel: found 'tensor=2,tensor=2'" },
		{ "--parallel tensor --dtype bf16", "--parallel and tensor and --dtype" },
		{ "--parallel data=2", "--parallel: found 'data=2'" },
		{ "--parallel data,pipeline", "--parallel: found 'data,pipeline'" },
		{ "--parallel data=0,pipeline=2", "--parallel: found 'data=0,pipeline=2'" },
		{ "--parallel pipeline=2,", "--parallel: found 'pipeline=2,'" },
		{ "--parallel pipeline --accumulate 0", "--accumulate: found '0'" },
		{ "--order gpipe", "--order without --parallel" },
		{ "--parallel tensor --order gpipe",
		  "--order without --parallel pipeline, of two stages at least" },
		{ "--parallel pipeline=1,tensor --order gpipe", "--order without --parallel" },
		{ "--sync local --bucket 1M", "--bucket without --sync allreduce or zero1" },
		{ "--sync ps --bucket 1M", "--bucket without --sync allreduce or zero1" },
		{ "--sync async --bucket 1M", "found --bucket without --sync allreduce or zero1, "
					      "where it does nothing; add that, or leave it out" },
		{ "--parallel pipeline --sync ps", "--parallel and --sync ps or async" },
		{ "--parallel pipeline --shares auto", "--parallel and --shares auto" },
		{ "--parallel pipeline --device cuda", "--parallel and --device cuda" },
		{ "--beta2 0.9", "--beta2 without --optimizer adam, adamw or lamb" },
		{ "--optimizer adam --trust 1", "--trust without --optimizer lars" },
		{ "--parallel pipeline=2tensor=2", "--parallel: found 'pipeline=2tensor" },
		{ "--optimizer adam --epsilon 1e-46",
		  "found --epsilon below 1.17549e-38 with --dtype f32" },
		{ "--optimizer adam --epsilon 0", "--epsilon: found '0'" },
		{ "--optimizer adam --sync async",
		  "--optimizer adam with --sync async, whose updates are parts of a batch" },
		{ "--optimizer lamb --sync ps --servers 2",
		  "--optimizer lamb with --servers 2, who see parts of layers" },
		{ "--hidden 3,,4", "--hidden: found '3,,4'" },
		{ "--hidden 0", "--hidden: found '0'" },
		{ "--hidden 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "at most 15" },
		{ "--bucket 2G", "--bucket: found '2G'" },
		{ "--bucket 2048M", "--bucket: found '2048M'" },
		{ "--plot a.gif", "--plot: found 'a.gif'" },
		{ "--wait 0", "--wait: found '0', expected seconds from 0.001 to 1e6" },
		{ "--wait 1e7", "--wait: found '1e7', expected seconds from 0.001 to 1e6" },
		{ "--plot a", "--plot: found 'a', expected a file name that ends in .svg or .png" },
		{ "--device cdua",
		  "--device: found 'cdua' (did you mean cuda?), expected host or cuda" },
		{ "--schedule step", "--schedule: found 'step'" },
		{ "--schedule step:0:0.5", "--schedule: found 'step:0:0.5'" },
		{ "--schedule step:3:2", "--schedule: found 'step:3:2'" },
		{ "--schedule step:3:", "--schedule: found 'step:3:'" },
		{ "--lr-scaling cubic", "--lr-scaling: found 'cubic'" },
		{ "--classes 1", "--classes: found '1'" },
		{ "--epoch 3", "found the option --epoch, expected --epochs in full" },
		{ "--epoch=3", "found the option --epoch=3, expected --epochs in full" },
		{ "--min-ranks 2", "--min-ranks is an option of tutti-run" },
		{ "--dtype f16",
		  "--dtype: found 'f16' (did you mean bf16?), expected f32, f64 or bf16" },
		{ "--min-ranks=2", "--min-ranks is an option of tutti-run" },
		{ "-n 2", "-n is an option of tutti-run: give it before the --" },
		{ "--rank x", "--rank: found 'x', expected a whole number from 0" },
		{ "--size 0", "--size: found '0', expected a whole number from 1" },
		{ "--timeout 0", "--timeout: found '0', expected seconds, more than 0" },
		{ "--sync zero", "--sync: found 'zero' (did you mean zero1?)" },
		{ "--sync local --outer adam,1", "--outer: found 'adam,1', expected sgd" },
		{ "--sync local --outer nesterov,1", "--outer: found 'nesterov,1'" },
		{ "--sync local --outer sgd,0", "--outer: found 'sgd,0'" },
		{ "--shares 1,,2", "--shares: found '1,,2', expected auto, or at most 64" },
		{ "--shares 1,0", "--shares: found '1,0'" },
		{ "--slow 1", "--slow: found '1', expected RANK:FACTOR" },
		{ "--slow -1:2", "--slow: found '-1:2'" },
		{ "--slow 1:0.5", "--slow: found '1:0.5'" },
		{ "--slow 1:2:0", "--slow: found '1:2:0'" },
		{ "--slow 1:2:3:4", "--slow: found '1:2:3:4'" },
		{ "--servers 2", "found --servers without --sync ps or async" },
		{ "--sync ps --clip 1", "found --clip and --sync ps" },
		{ "--outer sgd,1", "found --outer without --sync local, where it does nothing" },
		{ "--sync zero1 --every 3", "found --every without --sync local" },
		{ "--every-epochs 3", "found --every-epochs without --save FILE" },
		{ "--labels l --label-column 1", "found --label-column without a CSV file" },
		{ "--batch 64 --batch-per-rank 3", "found --batch and --batch-per-rank" },
		{ "--test-data e --test-fraction 0.1", "of which one is enough" },
		{ "--resume", "found --resume without --save FILE" },
		{ "--device cuda --sync zero1",
		  "found --device cuda and another --sync than allreduce" },
		{ "--device cuda --optimizer lamb",
		  "found --device cuda and --optimizer lars or lamb" },
		{ "--device cuda --clip 1", "found --device cuda and --clip" },
		{ "--device cuda --dtype bf16", "found --device cuda and --dtype bf16" },
		{ "--sync ps --staleness 1", "found --staleness without --sync async" },
		{ "--sync async --shares 1,2", "found --shares with --sync async" },
		{ "--sync async --clip 1", "found --clip and --sync async" },
		{ "--shard --sync ps", "found --shard and --sync ps" },
		{ "--shard --parallel pipeline", "found --shard and --parallel" },
		{ "--shard --predict p", "found --shard and --predict" },
	};

	refuses_options("", "no --data");
	refuses_options("--data", "--data needs a value");
	refuses_options("--data=", "--data: found '', expected FILE");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[96];

		snprintf(line, sizeof(line), "--data d %s", cases[i][0]);
		refuses_options(line, cases[i][1]);
	}
}

TEST(other_options_have_another_hash)
{
	static const char *const cases[] = {
		"--seed 2",
		"--hidden 128,65",
		"--hidden none",
		"--epochs 31",
		"--batch 65",
		"--lr 0.2",
		"--momentum 0",
		"--optimizer adagrad",
		"--weight-decay 0",
		"--warmup 0",
		"--classes 10",
		"--bucket 1K",
		"--test-fraction 0",
		"--lr-scaling sqrt",
		"--schedule constant",
		"--verify",
		"--dtype f64",
		"--dtype bf16",
		"--optimizer sgd",
		"--optimizer nesterov",
		"--schedule step:3:0.5",
		"--schedule step:3:0.25",
		"--schedule step:4:0.5",
	};
	struct options o = read_options("--data d");
	const uint64_t usual = options_hash(&o);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "--data d %s", cases[i]);
		o = read_options(line);
		assert_true(options_hash(&o) != usual);
	}
	o = read_options("--data e --json x --plot x.svg");
	assert_true(options_hash(&o) == usual);
}

#define SIX    ".333333,.333333,.333333,.333333,.333333,.333333,"
#define SHARES "--data d --sync local --shares " SIX SIX SIX

TEST(curves_differ_by_options_as_they_are_said)
{
	static const char *const cases[][3] = {
		{ "--data d --seed 01 --hidden 128,064 --lr .1", "--data d --test-fraction .20",
		  "" },
		{ "--data d --schedule step:3:.5", "--data d --schedule step:03:0.50", "" },
		{ "--data d --seed 9223372036854775806", "--data d --seed 9223372036854775807",
		  "--seed 9223372036854775806, expected 9223372036854775807 as now" },
		{ "--data d", "--data d --clip 2", "no --clip, expected 2 as now" },
		{ "--data d --clip 2", "--data d", "--clip 2, expected none as now" },
		{ "--data d --label-column 3", "--data d",
		  "--label-column 3, expected none as now" },
		{ "--data d", "--data d --label-column 1", "no --label-column, expected 1 as now" },
		{ "--data d --sync local", "--data d --sync local --outer sgd,1",
		  "no --outer, expected sgd,1 as now" },
		{ "--data d --hidden none", "--data d", "--hidden none, expected 128,64 as now" },
		{ SHARES "1", SHARES "2", "--shares 0.333333," },
		/* others follow from these */
		{ "--data d --schedule constant", "--data d",
		  "--schedule constant, expected cosine as now" },
		{ "--data d --batch all", "--data d", "--batch 0, expected 64 as now" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *curve[2];
		char text[320] = "";

		for (int k = 0; k < 2; k++) {
			const struct options o = read_options(cases[i][k]);

			curve[k] = options_curve(&o, o.batch, 2);
		}
		assert_int_equal(options_differ(curve[0], curve[1], text, sizeof(text)),
				 *cases[i][2] != '\0');
		assert_says(text, cases[i][2]);
		json_decref(curve[0]);
		json_decref(curve[1]);
	}
}
