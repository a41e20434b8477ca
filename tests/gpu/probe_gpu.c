/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the driver and what most questions need of a GPU. */
#include "probe.h"

#include <string.h>

struct cuda_driver cu;

const char probe_ptx[] =
	".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry probe_nothing()\n{\n\tret;\n}\n";

bool calls_open(char why[512])
{
	return tt_library_open(&tt_cuda_library, &cu, why);
}

struct CUstream_st *gpu_stream_new(bool urgent)
{
	struct CUstream_st *stream;
	int least, greatest;

	if (!urgent) {
		must("cuStreamCreate", cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
		return stream;
	}
	must("cuCtxGetStreamPriorityRange", cu.context_get_priorities(&least, &greatest));
	must("cuStreamCreateWithPriority",
	     cu.stream_create_urgent(&stream, CUDA_STREAM_NON_BLOCKING, greatest));
	return stream;
}

cuda_result gpu_word_op(struct CUstream_st *stream, unsigned operation, cuda_address word,
			uint64_t value)
{
	union CUstreamBatchMemOpParams_union op = { .pad = { 0 } };

	op.waitValue.operation = operation;
	op.waitValue.address = word;
	op.waitValue.value64 = value;
	op.waitValue.flags = CUDA_WAIT_AT_LEAST;
	return cu.stream_mem_ops(stream, 1, &op, 0);
}

cuda_result gpu_put(struct gpu *gpu, enum put what, struct CUstream_st *stream)
{
	const cuda_address pinned = (cuda_address)(uintptr_t)gpu->pinned;

	switch (what) {
	case PUT_KERNEL: return cu.launch(gpu->nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	case PUT_TO_HOST: return cu.mem_copy(pinned, gpu->memory, PROBE_BYTES, stream);
	case PUT_FROM_HOST: return cu.mem_copy(gpu->memory, pinned, PROBE_BYTES, stream);
	case PUT_FILL: return cu.mem_set(gpu->memory, 0, PROBE_BYTES, stream);
	default: return gpu_word_op(stream, CUDA_MEM_OP_WRITE_64, gpu->memory, 0);
	}
}

static cuda_address word_of_host(const struct gpu *gpu, int i)
{
	return (cuda_address)(uintptr_t)&gpu->words[i];
}

void gpu_begin(struct gpu *gpu)
{
	void *words, *pinned;
	cuda_device device;

	must("cuInit", cu.init(0));
	must("cuDeviceGet", cu.device_get(&device, 0));
	must("cuDevicePrimaryCtxRetain", cu.primary_retain(&gpu->context, device));
	must("cuCtxSetCurrent", cu.context_set(gpu->context));
	must("cuMemHostAlloc",
	     cu.mem_host_alloc(&words, 4096, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	must("cuMemHostAlloc",
	     cu.mem_host_alloc(&pinned, PROBE_BYTES, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	must("cuMemAlloc", cu.mem_alloc(&gpu->memory, PROBE_BYTES));
	memset(words, 0, 4096);
	gpu->words = words;
	gpu->pinned = pinned;
	gpu->waiting = gpu_stream_new(false);
	gpu->other = gpu_stream_new(false);
	must("cuModuleLoadData", cu.module_load(&gpu->module, probe_ptx));
	must("cuModuleGetFunction",
	     cu.module_get_function(&gpu->nothing, gpu->module, "probe_nothing"));
	for (int what = PUT_KERNEL; what <= PUT_WORD; what++) {
		must("the first use of a stream", gpu_put(gpu, (enum put)what, gpu->other));
		must("the first use of a stream", gpu_put(gpu, (enum put)what, gpu->waiting));
	}
	must("cuStreamSynchronize", cu.stream_synchronize(gpu->other));
	must("cuStreamSynchronize", cu.stream_synchronize(gpu->waiting));
}

void gpu_wait_for_word(struct gpu *gpu)
{
	must("cuStreamBatchMemOp",
	     gpu_word_op(gpu->waiting, CUDA_MEM_OP_WRITE_64, word_of_host(gpu, 1), 1));
	must("cuStreamBatchMemOp",
	     gpu_word_op(gpu->waiting, CUDA_MEM_OP_WAIT_64, word_of_host(gpu, 0), 1));
	while (gpu->words[1] == 0)
		;
}

void gpu_go(struct gpu *gpu)
{
	gpu->words[0] = 1;
}
