/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls and work that fail when they are told to. */
#include <stdlib.h>

#include "claims.h"
#include "scene.h"

static void every_function_fails_when_it_is_told_to(void **state)
{
	struct CUevent_st *event;
	cuda_address memory;

	setenv("STANDIN_FAILS", "cuMemAlloc_v2:2,cuEventCreate", 1);
	setenv("STANDIN_ERROR", "2", 1);
	assert_success(cu->mem_alloc(&memory, 8));
	assert_success(cu->mem_free(memory));
	assert_int_equal(cu->mem_alloc(&memory, 8), 2);
	assert_int_equal(cu->mem_alloc(&memory, 8), 2);
	assert_int_equal(cu->event_create(&event, 0), 2);
	unsetenv("STANDIN_FAILS");
	unsetenv("STANDIN_ERROR");
	assert_success(cu->mem_alloc(&memory, 8));
	assert_success(cu->mem_free(memory));
}

static void work_that_fails_breaks_the_context(void **state)
{
	struct CUctx_st *second, *of;
	struct CUstream_st *broken, *waits;
	cuda_address memory;

	assert_success(cu->primary_retain(&second, 1));
	assert_success(cu->context_push(second));
	broken = new_stream();
	waits = new_stream();
	assert_success(cu->mem_alloc(&memory, 16));
	assert_success(cu->mem_set(memory, 1, 16, broken));
	assert_success(cu->stream_synchronize(broken));
	assert_success(mem_op(waits, CUDA_MEM_OP_WAIT_64, (uint64_t *)(uintptr_t)memory, 77,
			      CUDA_WAIT_EQUAL));
	setenv("STANDIN_FAILS", "work", 1);
	setenv("STANDIN_ERROR", "719", 1);
	assert_success(cu->mem_set(memory + 8, 2, 1, broken));
	assert_int_equal(cu->stream_synchronize(broken), 719);
	unsetenv("STANDIN_FAILS");
	unsetenv("STANDIN_ERROR");
	assert_int_equal(*(unsigned char *)(uintptr_t)(memory + 8), 1);
	assert_int_equal(cu->stream_query(broken), 719);
	assert_int_equal(cu->stream_synchronize(waits), 719); /* for what does not come any more */
	assert_int_equal(cu->mem_alloc(&memory, 8), 719);
	assert_int_equal(cu->stream_get_context(broken, &of), 719);
	assert_success(cu->context_pop(NULL));
	assert_success(cu->primary_release(1));
	assert_int_equal(cu->stream_query(broken), INVALID_HANDLE); /* went with the context */
}

int claims_on_failures(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_function_fails_when_it_is_told_to),
		TEST(work_that_fails_breaks_the_context),
	};

	return cmocka_run_group_tests_name("failures", tests, open_it, NULL);
}
