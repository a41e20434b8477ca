/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on GPUs: a body runs in every rank of a job, each of which is a process or a thread, and
 * has a GPU, a stream and a communicator bound to it. Threads are those of one process, which
 * the job is. TEST_REACH, set: the ranks' GPUs reach each other, and a library that goes by the
 * host instead has failed. */
#ifndef TT_GPU_JOB_H
#define TT_GPU_JOB_H

#include <string.h>

#include "gpu/gpu.h"
#include "harness.h"

struct gpu_rank {
	tutti_comm_t comm;
	int rank, size, device;
	gpu_stream_t stream;
};

#define GPU_RANKS 32 /* that a program may have, if it has no limit of its own */

typedef int gpu_body(struct gpu_rank *rank, void *argument);

/* What a program's command line says: processes|threads RANKS [NAME=VALUE …], of `least` to `most`
 * ranks. 0, 2 after a word on usage, or 77 after the reason: there is no GPU. */
int gpu_job_choose(int argc, char **argv, int least, int most);
/* Run it; 0 if every rank returned 0 (or was a victim, of jobs of processes). `job` has all but
 * ranks and body. */
int gpu_job_run(gpu_body *body, void *argument, const struct job *job);
extern bool gpu_job_threads;
extern int gpu_job_ranks;

/* What complains itself. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		if (call)                                                                          \
			return 1;                                                                  \
	} while (0)
/* It gives that result, with the words in its error message. */
#define REFUSED(call, wanted, words)                                                               \
	do {                                                                                       \
		const tutti_result_t refused = (call);                                             \
		CLAIM(refused == (wanted), "%s: %s, expected %s", #call, tutti_strerror(refused),  \
		      tutti_strerror(wanted));                                                     \
		CLAIM(strstr(tutti_last_error(NULL), words), "%s: \"%s\", expected \"%s\" in it",  \
		      #call, tutti_last_error(NULL), words);                                       \
	} while (0)

#endif
