/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/cuda.h>

#include "thread_ranks.h"

bool gpu_job_threads;
int gpu_job_ranks;
static atomic_bool goes_by_host; /* the library has said so */

/* TEST_REACH: ranks that do not reach each other's GPUs, but should, have failed, whatever comes
 * of the rest. */
static void note(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	fprintf(stderr, "%s %s: %s\n", level == TUTTI_LOG_WARN ? "warn" : "log", subsystem, line);
	if (level == TUTTI_LOG_WARN && strstr(line, "go through the host's memory"))
		atomic_store(&goes_by_host, true);
}

/* In a process of its own: ranks that are forked from one that has started CUDA could not use
 * it. */
static int count_gpus(void)
{
	int status;
	const pid_t child = fork();

	if (child == 0) {
		const int count = gpu_count();

		if (count == 0)
			printf("no GPU: %s\n", gpu_error());
		fflush(stdout);
		_exit(count > 100 ? 100 : count);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : 0;
}

int gpu_job_choose(int argc, char **argv, int least, int most)
{
	gpu_job_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
	gpu_job_ranks = argc > 2 ? atoi(argv[2]) : 0;
	if (argc < 3 || (!gpu_job_threads && strcmp(argv[1], "processes") != 0) ||
	    gpu_job_ranks < least || gpu_job_ranks > most) {
		fprintf(stderr, "usage: %s processes|threads RANKS(%d…%d) [NAME=VALUE …]\n",
			argv[0], least, most);
		return 2;
	}
	for (int i = 3; i < argc; i++)
		putenv(argv[i]);
	/* from here on they only change: to add or remove one moves those that other threads read */
	setenv("STANDIN_FAILS", "", 0);
	setenv("STANDIN_ERROR", "", 0);
	if (getenv("TEST_REACH"))
		tutti_log_set_sink(note, NULL);
	return count_gpus() > 0 ? 0 : 77;
}

struct call {
	gpu_body *body;
	void *argument;
};

/* TEST_GPUS=all: ranks go round all GPUs, which must reach each other; a number: round so many,
 * of which each, a process, sees its own alone; otherwise they share the first. */
static int device_of(int rank)
{
	const char *gpus = getenv("TEST_GPUS");
	const int alone = gpus ? atoi(gpus) : 0;
	char number[16];

	if (alone > 0) {
		snprintf(number, sizeof(number), "%d", rank % alone);
		setenv("CUDA_VISIBLE_DEVICES", number, 1); /* CUDA has not been started yet */
	}
	return gpus && strcmp(gpus, "all") == 0 ? rank % gpu_count() : 0;
}

static int run_body(tutti_comm_t comm, void *argument)
{
	const struct call *call = argument;
	struct gpu_rank rank = { .comm = comm,
				 .rank = tutti_comm_rank(comm),
				 .size = tutti_comm_size(comm) };

	rank.device = device_of(rank.rank);
	CLAIM(gpu_enter(rank.device), "%s", gpu_error());
	rank.stream = gpu_stream();
	CLAIM(rank.stream, "%s", gpu_error());
	SUCCEEDS(tutti_cuda_bind(comm, rank.device));
	CLAIM(!atomic_load(&goes_by_host),
	      "operations go by the host, expected (TEST_REACH) that the ranks' GPUs reach each other");
	const int failed = call->body(&rank, call->argument);
	if (!failed)
		CLAIM(gpu_stream_free(rank.stream), "%s", gpu_error());
	return failed;
}

/* All ranks, in a process of their own, which the harness ends at the job's limit, as it does
 * with processes that are ranks. */
static int run_threads(int number, void *argument)
{
	return run_thread_ranks(gpu_job_ranks, 1, run_body, argument);
}

int gpu_job_run(gpu_body *body, void *argument, const struct job *job)
{
	struct call call = { .body = body, .argument = argument };
	struct job whole = *job;

	whole.ranks = gpu_job_threads ? 1 : gpu_job_ranks;
	whole.body = run_body;
	whole.whole = gpu_job_threads ? run_threads : NULL;
	whole.argument = &call;
	return run_job(&whole);
}
