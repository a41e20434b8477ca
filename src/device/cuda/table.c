/* SPDX-License-Identifier: BSD-3-Clause */
/* The table by which the runtime reaches CUDA's GPUs. */
#include "cuda/table.h"

#include <stdlib.h>

#include "cuda/bound.h"
#include "cuda/staged.h"

static void learn(struct tutti_comm *comm)
{
	tt_cuda_learn(comm->cuda);
}

static void free_all(struct tutti_comm *comm)
{
	tt_staging_free(comm);
	free(comm->cuda); /* left in a child of fork() alone: CUDA is not there */
}

const struct tt_device tt_device_cuda = {
	.probe = tt_cuda_probe,
	.learn = learn,
	.start = tt_cuda_start,
	.stage = tt_staged_add,
	.stage_end = tt_staged_end,
	.stage_forget = tt_staged_forget,
	.holds = tt_staged_holds,
	.unbind = tt_cuda_unbind,
	.free = free_all,
};
