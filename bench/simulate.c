/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which collectives, sizes and numbers of ranks are simulated. */
#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "forecast.h"
#include "lines.h"
#include "pattern.h"

struct simulation {
	const struct bench_options *options;
	const struct bench_cluster *cluster;
	struct bench_forecast *rows;
	size_t count, capacity;
};

static struct bench_forecast *add_row(struct simulation *sim)
{
	if (sim->count == sim->capacity) {
		const size_t capacity = sim->capacity ? 2 * sim->capacity : 64;
		struct bench_forecast *grown = realloc(sim->rows, capacity * sizeof(*grown));

		if (!grown) {
			bench_complain("--simulate: no memory for %zu rows", capacity);
			return NULL;
		}
		sim->rows = grown;
		sim->capacity = capacity;
	}
	return &sim->rows[sim->count++];
}

static int simulate_ranks(struct simulation *sim, enum bench_kind kind, size_t wanted, int ranks)
{
	const size_t element = bench_type_size(sim->options->dtype);
	const size_t count = bench_case_count(kind, wanted, element, ranks);
	const size_t bytes = bench_case_bytes(kind, count, element, ranks);
	struct bench_forecast *row = add_row(sim);

	if (!row)
		return -1;
	*row = (struct bench_forecast){
		.kind = kind, .wanted = wanted, .bytes = bytes, .ranks = ranks
	};
	row->prediction.size = sizeof(row->prediction);
	if (tutti_predict(&sim->cluster->figures, bench_case(kind)->name, ranks, (double)bytes,
			  &row->prediction) != TUTTI_OK)
		bench_complain("--simulate: %s", tutti_last_error(NULL));
	else if (row->prediction.chosen < 0)
		bench_complain("--simulate: no algorithm can do %s with %d ranks",
			       bench_case(kind)->name, ranks);
	else
		return 0;
	return -1;
}

static int simulate_kind(struct simulation *sim, enum bench_kind kind)
{
	const struct bench_options *o = sim->options;

	for (size_t wanted = o->begin; wanted <= o->end; wanted *= (size_t)o->factor) {
		for (int ranks = 2; ranks <= o->most_ranks; ranks *= 2)
			if (simulate_ranks(sim, kind, wanted, ranks) < 0)
				return -1;
		if (bench_case(kind)->empty) /* of one size */
			break;
	}
	return 0;
}

static int simulate_all(struct simulation *sim)
{
	for (int k = 0; k < BENCH_KIND_COUNT; k++) {
		const enum bench_kind kind = (enum bench_kind)k, only = sim->options->kind;

		if (!bench_case_is_collective(kind) || (only != BENCH_KIND_COUNT && only != kind))
			continue;
		if (simulate_kind(sim, kind) < 0)
			return -1;
	}
	return 0;
}

static int show(const struct simulation *sim, const struct bench_outputs *outputs)
{
	const struct bench_forecasts forecasts = { sim->cluster, sim->rows, sim->count };

	if (outputs->table)
		bench_forecast_tables(&forecasts);
	if (bench_forecast_json(&forecasts, outputs) < 0)
		return -1;
	return sim->options->plot ? bench_forecast_plot(&forecasts, sim->options->plot) : 0;
}

int bench_simulate(const struct bench_options *options, const struct bench_cluster *cluster)
{
	struct simulation sim = { .options = options, .cluster = cluster };
	struct bench_outputs outputs;
	int rc;

	if (!bench_outputs_open(&outputs, options))
		return -1;
	rc = simulate_all(&sim);
	if (rc == 0)
		rc = show(&sim, &outputs);
	if (bench_outputs_close(&outputs) < 0)
		rc = -1;
	free(sim.rows);
	return rc;
}
