/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels, loaded into a context of CUDA. */
#ifndef TT_CUDA_MODULE_H
#define TT_CUDA_MODULE_H

#include "driver.h"

struct tt_cuda_module {
	struct CUmod_st *module;
	struct CUfunc_st *copy, *messages;
	/* an average is a sum with a divisor; NULL where an operation is not defined */
	struct CUfunc_st *reduce[TUTTI_OP_COUNT][TUTTI_DTYPE_COUNT];
	struct CUfunc_st *scale[TUTTI_DTYPE_COUNT];
	/* from one address to those of all ranks, as it is; and of those the sum, NULL where the switch
	 * has none of the type */
	struct CUfunc_st *multicast_copy, *multicast[TUTTI_DTYPE_COUNT];
};

/* Into the current context, of which whoever calls keeps the module: one is enough. Nothing is
 * loaded later, when a kernel is first launched: that may wait for all that runs on the GPU, and
 * so for what waits for this very launch. TUTTI_ERR_UNSUPPORTED: the build has no kernels, or
 * none for this GPU or driver. */
tutti_result_t tt_cuda_module_load(struct tt_cuda_module *module);

/* In the context it was loaded into. It becomes zeros, which it is before, and which are fine, too. */
void tt_cuda_module_unload(struct tt_cuda_module *module);

#endif
