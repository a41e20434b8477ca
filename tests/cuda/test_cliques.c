/* SPDX-License-Identifier: BSD-3-Clause */
/* By which way operations go where not all GPUs reach each other, as rank 0 tells it once, and
 * that they come to the same; and of threads that may stand in each other's way. Needs the
 * stand-in, whose GPUs reach each other as it is told, and TUTTI_LOG=cuda:info. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/cuda.h>

#include "gpu_job.h"

#define ELEMENTS 40000 /* floats: enough for two the hierarchy */

/* In the order in which they run: what has been a process of threads cannot make others that use
 * CUDA. */
static const struct situation {
	const char *name, *hosts, *peers;
	int ranks;
	const char *line; /* NULL: none */
	bool garbles;
	const char *connections; /* not NULL: threads that share a GPU, and so many of these */
} situations[] = {
	{ "one_host", NULL, NULL, 3, NULL },
	{ "equal_hosts", "2", NULL, 4,
	  "the GPUs of 4 ranks form 2 peer-to-peer cliques (within which they access each other directly); collectives on streams go through the host's memory between cliques of GPUs" },
	{ "unequal_hosts", "2", NULL, 3,
	  "the GPUs of 3 ranks form 2 peer-to-peer cliques (within which they access each other directly); collectives on streams go through the host's memory" },
	/* threads, with a GPU each */
	{ "all_reach_each_other", NULL, "all", 4, NULL },
	{ "equal_islands", NULL, "pairs", 4,
	  "collectives on streams go through the host's memory between cliques of GPUs, as the GPUs do not reach each other: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 2 directly (no peer access, see tutti-info)" },
	{ "unequal_islands", NULL, "threes", 4,
	  "collectives on streams go through the host's memory, as the GPUs do not reach each other: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 3 directly (no peer access, see tutti-info)" },
	{ "islands_of_one", NULL, "none", 3,
	  "collectives on streams go through the host's memory, as the GPUs do not reach each other: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 1 directly (no peer access, see tutti-info)" },
	{ "islands_of_garblers", NULL, "all", 3,
	  "collectives on streams go through the host's memory, as the GPUs do not reach each other: "
	  "rank 0: GPU 0 reads other bytes from the memory of rank 1's GPU than that rank has written, although CUDA says that it reaches it: "
	  "an IOMMU, or PCIe's access control (ACS), may redirect what they send each other",
	  true },
	/* with 12 streams, of which the first, some rank's, and the last one, with which the library
	 * copies, have one connection together */
	{ "threads_on_one_gpu", NULL, NULL, 4,
	  "4 ranks are threads that share GPU 0 by 11 connections, and their streams may wait behind each other for ever: "
	  "set CUDA_DEVICE_MAX_CONNECTIONS=32 before the process starts CUDA (docs/reference/gpu.md)",
	  false, "11" },
	{ "threads_with_connections", NULL, NULL, 4, NULL, false, "12" },
};

static atomic_int told;
static char last[512];

static void note(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	if (!strstr(line, "go through the host's memory") && !strstr(line, "connections"))
		return;
	atomic_fetch_add(&told, 1);
	snprintf(last, sizeof(last), "%s", line);
}

static int check_line(struct gpu_rank *r, const char *line)
{
	tutti_comm_t comm = r->comm;

	CLAIM(atomic_load(&told) == (r->rank == 0 && line),
	      "%d lines, the last one \"%s\", expected \"%s\"", atomic_load(&told), last,
	      line ? line : "");
	CLAIM(r->rank > 0 || !line || strcmp(last, line) == 0, "\"%s\", expected \"%s\"", last,
	      line);
	return 0;
}

static int expect(struct gpu_rank *r, const float *gpu, const char *what, float base,
		  float of_place)
{
	static _Thread_local float host[ELEMENTS];
	tutti_comm_t comm = r->comm;

	CLAIM(gpu_copy(host, gpu, sizeof(host), r->stream) && gpu_finish(r->stream), "%s",
	      gpu_error());
	for (size_t i = 0; i < ELEMENTS; i++)
		CLAIM(host[i] == base + of_place * (float)(i % 16),
		      "%s: element %zu is %g, expected %g", what, i, host[i],
		      base + of_place * (float)(i % 16));
	return 0;
}

static int body(struct gpu_rank *r, void *argument)
{
	static _Thread_local float host[ELEMENTS];
	const struct situation *situation = argument;
	const int last_rank = r->size - 1;
	tutti_comm_t comm = r->comm;
	void *in, *out;

	if ((r->rank == 0 || !gpu_job_threads) && check_line(r, situation->line))
		return 1;
	for (size_t i = 0; i < ELEMENTS; i++)
		host[i] = (float)r->rank + (float)(i % 16);
	SUCCEEDS(tutti_cuda_mem_alloc(sizeof(host), &in));
	SUCCEEDS(tutti_cuda_mem_alloc(sizeof(host), &out));
	CLAIM(gpu_copy(in, host, sizeof(host), r->stream), "%s", gpu_error());
	SUCCEEDS(tutti_cuda_all_reduce(comm, in, out, ELEMENTS, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (expect(r, out, "all_reduce", (float)(r->size * last_rank) / 2, (float)r->size))
		return 1;
	SUCCEEDS(
		tutti_cuda_broadcast(comm, in, out, ELEMENTS, TUTTI_FLOAT32, last_rank, r->stream));
	if (expect(r, out, "broadcast", (float)last_rank, 1))
		return 1;
	SUCCEEDS(tutti_comm_error(comm, NULL));
	tutti_cuda_mem_free(in);
	tutti_cuda_mem_free(out);
	return 0;
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static int run(const struct situation *situation)
{
	const struct job job = { 0 };

	gpu_job_threads = situation->peers || situation->connections;
	gpu_job_ranks = situation->ranks;
	set("TEST_HOSTS", situation->hosts);
	set("TEST_GPUS", situation->peers ? "all" : NULL);
	set("STANDIN_PEERS", situation->peers);
	set("CUDA_DEVICE_MAX_CONNECTIONS", situation->connections);
	set("STANDIN_GARBLES", situation->garbles ? "1" : NULL);
	atomic_store(&told, 0);
	const int failed = gpu_job_run(body, (void *)situation, &job);
	printf("%s %s\n", failed ? "FAILED" : "ok", situation->name);
	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	char *arguments[] = { argv[0], "processes", "4", NULL };
	int failed = 0;

	setenv("STANDIN_DEVICES", "4", 1);
	tutti_log_set_sink(note, NULL);
	const int chosen = gpu_job_choose(3, arguments);
	if (chosen)
		return chosen;
	for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++)
		failed |= run(&situations[i]);
	return failed;
}
