/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bound: the measurements of tutti-bench for the least that an all-reduce of floats takes on
 * this machine. Its parent makes the memory and the connections that its ranks inherit.
 *
 *   --transport shm   exchange   each rank copies its input to staging memory and adds up all of them
 *                     halves     each rank adds up its part, and gives the others the result
 *                     line       each rank posts its input in one line (up to 56 bytes) and adds up all of them
 *                     -m tutti   the same with all buffers in shared memory: inputs read once, outputs written once
 *   --transport tcp   two ranks, each sends all of its input over one plain socket and adds what comes
 *
 * And of a short message between two ranks, each bound to a core (latency):
 *   --algorithm line     what a line takes from core to core
 *   --algorithm switch   what a core takes to go from one process to another by sched_yield() */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bound.h"
#include "local.h"
#include "options.h"
#include "output.h"
#include "sweep.h"

#define HEAP_MARGIN (1u << 20)
#define PATIENCE    200 /* looks, where what is waited for takes some time */

static bool is(const char *text, const char *word)
{
	return text && strcmp(text, word) == 0;
}

/* ---- what the bench asks for */

static bool supports(struct bench_backend *backend, const struct bench_call *call)
{
	const struct bound *b = bound_of(backend);
	const bool over_sockets = is(b->transport, "tcp"), line = is(b->algorithm, "line");

	if (call->dtype == TUTTI_FLOAT32 && (line || b->one_core) &&
	    call->count * sizeof(float) > BOUND_LINE_BYTES)
		return false;
	if (call->kind == BENCH_LATENCY)
		return call->dtype == TUTTI_FLOAT32 && (line || b->one_core);
	return call->kind == BENCH_ALL_REDUCE && !b->one_core && call->dtype == TUTTI_FLOAT32 &&
	       call->op == TUTTI_SUM && !(over_sockets && (call->inplace || backend->size != 2));
}

static int run(struct bench_backend *backend, const struct bench_call *call)
{
	struct bound *b = bound_of(backend);

	if (is(b->transport, "tcp"))
		return bound_sockets(b, call);
	if (call->kind == BENCH_LATENCY)
		bound_there_and_back(b, call);
	else if (is(b->algorithm, "line"))
		bound_line(b, call);
	else if (b->heap)
		bound_direct(b, call);
	else if (is(b->algorithm, "halves"))
		bound_halves(b, call);
	else
		bound_exchange(b, call);
	return 0;
}

static int barrier(struct bench_backend *backend)
{
	bound_barrier(bound_of(backend));
	return 0;
}

static int combine(struct bench_backend *backend, double *values, size_t count,
		   enum bench_combine how)
{
	struct bound *b = bound_of(backend);
	const size_t most = sizeof(b->ranks->values) / sizeof(double);

	for (size_t at = 0; at < count; at += most) {
		const size_t n = count - at < most ? count - at : most;

		memcpy(b->ranks[backend->rank].values, values + at, n * sizeof(double));
		bound_barrier(b);
		for (size_t i = 0; i < n; i++) {
			double all = b->ranks[0].values[i];

			for (int rank = 1; rank < backend->size; rank++) {
				const double value = b->ranks[rank].values[i];

				all = how == BENCH_SUM ? all + value : all > value ? all : value;
			}
			values[at + i] = all;
		}
		bound_barrier(b);
	}
	return 0;
}

static void *allocate(struct bench_backend *backend, size_t bytes)
{
	struct bound *b = bound_of(backend);
	const size_t whole = (bytes + 4095) & ~(size_t)4095;

	if (whole > b->heap_bytes - b->heap_used)
		return NULL;
	b->heap_used += whole;
	return b->heap + b->heap_bytes * (size_t)backend->rank + b->heap_used - whole;
}

/* The heap ends with the rank. */
static void release(struct bench_backend *backend, void *memory)
{
}

static void describe(struct bench_backend *backend, const struct bench_call *call,
		     const char **transport, const char **algorithm)
{
	*transport = bound_of(backend)->transport;
	*algorithm = bound_of(backend)->algorithm;
}

/* ---- a rank */

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

/* TUTTI_STORE is the descriptor of the memory. */
static bool inherit(struct bound *b, const struct bench_options *options, size_t heap_bytes)
{
	const size_t size = (size_t)b->backend.size, bytes = sizeof(struct bound_rank) * size;
	uint8_t *base = mmap(NULL, bytes + heap_bytes * size, PROT_READ | PROT_WRITE, MAP_SHARED,
			     number("TUTTI_STORE"), 0);

	b->heap_bytes = heap_bytes;
	b->arrived = malloc(BOUND_CHUNK);
	if (base == MAP_FAILED || !b->arrived) {
		fprintf(stderr, "tutti-bound: map the memory of all ranks: %m\n");
		return false;
	}
	b->ranks = (struct bound_rank *)base;
	b->heap = options->mappable ? base + bytes : NULL;
	return true;
}

static const char *algorithm_of(const struct bench_options *options)
{
	static const char *const names[] = { "halves", "line", "switch" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !options->mappable; i++)
		if (is(options->algorithm, names[i]))
			return names[i];
	return options->mappable ? "direct" : options->kind == BENCH_LATENCY ? "line" : "exchange";
}

static bool bind_for_latency(const struct bound *b)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && bound_bind(b, &cpus))
		return true;
	fprintf(stderr,
		"tutti-bound: rank %d found no core of its own, expected as many as ranks (%m)\n",
		b->backend.rank);
	return false;
}

static int be_rank(const struct bench_options *options, size_t heap_bytes)
{
	cpu_set_t cpus;
	struct bound b = {
		.backend = {
			.library = "bound",
			.rank = number("TUTTI_RANK"),
			.size = number("TUTTI_SIZE"),
			.context = &b,
			.supports = supports,
			.run = run,
			.barrier = barrier,
			.combine = combine,
			.alloc = allocate,
			.release = release,
			.describe = describe,
		},
		.transport = is(options->transport, "tcp") ? "tcp" : "shm",
		.algorithm = algorithm_of(options),
		.looks = PATIENCE,
	};

	b.one_core = is(b.algorithm, "switch");
	b.oversubscribed = b.one_core || (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
					  CPU_COUNT(&cpus) < b.backend.size);
	if (b.one_core || is(b.algorithm, "line"))
		b.looks = 1;
	if (options->kind == BENCH_LATENCY && !bind_for_latency(&b))
		return 1;
	const bool failed =
		!inherit(&b, options, heap_bytes) || bench_sweep(&b.backend, options) != 0;
	free(b.arrived);
	return failed;
}

/* ---- their parent */

/* Each rank gets room for all the buffers of the largest size, batches included. */
static size_t heap_needed(const struct bench_options *options)
{
	return options->mappable ? 4 * (options->end > HEAP_MARGIN ? options->end : HEAP_MARGIN)
				 : 0;
}

static int start_ranks(const struct bench_options *options, char **argv)
{
	const int ranks = options->ranks > 0 ? options->ranks : 2;
	const size_t bytes = (sizeof(struct bound_rank) + heap_needed(options)) * (size_t)ranks;
	const int memory = memfd_create("tutti-bound", 0);
	struct bound_rank *all = MAP_FAILED;
	char inherited[16];

	if (!bench_options_fit(options, ranks)) {
		bench_options_complain();
		return 2;
	}
	if (options->callers > 1) {
		fprintf(stderr,
			"tutti-bound: --callers was found, but its ranks have one thread\n");
		return 2;
	}
	if (ranks > BOUND_RANKS) {
		fprintf(stderr, "tutti-bound: found %d ranks, expected at most %d\n", ranks,
			BOUND_RANKS);
		return 2;
	}
	if (memory >= 0 && ftruncate(memory, (off_t)bytes) == 0)
		all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (all == MAP_FAILED) {
		fprintf(stderr, "tutti-bound: %zu bytes of shared memory: %m\n", bytes);
		return 1;
	}
	if (!bound_connect(ranks, all))
		return 1;
	snprintf(inherited, sizeof(inherited), "%d", memory);
	return bench_run_local(ranks, argv, inherited);
}

int main(int argc, char **argv)
{
	struct bench_options options;

	output_begin(1);
	const enum bench_parsed parsed = bench_options_parse(argc, argv, &options);
	if (parsed != BENCH_PARSED)
		return bench_options_end(parsed, NULL);
	return bench_launched() ? be_rank(&options, heap_needed(&options))
				: start_ranks(&options, argv);
}
