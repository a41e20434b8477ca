/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti on a simulated machine: for each seed ranks that call, a scheduler and a network that
 * misbehave as the seed says, and claims that hold whatever happens. A seed that fails does so
 * again, in the same way. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "calls/contents.h"
#include "fork.h"
#include "clock.h"
#include "machine.h"
#include "world.h"

#define REPLAY_EACH 100 /* of so many seeds one is run twice */

struct options {
	uint64_t first, last;
	bool verbose, go_on;
};

/* Shared with the process that runs seeds, which may crash. */
struct progress {
	uint64_t seed; /* the one at hand */
	bool done;     /* all of them */
	uint64_t ran, failed, replayed, gentle, ended_well, operations, failed_operations, switches;
	uint64_t happened[FAULT_KINDS];
	double virtual_s;
};

static const char usage[] =
	"usage: simulate [--seeds FIRST-LAST] [--go-on]   run these (default 1-1000); --go-on: also after one that fails\n"
	"       simulate --seed N [--verbose]             run one, with a trace of all that happens\n";

static void explain(const struct plan *plan, const struct outcome *out)
{
	printf("seed %llu fails: %s\n", (unsigned long long)plan->seed, out->wrong);
	plan_print(plan, stdout);
	printf("  again, with a trace: simulate --seed %llu --verbose\n",
	       (unsigned long long)plan->seed);
}

static bool run_seed(uint64_t seed, struct plan *plan, struct outcome *out)
{
	plan_make(seed, plan);
	world_run(plan, out);
	if (!*out->wrong)
		world_judge(plan, out);
	return !*out->wrong;
}

static void count(struct progress *progress, const struct plan *plan, const struct outcome *out)
{
	progress->ran++;
	progress->failed += *out->wrong != '\0';
	progress->gentle += plan->gentle;
	progress->ended_well += out->failed_operations == 0;
	progress->operations += out->operations;
	progress->failed_operations += out->failed_operations;
	progress->switches += out->switches;
	progress->virtual_s += out->virtual_s;
	for (int i = 0; i < FAULT_KINDS; i++)
		progress->happened[i] += out->happened[i];
}

static void run_seeds(const struct options *options, struct progress *progress)
{
	static struct plan plan;
	static struct outcome out, again;

	for (; progress->seed <= options->last; progress->seed++) {
		bool good = run_seed(progress->seed, &plan, &out);

		if (good && progress->seed % REPLAY_EACH == 0) {
			run_seed(progress->seed, &plan, &again);
			progress->replayed++;
			if (again.hash != out.hash)
				snprintf(out.wrong, sizeof(out.wrong),
					 "it goes another way when it is run again");
			good = !*out.wrong;
		}
		count(progress, &plan, &out);
		if (good)
			continue;
		explain(&plan, &out);
		fflush(stdout);
		/* whatever it left behind must not meet the next one */
		_exit(1);
	}
	progress->done = true;
	_exit(0);
}

/* Runs seeds in another process until all are done; after one that fails, in a new process from
 * the next on. */
static void run_all(const struct options *options, struct progress *progress)
{
	progress->seed = options->first;
	while (!progress->done && progress->seed <= options->last) {
		const uint64_t failed = progress->failed;
		int status;
		fflush(stdout);
		const pid_t child = fork();

		if (child == 0)
			run_seeds(options, progress);
		if (child < 0 || waitpid(child, &status, 0) < 0) {
			perror("simulate: a process for the seeds");
			exit(2);
		}
		if (progress->done)
			return;
		if (progress->failed == failed) {
			progress->failed++;
			progress->ran++;
			printf("seed %llu ends its process (status %d)\n",
			       (unsigned long long)progress->seed, status);
		}
		if (!options->go_on)
			return;
		progress->seed++;
	}
}

static void summarise(const struct progress *progress, double seconds)
{
	printf("%llu seeds in %.1f s: %llu failed; %llu must end well, %llu did; %llu replayed; %llu operations, %llu of "
	       "them ended with an error; %llu switches, %.0f simulated seconds; faults:",
	       (unsigned long long)progress->ran, seconds, (unsigned long long)progress->failed,
	       (unsigned long long)progress->gentle, (unsigned long long)progress->ended_well,
	       (unsigned long long)progress->replayed, (unsigned long long)progress->operations,
	       (unsigned long long)progress->failed_operations,
	       (unsigned long long)progress->switches, progress->virtual_s);
	for (int i = 0; i < FAULT_KINDS; i++)
		printf(" %s %llu", fault_name((enum fault_kind)i),
		       (unsigned long long)progress->happened[i]);
	putchar('\n');
}

static int run_one(uint64_t seed, bool verbose)
{
	static struct plan plan;
	static struct outcome out;

	machine_trace_to(verbose);
	const bool good = run_seed(seed, &plan, &out);

	if (!good)
		explain(&plan, &out);
	else if (verbose)
		plan_print(&plan, stdout);
	printf("seed %llu: %s, %u operations, %llu switches, hash %016llx\n",
	       (unsigned long long)seed, good ? "good" : "bad", out.operations,
	       (unsigned long long)out.switches, (unsigned long long)out.hash);
	return good ? 0 : 1;
}

static bool parse_seeds(const char *text, struct options *options)
{
	char *end;

	errno = 0;
	options->first = options->last = strtoull(text, &end, 10);
	if (*end == '-')
		options->last = strtoull(end + 1, &end, 10);
	return !errno && !*end && *text >= '0' && *text <= '9' && options->first <= options->last;
}

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = { { "seeds", required_argument, NULL, 's' },
					       { "seed", required_argument, NULL, 's' },
					       { "verbose", no_argument, NULL, 'v' },
					       { "go-on", no_argument, NULL, 'g' },
					       { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (option == 'v')
			options->verbose = true;
		else if (option == 'g')
			options->go_on = true;
		else if (option != 's' || !parse_seeds(optarg, options))
			return false;
	}
	return optind == argc;
}

/* What the library finds out once for a process, and what would differ between machines, is
 * settled before. */
static void prepare(void)
{
	tutti_model_t model = { .size = sizeof(model) };
	void *memory = NULL;

	call_memory = (struct call_memory){ calls_allocate, calls_release };
	setenv("TUTTI_MODEL", "builtin", 1);
	setenv("TUTTI_TRACE", "off", 1);
	if (tutti_model(&model) != TUTTI_OK || tutti_mem_alloc(1, &memory) != TUTTI_OK) {
		fprintf(stderr, "simulate: %s\n", tutti_last_error(NULL));
		exit(2);
	}
	tutti_mem_free(memory);
	tutti_kernel_isa();
	/* the library's note of descriptors grows to those of the machine */
	tt_fd_close(TT_FD(fcntl(0, F_DUPFD_CLOEXEC, CALLS_DESCRIPTORS_END - 1)));
}

int main(int argc, char **argv)
{
#if defined(__SANITIZE_THREAD__)
	puts("skipped: one thread plays all ranks on stacks of their own, whose depth the thread sanitizer cannot keep");
	return 77;
#endif
	struct options options = { .first = 1, .last = 1000 };
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const uint64_t started = tt_now();

	if (!parse(argc, argv, &options)) {
		fputs(usage, stderr);
		return 2;
	}
	if (progress == MAP_FAILED) {
		perror("simulate");
		return 2;
	}
	prepare();
	if (options.verbose || options.first == options.last)
		return run_one(options.first, options.verbose);
	run_all(&options, progress);
	summarise(progress, (double)(tt_now() - started) / 1e9);
	return progress->failed > 0;
}
