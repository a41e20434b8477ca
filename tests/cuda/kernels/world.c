/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

struct tt_cuda_module module;
struct CUstream_st *stream;
cuda_device device;
struct world world;
struct world *gpu_world;
struct tt_cuda_report *report;
char *gpu_arena;
char before[ARENA], after[ARENA], expected[ARENA];

void move(void *dst, const void *src, size_t bytes)
{
	if (bytes > 0)
		assert_success(tt_cu.mem_copy(cuda_at(dst), cuda_at(src), bytes, stream));
}

void *gpu_alloc(size_t bytes)
{
	cuda_address memory;

	assert_success(tt_cu.mem_alloc(&memory, bytes));
	return cuda_pointer(memory);
}

struct tt_cuda_sync this_rank(void)
{
	return (struct tt_cuda_sync){ .own = &gpu_world->control[0],
				      .report = report,
				      .place = &gpu_world->place,
				      .rank = 0,
				      .ranks = RANKS };
}

void new_world(void)
{
	memset(&world, 0, sizeof(world));
	memset(report, 0, sizeof(*report));
	for (int r = 0; r < RANKS; r++)
		world.place.control[r] = &gpu_world->control[r];
}

void launch(struct CUfunc_st *kernel, unsigned blocks, unsigned threads, void *program)
{
	void *parameters[] = { program };

	assert_success(
		tt_cu.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL));
}

/* ---- its life */

tutti_result_t begin(void)
{
	struct CUctx_st *context;
	tutti_result_t result = tt_cuda_driver();

	if (result)
		return result;
	assert_success(tt_cu.device_get(&device, 0));
	assert_success(tt_cu.primary_retain(&context, device));
	assert_success(tt_cu.context_push(context));
	result = tt_cuda_module_load(&module);
	if (result)
		return result;
	assert_success(tt_cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
	gpu_arena = gpu_alloc(ARENA);
	gpu_world = gpu_alloc(sizeof(*gpu_world));
	assert_success(tt_cu.mem_host_alloc((void **)&report, sizeof(*report),
					    CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	new_world();
	move(gpu_world, &world, sizeof(world));
	return TUTTI_OK;
}

void end(void)
{
	struct CUctx_st *context;

	assert_success(tt_cu.stream_destroy(stream));
	assert_success(tt_cu.mem_free(cuda_at(gpu_arena)));
	assert_success(tt_cu.mem_free(cuda_at(gpu_world)));
	assert_success(tt_cu.mem_host_free(report));
	tt_cuda_module_unload(&module);
	assert_success(tt_cu.context_pop(&context));
	assert_success(tt_cu.primary_release(device));
}
