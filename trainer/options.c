/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the command line. Owns nothing. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "option.h"
#include "options_check.h"
#include "pipeline.h"
#include "picture.h"

/* ---- the table */

enum kind {
	FLAG,	/* bool, to true */
	TEXT,	/* const char *, and not empty */
	DIGITS, /* const char *: a whole number from low to high, that others read */
	NUMBER, /* likewise, any number */
	COUNT,	/* unsigned, from low to high */
	SIZE,	/* size_t, likewise */
	BYTES,	/* size_t, from 1 to high, with K, M or G */
	REAL,	/* double, from low to high */
	WORD,	/* int: the place among words */
	OTHER,	/* what `parse` makes of it */
};

/* One option, or, without a name, the heading of those that follow. */
struct spec {
	const char *name;
	const char *value; /* what the help calls it; NULL: it has none */
	const char *help;
	enum kind kind;
	size_t offset; /* in struct options */
	double low, high;
	const char *expected;
	const char *const *words; /* ends with NULL */
	tutti_result_t (*parse)(const char *text, struct options *options, struct why *why);
};

#define AT(member)  offsetof(struct options, member)
#define BELOW_ONE   0.99999999999999989
#define WHOLE(most) "a whole number from 1 to " most

static tutti_result_t parse_hidden(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_batch(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_dtype(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_optimizer(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_schedule(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_sync(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_outer(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_seed(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_shares(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_slow(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_plot(const char *text, struct options *options, struct why *why);
static tutti_result_t parse_parallel(const char *text, struct options *options, struct why *why);

static const char *const scalings[] = { "linear", "sqrt", "none", NULL };
static const char *const orders[] = { "1f1b", "gpipe", NULL };
static const char *const devices[] = { "host", "cuda", NULL };

static const struct spec specs[] = {
	{ .help = "Data" },
	{ "data", "FILE",
	  "rows of numbers, the label last (CSV), or IDX; either may be gzipped; "
	  "synthetic:ROWSxFEATURESxCLASSES[:SEED]: made up, by a teacher network",
	  TEXT, AT(source.path) },
	{ "labels", "FILE", "the labels of an IDX file", TEXT, AT(source.labels) },
	{ "test-data", "FILE", "samples to validate on, rather than a share of --data", TEXT,
	  AT(source.test_path) },
	{ "test-labels", "FILE", "their labels, of an IDX file", TEXT, AT(source.test_labels) },
	{ "label-column", "N", "which field of a CSV file is the label, from 1 (the last)", COUNT,
	  AT(source.label_column), 1, 16777216, WHOLE("16777216") },
	{ "classes", "N", "labels are 0 to N-1 (default: to the largest found)", COUNT,
	  AT(source.classes), 2, DATA_LABEL_MAX + 1, "a whole number from 2 to 65536" },
	{ "data-limit", "BYTES",
	  "content that a file may have, uncompressed; K, M and G allowed (4G)", BYTES,
	  AT(source.most), 1, 1125899906842624.0,
	  "a number of bytes from 1 to 1048576G, such as 4G" },
	{ "shard", NULL,
	  "each rank reads and keeps a part of the samples, and gets those of a step from the others: for "
	  "plain CSV and IDX files, and synthetic: samples",
	  FLAG, AT(shard) },
	{ "test-fraction", "F", "share set aside for validation (0.2)", REAL,
	  AT(source.test_fraction), 0, 0.9, "a number from 0 to 0.9" },

	{ .help = "Model and training" },
	{ "hidden", "N,N,...", "widths of the hidden layers, or none (128,64)", OTHER,
	  .parse = parse_hidden },
	{ "epochs", "N", "passes over the training samples (30)", COUNT, AT(epochs), 1, 100000,
	  WHOLE("100000") },
	{ "batch", "N",
	  "samples per step, of all ranks together (64); all: the training samples, "
	  "which is gradient descent; 1: one-sample SGD",
	  OTHER, .parse = parse_batch },
	{ "batch-per-rank", "N",
	  "samples per step of each rank, instead of --batch: with N times the "
	  "ranks the rate is N times as high (--lr-scaling)",
	  SIZE, AT(batch_per_rank), 1, 1 << 24, WHOLE("16777216") },
	{ "accumulate", "K",
	  "each rank computes its part of a batch in K pieces: less memory, the same "
	  "result (1)",
	  SIZE, AT(accumulate), 1, 1 << 24, WHOLE("16777216") },
	{ "lr", "R",
	  "learning rate at a batch of 64 (0.1; adagrad 0.02; adam and adamw 0.001; lamb 0.005; "
	  "lars 10)",
	  REAL, AT(rate), 1e-12, 1e6, "a number from 1e-12 to 1e6" },
	{ "lr-scaling", "HOW",
	  "with the batch: linear, sqrt or none (linear; with --batch all, and for adam, adamw and "
	  "lamb: sqrt; lars: none)",
	  WORD, AT(scaling), .words = scalings, .expected = "linear, sqrt or none" },
	{ "schedule", "HOW",
	  "after the warm-up: cosine, constant, or step:EPOCHS:FACTOR: times FACTOR after each so many "
	  "epochs (cosine)",
	  OTHER, .parse = parse_schedule },
	{ "warmup", "E", "epochs in which the rate rises (1)", REAL, AT(warmup), 0, 1e5,
	  "a number of epochs from 0 to 100000" },
	{ "optimizer", "NAME",
	  "sgd, momentum, nesterov, adagrad, adam, adamw, lars or lamb (momentum)", OTHER,
	  .parse = parse_optimizer },
	{ "momentum", "M",
	  "of momentum, nesterov and lars; of adam, adamw and lamb what the mean of gradients keeps, "
	  "β1 (0.9)",
	  REAL, AT(momentum), 0, BELOW_ONE, "a number from 0 to less than 1" },
	{ "beta2", "B", "of adam, adamw and lamb: what the mean of squares keeps (0.999)", REAL,
	  AT(beta2), 0, BELOW_ONE, "a number from 0 to less than 1" },
	{ "epsilon", "E", "of adam, adamw and lamb: added to the root of that mean (1e-8)", REAL,
	  AT(epsilon), 1e-300, 1, "a number from 1e-300 to 1" },
	{ "trust", "T",
	  "of lars: a step over the length of a layer's weights, at a rate of 1 (0.001)", REAL,
	  AT(trust), 1e-12, 1e6, "a number from 1e-12 to 1e6" },
	{ "weight-decay", "D", "(0.003)", REAL, AT(weight_decay), 0, BELOW_ONE,
	  "a number from 0 to less than 1" },
	{ "clip", "NORM", "longer gradients are shortened to that (none)", REAL, AT(clip), 1e-12,
	  1e12, "a number from 1e-12 to 1e12" },
	{ "seed", "N", "of split, weights and order (1)", OTHER, .parse = parse_seed },
	{ "device", "NAME",
	  "host, or cuda: a GPU for each rank; ranks of a host take them in turn "
	  "(host)",
	  WORD, AT(device), .words = devices, .expected = "host or cuda" },
	{ "dtype", "TYPE",
	  "f32, f64 or bf16: what is computed and sent; bf16: products and gradients, of "
	  "weights in f32 (f32; f64 on GPUs)",
	  OTHER, .parse = parse_dtype },

	{ .help = "Communication" },
	{ "sync", "WAY",
	  "how ranks train together: allreduce: gradients are summed, and each rank makes "
	  "the same update; zero1: each rank updates its share of the weights; local: each rank makes "
	  "steps of its own, and weights are averaged; ps: the first ranks are parameter servers, the "
	  "others workers; async: likewise, and within an epoch no worker waits for another (allreduce)",
	  OTHER, .parse = parse_sync },
	{ "servers", "S", "with --sync ps and async: how many ranks are servers (1)", COUNT,
	  AT(servers), 1, 1023, WHOLE("1023") },
	{ "staleness", "K",
	  "with --sync async: updates wait rather than use gradients that are more than K updates "
	  "old; 0: as --sync ps (any)",
	  SIZE, AT(staleness), 0, 1000000, "a whole number from 0 to 1000000" },
	{ "every", "H", "with --sync local: steps from one average to the next (10)", SIZE,
	  AT(every), 1, 1000000, WHOLE("1000000") },
	{ "outer", "HOW",
	  "with --sync local: averages are outer steps, sgd,RATE[,MOMENTUM] or "
	  "nesterov,RATE,MOMENTUM, which goes with --optimizer adamw or --momentum 0 (none)",
	  OTHER, .parse = parse_outer },
	{ "parallel", "HOW",
	  "the model is cut: pipeline: each rank has some of the layers; tensor: each has a part of every "
	  "layer; data=D,pipeline=S,tensor=T: D lines of S stages in T parts share out each batch; what is "
	  "not said takes the ranks that are left (each rank has all layers)",
	  OTHER, .parse = parse_parallel },
	{ "micro", "M",
	  "with --parallel: parts of a batch that stages work on at the same time (4; of one stage 1)",
	  COUNT, AT(micro), 1, 4096, WHOLE("4096") },
	{ "order", "HOW",
	  "with --parallel: 1f1b: a stage alternates between forward and backward passes as soon as it "
	  "can; gpipe: all forward passes come first (1f1b)",
	  WORD, AT(order), .words = orders, .expected = "1f1b or gpipe" },
	{ "shares", "S,S,...",
	  "each rank's part of a batch, such as 1,2; auto: in proportion to the speed "
	  "of the epoch before; with --parallel each stage's part of the computation (all alike)",
	  OTHER, .parse = parse_shares },
	{ "slow", "RANK:FACTOR[:EPOCH]",
	  "make a rank so many times slower, from that epoch on (1), to try that; may be repeated, also "
	  "for one rank: the last that has begun counts",
	  OTHER, .parse = parse_slow },
	{ "bucket", "BYTES", "gradients averaged at a time, K and M allowed (1M)", BYTES,
	  AT(bucket_bytes), 1, 1073741824, "a number of bytes from 1 to 1024M, such as 64K" },
	{ "wait", "S", "seconds that replacements of lost ranks have to come (30)", REAL,
	  AT(wait_s), 1e-3, 1e6, "seconds from 0.001 to 1e6" },
	{ "verify", NULL,
	  "check after every step, with local after every epoch, that all ranks have the same weights",
	  FLAG, AT(verify) },

	{ .help = "Start" },
	{ "rank", "R", "this process's number, from 0, where no launcher says it (TUTTI_RANK)",
	  DIGITS, AT(start.rank), 0, 1000000, "a whole number from 0 to 1000000" },
	{ "size", "N", "how many ranks there are (TUTTI_SIZE)", DIGITS, AT(start.size), 1, 1000000,
	  WHOLE("1000000") },
	{ "store", "ADDRESS", "where ranks meet, such as tcp://host:port (TUTTI_STORE)", TEXT,
	  AT(start.store) },
	{ "transport", "T", "only these, such as shm or tcp (TUTTI_TRANSPORT)", TEXT,
	  AT(start.transport) },
	{ "algorithm", "A", "of collectives, such as ring (TUTTI_ALGORITHM)", TEXT,
	  AT(start.algorithm) },
	{ "timeout", "S", "deadline of each operation, in seconds (TUTTI_TIMEOUT)", NUMBER,
	  AT(start.timeout), 1e-9, 1e9, "seconds, more than 0 and at most 1e9, such as 30" },

	{ .help = "Results" },
	{ "save", "FILE", "a checkpoint of the training, written anew after epochs", TEXT,
	  AT(save) },
	{ "every-epochs", "N", "after so many epochs each, and at the end (1)", COUNT,
	  AT(every_epochs), 1, 100000, WHOLE("100000") },
	{ "resume", NULL, "go on from the file of --save, if it is there", FLAG, AT(resume) },
	{ "predict", "FILE",
	  "the label that the model gives to each sample of the validation, in the "
	  "order of the data",
	  TEXT, AT(predict) },
	{ "json", "FILE", "one object per line: start, each epoch, end; -: to standard output",
	  TEXT, AT(json) },
	{ "plot", "FILE", "loss and accuracy curves, .svg or .png; may be repeated", OTHER,
	  .parse = parse_plot },
	{ "help", NULL, "this text", .kind = FLAG },
	{ "version", NULL, "the version", .kind = FLAG },
};

enum {
	SPECS = sizeof(specs) / sizeof(specs[0]),
	OPT_HELP = 'h',
	OPT_VERSION = 'V',
	OPT_FIRST = 256, /* of the other options: their place in the table, and this */
};

/* ---- the help */

enum { HELP_INDENT = 23, HELP_WIDTH = 88 };

/* Words of `text` up to the width; the next lines are indented. */
static void print_wrapped(const char *text)
{
	size_t column = HELP_INDENT;

	while (*text) {
		const size_t length = strcspn(text, " ");

		if (column > HELP_INDENT && column + 1 + length > HELP_WIDTH) {
			printf("\n%*s", HELP_INDENT, "");
			column = HELP_INDENT;
		}
		if (column > HELP_INDENT)
			putchar(' ');
		printf("%.*s", (int)length, text);
		column += length + (column > HELP_INDENT);
		text += length + strspn(text + length, " ");
	}
	putchar('\n');
}

static void print_spec(const struct spec *spec)
{
	char left[64];
	const char letter = strcmp(spec->name, "help") == 0	 ? OPT_HELP
			    : strcmp(spec->name, "version") == 0 ? OPT_VERSION
								 : '\0';
	int used = letter ? snprintf(left, sizeof(left), "  -%c, --%s", letter, spec->name)
			  : snprintf(left, sizeof(left), "      --%s", spec->name);

	if (spec->value)
		used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", spec->value);
	if (used < HELP_INDENT - 1)
		printf("%-*s", HELP_INDENT, left);
	else
		printf("%s\n%*s", left, HELP_INDENT, "");
	print_wrapped(spec->help);
}

static void print_help(void)
{
	printf("Usage: tutti-train --data FILE [OPTION]...\n"
	       "Train a multilayer perceptron by data-parallel SGD. Alone it is one rank; under tutti-run\n"
	       "(tutti-run -n 4 -- tutti-train ...), torchrun, mpirun or srun it is one of many.\n"
	       "\n"
	       "tutti-train predict MODEL --data FILE [--predict FILE] classifies samples by a saved model.\n"
	       "tutti-train report LOG... [--plot FILE] compares trainings by their logs.\n"
	       "tutti-train compare --data FILE ... trains in several ways, and compares these.\n");
	for (int i = 0; i < SPECS; i++)
		if (specs[i].name)
			print_spec(&specs[i]);
		else
			printf("\n%s\n", specs[i].help);
	printf("\nExit status: 0; 1 if the training failed, 2 if the command line is wrong.\n");
}

static const struct options defaults = {
	.source = { .most = (size_t)4 << 30, .test_fraction = 0.2 },
	.hidden = { 128, 64 },
	.hidden_layers = 2,
	.epochs = 30,
	.batch = 64,
	.accumulate = 1,
	.optimizer = &optimizer_momentum, /* which says rate, momentum and scaling */
	.rate = -1,
	.momentum = -1,
	.scaling = -1,
	.beta2 = 0.999,
	.epsilon = 1e-8,
	.trust = 0.001,
	.weight_decay = 0.003,
	.warmup = 1,
	.schedule = { RATE_COSINE },
	.sync = &sync_all_reduce,
	.staleness = STALENESS_ANY,
	.every = 10,
	.seed = 1,
	.bucket_bytes = 1 << 20,
	.wait_s = 30,
	.every_epochs = 1,
};

/* ---- values */

static tutti_result_t wrong(struct why *why, const char *name, const char *found,
			    const char *expected)
{
	return why_set(why, TUTTI_ERR_INVALID, "--%s: found '%s', expected %s; see --help", name,
		       found, expected);
}

static tutti_result_t parse_real(const char *name, const char *text, double low, double high,
				 const char *expected, double *value, struct why *why)
{
	char *rest;
	const double number = strtod(text, &rest);

	if (rest == text || *rest != '\0' || !(number >= low && number <= high))
		return wrong(why, name, text, expected);
	*value = number;
	return TUTTI_OK;
}

/* A number from `low` to `high` at the start of `text`; `*rest` is what follows, NULL where there
 * is none. strtoull() alone would take "-1" for the largest number. */
static bool whole_prefix(const char *text, uint64_t low, uint64_t high, const char **rest,
			 uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0 && *value >= low && *value <= high;
}

static tutti_result_t parse_whole(const char *name, const char *text, uint64_t low, uint64_t high,
				  const char *expected, uint64_t *value, struct why *why)
{
	const char *rest;

	if (!whole_prefix(text, low, high, &rest, value) || *rest != '\0')
		return wrong(why, name, text, expected);
	return TUTTI_OK;
}

/* `expected` says what `most` is. */
static tutti_result_t parse_bytes(const char *name, const char *text, uint64_t most,
				  const char *expected, size_t *value, struct why *why)
{
	const char *rest;
	uint64_t number;
	unsigned shift = 0;

	if (!whole_prefix(text, 1, most, &rest, &number))
		return wrong(why, name, text, expected);
	if (*rest == 'K')
		shift = 10;
	else if (*rest == 'M')
		shift = 20;
	else if (*rest == 'G')
		shift = 30;
	if (rest[shift != 0] != '\0' || number > most >> shift)
		return wrong(why, name, text, expected);
	*value = (size_t)(number << shift);
	return TUTTI_OK;
}

static tutti_result_t parse_hidden(const char *text, struct options *options, struct why *why)
{
	static const char expected[] = "none, or at most 15 widths from 1 to 65536, such as 128,64";
	const char *at = text;

	options->hidden_layers = 0;
	if (strcmp(text, "none") == 0)
		return TUTTI_OK;
	for (;; at++) {
		uint64_t width;

		if (options->hidden_layers == MODEL_LAYERS_MAX - 1 ||
		    !whole_prefix(at, 1, 65536, &at, &width))
			return wrong(why, "hidden", text, expected);
		options->hidden[options->hidden_layers++] = (size_t)width;
		if (*at == '\0')
			return TUTTI_OK;
		if (*at != ',')
			return wrong(why, "hidden", text, expected);
	}
}

/* The place of `text` in `words`, which end with NULL. */
static tutti_result_t parse_word(const char *name, const char *text, const char *const *words,
				 const char *expected, int *place, struct why *why)
{
	char hint[TT_NEAREST_HINT];

	for (int i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0) {
			*place = i;
			return TUTTI_OK;
		}
	return why_set(why, TUTTI_ERR_INVALID, "--%s: found '%s'%s, expected %s; see --help", name,
		       text, tt_did_you_mean(text, words, hint), expected);
}

static tutti_result_t parse_plot(const char *text, struct options *options, struct why *why)
{
	if (!picture_named(text))
		return wrong(why, "plot", text, PICTURE_EXPECTED);
	if (options->plot_count == OPTIONS_PLOTS_MAX)
		return wrong(why, "plot", text, "at most 4 pictures");
	options->plots[options->plot_count++] = text;
	return TUTTI_OK;
}

static tutti_result_t parse_batch(const char *text, struct options *o, struct why *why)
{
	uint64_t number = 0;
	tutti_result_t result = TUTTI_OK;

	if (strcmp(text, "all") != 0)
		result = parse_whole("batch", text, 1, 1 << 24,
				     "all, or a whole number from 1 to 16777216", &number, why);
	o->batch = (size_t)number;
	return result;
}

static tutti_result_t parse_seed(const char *text, struct options *o, struct why *why)
{
	return parse_whole("seed", text, 0, INT64_MAX,
			   "a whole number from 0 to 9223372036854775807", &o->seed, why);
}

static tutti_result_t parse_dtype(const char *text, struct options *o, struct why *why)
{
	static const char *const words[] = { "f32", "f64", "bf16", NULL };
	static const struct numbers *const numbers[] = { &numbers_f32, &numbers_f64,
							 &numbers_bf16 };
	int place = 0;
	const tutti_result_t result =
		parse_word("dtype", text, words, "f32, f64 or bf16", &place, why);

	o->numbers = numbers[place];
	return result;
}

static tutti_result_t parse_optimizer(const char *text, struct options *o, struct why *why)
{
	static const char *const words[] = { "sgd",   "momentum", "nesterov", "adagrad", "adam",
					     "adamw", "lars",	  "lamb",     NULL };
	int place = 0;
	const tutti_result_t result = parse_word(
		"optimizer", text, words,
		"sgd, momentum, nesterov, adagrad, adam, adamw, lars or lamb", &place, why);

	for (int i = 0; result == TUTTI_OK && optimizers[i]; i++)
		if (strcmp(optimizers[i]->name, words[place]) == 0)
			o->optimizer = optimizers[i];
	return result;
}

static tutti_result_t parse_schedule(const char *text, struct options *o, struct why *why)
{
	static const char expected[] = "cosine, constant or step:EPOCHS:FACTOR with at most 100000 "
				       "epochs and a factor from 1e-6 to 1, such as step:10:0.5";
	static const char *const words[] = { "cosine", "constant", NULL };
	static const enum rate_course courses[] = { RATE_COSINE, RATE_CONSTANT };
	uint64_t every = 0;
	const char *at;
	char *rest;

	if (strncmp(text, "step:", 5) != 0) {
		int place = 0;
		const tutti_result_t result =
			parse_word("schedule", text, words, expected, &place, why);

		o->schedule = (struct rate_schedule){ courses[place] };
		return result;
	}
	if (!whole_prefix(text + 5, 1, 100000, &at, &every) || *at != ':')
		return wrong(why, "schedule", text, expected);
	o->schedule = (struct rate_schedule){ RATE_STEP, (unsigned)every, strtod(at + 1, &rest) };
	if (rest == at + 1 || *rest != '\0' ||
	    !(o->schedule.factor >= 1e-6 && o->schedule.factor <= 1))
		return wrong(why, "schedule", text, expected);
	return TUTTI_OK;
}

static tutti_result_t parse_sync(const char *text, struct options *o, struct why *why)
{
	static const char *const words[] = { "allreduce", "zero1", "local", "ps", "async", NULL };
	static const struct sync *const ways[] = { &sync_all_reduce, &sync_zero1, &sync_local,
						   &sync_ps, &sync_async };
	int place = 0;
	const tutti_result_t result = parse_word(
		"sync", text, words, "allreduce, zero1, local, ps or async", &place, why);

	o->sync = ways[place];
	return result;
}

static tutti_result_t parse_outer(const char *text, struct options *o, struct why *why)
{
	static const char expected[] = "sgd,RATE[,MOMENTUM] or nesterov,RATE,MOMENTUM, such as "
				       "nesterov,0.7,0.9";
	struct outer outer = { .nesterov = strncmp(text, "nesterov,", 9) == 0 };
	const bool sgd = strncmp(text, "sgd,", 4) == 0;
	char *rest = NULL;

	if (!sgd && !outer.nesterov)
		return wrong(why, "outer", text, expected);
	outer.rate = strtod(text + (sgd ? 4 : 9), &rest);
	if (*rest == ',')
		outer.momentum = strtod(rest + 1, &rest);
	else if (outer.nesterov)
		return wrong(why, "outer", text, expected);
	if (*rest != '\0' || !(outer.rate > 0 && outer.rate <= 1e6) ||
	    !(outer.momentum >= 0 && outer.momentum < 1))
		return wrong(why, "outer", text, expected);
	o->outer = outer;
	return TUTTI_OK;
}

/* NAME=N, or NAME alone; false: it is another axis, was there before, or is wrong. */
static bool axis(const char *text, const char *name, bool *there, unsigned *count,
		 const char **rest)
{
	const size_t length = strlen(name);
	const char *at = text + length;
	uint64_t number = 0;

	if (*there || strncmp(text, name, length) != 0 ||
	    (*at == '=' && !whole_prefix(at + 1, 1, 1024, &at, &number)) ||
	    (*at != '\0' && *at != ','))
		return false;
	*there = true;
	*count = (unsigned)number;
	*rest = at;
	return true;
}

static tutti_result_t parse_parallel(const char *text, struct options *o, struct why *why)
{
	static const char expected[] =
		"pipeline or tensor, or some of data=D,pipeline=S,tensor=T with at most 1024 of each, "
		"such as data=2,pipeline=2";
	struct parallel p = { 0 };
	bool data = false;
	const char *at = text;

	while (axis(at, "data", &data, &p.data, &at) ||
	       axis(at, "pipeline", &p.pipeline, &p.stages, &at) ||
	       axis(at, "tensor", &p.tensor, &p.ways, &at))
		if (*at++ == '\0')
			break;
	if (at == text || at[-1] != '\0' || (data && p.data == 0) || (!p.pipeline && !p.tensor) ||
	    (p.pipeline && p.tensor && p.stages == 0 && p.ways == 0))
		return wrong(why, "parallel", text, expected);
	o->parallel = p;
	return TUTTI_OK;
}

static tutti_result_t parse_shares(const char *text, struct options *o, struct why *why)
{
	static const char expected[] =
		"auto, or at most 64 numbers from 0.001 to 1000, such as 1,2";
	struct share_options *shares = &o->shares;
	const char *at = text;

	shares->count = 0;
	shares->by_themselves = strcmp(text, "auto") == 0;
	while (!shares->by_themselves) {
		char *rest;
		const double share = strtod(at, &rest);

		if (rest == at || !(share >= 1e-3 && share <= 1e3) || shares->count == SHARES_MAX)
			return wrong(why, "shares", text, expected);
		shares->of[shares->count++] = share;
		if (*rest == '\0')
			break;
		if (*rest != ',')
			return wrong(why, "shares", text, expected);
		at = rest + 1;
	}
	return TUTTI_OK;
}

static tutti_result_t parse_slow(const char *text, struct options *o, struct why *why)
{
	static const char expected[] =
		"RANK:FACTOR[:EPOCH] with a factor from 1 to 1000 and an epoch from 1 to 100000, such as "
		"0:2 or 0:2:4";
	struct share_options *shares = &o->shares;
	uint64_t rank, epoch = 1;
	const char *at;
	char *rest;

	if (!whole_prefix(text, 0, 1000000, &at, &rank) || *at != ':')
		return wrong(why, "slow", text, expected);
	const double factor = strtod(at + 1, &rest);

	if (rest == at + 1 || !(factor >= 1 && factor <= 1000))
		return wrong(why, "slow", text, expected);
	at = rest;
	if (*at == ':' && !whole_prefix(at + 1, 1, 100000, &at, &epoch))
		return wrong(why, "slow", text, expected);
	if (*at != '\0')
		return wrong(why, "slow", text, expected);
	if (shares->slow_count == SLOW_MAX)
		return wrong(why, "slow", text, "at most 16 of them");
	shares->slow[shares->slow_count].rank = (int)rank;
	shares->slow[shares->slow_count].factor = factor;
	shares->slow[shares->slow_count++].epoch = (unsigned)epoch;
	return TUTTI_OK;
}

static tutti_result_t parse_number(const struct spec *spec, const char *text, void *to,
				   struct why *why)
{
	uint64_t number = 0;
	const tutti_result_t result =
		parse_whole(spec->name, text, (uint64_t)spec->low, (uint64_t)spec->high,
			    spec->expected, &number, why);

	if (result != TUTTI_OK)
		return result;
	if (spec->kind == COUNT)
		*(unsigned *)to = (unsigned)number;
	else
		*(size_t *)to = (size_t)number;
	return TUTTI_OK;
}

static tutti_result_t parse_text(const struct spec *spec, const char *text, const char **to,
				 struct why *why)
{
	uint64_t number;
	double any;

	*to = text;
	if (spec->kind == NUMBER)
		return parse_real(spec->name, text, spec->low, spec->high, spec->expected, &any,
				  why);
	if (spec->kind == DIGITS)
		return parse_whole(spec->name, text, (uint64_t)spec->low, (uint64_t)spec->high,
				   spec->expected, &number, why);
	return *text ? TUTTI_OK : wrong(why, spec->name, text, spec->value);
}

static tutti_result_t parse_one(const struct spec *spec, const char *text, struct options *options,
				struct why *why)
{
	void *to = (char *)options + spec->offset;

	switch (spec->kind) {
	case FLAG: *(bool *)to = true; return TUTTI_OK;
	case TEXT:
	case DIGITS:
	case NUMBER: return parse_text(spec, text, to, why);
	case COUNT:
	case SIZE: return parse_number(spec, text, to, why);
	case BYTES:
		return parse_bytes(spec->name, text, (uint64_t)spec->high, spec->expected, to, why);
	case REAL:
		return parse_real(spec->name, text, spec->low, spec->high, spec->expected, to, why);
	case WORD: return parse_word(spec->name, text, spec->words, spec->expected, to, why);
	case OTHER: break;
	}
	return spec->parse(text, options, why);
}

/* ---- all of them */

static const char *launcher_option(const char *name)
{
	static const char *const names[] = { "-n",	"--min-ranks", "--restart",
					     "--grace", "--bind",      NULL };

	for (int i = 0; name && names[i]; i++) {
		const size_t length = strlen(names[i]);

		if (strncmp(name, names[i], length) == 0 &&
		    (name[length] == '\0' || name[length] == '='))
			return names[i];
	}
	return NULL;
}

/* "--epoch" is not taken for --epochs: a later version may have another option of that name. */
static bool is_whole(const char *argument, const char *name)
{
	const size_t length = strlen(name);

	return strncmp(argument, "--", 2) != 0 ||
	       (strncmp(argument + 2, name, length) == 0 &&
		(argument[2 + length] == '\0' || argument[2 + length] == '='));
}

static void make_long_options(struct option *out)
{
	for (int i = 0; i < SPECS; i++)
		if (specs[i].name)
			*out++ = (struct option){
				.name = specs[i].name,
				.has_arg = specs[i].value ? required_argument : no_argument,
				.val = strcmp(specs[i].name, "help") == 0      ? OPT_HELP
				       : strcmp(specs[i].name, "version") == 0 ? OPT_VERSION
									       : OPT_FIRST + i,
			};
	*out = (struct option){ 0 };
}

static tutti_result_t refuse_option(int id, char **argv, const struct option *known,
				    struct why *why)
{
	const char *launchers = launcher_option(argv[optind - 1]);
	char text[TT_OPTION_WHY];

	if (launchers)
		return why_set(why, TUTTI_ERR_INVALID,
			       "%s is an option of tutti-run: give it before the --", launchers);
	return why_set(why, TUTTI_ERR_INVALID, "%s; see --help",
		       tt_option_why(id, argv, known, text));
}

static tutti_result_t take(int id, char **argv, const struct option *known, struct options *options,
			   struct why *why)
{
	const struct spec *spec = id >= OPT_FIRST ? &specs[id - OPT_FIRST] : NULL;

	if (!spec)
		return refuse_option(id, argv, known, why);
	const char *argument = argv[optind - 1];

	if (spec->value && argument == optarg)
		argument = argv[optind - 2];
	if (!is_whole(argument, spec->name))
		return why_set(why, TUTTI_ERR_INVALID,
			       "found the option %s, expected --%s in full; see --help", argument,
			       spec->name);
	return parse_one(spec, optarg, options, why);
}

enum options_outcome options_parse(int argc, char **argv, struct options *out, struct why *why)
{
	struct options options = defaults;
	struct option known[SPECS + 1];
	const char *given[SPECS];
	size_t count = 0;
	int id;

	make_long_options(known);
	optind = 0; /* glibc: start afresh, so that a process may parse twice */
	while ((id = getopt_long(argc, argv, ":hV", known, NULL)) != -1) {
		if (id == OPT_HELP) {
			print_help();
			return OPTIONS_DONE;
		}
		if (id == OPT_VERSION) {
			printf("tutti-train %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		if (take(id, argv, known, &options, why) != TUTTI_OK)
			return OPTIONS_WRONG;
		if (count < SPECS)
			given[count++] = specs[id - OPT_FIRST].name;
	}
	if (optind < argc || !options.source.path) {
		why_set(why, TUTTI_ERR_INVALID,
			"found %s%s, expected --data FILE and options; see --help",
			optind < argc ? "the argument " : "no --data",
			optind < argc ? argv[optind] : "");
		return OPTIONS_WRONG;
	}
	if (options_check(&options, given, count, why) != TUTTI_OK)
		return OPTIONS_WRONG;
	*out = options;
	return OPTIONS_RUN;
}
