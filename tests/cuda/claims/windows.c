/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about memory that all ranks have registered. */
#include "claims.h"

#include <signal.h>

/* Each rank has places of its own for the blocks, in a window. */
static int places_of_blocks_are_a_ranks_own(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	size_t counts[32], displs[32];
	tutti_cuda_window_t window;
	struct vector in, out;

	if (take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	    put(r, &in, (float)(100 * (r->rank + 1))) || put(r, &out, 0))
		return 1;
	for (size_t i = 0; i < (size_t)r->size; i++) {
		counts[i] = 4;
		displs[i] = r->rank == 0 ? i * 4 : 500 - i * 4;
	}
	SUCCEEDS(tutti_cuda_register(comm, out.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_gather_v(comm, in.gpu, out.gpu, counts, displs, TUTTI_FLOAT32,
					 r->stream));
	WORKS(gpu_copy(out.host, out.gpu, few * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (int i = 0; i < r->size; i++)
		CLAIM(out.host[displs[i]] == (float)(100 * (i + 1)), "rank %d's block is %g", i,
		      out.host[displs[i]]);
	SUCCEEDS(tutti_cuda_deregister(window));
	give(&in);
	give(&out);
	return 0;
}

static int windows_of_nothing_do_not_matter(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;
	struct vector x;

	if (take(comm, &x, few) || ready(comm))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank ? NULL : x.gpu, r->rank ? NULL : x.gpu, 0,
				       TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	SUCCEEDS(tutti_cuda_barrier(comm, r->stream));
	WORKS(gpu_finish(r->stream));
	SUCCEEDS(tutti_cuda_deregister(window));
	SUCCEEDS(tutti_comm_error(comm, NULL));
	give(&x);
	return 0;
}

static int window_of_one_rank_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t window;
	struct vector x, y;

	if (r->size == 1)
		return 0;
	if (take(comm, &y, few) || begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, r->rank == 1 ? y.gpu : x.gpu, x.gpu, few,
				       TUTTI_FLOAT32, TUTTI_SUM, r->stream));
	give(&y);
	return told(r, &x, TUTTI_ERR_MISMATCH, "all_reduce(float32 × ");
}

/* The last rank is killed before its stream has come to the operation, which has windows. */
static int killed_rank_with_windows_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int victim = r->size - 1;
	atomic_int *posted = argument;
	tutti_cuda_window_t window;
	struct vector x;

	if (take(comm, &x, few) || ready(comm) || put(r, &x, 1))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, x.gpu, few * sizeof(float), &window));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (r->rank == victim) {
		WORKS(gpu_finish(r->stream));
		await_count(posted, r->size - 1);
		raise(SIGKILL);
	}
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	atomic_fetch_add(posted, 1);
	return told(r, &x, TUTTI_ERR_PEER_LOST, "rank");
}

const struct claim window_claims[] = {
	{ "places_of_blocks_are_a_ranks_own", places_of_blocks_are_a_ranks_own },
	{ "windows_of_nothing_do_not_matter", windows_of_nothing_do_not_matter },
	{ "window_of_one_rank_is_told", window_of_one_rank_is_told, .reaches = true },
	{ "killed_rank_with_windows_is_told", killed_rank_with_windows_is_told, .reaches = true,
	  .kills = true },
	{ NULL },
};
