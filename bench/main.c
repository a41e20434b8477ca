/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench: under a launcher, one rank of a measurement; alone, the parent of ranks that it
 * starts itself and whose store it hosts; with --simulate neither. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "gpu_backend.h"
#include "lines.h"
#include "local.h"
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

/* FNV-1a */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

static bool all_complain_alike(tutti_comm_t comm)
{
	const uint64_t hash = hash_of(bench_options_complaint());
	uint64_t ends[2] = { hash, ~hash }; /* the smallest, and the complement of the largest */

	return tutti_all_reduce(comm, ends, ends, 2, TUTTI_UINT64, TUTTI_MIN, NULL) == TUTTI_OK &&
	       ends[0] == ~ends[1];
}

/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join and compare their errors before any of them exits: rank 0 alone prints one that all have. If
 * they do not join soon, each prints its own. */
static int refuse(void)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;

	config.timeout_s = SOON_S;
	if (!bench_launched() || tutti_init(&config, &comm) != TUTTI_OK) {
		bench_options_complain();
		return STATUS_USAGE;
	}
	if (!all_complain_alike(comm) || tutti_comm_rank(comm) == 0)
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

/* By the library itself, before each of the ranks would complain of them; it names the member of the
 * config where the user gave an option. False: refuse() prints why. */
static bool names_known(const struct bench_options *options)
{
	static const struct {
		const char *member, *option;
	} names[] = {
		{ "transports of the config", "--transport" },
		{ "algorithm of the config", "--algorithm" },
	};
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.transports = options->transport;
	config.algorithm = options->algorithm;
	if (tutti_config_check(&config) == TUTTI_OK)
		return true;
	const char *error = tutti_last_error(NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t length = strlen(names[i].member);

		if (strncmp(error, names[i].member, length) == 0)
			return bench_options_refuse(names[i].option, error + length);
	}
	return bench_options_refuse("", error);
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

	if (bench_tutti_init(&tutti, options) < 0)
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

static int simulate(const struct bench_options *options)
{
	struct bench_cluster cluster;

	if (!bench_cluster_read(options->simulate, &cluster))
		return STATUS_USAGE;
	return bench_simulate(options, &cluster) == 0 ? 0 : STATUS_FAILED;
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
		return simulate(options);
	if (options->threads && bench_launched())
		return refuse_launched();
	if (options->threads) /* before CUDA begins: ranks' streams must not stand behind each other */
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (options->cuda && bench_gpu_count() == 0)
		return STATUS_FAILED;
	if (options->cuda && !bench_gpu_fits(options))
		return STATUS_USAGE;
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
	signal(SIGXFSZ,
	       SIG_IGN); /* a file as large as they may be (ulimit -f) is an error, not our end */
	const enum bench_parsed parsed = bench_options_parse(argc, argv, &options);
	if (parsed == BENCH_PARSED)
		return carry_out(&options, argv);
	if (parsed == BENCH_PARSED_WRONG)
		return refuse();
	return bench_options_end(parsed, tutti_version());
}
