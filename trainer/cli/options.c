/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the table of options, and reads the command line by it. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "option.h"
#include "options_table.h"
#include "picture.h"

static const char *const scalings[] = { "linear", "sqrt", "none", NULL };
static const char *const courses[] = { "cosine", "constant", NULL };
static const char *const orders[] = { "1f1b", "gpipe", NULL };
static const char *const devices[] = { "host", "cuda", NULL };
static const void *const types[] = { &numbers_f32, &numbers_f64, &numbers_bf16, NULL };
static const void *const ways[] = { &sync_all_reduce, &sync_zero1, &sync_local,
				    &sync_ps,	      &sync_async, NULL };

#define AT(member)  offsetof(struct options, member)
#define WHOLE(most) "a whole number from 1 to " most
#define PART	    "a number from 0 to less than 1"

const struct spec options_table[] = {
	{ .help = "Data" },
	{ "data", "FILE",
	  "rows of numbers, the label last (CSV), or IDX; either may be gzipped; "
	  "synthetic:ROWSxFEATURESxCLASSES[:SEED]: made up, by a teacher network",
	  NOTHING, TEXT, AT(source.path) },
	{ "labels", "FILE", "the labels of an IDX file", NOTHING, TEXT, AT(source.labels) },
	{ "test-data", "FILE", "samples to validate on, rather than a share of --data", NOTHING,
	  TEXT, AT(source.test_path) },
	{ "test-labels", "FILE", "their labels, of an IDX file", NOTHING, TEXT,
	  AT(source.test_labels) },
	{ "label-column", "N", "which field of a CSV file is the label, from 1 (the last)", CURVE,
	  COUNT, AT(source.label_column), NULL, 1, 16777216, WHOLE("16777216"), .met = reads_csv,
	  .without = "a CSV file" },
	{ "classes", "N", "labels are 0 to N-1 (default: to the largest found)", RANKS, COUNT,
	  AT(source.classes), NULL, 2, DATA_LABEL_MAX + 1, "a whole number from 2 to 65536" },
	{ "data-limit", "BYTES", "content that a file may have, uncompressed; K, M and G allowed",
	  NOTHING, BYTES, AT(source.most), "4G", 1, 1125899906842624.0,
	  "a number of bytes from 1 to 1048576G, such as 4G" },
	{ "shard", NULL,
	  "each rank reads and keeps a part of the samples, and gets those of a step from the others: for "
	  "plain CSV and IDX files, and synthetic: samples",
	  RANKS, FLAG, AT(shard) },
	{ "test-fraction", "F", "share set aside for validation", CURVE, REAL,
	  AT(source.test_fraction), "0.2", 0, 0.9, "a number from 0 to 0.9", .met = has_one_source,
	  .beside = "--test-data" },

	{ .help = "Model and training" },
	{ "hidden", "N,N,...", "widths of the hidden layers, or none", CURVE, OTHER,
	  AT(said.hidden), "128,64",
	  .expected = "none, or at most 15 widths from 1 to 65536, such as 128,64",
	  .read = read_hidden },
	{ "epochs", "N", "passes over the training samples", RANKS, COUNT, AT(epochs), "30", 1,
	  100000, WHOLE("100000") },
	{ "batch", "N",
	  "samples per step, of all ranks together; all: the training samples, which is gradient "
	  "descent; 1: one-sample SGD",
	  RANKS, OTHER, AT(said.batch), "64",
	  .expected = "all, or a whole number from 1 to 16777216", .read = read_batch,
	  .met = has_own_batch, .beside = "--batch-per-rank" },
	{ "batch-per-rank", "N",
	  "samples per step of each rank, instead of --batch: with N times the "
	  "ranks the rate is N times as high (--lr-scaling)",
	  RANKS, SIZE, AT(batch_per_rank), NULL, 1, 1 << 24, WHOLE("16777216") },
	{ "accumulate", "K",
	  "each rank computes its part of a batch in K pieces: less memory, the same result", RANKS,
	  SIZE, AT(accumulate), "1", 1, 1 << 24, WHOLE("16777216") },
	{ "seed", "N", "of split, weights and order", CURVE, OTHER, AT(said.seed), "1",
	  .expected = "a whole number from 0 to 9223372036854775807", .read = read_seed },
	{ "device", "NAME", "host, or cuda: a GPU for each rank; ranks of a host take them in turn",
	  RANKS, WORD, AT(device), "host", .words = devices, .expected = "host or cuda" },
	{ "dtype", "TYPE",
	  "f32, f64 or bf16: what is computed and sent; bf16: products and gradients, of weights in f32 "
	  "(f32; f64 on GPUs)",
	  CURVE, NAMED, AT(numbers), .named = types, .expected = "f32, f64 or bf16" },
	{ "optimizer", "NAME", "sgd, momentum, nesterov, adagrad, adam, adamw, lars or lamb", CURVE,
	  NAMED, AT(optimizer), "momentum", .named = (const void *const *)optimizers,
	  .expected = "sgd, momentum, nesterov, adagrad, adam, adamw, lars or lamb" },
	{ "lr", "R",
	  "learning rate at a batch of 64 (0.1; adagrad 0.02; adam and adamw 0.001; lamb 0.005; "
	  "lars 10)",
	  CURVE, REAL, AT(rate), NULL, 1e-12, 1e6, "a number from 1e-12 to 1e6" },
	{ "lr-scaling", "HOW",
	  "with the batch: linear, sqrt or none (linear; with --batch all, and for adam, adamw and "
	  "lamb: sqrt; lars: none)",
	  CURVE, WORD, AT(scaling), .words = scalings, .expected = "linear, sqrt or none" },
	{ "schedule", "HOW",
	  "after the warm-up: cosine, constant, or step:EPOCHS:FACTOR: times FACTOR after each so many "
	  "epochs",
	  CURVE, OTHER, AT(said.schedule), "cosine",
	  .expected =
		  "cosine, constant or step:EPOCHS:FACTOR with at most 100000 epochs and a factor "
		  "from 1e-6 to 1, such as step:10:0.5",
	  .words = courses, .read = read_schedule },
	{ "warmup", "E", "epochs in which the rate rises", CURVE, REAL, AT(warmup), "1", 0, 1e5,
	  "a number of epochs from 0 to 100000" },
	{ "momentum", "M",
	  "of momentum, nesterov and lars; of adam, adamw and lamb what the mean of gradients keeps, "
	  "β1 (0.9)",
	  CURVE, REAL, AT(momentum), NULL, 0, BELOW_ONE, PART, .met = has_momentum,
	  .without = "an --optimizer that has it" },
	{ "beta2", "B", "of adam, adamw and lamb: what the mean of squares keeps", CURVE, REAL,
	  AT(beta2), "0.999", 0, BELOW_ONE, PART, .met = has_squares,
	  .without = "--optimizer adam, adamw or lamb" },
	{ "epsilon", "E", "of adam, adamw and lamb: added to the root of that mean", CURVE, REAL,
	  AT(epsilon), "1e-8", 1e-300, 1, "a number from 1e-300 to 1", .met = has_squares,
	  .without = "--optimizer adam, adamw or lamb" },
	{ "trust", "T", "of lars: a step over the length of a layer's weights, at a rate of 1",
	  CURVE, REAL, AT(trust), "0.001", 1e-12, 1e6, "a number from 1e-12 to 1e6", .met = is_lars,
	  .without = "--optimizer lars" },
	{ "weight-decay", "D", "what of each weight is added to its gradient", CURVE, REAL,
	  AT(weight_decay), "0.003", 0, BELOW_ONE, PART },
	{ "clip", "NORM", "longer gradients are shortened to that (none)", CURVE, REAL, AT(clip),
	  NULL, 1e-12, 1e12, "a number from 1e-12 to 1e12" },

	{ .help = "Communication" },
	{ "sync", "WAY",
	  "how ranks train together: allreduce: gradients are summed, and each rank makes "
	  "the same update; zero1: each rank updates its share of the weights; local: each rank makes "
	  "steps of its own, and weights are averaged; ps: the first ranks are parameter servers, the "
	  "others workers; async: likewise, and within an epoch no worker waits for another",
	  RANKS, NAMED, AT(sync), "allreduce", .named = ways,
	  .expected = "allreduce, zero1, local, ps or async" },
	{ "servers", "S", "with --sync ps and async: how many ranks are servers (1)", RANKS, COUNT,
	  AT(servers), NULL, 1, 1023, WHOLE("1023"), .met = has_servers,
	  .without = "--sync ps or async" },
	{ "staleness", "K",
	  "with --sync async: updates wait rather than use gradients that are more than K updates "
	  "old; 0: as --sync ps (any)",
	  RANKS, SIZE, AT(staleness), NULL, 0, 1000000, "a whole number from 0 to 1000000",
	  .met = is_async, .without = "--sync async" },
	{ "every", "H", "with --sync local: steps from one average to the next", RANKS, SIZE,
	  AT(every), "10", 1, 1000000, WHOLE("1000000"), .met = is_local,
	  .without = "--sync local" },
	{ "outer", "HOW",
	  "with --sync local: averages are outer steps, sgd,RATE[,MOMENTUM] or "
	  "nesterov,RATE,MOMENTUM, which goes with --optimizer adamw or --momentum 0 (none)",
	  RANKS, OTHER, AT(said.outer),
	  .expected = "sgd,RATE[,MOMENTUM] or nesterov,RATE,MOMENTUM, such as nesterov,0.7,0.9",
	  .read = read_outer, .met = is_local, .without = "--sync local" },
	{ "parallel", "HOW",
	  "the model is cut: pipeline: each rank has some of the layers; tensor: each has a part of every "
	  "layer; data=D,pipeline=S,tensor=T: D lines of S stages in T parts share out each batch; what is "
	  "not said takes the ranks that are left (each rank has all layers)",
	  RANKS, OTHER, AT(said.parallel),
	  .expected =
		  "pipeline or tensor, or some of data=D,pipeline=S,tensor=T with at most 1024 of "
		  "each, such as data=2,pipeline=2",
	  .read = read_parallel },
	{ "micro", "M",
	  "with --parallel: parts of a batch that stages work on at the same time (4; of one stage 1)",
	  RANKS, COUNT, AT(micro), NULL, 1, 4096, WHOLE("4096"), .met = is_cut,
	  .without = "--parallel" },
	{ "order", "HOW",
	  "with --parallel: 1f1b: a stage alternates between forward and backward passes as soon as it "
	  "can; gpipe: all forward passes come first",
	  RANKS, WORD, AT(order), "1f1b", .words = orders, .expected = "1f1b or gpipe",
	  .met = is_cut, .without = "--parallel" },
	{ "shares", "S,S,...",
	  "each rank's part of a batch, such as 1,2; auto: in proportion to the speed "
	  "of the epoch before; with --parallel each stage's part of the computation (all alike)",
	  RANKS, OTHER, AT(said.shares),
	  .expected = "auto, or at most 64 numbers from 0.001 to 1000, such as 1,2",
	  .read = read_shares },
	{ "slow", "RANK:FACTOR[:EPOCH]",
	  "make a rank so many times slower, from that epoch on (1), to try that; may be repeated, also "
	  "for one rank: the last that has begun counts",
	  NOTHING, OTHER, AT(said.slow),
	  .expected =
		  "RANK:FACTOR[:EPOCH] with a factor from 1 to 1000 and an epoch from 1 to 100000, "
		  "such as 0:2 or 0:2:4, and at most 16 of them",
	  .read = read_slow },
	{ "bucket", "BYTES", "gradients summed at a time, K and M allowed", RANKS, BYTES,
	  AT(bucket_bytes), "1M", 1, 1073741824, "a number of bytes from 1 to 1024M, such as 64K" },
	{ "wait", "S", "seconds that replacements of lost ranks have to come", NOTHING, REAL,
	  AT(wait_s), "30", 1e-3, 1e6, "seconds from 0.001 to 1e6" },
	{ "verify", NULL,
	  "check after every step, with local and async after every epoch, that all ranks have the same "
	  "weights",
	  RANKS, FLAG, AT(verify) },

	{ .help = "Start" },
	{ "rank", "R", "this process's number, from 0, where no launcher says it (TUTTI_RANK)",
	  NOTHING, DIGITS, AT(start.rank), NULL, 0, 1000000, "a whole number from 0 to 1000000" },
	{ "size", "N", "how many ranks there are (TUTTI_SIZE)", NOTHING, DIGITS, AT(start.size),
	  NULL, 1, 1000000, WHOLE("1000000") },
	{ "store", "ADDRESS", "where ranks meet, such as tcp://host:port (TUTTI_STORE)", NOTHING,
	  TEXT, AT(start.store) },
	{ "transport", "T", "only these, such as shm or tcp (TUTTI_TRANSPORT)", NOTHING, TEXT,
	  AT(start.transport) },
	{ "algorithm", "A", "of collectives, such as ring (TUTTI_ALGORITHM)", NOTHING, TEXT,
	  AT(start.algorithm) },
	{ "timeout", "S", "deadline of each operation, in seconds (TUTTI_TIMEOUT)", NOTHING, NUMBER,
	  AT(start.timeout), NULL, 1e-9, 1e9, "seconds, more than 0 and at most 1e9, such as 30" },

	{ .help = "Results" },
	{ "save", "FILE", "a checkpoint of the training, written anew after epochs", RANKS, TEXT,
	  AT(save) },
	{ "every-epochs", "N", "after so many epochs each, and at the end", RANKS, COUNT,
	  AT(every_epochs), "1", 1, 100000, WHOLE("100000"), .met = saves,
	  .without = "--save FILE" },
	{ "resume", NULL, "go on from the file of --save, if it is there", RANKS, FLAG, AT(resume),
	  .met = saves, .without = "--save FILE" },
	{ "predict", "FILE",
	  "the label that the model gives to each sample of the validation, in the "
	  "order of the data",
	  RANKS, TEXT, AT(predict) },
	{ "json", "FILE", "one object per line: start, each epoch, end; -: to standard output",
	  NOTHING, TEXT, AT(json) },
	{ "plot", "FILE", "loss and accuracy curves, .svg or .png; may be repeated", NOTHING, OTHER,
	  AT(said.plot), .expected = PICTURE_EXPECTED ", and at most 4 of them",
	  .read = read_plot },
	{ "help", NULL, "this text", .kind = FLAG },
	{ "version", NULL, "the version", .kind = FLAG },
};

enum {
	SPECS = sizeof(options_table) / sizeof(options_table[0]),
	OPT_HELP = 'h',
	OPT_VERSION = 'V',
	OPT_FIRST = 256, /* of the other options: their place in the table, and this */
};

const size_t options_count = SPECS;

/* ---- the help */

enum { HELP_INDENT = 23, HELP_WIDTH = 88 };

/* Words of `text` up to the width, from `column` on; the next lines are indented. */
static size_t print_wrapped(const char *text, size_t column)
{
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
	return column;
}

/* What getopt_long() returns for the option. */
static int id_of(const struct spec *spec)
{
	return strcmp(spec->name, "help") == 0	    ? OPT_HELP
	       : strcmp(spec->name, "version") == 0 ? OPT_VERSION
						    : OPT_FIRST + (int)(spec - options_table);
}

static void print_spec(const struct spec *spec)
{
	const int id = id_of(spec);
	char left[64], usual[32];
	int used = id < OPT_FIRST ? snprintf(left, sizeof(left), "  -%c, --%s", id, spec->name)
				  : snprintf(left, sizeof(left), "      --%s", spec->name);

	if (spec->value)
		used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", spec->value);
	if (used < HELP_INDENT - 1)
		printf("%-*s", HELP_INDENT, left);
	else
		printf("%s\n%*s", left, HELP_INDENT, "");
	const size_t column = print_wrapped(spec->help, HELP_INDENT);

	snprintf(usual, sizeof(usual), "(%s)", spec->usual);
	print_wrapped(spec->usual ? usual : "", column);
	putchar('\n');
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
		if (options_table[i].name)
			print_spec(&options_table[i]);
		else
			printf("\n%s\n", options_table[i].help);
	printf("\nExit status: 0; 1 if the training failed, 2 if the command line is wrong.\n");
}

/* ---- the command line */

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
static bool is_in_full(const char *argument, const char *name)
{
	const size_t length = strlen(name);

	return strncmp(argument, "--", 2) != 0 ||
	       (strncmp(argument + 2, name, length) == 0 &&
		(argument[2 + length] == '\0' || argument[2 + length] == '='));
}

static void make_long_options(struct option *out)
{
	for (int i = 0; i < SPECS; i++)
		if (options_table[i].name)
			*out++ = (struct option){
				.name = options_table[i].name,
				.has_arg = options_table[i].value ? required_argument : no_argument,
				.val = id_of(&options_table[i]),
			};
	*out = (struct option){ 0 };
}

static bool refuse(int id, char **argv, const struct option *known)
{
	const char *launchers = launcher_option(argv[optind - 1]);
	char text[TT_OPTION_WHY];

	if (launchers)
		return why_set(TUTTI_ERR_INVALID,
			       "%s is an option of tutti-run: give it before the --", launchers);
	return why_set(TUTTI_ERR_INVALID, "%s; see --help", tt_option_why(id, argv, known, text));
}

static bool take(int id, char **argv, const struct option *known, struct options *options)
{
	if (id < OPT_FIRST)
		return refuse(id, argv, known);
	const struct spec *spec = &options_table[id - OPT_FIRST];
	const char *argument = argv[optind - 1];

	if (spec->value && argument == optarg)
		argument = argv[optind - 2];
	if (!is_in_full(argument, spec->name))
		return why_set(TUTTI_ERR_INVALID,
			       "found the option %s, expected --%s in full; see --help", argument,
			       spec->name);
	return option_read(spec, optarg, options);
}

static bool set_usual(struct options *options)
{
	bool ok = true;

	*options = (struct options){
		.rate = -1, .momentum = -1, .scaling = -1, .staleness = STALENESS_ANY
	};
	for (int i = 0; i < SPECS && ok; i++)
		if (options_table[i].usual)
			ok = option_read(&options_table[i], options_table[i].usual, options);
	return ok;
}

/* An option that would do nothing. */
static bool check_given(const struct spec *spec, const struct options *o)
{
	if (!spec->met || spec->met(o))
		return true;
	return spec->without
		       ? why_set(TUTTI_ERR_INVALID,
				 "found --%s without %s, where it does nothing; add that, or leave it out",
				 spec->name, spec->without)
		       : why_set(TUTTI_ERR_INVALID,
				 "found --%s and %s, of which one is enough; leave one out",
				 spec->name, spec->beside);
}

enum options_outcome options_parse(int argc, char **argv, struct options *out)
{
	struct options options;
	struct option known[SPECS + 1];
	bool given[SPECS] = { false };
	bool ok = set_usual(&options);
	int id;

	make_long_options(known);
	optind = 0; /* glibc: start afresh, so that a process may parse twice */
	while (ok && (id = getopt_long(argc, argv, ":hV", known, NULL)) != -1) {
		if (id == OPT_HELP) {
			print_help();
			return OPTIONS_DONE;
		}
		if (id == OPT_VERSION) {
			printf("tutti-train %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		ok = take(id, argv, known, &options);
		if (ok)
			given[id - OPT_FIRST] = true;
	}
	if (ok && (optind < argc || !options.source.path))
		ok = why_set(TUTTI_ERR_INVALID,
			     "found %s%s, expected --data FILE and options; see --help",
			     optind < argc ? "the argument " : "no --data",
			     optind < argc ? argv[optind] : "");
	for (int i = 0; i < SPECS && ok; i++)
		if (given[i])
			ok = check_given(&options_table[i], &options);
	ok = ok && options_check(&options);
	*out = options;
	return ok ? OPTIONS_RUN : OPTIONS_WRONG;
}
