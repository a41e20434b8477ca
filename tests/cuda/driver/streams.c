/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: order, waits, and what they refuse. */
#include "claims.h"
#include "scene.h"

static void a_stream_does_its_work_in_order(void **state)
{
	uint64_t here[WORDS];

	for (int i = 0; i < WORDS; i++)
		here[i] = (uint64_t)i * 3;
	assert_success(cu->mem_copy(address_of(words), address_of(here), sizeof(here), stream));
	memset(here, 0, sizeof(here)); /* the call has taken it */
	assert_success(cu->mem_set(address_of(words), 1, 8, stream));
	assert_success(cu->mem_copy(address_of(here), address_of(words), sizeof(here), stream));
	assert_int_equal(here[0], 0x0101010101010101); /* complete, too */
	assert_int_equal(here[7], 21);
	assert_success(cu->stream_query(stream));
}

static void note_first_word(void *noted)
{
	*(uint64_t *)noted = read_word(words);
}

static void functions_of_the_host_are_called_in_order(void **state)
{
	cuda_result (*launch)(struct CUstream_st * stream, void (*function)(void *), void *data);
	uint64_t first = 0, second = 0;

	find(&launch, "cuLaunchHostFunc");
	store(stream, words, 3);
	assert_success(launch(stream, note_first_word, &first));
	store(stream, words, 4);
	assert_success(launch(stream, note_first_word, &second));
	assert_success(cu->stream_synchronize(stream));
	assert_int_equal(first, 3);
	assert_int_equal(second, 4);
	assert_int_equal(launch(stream, NULL, NULL), CUDA_INVALID_VALUE);
}

static void streams_run_beside_each_other(void **state)
{
	struct CUstream_st *const second = new_stream();

	wait_for(stream, words, 1);
	store(stream, words + 1, 1);
	assert_int_equal(cu->stream_query(stream), CUDA_NOT_READY);
	wait_for(second, words + 1, 1);
	store(second, words + 2, 7);
	assert_int_equal(read_word(words + 2), 0);
	write_word(words, 1);
	assert_success(cu->stream_synchronize(second));
	assert_int_equal(read_word(words + 2), 7);
	assert_success(cu->stream_destroy(second));
	assert_int_equal(cu->stream_query(second), INVALID_HANDLE);
}

static void a_stream_that_is_destroyed_ends_its_work(void **state)
{
	struct CUstream_st *const second = new_stream();

	wait_for(second, words, 1);
	store(second, words + 1, 4);
	assert_success(cu->stream_destroy(second));
	wait_for(stream, words + 1, 4);
	write_word(words, 1);
	synchronize();
}

static void waits_compare_as_they_are_told(void **state)
{
	uint32_t *const half = (uint32_t *)(words + 3);

	write_word(words, 5);
	assert_success(mem_op(stream, CUDA_MEM_OP_WAIT_64, words, 5, WAIT_GEQ));
	assert_success(mem_op(stream, CUDA_MEM_OP_WAIT_64, words, (uint64_t)-5, WAIT_GEQ));
	assert_success(mem_op(stream, 2, (uint64_t *)(half + 1), 9, 0));
	assert_success(mem_op(stream, 1, (uint64_t *)(half + 1), 9, CUDA_WAIT_EQUAL));
	synchronize();
	assert_int_equal(read_word(words + 3), 9ull << 32);
	assert_success(mem_op(stream, CUDA_MEM_OP_WAIT_64, words, 6, WAIT_GEQ));
	assert_int_equal(cu->stream_query(stream), CUDA_NOT_READY);
	write_word(words, 7);
	synchronize();
}

static void wrong_work_is_refused(void **state)
{
	union CUstreamBatchMemOpParams_union op = { .waitValue = { .operation = CUDA_MEM_OP_WAIT_64,
								   .address = address_of(words) } };
	uint64_t here;

	assert_int_equal(mem_op(stream, CUDA_MEM_OP_WAIT_64, &here, 0, 0),
			 CUDA_INVALID_VALUE); /* the GPU does not know it */
	assert_int_equal(mem_op(stream, CUDA_MEM_OP_WAIT_64, (uint64_t *)((char *)words + 4), 0, 0),
			 CUDA_INVALID_VALUE);
	assert_int_equal(mem_op(stream, 99, words, 0, 0), CUDA_INVALID_VALUE);
	assert_int_equal(mem_op(stream, CUDA_MEM_OP_WAIT_64, words, 0, 8), CUDA_INVALID_VALUE);
	assert_int_equal(cu->stream_mem_ops(stream, 0, &op, 0), CUDA_INVALID_VALUE);
	assert_int_equal(cu->stream_mem_ops(stream, 1, NULL, 0), CUDA_INVALID_VALUE);
	assert_int_equal(cu->stream_mem_ops(stream, 1, &op, 1), CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_set(address_of(words), 0, WORDS * 8 + 1, stream),
			 CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_set(address_of(&here), 0, 1, stream), CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_copy(address_of(words + 1), address_of(words), WORDS * 8, stream),
			 CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_copy(address_of(words), 0, 8, stream), CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_set(address_of(words), 0, 1, (struct CUstream_st *)&here),
			 INVALID_HANDLE);
	assert_int_equal(cu->event_query((struct CUevent_st *)&here), INVALID_HANDLE);
	assert_int_equal(cu->stream_create(NULL, 0), CUDA_INVALID_VALUE);
	assert_int_equal(cu->stream_destroy(NULL), INVALID_HANDLE);
}

static void the_streams_without_a_name_are_streams(void **state)
{
	struct CUctx_st *of;

	assert_success(cu->mem_set(address_of(words), 2, 1, NULL));
	assert_success(cu->stream_synchronize((struct CUstream_st *)1));
	assert_int_equal(read_word(words), 2);
	assert_success(cu->mem_set(address_of(words), 3, 1, (struct CUstream_st *)2));
	assert_success(cu->stream_synchronize((struct CUstream_st *)2));
	assert_int_equal(read_word(words), 3);
	assert_success(cu->stream_get_context(NULL, &of));
	assert_ptr_equal(of, context);
}

int claims_on_streams(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stream_does_its_work_in_order),
		TEST(functions_of_the_host_are_called_in_order),
		TEST(streams_run_beside_each_other),
		TEST(a_stream_that_is_destroyed_ends_its_work),
		TEST(waits_compare_as_they_are_told),
		TEST(wrong_work_is_refused),
		TEST(the_streams_without_a_name_are_streams),
	};

	return cmocka_run_group_tests_name("streams", tests, open_it, NULL);
}
