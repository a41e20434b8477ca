/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what goes between GPUs by copy engines, which the stand-in of CUDA's driver
 * counts. */
#include "claims.h"

#include <stdlib.h>
#include <string.h>

/* How many the stand-in's streams of this process have made. */
static unsigned copies_between(int to, int from)
{
	void *const found = find_in_standin("standin_copies");
	unsigned (*copies)(int, int);

	memcpy(&copies, &found, sizeof(copies));
	return found ? copies(to, from) : 0;
}

struct machine {
	int gpu[32]; /* each rank's, as the machine numbers them */
};

/* Of each rank so many bytes have come here by engines since the last time, but none from this
 * rank's own GPU. */
static int engines_copied(struct gpu_rank *r, const struct machine *machine,
			  const unsigned *of_rank, unsigned *before, const char *what)
{
	const int own = machine->gpu[r->rank];
	tutti_comm_t comm = r->comm;

	WORKS(gpu_finish(r->stream));
	for (int gpu = 0; gpu < 32; gpu++) {
		const unsigned n = copies_between(own, gpu);
		unsigned expected = before[gpu];

		for (int rank = 0; rank < r->size; rank++)
			expected += machine->gpu[rank] == gpu && gpu != own ? of_rank[rank] : 0;
		CLAIM(n == expected, "%s: %u copies from GPU %d to GPU %d, expected %u", what, n,
		      gpu, own, expected);
		before[gpu] = n;
	}
	return 0;
}

/* Between GPUs those of many bytes, of the library's own memory; on one GPU, on the legacy
 * stream and of the program's windows none. */
static int engines_copy_between_gpus(struct gpu_rank *r, void *argument)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"),
		   *engines = getenv("TUTTI_CUDA_ENGINES");
	const size_t n = ((size_t)1 << 19) + 1 /* floats: 2 MiB and one */,
		     least = engines ? (size_t)atoi(engines) : (size_t)1 << 20;
	const int own = r->device + (visible ? atoi(visible) : 0), next = (r->rank + 1) % r->size,
		  last = (r->rank + r->size - 1) % r->size;
	unsigned none[32] = { 0 }, one[32], before[32];
	tutti_comm_t comm = r->comm;
	tutti_plan_info_t plan = { .size = sizeof(plan) };
	tutti_cuda_window_t windows[2];
	struct machine machine;
	struct vector in, out;

	if (r->size == 1 || least > (size_t)1 << 20)
		return 0;
	SUCCEEDS(tutti_all_gather(comm, &own, machine.gpu, 1, TUTTI_INT32, NULL));
	for (int i = 0; i < 32; i++) {
		one[i] = least > 0;
		before[i] = copies_between(own, i);
	}
	if (take(comm, &in, n * (size_t)r->size) || take(comm, &out, n * (size_t)r->size) ||
	    ready(comm) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	if (engines_copied(r, &machine, one, before, "all_gather"))
		return 1;
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, NULL));
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, 1, TUTTI_FLOAT32, r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, 1, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (engines_copied(r, &machine, none, before, "the legacy stream, and a few bytes"))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, n * (size_t)r->size, TUTTI_FLOAT32,
				       TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_comm_last_plan(comm, &plan));
	const bool hands_on = strcmp(plan.algorithm, "direct") == 0; /* others reduce alone */
	if (engines_copied(r, &machine, hands_on ? one : none, before, "all_reduce"))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, n, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_cuda_recv(comm, out.gpu, n, TUTTI_FLOAT32, last, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (engines_copied(r, &machine, none, before, "messages"))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, in.gpu, in.n * sizeof(float), &windows[0]));
	SUCCEEDS(tutti_cuda_register(comm, out.gpu, out.n * sizeof(float), &windows[1]));
	SUCCEEDS(tutti_cuda_all_to_all(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	if (engines_copied(r, &machine, none, before, "between windows"))
		return 1;
	SUCCEEDS(tutti_cuda_deregister(windows[0]));
	SUCCEEDS(tutti_cuda_deregister(windows[1]));
	give(&in);
	give(&out);
	return 0;
}

const struct claim engine_claims[] = {
	{ "engines_copy_between_gpus", engines_copy_between_gpus, .reaches = true,
	  .stands_in = true },
	{ NULL },
};
