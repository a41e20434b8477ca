/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the driver's functions, and what each claim begins with. */
#include "scene.h"

struct CUctx_st *context;
struct CUstream_st *stream;
uint64_t *words;

int open_driver(void **state)
{
	assert_success(tt_cuda_driver());
	return 0;
}

uint64_t read_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

void write_word(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

uint64_t *new_words(void)
{
	cuda_address memory;

	assert_success(tt_cu.mem_alloc(&memory, WORDS * sizeof(uint64_t)));
	return cuda_pointer(memory);
}

struct CUstream_st *new_stream(void)
{
	struct CUstream_st *made;

	assert_success(tt_cu.stream_create(&made, CUDA_STREAM_NON_BLOCKING));
	return made;
}

int begin_scene(void **state)
{
	assert_success(tt_cu.primary_retain(&context, 0));
	assert_success(tt_cu.context_push(context));
	stream = new_stream();
	words = new_words();
	assert_true(words[0] && words[WORDS - 1]); /* nobody may count on zeros */
	memset(words, 0, WORDS * sizeof(*words));
	return 0;
}

int end_scene(void **state)
{
	assert_success(tt_cu.stream_synchronize(stream));
	assert_success(tt_cu.mem_free(cuda_at(words)));
	assert_success(tt_cu.stream_destroy(stream));
	assert_success(tt_cu.context_pop(NULL));
	assert_success(tt_cu.primary_release(0));
	return 0;
}

cuda_result mem_op(struct CUstream_st *on, unsigned operation, const uint64_t *word, uint64_t value,
		   unsigned flags)
{
	union CUstreamBatchMemOpParams_union op = { .waitValue = { .operation = operation,
								   .address = cuda_at(word),
								   .value64 = value,
								   .flags = flags } };

	return tt_cu.stream_mem_ops(on, 1, &op, 0);
}

void wait_for(struct CUstream_st *on, const uint64_t *word, uint64_t value)
{
	assert_success(mem_op(on, CUDA_MEM_OP_WAIT_64, word, value, CUDA_WAIT_AT_LEAST));
}

void store(struct CUstream_st *on, const uint64_t *word, uint64_t value)
{
	assert_success(mem_op(on, CUDA_MEM_OP_WRITE_64, word, value, 0));
}

void synchronize(void)
{
	assert_success(tt_cu.stream_synchronize(stream));
}

struct seen look_at(const void *pointer)
{
	unsigned attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
				  CUDA_POINTER_DEVICE };
	struct seen seen = { 77, 77, 77 };
	void *values[] = { &seen.type, &seen.managed, &seen.device };

	assert_success(tt_cu.pointer_get_attributes(3, attributes, values, cuda_at(pointer)));
	return seen;
}

struct CUevent_st *new_event(unsigned flags)
{
	struct CUevent_st *event;

	assert_success(tt_cu.event_create(&event, flags));
	return event;
}
