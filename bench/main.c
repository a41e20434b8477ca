/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench: under a launcher, one rank of a measurement; alone, the parent of ranks that it
 * starts itself and whose store it hosts; with --simulate neither. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "gpu_backend.h"
#include "lines.h"
#include "local.h"
#include "option.h"
#include "output.h"
#include "outputs.h"
#include "simulate.h"
#include "start.h"
#include "sweep.h"
#include "threads.h"
#include "tutti_backend.h"

#define SOON_S 3.0

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

/* ---- errors of the command line */

/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join and compare their errors before any of them exits: rank 0 alone prints one that all have. If
 * they do not join soon, each prints its own. */
static int refuse(void)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	bool alike;

	config.timeout_s = SOON_S;
	if (!bench_launched() || tutti_init(&config, &comm) != TUTTI_OK) {
		bench_options_complain();
		return STATUS_USAGE;
	}
	if (bench_tutti_compare(comm, bench_options_complaint(), &alike) != TUTTI_OK || !alike ||
	    tutti_comm_rank(comm) == 0)
		bench_options_complain();
	tutti_barrier(comm, NULL);
	tutti_comm_destroy(comm);
	return STATUS_USAGE;
}

/* All ranks find the same error: rank 0 prints it before any rank exits. */
static void refuse_together(struct bench_tutti *tutti)
{
	if (tutti->backend.rank == 0)
		bench_options_complain();
	tutti->backend.barrier(&tutti->backend);
}

/* By the library itself, before each of the ranks would complain of them. False: refuse() prints
 * why. */
static bool names_known(const struct bench_options *options)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.transports = options->transport;
	config.algorithm = options->algorithm;
	if (tutti_config_check(&config) == TUTTI_OK)
		return true;
	const char *error = tutti_last_error(NULL), *option = tt_option_of_config(&error);
	return bench_options_refuse(option ? option : "", error);
}

/* ---- what is carried out */

static int run(struct bench_tutti *tutti, const struct bench_options *options,
	       const struct bench_start *start)
{
	if (options->kind == BENCH_INIT)
		return bench_start_end(start, &tutti->backend, options);
	if (options->overlap)
		return bench_overlap(tutti, options);
	return options->tune ? bench_tune(tutti, options) : bench_sweep(&tutti->backend, options);
}

static int measure(const struct bench_options *options)
{
	const struct bench_start start = bench_start_begin();
	struct bench_tutti tutti;
	int status = STATUS_USAGE;

	if (bench_tutti_init(&tutti, options, options->algorithm) < 0)
		return STATUS_FAILED;
	if (!bench_options_fit(options, tutti.backend.size))
		refuse_together(&tutti);
	else
		status = (options->cuda ? bench_gpu_init(&tutti, options) : 0) == 0 &&
					 run(&tutti, options, &start) == 0
				 ? 0
				 : STATUS_FAILED;
	bench_gpu_fini(&tutti);
	bench_tutti_fini(&tutti);
	return status;
}

static int start_ranks(const struct bench_options *options, char **argv)
{
	const int ranks = options->ranks > 0 ? options->ranks : 2;
	tutti_store_t store;
	uint64_t random;
	char address[64];
	int status;

	if (!bench_options_fit(options, ranks)) {
		bench_options_complain();
		return STATUS_USAGE;
	}
	if (!bench_outputs_possible(options))
		return STATUS_FAILED;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		bench_complain("draw a random number for the store's name: %m");
		return STATUS_FAILED;
	}
	snprintf(address, sizeof(address), "unix:tutti-bench-%ld-%016llx", (long)getpid(),
		 (unsigned long long)random);
	if (tutti_store_open(address, 1, 0, &store) != TUTTI_OK) {
		bench_complain("cannot host a store for the ranks: %s", tutti_last_error(NULL));
		return STATUS_FAILED;
	}
	status = options->threads ? bench_run_threads(ranks, measure, options, address)
				  : bench_run_local(ranks, argv, address);
	tutti_store_close(store);
	return status;
}

static int refuse_launched(void)
{
	bench_complain("--threads was found, but a launcher has started this process as a rank; "
		       "leave one of the two out");
	return STATUS_USAGE;
}

static int carry_out(const struct bench_options *options, char **argv)
{
	if (options->simulate)
		return bench_simulate(options);
	if (options->threads && bench_launched())
		return refuse_launched();
	if (options->threads) /* before CUDA begins: ranks' streams must not stand behind each other */
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	const int missing = options->cuda ? bench_gpu_missing(options) : 0;
	if (missing)
		return missing;
	if (!names_known(options))
		return refuse();
	if (bench_launched())
		return measure(options);
	return options->kind == BENCH_INIT ? bench_start_repeat(options, argv, "tutti", start_ranks)
					   : start_ranks(options, argv);
}

int main(int argc, char **argv)
{
	struct bench_options options;

	output_begin(STATUS_FAILED);
	const enum bench_parsed parsed = bench_options_parse(argc, argv, &options);
	if (parsed == BENCH_PARSED_WRONG)
		return refuse();
	if (parsed != BENCH_PARSED)
		return bench_options_end(parsed, tutti_version());
	bench_options_take_environment(&options);
	return carry_out(&options, argv);
}
