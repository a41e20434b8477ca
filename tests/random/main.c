/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations drawn at random, each of whose elements is compared with a reference that is computed
 * alone, over real processes and threads. A seed stands for a job: its ranks, transport and
 * settings, and all that they call; the next job has the next seed.
 * Without --jobs or --seconds it is one job. What is given counts for all jobs in place of what their
 * seeds say. In many steps (--steps) ranks' memory is watched, too. --flip changes a byte of some buffer
 * of rank 0 in each job, which must be reported. After a failure the last line is the command that
 * repeats it. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "job.h"

struct options {
	struct wish wish;
	uint64_t seed;
	double seconds;
	long jobs, only, flip;
	bool verbose;
};

/* A forced algorithm that cannot do a collective is warned of. */
static void log_line(tutti_log_level_t level, const char *subsystem, const char *line,
		     void *context)
{
	if (level == TUTTI_LOG_ERROR || strcmp(subsystem, "plan") != 0)
		fprintf(stderr, "%s: %s\n", subsystem, line);
}

static bool is_transport(const char *name)
{
	int i = 0;

	while (transports[i] && strcmp(transports[i], name) != 0)
		i++;
	return transports[i] != NULL;
}

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "seed", required_argument, NULL, 'S' },
		{ "seconds", required_argument, NULL, 's' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "steps", required_argument, NULL, 'n' },
		{ "transport", required_argument, NULL, 't' },
		{ "ranks", required_argument, NULL, 'r' },
		{ "only-step", required_argument, NULL, 'o' },
		{ "threads", no_argument, NULL, 'T' },
		{ "processes", no_argument, NULL, 'P' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "flip", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'S': o->seed = strtoull(optarg, NULL, 0); break;
		case 's': o->seconds = atof(optarg); break;
		case 'j': o->jobs = atol(optarg); break;
		case 'n': o->wish.steps = atol(optarg); break;
		case 't': o->wish.transport = optarg; break;
		case 'r': o->wish.ranks = atoi(optarg); break;
		case 'o': o->only = atol(optarg); break;
		case 'f': o->flip = atol(optarg); break;
		case 'T': o->wish.threads = 1; break;
		case 'P': o->wish.threads = -1; break;
		case 'v': o->verbose = true; break;
		default: return false;
		}
	}
	return optind == argc && o->wish.ranks >= 0 && o->wish.ranks <= RANKS_MAX &&
	       o->wish.steps >= 0 && o->seconds >= 0 &&
	       (!o->wish.transport || is_transport(o->wish.transport));
}

static void print_command(const struct options *o, uint64_t seed)
{
	fprintf(stderr, "  again: random --seed %llu", (unsigned long long)seed);
	if (o->wish.steps)
		fprintf(stderr, " --steps %ld", o->wish.steps);
	if (o->wish.transport)
		fprintf(stderr, " --transport %s", o->wish.transport);
	if (o->wish.ranks)
		fprintf(stderr, " --ranks %d", o->wish.ranks);
	if (o->wish.threads)
		fprintf(stderr, o->wish.threads > 0 ? " --threads" : " --processes");
	fprintf(stderr, "; --only-step N makes the operations of step N alone\n");
}

static bool run_seed(const struct options *o, struct tally *tally, uint64_t seed)
{
	struct setting setting;

	setting_draw(&setting, seed, &o->wish);
	if (o->verbose) {
		printf("seed %llu: ", (unsigned long long)seed);
		setting_describe(&setting, stdout);
		putchar('\n');
	}
	if (job_run(&setting, tally, o->only, o->flip))
		return true;
	print_command(o, seed);
	return false;
}

static void print_tally(const struct options *o, const struct tally *tally, long jobs, bool failed)
{
	if (o->verbose)
		for (int what = 0; what < WHATS; what++)
			printf("  %-16s %llu\n", call_name((enum what)what),
			       (unsigned long long)atomic_load(&tally->calls[what]));
	printf("random: seeds %llu to %llu%s%s: %llu calls of ranks, %llu elements compared, %s\n",
	       (unsigned long long)o->seed,
	       (unsigned long long)o->seed + (unsigned long long)jobs - 1,
	       o->wish.transport ? " over " : "", o->wish.transport ? o->wish.transport : "",
	       tally_calls(tally), (unsigned long long)atomic_load(&tally->elements),
	       failed ? "FAILED" : "all right");
}

/* For a check that is to fail for a change alone: the same jobs in each run. */
static bool seeds_are_fixed(void)
{
	const char *seeds = getenv("TEST_SEEDS");

	return seeds && strcmp(seeds, "fixed") == 0;
}

int main(int argc, char **argv)
{
	struct tally *tally = shared_memory(sizeof(*tally));
	struct options o = { .seed = seeds_are_fixed() ? 1 : (uint64_t)(seconds_now() * 1e6),
			     .only = -1,
			     .flip = -1 };
	const double start = seconds_now();
	bool failed = false;
	long jobs = 0;

	if (!read_options(argc, argv, &o)) {
		fprintf(stderr,
			"usage: random [--seed N] [--jobs N | --seconds S] [--steps N] "
			"[--transport shm|tcp|mixed|tls|loop] "
			"[--ranks 1…%d] [--threads | --processes] [--only-step N] [--flip STEP] "
			"[--verbose]\n",
			RANKS_MAX);
		return 2;
	}
	tutti_log_set_sink(log_line, NULL);
	if (seeds_are_fixed() && o.seconds > 0) {
		o.seconds = 0;
		o.jobs = 3;
	}
	do
		failed = !run_seed(&o, tally, o.seed + (uint64_t)jobs++);
	while (!failed && (jobs < o.jobs || seconds_now() - start < o.seconds));
	print_tally(&o, tally, jobs, failed);
	return failed;
}
