/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what goes between GPUs by copy engines, which the stand-in of CUDA's driver
 * counts. */
#include "claims.h"

#include <stdlib.h>
#include <string.h>

/* `gpus`: each rank's, as the machine numbers them. Of each rank so many bytes have come here by engines since the last time, but none from this
 * rank's own GPU. */
static int engines_copied(struct gpu_rank *r, const int *gpus, const unsigned *of_rank,
			  unsigned *before, const char *what)
{
	const int own = gpus[r->rank];
	tutti_comm_t comm = r->comm;

	WORKS(gpu_finish(r->stream));
	for (int gpu = 0; gpu < GPU_RANKS; gpu++) {
		const unsigned n = counted("standin_copies", own, gpu);
		unsigned expected = before[gpu];

		for (int rank = 0; rank < r->size; rank++)
			expected += gpus[rank] == gpu && gpu != own ? of_rank[rank] : 0;
		CLAIM(n == expected, "%s: %u copies from GPU %d to GPU %d, expected %u", what, n,
		      gpu, own, expected);
		before[gpu] = n;
	}
	return 0;
}

/* Between GPUs those of many bytes, of the library's own memory; on one GPU, on the legacy
 * stream and of the program's windows none. */
GPU_JOB(engines_copy_between_gpus, .reaches = true, .stands_in = true)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"),
		   *engines = getenv("TUTTI_CUDA_ENGINES");
	const size_t n = ((size_t)1 << 19) + 1 /* floats: 2 MiB and one */,
		     least = engines ? (size_t)atoi(engines) : (size_t)1 << 20;
	const int own = r->device + (visible ? atoi(visible) : 0);
	unsigned none[GPU_RANKS] = { 0 }, one[GPU_RANKS], before[GPU_RANKS];
	int gpus[GPU_RANKS];
	tutti_plan_info_t plan = { .size = sizeof(plan) };
	tutti_cuda_window_t windows[2];
	struct vector in, out;

	if (least > (size_t)1 << 20)
		return 0;
	SUCCEEDS(tutti_all_gather(comm, &own, gpus, 1, TUTTI_INT32, NULL));
	for (int i = 0; i < GPU_RANKS; i++) {
		one[i] = least > 0;
		before[i] = counted("standin_copies", own, i);
	}
	TRY(take(comm, &in, n * (size_t)r->size) || take(comm, &out, n * (size_t)r->size) ||
	    ready(comm) || put(r, in, (float)r->rank));
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	TRY(engines_copied(r, gpus, one, before, "all_gather"));
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, NULL));
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, 1, TUTTI_FLOAT32, r->stream));
	SUCCEEDS(reduce_all(r, part(in, 0, 1), out, TUTTI_SUM));
	TRY(engines_copied(r, gpus, none, before, "the legacy stream, and a few bytes"));
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	SUCCEEDS(tutti_comm_last_plan(comm, &plan));
	const bool hands_on = strcmp(plan.algorithm, "direct") == 0; /* others reduce alone */
	TRY(engines_copied(r, gpus, hands_on ? one : none, before, "all_reduce"));
	SUCCEEDS(swap(r, part(in, 0, n), part(out, 0, n)));
	TRY(engines_copied(r, gpus, none, before, "messages"));
	SUCCEEDS(tutti_cuda_register(comm, in.gpu, in.n * sizeof(float), &windows[0]));
	SUCCEEDS(tutti_cuda_register(comm, out.gpu, out.n * sizeof(float), &windows[1]));
	SUCCEEDS(tutti_cuda_all_to_all(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	TRY(engines_copied(r, gpus, none, before, "between windows"));
	SUCCEEDS(tutti_cuda_deregister(windows[0]));
	SUCCEEDS(tutti_cuda_deregister(windows[1]));
	return 0;
}
