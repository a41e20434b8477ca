/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: its limit, what pointers say, when it is freed, and who has handles of it. */
#include "scene.h"

SCENE(memory_has_a_limit_and_is_found_by_its_addresses)
{
	cuda_address memory, base;
	size_t bytes;

	assert_int_equal(tt_cu.mem_alloc(&memory, ((size_t)1 << 30) - WORDS * sizeof(uint64_t) + 1),
			 CUDA_OUT_OF_MEMORY);
	assert_invalid(tt_cu.mem_alloc(&memory, 0));
	assert_success(tt_cu.mem_alloc(&memory, 5000));
	assert_success(tt_cu.mem_get_range(&base, &bytes, memory + 4999));
	assert_true(base == memory && bytes == 5000);
	assert_int_equal(tt_cu.mem_get_range(&base, &bytes, memory + 5000), NOT_FOUND);
	assert_invalid(tt_cu.mem_free(memory + 8));
	assert_invalid(tt_cu.mem_host_free(cuda_pointer(memory)));
	assert_success(tt_cu.mem_free(memory));
	assert_invalid(tt_cu.mem_free(memory));
}

SCENE(pointers_say_whose_they_are)
{
	const struct seen device = look_at(words + 5), unknown = look_at(&device);
	unsigned attribute = 999;
	void *pinned, *value = &attribute;
	cuda_address managed;

	assert_true(device.type == CUDA_MEMORY_DEVICE && !device.managed && device.device == 0);
	assert_true(unknown.type == 0 && !unknown.managed && unknown.device == -2);
	assert_success(tt_cu.mem_host_alloc(&pinned, 100, CUDA_HOST_PORTABLE));
	assert_int_equal(look_at(pinned).type, CUDA_MEMORY_HOST);
	assert_int_equal(look_at(pinned).device, 0);
	assert_success(tt_cu.mem_host_free(pinned));
	assert_int_equal(look_at(pinned).type, 0);
	assert_success(tt_cu.mem_alloc_managed(&managed, 100, 1));
	assert_int_equal(look_at(cuda_pointer(managed)).managed, 1);
	assert_success(tt_cu.mem_free(managed));
	assert_invalid(tt_cu.pointer_get_attributes(1, &attribute, &value, cuda_at(words)));
	assert_invalid(tt_cu.pointer_get_attributes(0, &attribute, &value, cuda_at(words)));
}

SCENE(freeing_waits_for_what_the_gpu_was_given)
{
	uint64_t *const other = new_words();
	struct CUstream_st *const second = new_stream();

	wait_for(stream, words, 1);
	store(stream, other, 5);
	store(stream, words + 1, 6);
	store(second, words, 1);
	assert_success(tt_cu.mem_free(cuda_at(other)));
	assert_int_equal(read_word(words + 1), 6);
	assert_success(tt_cu.stream_destroy(second));
}

SCENE(only_memory_of_gpus_has_handles)
{
	struct CUipcMemHandle_st handle;
	cuda_address managed;
	void *pinned;

	assert_success(tt_cu.mem_host_alloc(&pinned, 100, 0));
	assert_success(tt_cu.mem_alloc_managed(&managed, 100, 1));
	assert_invalid(tt_cu.ipc_get(&handle, cuda_at(pinned)));
	assert_invalid(tt_cu.ipc_get(&handle, managed));
	assert_invalid(tt_cu.ipc_get(&handle, cuda_at(&handle)));
	assert_success(tt_cu.mem_host_free(pinned));
	assert_success(tt_cu.mem_free(managed));
}
