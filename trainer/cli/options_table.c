/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the table of options, and reads their texts by it. */
#include "options_table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "picture.h"

#define BELOW_ONE 0.99999999999999989

static_assert(sizeof(size_t) == sizeof(uint64_t), "SIZE is also that of uint64_t");

/* ---- what texts are made of: each function reads what comes next at *at, and moves behind it. What is
 * wrong leads to a place where nothing else is read, and that is not the end. */

static const char wrong[] = "?";

/* Does the word come next? */
static bool skip(const char **at, const char *word)
{
	const size_t length = strlen(word);
	const bool next = strncmp(*at, word, length) == 0;

	*at += next ? length : 0;
	return next;
}

static void expect(const char **at, const char *word)
{
	if (!skip(at, word))
		*at = wrong;
}

/* Digits alone: strtoll() would also take blanks and a sign. */
static uint64_t whole(const char **at, double low, double high)
{
	const bool digits = **at >= '0' && **at <= '9';
	char *end;

	errno = 0;
	const uint64_t value = (uint64_t)strtoll(*at, &end, 10);

	*at = digits && !errno && value >= (uint64_t)low && value <= (uint64_t)high ? end : wrong;
	return value;
}

static double real(const char **at, double low, double high)
{
	char *end;
	const double value = strtod(*at, &end);

	*at = end != *at && value >= low && value <= high ? end : wrong;
	return value;
}

static size_t bytes(const char **at, double high)
{
	const size_t number = whole(at, 1, high);
	const int shift = skip(at, "K") ? 10 : skip(at, "M") ? 20 : skip(at, "G") ? 30 : 0;

	if (number > (size_t)high >> shift)
		*at = wrong;
	return number << shift;
}

/* ---- those of OTHER: what they leave is wrong */

static void read_hidden(const char **at, struct options *o)
{
	o->hidden_layers = 0;
	if (skip(at, "none"))
		return;
	do
		o->hidden[o->hidden_layers++] = whole(at, 1, 65536);
	while (o->hidden_layers < MODEL_LAYERS_MAX - 1 && skip(at, ","));
}

static void read_batch(const char **at, struct options *o)
{
	o->batch = skip(at, "all") ? 0 : whole(at, 1, 1 << 24);
}

static void read_schedule(const char **at, struct options *o)
{
	o->schedule.course = skip(at, "cosine")	    ? RATE_COSINE
			     : skip(at, "constant") ? RATE_CONSTANT
						    : RATE_STEP;
	if (o->schedule.course != RATE_STEP)
		return;
	expect(at, "step:");
	o->schedule.every = (unsigned)whole(at, 1, 100000);
	expect(at, ":");
	o->schedule.factor = real(at, 1e-6, 1);
}

static void read_outer(const char **at, struct options *o)
{
	o->outer = (struct outer){ .nesterov = skip(at, "nesterov,") };
	if (!o->outer.nesterov)
		expect(at, "sgd,");
	o->outer.rate = real(at, 1e-300, 1e6);
	if (skip(at, ","))
		o->outer.momentum = real(at, 0, BELOW_ONE);
	else if (o->outer.nesterov)
		*at = wrong;
}

/* NAME=N, or NAME alone; false: it is another axis, or was there before. */
static bool read_axis(const char **at, const char *name, bool *there, unsigned *count)
{
	if (*there || !skip(at, name))
		return false;
	*there = true;
	*count = skip(at, "=") ? (unsigned)whole(at, 1, 1024) : 0;
	return true;
}

static void read_parallel(const char **at, struct options *o)
{
	struct parallel p = { 0 };

	do
		if (p.data == 0 && skip(at, "data="))
			p.data = (unsigned)whole(at, 1, 1024);
		else if (!read_axis(at, "pipeline", &p.pipeline, &p.stages) &&
			 !read_axis(at, "tensor", &p.tensor, &p.ways))
			*at = wrong;
	while (skip(at, ","));
	if (p.pipeline == p.tensor && (!p.tensor || p.stages + p.ways == 0))
		*at = wrong;
	o->parallel = p;
}

static void read_shares(const char **at, struct options *o)
{
	struct share_options *shares = &o->shares;

	shares->count = 0;
	shares->by_themselves = skip(at, "auto");
	if (shares->by_themselves)
		return;
	do
		shares->of[shares->count++] = real(at, 1e-3, 1e3);
	while (shares->count < SHARES_MAX && skip(at, ","));
}

static void read_slow(const char **at, struct options *o)
{
	const int n = o->shares.slow_count;

	if (n == SLOW_MAX)
		return;
	o->shares.slow[n].rank = (int)whole(at, 0, 1000000);
	expect(at, ":");
	o->shares.slow[n].factor = real(at, 1, 1000);
	o->shares.slow[n].epoch = skip(at, ":") ? (unsigned)whole(at, 1, 100000) : 1;
	o->shares.slow_count++;
}

static void read_plot(const char **at, struct options *o)
{
	if (o->plot_count == OPTIONS_PLOTS_MAX || !picture_named(*at))
		return;
	o->plots[o->plot_count++] = *at;
	*at = "";
}

/* ---- the table */

static const void *const scalings[] = { "linear", "sqrt", "none", NULL };
static const void *const courses[] = { "cosine", "constant", NULL };
static const void *const orders[] = { "1f1b", "gpipe", NULL };
static const void *const engines[] = { &engine_host, &engine_cuda, NULL };
static const void *const ways[] = { &sync_all_reduce, &sync_zero1, &sync_local,
				    &sync_ps,	      &sync_async, NULL };

#define AT(member) offsetof(struct options, member)
#define PART	   "a number from 0 to less than 1"

const struct spec options_table[] = {
	{ "data", "FILE", PREDICT, TEXT, AT(source.path), .heading = "Data",
	  .help = "rows of numbers, the label last (CSV), or IDX; either may be gzipped; "
		  "synthetic:ROWSxFEATURESxCLASSES[:SEED]: made up, by a teacher network" },
	{ "labels", "FILE", PREDICT, TEXT, AT(source.labels), .help = "the labels of an IDX file" },
	{ "test-data", "FILE", NOTHING, TEXT, AT(source.test_path),
	  .help = "samples to validate on, rather than a share of --data" },
	{ "test-labels", "FILE", NOTHING, TEXT, AT(source.test_labels),
	  .help = "their labels, of an IDX file" },
	{ "label-column", "N", CURVE | PREDICT, COUNT, AT(source.label_column), 1, 16777216,
	  .help = "which field of a CSV file is the label, from 1 (the last)" },
	{ "classes", "N", RANKS, COUNT, AT(source.classes), 2, DATA_LABEL_MAX + 1,
	  .help = "labels are 0 to N-1 (default: to the largest found)" },
	{ "data-limit", "BYTES", PREDICT, BYTES, AT(source.most), 1, 1125899906842624.0, "4G",
	  .help = "content that a file may have, uncompressed; K, M and G allowed",
	  "a number of bytes from 1 to 1048576G, such as 4G" },
	{ "shard", NULL, RANKS, FLAG, AT(shard),
	  .help = "each rank reads and keeps a part of the samples, and gets those of a step from the "
		  "others: for plain CSV and IDX files, and synthetic: samples" },
	{ "test-fraction", "F", CURVE, REAL, AT(source.test_fraction), 0, 0.9, "0.2",
	  .help = "share set aside for validation" },

	{ "hidden", "N,N,...", CURVE, OTHER, .usual = "128,64", .heading = "Model and training",
	  .read = read_hidden, .help = "widths of the hidden layers, or none",
	  "none, or at most 15 widths from 1 to 65536, such as 128,64" },
	{ "epochs", "N", LENGTH, COUNT, AT(epochs), 1, 100000, "30",
	  .help = "passes over the training samples" },
	{ "batch", "N", RANKS, OTHER, .usual = "64", .read = read_batch,
	  .help = "samples per step, of all ranks together; all: the training samples, which is gradient "
		  "descent; 1: one-sample SGD",
	  "all, or a whole number from 1 to 16777216" },
	{ "batch-per-rank", "N", RANKS, SIZE, AT(batch_per_rank), 1, 1 << 24,
	  .help = "samples per step of each rank, instead of --batch: with N times the ranks the rate is "
		  "N times as high (--lr-scaling)" },
	{ "accumulate", "K", RANKS, COUNT, AT(accumulate), 1, 4096,
	  .help = "each rank computes its part of a batch in K pieces: less memory, the same result; with "
		  "--parallel these are the micro-batches that stages work on at the same time (1; of "
		  "several stages 4)" },
	{ "seed", "N", CURVE, SIZE, AT(seed), 0, 0x1p63, "1", .help = "of split, weights and order",
	  "a whole number from 0 to 9223372036854775807" },
	{ "device", "NAME", RANKS, NAMED, AT(engine), .usual = "host", .choices = engines,
	  .help = "host, or cuda: a GPU for each rank; ranks of a host take them in turn" },
	{ "dtype", "TYPE", CURVE, NAMED, AT(numbers), .usual = "f32",
	  .choices = (const void *const *)numbers_types,
	  .help = "f32, f64 or bf16: what is computed and sent; bf16: products and gradients, of weights "
		  "in f32" },
	{ "optimizer", "NAME", CURVE, NAMED, AT(optimizer), .usual = "momentum",
	  .choices = (const void *const *)optimizers,
	  .help = "sgd, momentum, nesterov, adagrad, adam, adamw, lars or lamb" },
	{ "lr", "R", CURVE, REAL, AT(rate), 1e-12, 1e6,
	  .help = "learning rate at a batch of 64 (0.1; adagrad 0.02; adam and adamw 0.001; lamb 0.005; "
		  "lars 10)" },
	{ "lr-scaling", "HOW", CURVE, WORD, AT(scaling), .choices = scalings,
	  .help = "with the batch: linear, sqrt or none (linear; with --batch all, and for adam, adamw "
		  "and lamb: sqrt; lars: none)" },
	{ "schedule", "HOW", CURVE, OTHER, .usual = "cosine", .choices = courses,
	  .read = read_schedule,
	  .help = "after the warm-up: cosine, constant, or step:EPOCHS:FACTOR: times FACTOR after each so "
		  "many epochs",
	  "cosine, constant or step:EPOCHS:FACTOR with at most 100000 epochs and a factor from "
	  "1e-6 to 1, such as step:10:0.5" },
	{ "warmup", "E", CURVE, REAL, AT(warmup), 0, 1e5, "1",
	  .help = "epochs in which the rate rises" },
	{ "momentum", "M", CURVE, REAL, AT(rule.momentum), 0, BELOW_ONE,
	  .help = "of momentum, nesterov and lars; of adam, adamw and lamb what the mean of gradients "
		  "keeps, β1 (0.9)",
	  PART },
	{ "beta2", "B", CURVE, REAL, AT(rule.momentum2), 0, BELOW_ONE, "0.999",
	  .help = "of adam, adamw and lamb: what the mean of squares keeps", PART },
	{ "epsilon", "E", CURVE, REAL, AT(rule.epsilon), 1e-300, 1, "1e-8",
	  .help = "of adam, adamw and lamb: added to the root of that mean" },
	{ "trust", "T", CURVE, REAL, AT(trust), 1e-12, 1e6, "0.001",
	  .help = "of lars: a step over the length of a layer's weights, at a rate of 1" },
	{ "weight-decay", "D", CURVE, REAL, AT(rule.decay), 0, BELOW_ONE, "0.003",
	  .help = "what of each weight is added to its gradient", PART },
	{ "clip", "NORM", CURVE, REAL, AT(clip), 1e-12, 1e12,
	  .help = "longer gradients are shortened to that (none)" },

	{ "sync", "WAY", LOCAL | ASYNC, NAMED, AT(sync), .usual = "allreduce",
	  .heading = "Communication", .choices = ways,
	  .help = "how ranks train together: allreduce: gradients are summed, and each rank makes the "
		  "same update; zero1: each rank updates its share of the weights; local: each rank makes "
		  "steps of its own, and weights are averaged; ps: the first ranks are parameter servers, "
		  "the others workers; async: likewise, and within an epoch no worker waits for another" },
	{ "servers", "S", ASYNC, COUNT, AT(servers), 1, 1023,
	  .help = "with --sync ps and async: how many ranks are servers (1)" },
	{ "staleness", "K", ASYNC, SIZE, AT(staleness), 0, 1000000,
	  .help = "with --sync async: updates wait rather than use gradients that are more than K updates "
		  "old; 0: as --sync ps (any)" },
	{ "every", "H", LOCAL, SIZE, AT(every), 1, 1000000, "10",
	  .help = "with --sync local: steps from one average to the next" },
	{ "outer", "HOW", LOCAL, OTHER, .read = read_outer,
	  .help = "with --sync local: averages are outer steps, sgd,RATE[,MOMENTUM] or "
		  "nesterov,RATE,MOMENTUM, which goes with --optimizer adamw or --momentum 0 (none)",
	  "sgd,RATE[,MOMENTUM] or nesterov,RATE,MOMENTUM, such as nesterov,0.7,0.9" },
	{ "parallel", "HOW", RANKS, OTHER, .read = read_parallel,
	  .help = "the model is cut: pipeline: each rank has some of the layers; tensor: each has a part "
		  "of every layer; data=D,pipeline=S,tensor=T: D lines of S stages in T parts share out "
		  "each batch; what is not said takes the ranks that are left (each rank has all layers)",
	  "pipeline or tensor, or some of data=D,pipeline=S,tensor=T with at most 1024 of each, "
	  "such as data=2,pipeline=2" },
	{ "order", "HOW", RANKS, WORD, AT(order), .usual = "1f1b", .choices = orders,
	  .help = "with --parallel pipeline: 1f1b: a stage alternates between forward and backward passes "
		  "as soon as it can; gpipe: all forward passes come first" },
	{ "shares", "S,S,...", LOCAL, OTHER, .read = read_shares,
	  .help = "each rank's part of a batch, such as 1,2; auto: in proportion to the speed of the "
		  "epoch before; with --parallel each stage's part of the computation (all alike)",
	  "auto, or at most 64 numbers from 0.001 to 1000, such as 1,2" },
	{ "slow", "RANK:FACTOR[:EPOCH]", NOTHING, OTHER, .read = read_slow,
	  .help = "make a rank so many times slower, from that epoch on (1), to try that; may be "
		  "repeated, also for one rank: the last that has begun counts",
	  "RANK:FACTOR[:EPOCH] with a factor from 1 to 1000 and an epoch from 1 to 100000, such "
	  "as 0:2 or 0:2:4, and at most 16 of them" },
	{ "bucket", "BYTES", RANKS, BYTES, AT(bucket_bytes), 1, 1073741824, "1M",
	  .help = "with --sync allreduce and zero1: gradients summed at a time, K and M allowed",
	  "a number of bytes from 1 to 1024M, such as 64K" },
	{ "wait", "S", NOTHING, REAL, AT(wait_s), 1e-3, 1e6, "30",
	  .help = "seconds that replacements of lost ranks have to come",
	  "seconds from 0.001 to 1e6" },
	{ "verify", NULL, RANKS, FLAG, AT(verify),
	  .help = "check after every step, with local and async after every epoch, that all ranks have "
		  "the same weights" },

	{ "rank", "R", NOTHING, COUNT, AT(library.count), 0, 1000000, .heading = "Start",
	  .variable = "TUTTI_RANK",
	  .help = "this process's number, from 0, where no launcher says it" },
	{ "size", "N", NOTHING, COUNT, AT(library.count), 1, 1000000, .variable = "TUTTI_SIZE",
	  .help = "how many ranks there are" },
	{ "store", "ADDRESS", NOTHING, TEXT, AT(library.text), .variable = "TUTTI_STORE",
	  .help = "where ranks meet, such as tcp://host:port" },
	{ "transport", "T", NOTHING, TEXT, AT(library.text), .variable = "TUTTI_TRANSPORT",
	  .help = "only these, such as shm or tcp" },
	{ "algorithm", "A", NOTHING, TEXT, AT(library.text), .variable = "TUTTI_ALGORITHM",
	  .help = "of collectives, such as ring" },
	{ "timeout", "S", NOTHING, REAL, AT(library.real), 1e-9, 1e9, .variable = "TUTTI_TIMEOUT",
	  .help = "deadline of each operation, in seconds",
	  "seconds, more than 0 and at most 1e9, such as 30" },

	{ "save", "FILE", RANKS, TEXT, AT(save), .heading = "Results",
	  .help = "a checkpoint of the training, written anew after epochs" },
	{ "every-epochs", "N", RANKS, COUNT, AT(every_epochs), 1, 100000, "1",
	  .help = "after so many epochs each, and at the end" },
	{ "resume", NULL, RANKS, FLAG, AT(resume),
	  .help = "go on from the file of --save, if it is there" },
	{ "predict", "FILE", RANKS | PREDICT, TEXT, AT(predict),
	  .help = "the label that the model gives to each sample of the validation, in the order of the "
		  "data" },
	{ "json", "FILE", NOTHING, TEXT, AT(json),
	  .help = "one object per line: start, each epoch, end; -: to standard output" },
	{ "plot", "FILE", NOTHING, OTHER, .read = read_plot,
	  .help = "loss and accuracy curves, .svg or .png; may be repeated",
	  PICTURE_EXPECTED ", and at most 4 of them" },
	{ "help", NULL, .kind = FLAG, .letter = "-h, ", .help = "this text" },
	{ "version", NULL, .kind = FLAG, .letter = "-V, ", .help = "the version" },
};

const size_t options_count = sizeof(options_table) / sizeof(options_table[0]);
static_assert(sizeof(options_table) / sizeof(options_table[0]) <= OPTIONS_MOST, "options.said");

const char *option_said(const struct options *options, const char *name)
{
	size_t i = 0;

	while (strcmp(options_table[i].name, name) != 0)
		i++;
	return options->said[i];
}

/* NULL: there are no more. */
static const char *name_of(const struct spec *spec, int i)
{
	const void *choice = spec->choices ? spec->choices[i] : NULL;

	return choice && spec->kind == NAMED ? *(const char *const *)choice : choice;
}

static int choose(const struct spec *spec, const char **at)
{
	int i = 0;

	while (name_of(spec, i) && strcmp(*at, name_of(spec, i)) != 0)
		i++;
	*at = name_of(spec, i) ? "" : wrong;
	return i;
}

static bool read_one(const struct spec *spec, const char *text, struct options *options)
{
	void *const to = (char *)options + spec->offset;
	const char *at = text;

	switch (spec->kind) {
	case FLAG: return *(bool *)to = true;
	case TEXT: *(const char **)to = text; return *text != '\0';
	case COUNT: *(unsigned *)to = (unsigned)whole(&at, spec->low, spec->high); break;
	case SIZE: *(size_t *)to = whole(&at, spec->low, spec->high); break;
	case BYTES: *(size_t *)to = bytes(&at, spec->high); break;
	case REAL: *(double *)to = real(&at, spec->low, spec->high); break;
	case WORD: *(int *)to = choose(spec, &at); break;
	case NAMED: memcpy(to, &spec->choices[choose(spec, &at)], sizeof(void *)); break;
	case OTHER: spec->read(&at, options); break;
	}
	return *text != '\0' && *at == '\0';
}

bool option_read(const struct spec *spec, const char *text, struct options *options)
{
	struct tt_nearest nearest = tt_nearest_to(text, strlen(text));
	char hint[TT_NEAREST_HINT], names[128] = "", range[64];
	const char *name, *expected = spec->expected ? spec->expected : spec->value;

	if (read_one(spec, text, options))
		return true;
	for (int i = 0; (name = name_of(spec, i)); i++) {
		const char *between = i == 0 ? "" : name_of(spec, i + 1) ? ", " : " or ";
		const size_t used = strlen(names);

		tt_nearest_offer(&nearest, name);
		snprintf(names + used, sizeof(names) - used, "%s%s", between, name);
	}
	snprintf(range, sizeof(range), "a %snumber from %.12g to %.12g",
		 spec->kind == REAL ? "" : "whole ", spec->low, spec->high);
	if (!spec->expected && spec->kind != TEXT)
		expected = *names ? names : range;
	return why_invalid("--%s: found '%s'%s, expected %s; see --help", spec->name, text,
			   tt_nearest_hint(&nearest, hint), expected);
}
