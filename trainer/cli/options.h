/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user asked for. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"
#include "engine.h"
#include "grid.h"
#include "model.h"
#include "optimizer.h"
#include "rate.h"
#include "shares.h"
#include "sync.h"

#define STALENESS_ANY SIZE_MAX

enum { OPTIONS_MOST = 64, OPTIONS_PLOTS_MAX = 4 };

/* Steps from one average of ranks to the next, as if their distance were a gradient. */
struct outer {
	double rate; /* 0: averages are taken as they are */
	double momentum;
	bool nesterov;
};

struct options {
	/* By their place in the table the texts that were given, a flag's is ""; NULL: not given. */
	const char *said[OPTIONS_MOST];
	const char *model; /* of tutti-train predict; NULL: this is a training */
	struct data_source source;
	size_t hidden[MODEL_LAYERS_MAX - 1];
	unsigned hidden_layers, epochs;
	size_t batch;	       /* global; 0: all training samples */
	size_t batch_per_rank; /* 0: the batch is said as a whole */
	unsigned accumulate;   /* parts of a slice, or micro-batches; 0: as the grid needs */
	double rate, trust;
	struct rule rule; /* of updates, but for what depends on the step */
	double clip;	  /* 0: none */
	double warmup;	  /* epochs */
	const struct optimizer *optimizer;
	struct rate_schedule schedule;
	int scaling; /* enum rate_scaling */
	const struct engine *engine;
	const struct numbers *numbers;
	const struct sync *sync;
	uint64_t seed;
	size_t bucket_bytes;
	size_t every; /* steps from one average to the next, with --sync local */
	struct outer outer;
	bool shard;	  /* each rank reads and keeps a part of the samples */
	unsigned servers; /* of --sync ps and async; 0: another way */
	size_t staleness; /* updates that gradients may be old; STALENESS_ANY */
	double wait_s;	  /* for replacements of lost ranks */
	bool verify;
	struct share_options shares;
	struct parallel parallel;
	int order; /* enum pipeline_order */
	union {
		unsigned count;
		const char *text;
		double real;
	} library;	  /* of what it reads in the environment, and nobody here */
	const char *save; /* NULL: nothing is saved */
	unsigned every_epochs;
	bool resume;
	const char *predict; /* NULL: nothing is predicted */
	const char *json;    /* NULL: none; "-": standard output */
	const char *plots[OPTIONS_PLOTS_MAX];
	unsigned plot_count;
};

enum options_outcome { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Fill in `out`, and put what the library is to know into the environment. OPTIONS_DONE: --help or --version
 * was printed. OPTIONS_WRONG: why says what. Strings stay argv's. */
enum options_outcome options_parse(int argc, char **argv, struct options *out);

/* The text that was given; NULL: none was. */
const char *option_said(const struct options *options, const char *name);

/* Equal for options that make the same training (where results are written may differ, and how long
 * replacements are waited for). */
uint64_t options_hash(const struct options *options);

/* By name, those that lead along the same curve, with a batch of so many samples, however ranks share the
 * work; where ranks step alone, with so many of them. NULL: there is no memory. */
json_t *options_curve(const struct options *options, size_t batch, int ranks);
/* Of two such: `text` says the first that differs, and its values. */
bool options_differ(json_t *then, json_t *now, char *text, size_t size);

#endif
