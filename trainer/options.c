/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the command line. Owns nothing. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "option.h"
#include "picture.h"

static const char usage[] =
	"Usage: tutti-train --data FILE [OPTION]...\n"
	"Train a multilayer perceptron by synchronous data-parallel SGD. Alone it is one rank; "
	"under\n"
	"tutti-run (tutti-run -n 4 -- tutti-train ...), torchrun, mpirun or srun it is one of "
	"many.\n"
	"\n"
	"Data\n"
	"  --data FILE          rows of numbers, the label last (CSV), or IDX; either may be "
	"gzipped\n"
	"  --labels FILE        the labels of an IDX file\n"
	"  --classes N          labels are 0 to N-1 (default: to the largest found)\n"
	"  --data-limit BYTES   content that a file may have, uncompressed; K, M and G allowed (4G)\n"
	"  --test-fraction F    share set aside for validation (0.2)\n"
	"Model and training\n"
	"  --hidden N,N,...     widths of the hidden layers, or none (128,64)\n"
	"  --epochs N           passes over the training samples (30)\n"
	"  --batch N            samples per step, of all ranks together (64)\n"
	"  --lr R               learning rate at a batch of 64 (0.1)\n"
	"  --lr-scaling HOW     with the batch: linear, sqrt or none (linear)\n"
	"  --schedule HOW       after the warm-up: cosine or constant (cosine)\n"
	"  --warmup E           epochs in which the rate rises (1)\n"
	"  --momentum M         (0.9)\n"
	"  --weight-decay D     (0.003)\n"
	"  --seed N             of split, weights and order (1)\n"
	"  --dtype TYPE         f32 or f64: what is computed and sent (f32; f64 on GPUs)\n"
	"  --device NAME        host, or cuda: a GPU for each rank; ranks of a host take them in turn "
	"(host)\n"
	"Communication\n"
	"  --bucket BYTES       gradients averaged at a time, K and M allowed (64K)\n"
	"  --wait S             seconds that replacements of lost ranks have to come (30)\n"
	"  --verify             check after every step that all ranks have the same weights\n"
	"Results\n"
	"  --json FILE          one object per line: start, each epoch, end\n"
	"  --plot FILE          loss and accuracy curves, .svg or .png; may be repeated\n"
	"  -h, --help           this text\n"
	"  -V, --version        the version\n"
	"\n"
	"Exit status: 0; 1 if the training failed, 2 if the command line is wrong.\n";

enum option_id {
	OPT_DATA = 1,
	OPT_LABELS,
	OPT_CLASSES,
	OPT_DATA_LIMIT,
	OPT_TEST_FRACTION,
	OPT_HIDDEN,
	OPT_EPOCHS,
	OPT_BATCH,
	OPT_LR,
	OPT_LR_SCALING,
	OPT_SCHEDULE,
	OPT_WARMUP,
	OPT_MOMENTUM,
	OPT_WEIGHT_DECAY,
	OPT_SEED,
	OPT_DEVICE,
	OPT_DTYPE,
	OPT_BUCKET,
	OPT_WAIT,
	OPT_VERIFY,
	OPT_JSON,
	OPT_PLOT,
	OPT_HELP = 'h',
	OPT_VERSION = 'V',
};

static const struct option long_options[] = {
	{ "data", required_argument, NULL, OPT_DATA },
	{ "labels", required_argument, NULL, OPT_LABELS },
	{ "classes", required_argument, NULL, OPT_CLASSES },
	{ "data-limit", required_argument, NULL, OPT_DATA_LIMIT },
	{ "test-fraction", required_argument, NULL, OPT_TEST_FRACTION },
	{ "hidden", required_argument, NULL, OPT_HIDDEN },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "lr", required_argument, NULL, OPT_LR },
	{ "lr-scaling", required_argument, NULL, OPT_LR_SCALING },
	{ "schedule", required_argument, NULL, OPT_SCHEDULE },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "momentum", required_argument, NULL, OPT_MOMENTUM },
	{ "weight-decay", required_argument, NULL, OPT_WEIGHT_DECAY },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "dtype", required_argument, NULL, OPT_DTYPE },
	{ "bucket", required_argument, NULL, OPT_BUCKET },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const struct options defaults = {
	.source.most = (size_t)4 << 30,
	.hidden = { 128, 64 },
	.hidden_layers = 2,
	.epochs = 30,
	.batch = 64,
	.rate = 0.1,
	.momentum = 0.9,
	.weight_decay = 0.003,
	.warmup = 1,
	.schedule = RATE_COSINE,
	.scaling = SCALE_LINEAR,
	.seed = 1,
	.test_fraction = 0.2,
	.bucket_bytes = 64 << 10,
	.wait_s = 30,
};

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

static tutti_result_t parse_counts(int id, const char *text, struct options *o, struct why *why)
{
	uint64_t number = 0;
	tutti_result_t result;

	switch (id) {
	case OPT_CLASSES:
		result = parse_whole("classes", text, 2, DATA_LABEL_MAX + 1,
				     "a whole number from 2 to 65536", &number, why);
		o->source.classes = (unsigned)number;
		return result;
	case OPT_EPOCHS:
		result = parse_whole("epochs", text, 1, 100000, "a whole number from 1 to 100000",
				     &number, why);
		o->epochs = (unsigned)number;
		return result;
	case OPT_BATCH:
		result = parse_whole("batch", text, 1, 1 << 24, "a whole number from 1 to 16777216",
				     &number, why);
		o->batch = (size_t)number;
		return result;
	default: /* OPT_SEED */
		return parse_whole("seed", text, 0, INT64_MAX,
				   "a whole number from 0 to 9223372036854775807", &o->seed, why);
	}
}

static tutti_result_t parse_reals(int id, const char *text, struct options *o, struct why *why)
{
	static const char unit[] = "a number from 0 to less than 1";

	switch (id) {
	case OPT_TEST_FRACTION:
		return parse_real("test-fraction", text, 0, 0.9, "a number from 0 to 0.9",
				  &o->test_fraction, why);
	case OPT_LR:
		return parse_real("lr", text, 1e-12, 1e6, "a number from 1e-12 to 1e6", &o->rate,
				  why);
	case OPT_WARMUP:
		return parse_real("warmup", text, 0, 1e5, "a number of epochs from 0 to 100000",
				  &o->warmup, why);
	case OPT_MOMENTUM:
		return parse_real("momentum", text, 0, nextafter(1, 0), unit, &o->momentum, why);
	default: /* OPT_WEIGHT_DECAY */
		return parse_real("weight-decay", text, 0, nextafter(1, 0), unit, &o->weight_decay,
				  why);
	}
}

static tutti_result_t parse_words(int id, const char *text, struct options *o, struct why *why)
{
	static const char *const scalings[] = { "linear", "sqrt", "none", NULL };
	static const char *const schedules[] = { "constant", "cosine", NULL };
	static const char *const devices[] = { "host", "cuda", NULL };
	static const char *const dtypes[] = { "f32", "f64", NULL };
	static const struct numbers *const numbers[] = { &numbers_f32, &numbers_f64 };
	int place = 0;
	tutti_result_t result;

	if (id == OPT_DEVICE) {
		result = parse_word("device", text, devices, "host or cuda", &place, why);
		o->device = (enum device)place;
		return result;
	}
	if (id == OPT_DTYPE) {
		result = parse_word("dtype", text, dtypes, "f32 or f64", &place, why);
		o->numbers = numbers[place];
		return result;
	}
	if (id == OPT_SCHEDULE) {
		result = parse_word("schedule", text, schedules, "cosine or constant", &place, why);
		o->schedule = (enum rate_schedule)place;
		return result;
	}
	result = parse_word("lr-scaling", text, scalings, "linear, sqrt or none", &place, why);
	o->scaling = (enum rate_scaling)place;
	return result;
}

static tutti_result_t parse_one(int id, const char *text, struct options *o, struct why *why)
{
	switch (id) {
	case OPT_DATA: o->source.path = text; return TUTTI_OK;
	case OPT_DATA_LIMIT:
		return parse_bytes("data-limit", text, (uint64_t)1 << 50,
				   "a number of bytes from 1 to 1048576G, such as 4G",
				   &o->source.most, why);
	case OPT_LABELS: o->source.labels = text; return TUTTI_OK;
	case OPT_JSON: o->json = text; return TUTTI_OK;
	case OPT_WAIT:
		return parse_real("wait", text, 1e-3, 1e6, "seconds from 0.001 to 1e6", &o->wait_s,
				  why);
	case OPT_VERIFY: o->verify = true; return TUTTI_OK;
	case OPT_PLOT: return parse_plot(text, o, why);
	case OPT_HIDDEN: return parse_hidden(text, o, why);
	case OPT_BUCKET:
		return parse_bytes("bucket", text, 1u << 30,
				   "a number of bytes from 1 to 1024M, such as 64K",
				   &o->bucket_bytes, why);
	case OPT_DEVICE:
	case OPT_DTYPE:
	case OPT_LR_SCALING:
	case OPT_SCHEDULE: return parse_words(id, text, o, why);
	case OPT_CLASSES:
	case OPT_EPOCHS:
	case OPT_BATCH:
	case OPT_SEED: return parse_counts(id, text, o, why);
	default: return parse_reals(id, text, o, why);
	}
}

/* What depends on several options. */
static tutti_result_t complete(struct options *o, struct why *why)
{
	const bool on_gpu = o->device == DEVICE_CUDA;

	if (!o->numbers)
		o->numbers = on_gpu ? &numbers_f64 : &numbers_f32;
	if (on_gpu && o->numbers != &numbers_f64)
		return why_set(
			why, TUTTI_ERR_UNSUPPORTED,
			"--dtype: found %s, expected f64, which is all that --device cuda has",
			o->numbers->name);
	return TUTTI_OK;
}

enum options_outcome options_parse(int argc, char **argv, struct options *out, struct why *why)
{
	struct options options = defaults;
	char text[TT_OPTION_WHY];
	int id;

	optind = 0; /* glibc: start afresh, so that a process may parse twice */
	while ((id = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1) {
		if (id == OPT_HELP) {
			fputs(usage, stdout);
			return OPTIONS_DONE;
		}
		if (id == OPT_VERSION) {
			printf("tutti-train %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		if (id == '?' || id == ':') {
			why_set(why, TUTTI_ERR_INVALID, "%s; see --help",
				tt_option_why(id, argv, long_options, text));
			return OPTIONS_WRONG;
		}
		if (parse_one(id, optarg, &options, why) != TUTTI_OK)
			return OPTIONS_WRONG;
	}
	if (optind < argc || !options.source.path) {
		why_set(why, TUTTI_ERR_INVALID,
			"found %s%s, expected --data FILE and options; see --help",
			optind < argc ? "the argument " : "no --data",
			optind < argc ? argv[optind] : "");
		return OPTIONS_WRONG;
	}
	if (complete(&options, why) != TUTTI_OK)
		return OPTIONS_WRONG;
	*out = options;
	return OPTIONS_RUN;
}

static uint64_t hash_real(uint64_t hash, double value)
{
	return hash_bytes(hash, &value, sizeof(value));
}

uint64_t options_hash(const struct options *o)
{
	uint64_t hash = hash_word(o->seed, o->hidden_layers);

	for (unsigned i = 0; i < o->hidden_layers; i++)
		hash = hash_word(hash, o->hidden[i]);
	hash = hash_word(hash_word(hash, o->epochs), o->batch);
	hash = hash_real(hash_real(hash, o->rate), o->momentum);
	hash = hash_real(hash_real(hash, o->weight_decay), o->warmup);
	hash = hash_word(hash_word(hash, o->schedule), o->scaling);
	hash = hash_real(hash_word(hash, o->bucket_bytes), o->test_fraction);
	hash = hash_word(hash, o->numbers->dtype);
	return hash_word(hash_word(hash_word(hash, o->verify), o->device), o->source.classes);
}
