/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: what they wait for, what they refuse, and what breaks their context. */
#include <stdlib.h>

#include "scene.h"

SCENE(a_stream_that_is_destroyed_ends_its_work)
{
	struct CUstream_st *const second = new_stream(), *third;
	unsigned long long id, next;

	wait_for(second, words, 1);
	store(second, words + 1, 4);
	assert_success(tt_cu.stream_get_id(second, &id));
	assert_success(tt_cu.stream_destroy(second));
	wait_for(stream, words + 1, 4);
	write_word(words, 1);
	synchronize();
	third = new_stream(); /* perhaps by the handle of the second */
	assert_success(tt_cu.stream_get_id(third, &next));
	assert_int_not_equal(id, next);
	assert_success(tt_cu.stream_destroy(third));
}

SCENE(wrong_work_is_refused)
{
	union CUstreamBatchMemOpParams_union op = { .waitValue = { .operation = CUDA_MEM_OP_WAIT_64,
								   .address = cuda_at(words) } };
	uint64_t here = 0;

	assert_invalid(
		mem_op(stream, CUDA_MEM_OP_WAIT_64, &here, 0, 0)); /* the GPU does not know it */
	assert_invalid(mem_op(stream, CUDA_MEM_OP_WAIT_64, (uint64_t *)((char *)words + 4), 0, 0));
	assert_invalid(mem_op(stream, 99, words, 0, 0));
	assert_invalid(mem_op(stream, CUDA_MEM_OP_WAIT_64, words, 0, 8));
	assert_invalid(tt_cu.stream_mem_ops(stream, 0, &op, 0));
	assert_invalid(tt_cu.stream_mem_ops(stream, 1, NULL, 0));
	assert_invalid(tt_cu.stream_mem_ops(stream, 1, &op, 1));
	assert_invalid(tt_cu.mem_set(cuda_at(words), 0, WORDS * 8 + 1, stream));
	assert_invalid(tt_cu.mem_set(cuda_at(&here), 0, 1, stream));
	assert_invalid(tt_cu.mem_copy(cuda_at(words + 1), cuda_at(words), WORDS * 8, stream));
	assert_invalid(tt_cu.mem_copy(cuda_at(words), 0, 8, stream));
	assert_int_equal(tt_cu.mem_set(cuda_at(words), 0, 1, (struct CUstream_st *)&here),
			 INVALID_HANDLE);
	assert_int_equal(tt_cu.event_query((struct CUevent_st *)&here), INVALID_HANDLE);
	assert_invalid(tt_cu.stream_create(NULL, 0));
	assert_int_equal(tt_cu.stream_destroy(NULL), INVALID_HANDLE);
}

SCENE(a_stream_waits_for_the_record_that_there_was)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(CUDA_EVENT_NO_TIMING);

	assert_success(tt_cu.stream_wait_event(second, event, 0)); /* never recorded: passes */
	assert_success(tt_cu.stream_synchronize(second));
	wait_for(stream, words, 1);
	assert_success(tt_cu.event_record(event, stream));
	assert_success(tt_cu.stream_wait_event(second, event, 0));
	store(second, words + 2, 3);
	wait_for(stream, words + 1, 1);
	assert_success(tt_cu.event_record(event, stream)); /* no longer what `second` waits for */
	assert_int_equal(tt_cu.stream_query(second), CUDA_NOT_READY);
	assert_int_equal(read_word(words + 2), 0);
	write_word(words, 1);
	assert_success(tt_cu.stream_synchronize(second));
	assert_int_equal(read_word(words + 2), 3);
	assert_int_equal(tt_cu.event_query(event), CUDA_NOT_READY);
	assert_success(tt_cu.event_destroy(event)); /* its record goes on */
	write_word(words + 1, 1);
	assert_success(tt_cu.stream_destroy(second));
}

SCENE(kernels_have_threads)
{
	struct tt_cuda_program program = { .phases = 1 };
	void *parameters[] = { &program };
	struct CUmod_st *module;
	struct CUfunc_st *copy;

	assert_invalid(tt_cu.module_load(&module, NULL));
	assert_success(tt_cu.module_load(&module, "any"));
	assert_int_equal(tt_cu.module_get_function(&copy, module, "cuInit"), NOT_FOUND);
	const cuda_result found = tt_cu.module_get_function(&copy, module, "tt_cuda_copy");
	assert_int_equal(tt_cu.launch(NULL, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
			 INVALID_HANDLE);
	if (!found) {
		assert_invalid(tt_cu.launch(copy, 0, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
		assert_invalid(
			tt_cu.launch(copy, 1, 1, 1, 1025, 1, 1, 0, stream, parameters, NULL));
	}
	assert_success(tt_cu.module_unload(module));
	assert_int_equal(tt_cu.module_unload(module), INVALID_HANDLE);
	if (found == NOT_FOUND)
		skip(); /* no C++ compiler */
	assert_success(found);
}

SCENE(work_that_fails_breaks_the_context)
{
	struct CUctx_st *second, *of;
	struct CUstream_st *broken, *waits;
	cuda_address memory;

	assert_success(tt_cu.primary_retain(&second, 1));
	assert_success(tt_cu.context_push(second));
	broken = new_stream();
	waits = new_stream();
	assert_success(tt_cu.mem_alloc(&memory, 16));
	assert_success(tt_cu.mem_set(memory, 1, 16, broken));
	assert_success(tt_cu.stream_synchronize(broken));
	wait_for(waits, cuda_pointer(memory), INT64_MAX);
	setenv("STANDIN_FAILS", "work", 1);
	setenv("STANDIN_ERROR", "719", 1);
	assert_success(tt_cu.mem_set(memory + 8, 2, 1, broken));
	assert_int_equal(tt_cu.stream_synchronize(broken), LAUNCH_FAILED);
	unsetenv("STANDIN_FAILS");
	unsetenv("STANDIN_ERROR");
	assert_int_equal(*(unsigned char *)cuda_pointer(memory + 8), 1);
	assert_int_equal(tt_cu.stream_query(broken), LAUNCH_FAILED);
	assert_int_equal(tt_cu.stream_synchronize(waits),
			 LAUNCH_FAILED); /* for what does not come any more */
	assert_int_equal(tt_cu.mem_alloc(&memory, 8), LAUNCH_FAILED);
	assert_int_equal(tt_cu.stream_get_context(broken, &of), LAUNCH_FAILED);
	assert_success(tt_cu.context_pop(NULL));
	assert_success(tt_cu.primary_release(1));
	assert_int_equal(tt_cu.stream_query(broken), INVALID_HANDLE); /* went with the context */
}
