/* SPDX-License-Identifier: BSD-3-Clause */
/* What is shown of simulated collectives: tables, JSON objects, a picture. */
#ifndef BENCH_FORECAST_H
#define BENCH_FORECAST_H

#include "cluster.h"
#include "options.h"
#include "outputs.h"

/* A collective, a size, a number of ranks. */
struct bench_forecast {
	enum bench_kind kind;
	size_t wanted; /* bytes of the command line */
	size_t bytes;  /* whole elements, one for each rank at least */
	int ranks;
	tutti_prediction_t prediction;
};

/* Some, in the order of kinds, sizes wanted, ranks. */
struct bench_forecasts {
	const struct bench_cluster *cluster;
	const struct bench_forecast *rows;
	size_t count;
};

/* One for each kind. */
void bench_forecast_tables(const struct bench_forecasts *forecasts);
int bench_forecast_json(const struct bench_forecasts *forecasts,
			const struct bench_outputs *outputs);
/* A graph for each kind and size into the SVG file `path`. -1: said why. */
int bench_forecast_plot(const struct bench_forecasts *forecasts, const char *path);

/* Can the algorithm of that number do any of the rows? */
bool bench_forecast_any(const struct bench_forecast *rows, size_t count, unsigned algorithm);

#endif
