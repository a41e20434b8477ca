/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user asked for. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"
#include "model.h"
#include "sgd.h"

#define OPTIONS_PLOTS_MAX 4

enum device { DEVICE_HOST, DEVICE_CUDA };

struct options {
	struct data_source source;
	size_t hidden[MODEL_LAYERS_MAX - 1];
	unsigned hidden_layers;
	unsigned epochs;
	size_t batch; /* global */
	double rate, momentum, weight_decay;
	double warmup; /* epochs */
	enum rate_schedule schedule;
	enum rate_scaling scaling;
	enum device device;
	const struct numbers *numbers;
	uint64_t seed;
	double test_fraction;
	size_t bucket_bytes;
	double wait_s; /* for replacements of lost ranks */
	bool verify;
	const char *json; /* NULL: none */
	const char *plots[OPTIONS_PLOTS_MAX];
	unsigned plot_count;
};

enum options_outcome { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Fill in `out`. OPTIONS_DONE: --help or --version was printed. OPTIONS_WRONG: `why` says what.
 * Strings stay argv's. */
enum options_outcome options_parse(int argc, char **argv, struct options *out, struct why *why);

/* Equal for options that make the same training (where results are written may differ, and how long
 * replacements are waited for). */
uint64_t options_hash(const struct options *options);

#endif
