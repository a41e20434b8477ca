/* SPDX-License-Identifier: BSD-3-Clause */
/* By which way operations go where not all GPUs reach each other, as rank 0 tells it once, and
 * that they come to the same; and of threads that may stand in each other's way. Needs the
 * stand-in, whose GPUs reach each other as it is told, and TUTTI_LOG=cuda:info. */
#include "claims/claims.h"

#include <stdio.h>
#include <stdlib.h>

#define ELEMENTS 40000 /* floats: enough for the hierarchy to be worth it */

/* In the order in which they run: what has been a process of threads cannot make others that use
 * CUDA. */
static const struct situation {
	const char *name;
	int ranks;
	bool threads;
	const char *line; /* NULL: none */
	const char *set, *gpus, *garbles;
} situations[] = {
	{ "one_host", 3, false, NULL, "STANDIN_MPS=1" },
	{ "processes_that_take_turns", 3, false,
	  "collectives on streams go through the host's memory: ranks 0 and 1 are processes that share a GPU, and so take turns on it: "
	  "NVIDIA's MPS lets them run side by side, as threads do (docs/reference/gpu.md)" },
	{ "equal_hosts", 4, false,
	  "the GPUs of 4 ranks form 2 peer-to-peer cliques (within which they access each other directly); collectives on streams go through the host's memory between cliques of GPUs",
	  "TEST_HOSTS=2", "STANDIN_MPS=1" },
	{ "unequal_hosts", 3, false,
	  "the GPUs of 3 ranks form 2 peer-to-peer cliques (within which they access each other directly); collectives on streams go through the host's memory",
	  "TEST_HOSTS=2", "STANDIN_MPS=1" },
	/* with a GPU each */
	{ "all_reach_each_other", 4, true, NULL, "STANDIN_PEERS=all", "TEST_GPUS=all" },
	{ "equal_islands", 4, true,
	  "collectives on streams go through the host's memory between cliques of GPUs: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 2 directly (no peer access, see tutti-info)",
	  "STANDIN_PEERS=pairs", "TEST_GPUS=all" },
	{ "unequal_islands", 4, true,
	  "collectives on streams go through the host's memory: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 3 directly (no peer access, see tutti-info)",
	  "STANDIN_PEERS=threes", "TEST_GPUS=all" },
	{ "islands_of_one", 3, true,
	  "collectives on streams go through the host's memory: "
	  "rank 0: GPU 0 cannot reach the memory of GPU 1 directly (no peer access, see tutti-info)",
	  "STANDIN_PEERS=none", "TEST_GPUS=all" },
	{ "islands_of_garblers", 3, true,
	  "collectives on streams go through the host's memory: "
	  "rank 0: GPU 0 reads other bytes from the memory of rank 1's GPU than that rank has written, although CUDA says that it reaches it: "
	  "an IOMMU, or PCIe's access control (ACS), may redirect what they send each other",
	  "STANDIN_PEERS=all", "TEST_GPUS=all", "STANDIN_GARBLES=1" },
	/* that share a GPU, with 8 streams, of which two have one connection together */
	{ "threads_on_one_gpu", 4, true,
	  "4 ranks are threads that share GPU 0 by 7 connections, and their streams may wait behind each other for ever: "
	  "set CUDA_DEVICE_MAX_CONNECTIONS=32 before the process starts CUDA (docs/reference/gpu.md)",
	  "CUDA_DEVICE_MAX_CONNECTIONS=7" },
	{ "threads_with_connections", 4, true, NULL, "CUDA_DEVICE_MAX_CONNECTIONS=8" },
};

static atomic_int lines;
static char last[512];

static void note(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	if (!strstr(line, "go through the host's memory") && !strstr(line, "connections"))
		return;
	atomic_fetch_add(&lines, 1);
	snprintf(last, sizeof(last), "%s", line);
}

static int check_line(struct gpu_rank *r, const char *line)
{
	tutti_comm_t comm = r->comm;

	CLAIM(atomic_load(&lines) == (r->rank == 0 && line),
	      "%d lines, the last one \"%s\", expected \"%s\"", atomic_load(&lines), last,
	      line ? line : "");
	CLAIM(r->rank > 0 || !line || strcmp(last, line) == 0, "\"%s\", expected \"%s\"", last,
	      line);
	return 0;
}

static int body(struct gpu_rank *r, void *argument)
{
	const struct situation *situation = argument;
	const int root = r->size - 1;
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (r->rank == 0 || !situation->threads)
		TRY(check_line(r, situation->line));
	TRY(take(comm, &in, ELEMENTS) || take(comm, &out, ELEMENTS) || ready(comm) ||
	    put(r, in, (float)r->rank));
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	TRY(expect_sum(r, out));
	SUCCEEDS(tutti_cuda_broadcast(comm, in.gpu, out.gpu, ELEMENTS, TUTTI_FLOAT32, root,
				      r->stream));
	return expect(r, out, (float)root, 1) || give_all(comm);
}

int main(int argc, char **argv)
{
	char *arguments[] = { argv[0], "processes", "4", NULL };
	int failed = 0;

	setenv("STANDIN_DEVICES", "4", 1);
	unsetenv("STANDIN_MPS");
	tutti_log_set_sink(note, NULL);
	const int chosen = gpu_job_choose(3, arguments, 2, GPU_RANKS);
	if (chosen)
		return chosen;
	for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
		const struct situation *const situation = &situations[i];
		const char *const env[] = { situation->set, situation->gpus, situation->garbles,
					    NULL };
		const struct job job = { .env = env };

		gpu_job_threads = situation->threads;
		gpu_job_ranks = situation->ranks;
		const int wrong = gpu_job_run(body, (void *)situation, &job);
		printf("%s %s\n", wrong ? "FAILED" : "ok", situation->name);
		fflush(stdout);
		failed |= wrong;
	}
	return failed;
}
