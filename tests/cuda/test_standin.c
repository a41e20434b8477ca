/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of CUDA's driver, which TUTTI_CUDA_LIBRARY names, does what <cuda.h> says of the
 * driver. What other processes do is done by this program, run again with a word that says what. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* include before cmocka.h what it needs */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/driver.h"
#include "cuda/kernels.h"

#define WORDS 1024

enum {
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
	DESTROYED = 709,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905,
	CAPTURE_IMPLICIT = 906,
	CAPTURED_EVENT = 907
};
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };
enum { WAIT_GEQ = 0 };

extern char **environ;
static const struct cuda_driver *cu;
static struct {
	cuda_result (*alloc_managed)(cuda_address *memory, size_t bytes, unsigned flags);
	cuda_result (*event_synchronize)(struct CUevent_st *event);
	cuda_result (*elapsed)(float *milliseconds, struct CUevent_st *start,
			       struct CUevent_st *end);
	cuda_result (*exchange_mode)(unsigned *mode);
	cuda_result (*begin_capture)(struct CUstream_st *stream, unsigned mode);
	cuda_result (*end_capture)(struct CUstream_st *stream, void **graph);
	cuda_result (*instantiate)(void **executable, void *graph, unsigned long long flags);
	cuda_result (*launch)(void *executable, struct CUstream_st *stream);
	cuda_result (*destroy_executable)(void *executable);
	cuda_result (*destroy_graph)(void *graph);
} more;

#define assert_success(call) assert_int_equal(call, 0)

static void find(void *function, const char *name)
{
	void *const library = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
	void *const found = dlsym(library, name);

	if (!found)
		printf("no %s\n", name);
	memcpy(function, &found, sizeof(found));
	dlclose(library);
}

static void open_driver(void)
{
	if (tt_cuda_driver(&cu)) {
		puts(tutti_last_error(NULL));
		exit(1);
	}
	find(&more.alloc_managed, "cuMemAllocManaged");
	find(&more.event_synchronize, "cuEventSynchronize");
	find(&more.elapsed, "cuEventElapsedTime_v2");
	find(&more.exchange_mode, "cuThreadExchangeStreamCaptureMode");
	find(&more.begin_capture, "cuStreamBeginCapture_v2");
	find(&more.end_capture, "cuStreamEndCapture");
	find(&more.instantiate, "cuGraphInstantiateWithFlags");
	find(&more.launch, "cuGraphLaunch");
	find(&more.destroy_executable, "cuGraphExecDestroy");
	find(&more.destroy_graph, "cuGraphDestroy");
}

/* Of every test: GPU 0 with its context current, a stream, and words of the GPU's memory that
 * are 0. */
static struct CUctx_st *context;
static struct CUstream_st *stream;
static uint64_t *words;

static cuda_address address_of(const void *pointer)
{
	return (cuda_address)(uintptr_t)pointer;
}

static uint64_t read_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void write_word(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static uint64_t *new_words(void)
{
	cuda_address memory;

	assert_success(cu->mem_alloc(&memory, WORDS * sizeof(uint64_t)));
	return (uint64_t *)(uintptr_t)memory;
}

static struct CUstream_st *new_stream(void)
{
	struct CUstream_st *made;

	assert_success(cu->stream_create(&made, CUDA_STREAM_NON_BLOCKING));
	return made;
}

static int begin(void **state)
{
	assert_success(cu->primary_retain(&context, 0));
	assert_success(cu->context_push(context));
	stream = new_stream();
	words = new_words();
	assert_true(words[0] && words[WORDS - 1]); /* nobody may count on zeros */
	memset(words, 0, WORDS * sizeof(*words));
	return 0;
}

static int end(void **state)
{
	assert_success(cu->stream_synchronize(stream));
	assert_success(cu->mem_free(address_of(words)));
	assert_success(cu->stream_destroy(stream));
	assert_success(cu->context_pop(NULL));
	assert_success(cu->primary_release(0));
	return 0;
}

static cuda_result mem_op(struct CUstream_st *on, unsigned operation, const uint64_t *word,
			  uint64_t value, unsigned flags)
{
	union CUstreamBatchMemOpParams_union op = { .waitValue = { .operation = operation,
								   .address = address_of(word),
								   .value64 = value,
								   .flags = flags } };

	return cu->stream_mem_ops(on, 1, &op, 0);
}

static void wait_for(struct CUstream_st *on, const uint64_t *word, uint64_t value)
{
	assert_success(mem_op(on, CUDA_MEM_OP_WAIT_64, word, value, CUDA_WAIT_EQUAL));
}

static void store(struct CUstream_st *on, const uint64_t *word, uint64_t value)
{
	assert_success(mem_op(on, CUDA_MEM_OP_WRITE_64, word, value, 0));
}

static void synchronize(void)
{
	assert_success(cu->stream_synchronize(stream));
}

/* ---------------------------------------------------------------- contexts */

static void contexts_are_a_stack_of_the_thread(void **state)
{
	struct CUctx_st *second, *current;
	cuda_device device;

	assert_success(cu->primary_retain(&second, 1));
	assert_success(cu->context_push(second));
	assert_success(cu->context_get_device(&device));
	assert_int_equal(device, 1);
	assert_success(cu->context_pop(&current));
	assert_ptr_equal(current, second);
	assert_success(cu->context_get_current(&current));
	assert_ptr_equal(current, context);
	assert_success(cu->context_push(second));
	assert_success(cu->primary_release(1));
	assert_int_equal(cu->context_get_device(&device), DESTROYED);
	assert_success(cu->context_pop(NULL));
	assert_int_equal(cu->context_push(second), DESTROYED);
	assert_int_equal(cu->primary_release(1), CUDA_INVALID_CONTEXT);
}

static void *without_context(void *unused)
{
	struct CUctx_st *current = context;
	struct CUstream_st *some_stream;
	struct CUevent_st *event;
	cuda_address memory;
	cuda_device device;

	assert_success(cu->context_get_current(&current));
	assert_null(current);
	assert_int_equal(cu->context_pop(NULL), CUDA_INVALID_CONTEXT);
	assert_int_equal(cu->context_get_device(&device), CUDA_INVALID_CONTEXT);
	assert_int_equal(cu->mem_alloc(&memory, 8), CUDA_INVALID_CONTEXT);
	assert_int_equal(cu->stream_create(&some_stream, 0), CUDA_INVALID_CONTEXT);
	assert_int_equal(cu->event_create(&event, 0), CUDA_INVALID_CONTEXT);
	assert_int_equal(cu->mem_set(address_of(words), 1, 8, stream), CUDA_INVALID_CONTEXT);
	assert_success(cu->stream_synchronize(stream));
	return NULL;
}

static void threads_begin_without_a_context(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, without_context, NULL), 0);
	pthread_join(thread, NULL);
}

static void a_peer_is_enabled_once(void **state)
{
	struct CUctx_st *second;

	assert_success(cu->primary_retain(&second, 1));
	assert_int_equal(cu->context_enable_peer(second, 0), 217); /* 0 does not reach 1 */
	assert_success(cu->context_push(second));
	assert_success(cu->context_enable_peer(context, 0));
	assert_int_equal(cu->context_enable_peer(context, 0), CUDA_PEER_ACCESS_ALREADY_ENABLED);
	assert_int_equal(cu->context_enable_peer(second, 0), CUDA_INVALID_CONTEXT);
	assert_success(cu->context_pop(NULL));
	assert_success(cu->primary_release(1));
}

/* ---------------------------------------------------------------- memory */

static void memory_has_a_limit_and_is_found_by_its_addresses(void **state)
{
	cuda_address memory, base;
	size_t bytes;

	assert_int_equal(cu->mem_alloc(&memory, ((size_t)1 << 30) - WORDS * sizeof(uint64_t) + 1),
			 CUDA_OUT_OF_MEMORY);
	assert_int_equal(cu->mem_alloc(&memory, 0), CUDA_INVALID_VALUE);
	assert_success(cu->mem_alloc(&memory, 5000));
	assert_success(cu->mem_get_range(&base, &bytes, memory + 4999));
	assert_true(base == memory && bytes == 5000);
	assert_int_equal(cu->mem_get_range(&base, &bytes, memory + 5000), NOT_FOUND);
	assert_int_equal(cu->mem_free(memory + 8), CUDA_INVALID_VALUE);
	assert_int_equal(cu->mem_host_free((void *)(uintptr_t)memory), CUDA_INVALID_VALUE);
	assert_success(cu->mem_free(memory));
	assert_int_equal(cu->mem_free(memory), CUDA_INVALID_VALUE);
}

struct seen {
	unsigned type, managed;
	int device;
};

static struct seen look_at(const void *pointer)
{
	unsigned attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
				  CUDA_POINTER_DEVICE };
	struct seen seen = { 77, 77, 77 };
	void *values[] = { &seen.type, &seen.managed, &seen.device };

	assert_success(cu->pointer_get_attributes(3, attributes, values, address_of(pointer)));
	return seen;
}

static void pointers_say_whose_they_are(void **state)
{
	const struct seen device = look_at(words + 5), unknown = look_at(&device);
	unsigned attribute = 999;
	void *pinned, *value = &attribute;
	cuda_address managed;

	assert_true(device.type == CUDA_MEMORY_DEVICE && !device.managed && device.device == 0);
	assert_true(unknown.type == 0 && !unknown.managed && unknown.device == -2);
	assert_success(cu->mem_host_alloc(&pinned, 100, CUDA_HOST_PORTABLE));
	assert_int_equal(look_at(pinned).type, CUDA_MEMORY_HOST);
	assert_int_equal(look_at(pinned).device, 0);
	assert_success(cu->mem_host_free(pinned));
	assert_int_equal(look_at(pinned).type, 0);
	assert_success(more.alloc_managed(&managed, 100, 1));
	assert_int_equal(look_at((void *)(uintptr_t)managed).managed, 1);
	assert_success(cu->mem_free(managed));
	assert_int_equal(cu->pointer_get_attributes(1, &attribute, &value, address_of(words)),
			 CUDA_INVALID_VALUE);
	assert_int_equal(cu->pointer_get_attributes(0, &attribute, &value, address_of(words)),
			 CUDA_INVALID_VALUE);
}

static void freeing_waits_for_what_the_gpu_was_given(void **state)
{
	uint64_t *const other = new_words();
	struct CUstream_st *const second = new_stream();

	wait_for(stream, words, 1);
	store(stream, other, 5);
	store(stream, words + 1, 6);
	store(second, words, 1);
	assert_success(cu->mem_free(address_of(other)));
	assert_int_equal(read_word(words + 1), 6);
	assert_success(cu->stream_destroy(second));
}

/* ---------------------------------------------------------------- streams */

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

/* ---------------------------------------------------------------- events */

static struct CUevent_st *new_event(unsigned flags)
{
	struct CUevent_st *event;

	assert_success(cu->event_create(&event, flags));
	return event;
}

static void an_event_says_when_its_last_record_is_done(void **state)
{
	struct CUevent_st *const event = new_event(0), *const second = new_event(0);
	float milliseconds = -1;

	assert_success(cu->event_query(event)); /* never recorded */
	assert_success(cu->event_record(event, stream));
	assert_success(more.event_synchronize(event));
	assert_success(cu->event_query(event));
	wait_for(stream, words, 1);
	assert_success(cu->event_record(second, stream));
	assert_int_equal(cu->event_query(second), CUDA_NOT_READY);
	assert_int_equal(more.elapsed(&milliseconds, event, second), CUDA_NOT_READY);
	write_word(words, 1);
	assert_success(more.event_synchronize(second));
	assert_success(more.elapsed(&milliseconds, event, second));
	assert_true(milliseconds >= 0 && milliseconds < 60000);
	assert_success(cu->event_destroy(event));
	assert_success(cu->event_destroy(second));
	assert_int_equal(cu->event_destroy(second), INVALID_HANDLE);
}

static void a_stream_waits_for_the_record_that_there_was(void **state)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(CUDA_EVENT_NO_TIMING);

	assert_success(cu->stream_wait_event(second, event, 0)); /* never recorded: passes */
	assert_success(cu->stream_synchronize(second));
	wait_for(stream, words, 1);
	assert_success(cu->event_record(event, stream));
	assert_success(cu->stream_wait_event(second, event, 0));
	store(second, words + 2, 3);
	wait_for(stream, words + 1, 1);
	assert_success(cu->event_record(event, stream)); /* no longer what `second` waits for */
	assert_int_equal(cu->stream_query(second), CUDA_NOT_READY);
	assert_int_equal(read_word(words + 2), 0);
	write_word(words, 1);
	assert_success(cu->stream_synchronize(second));
	assert_int_equal(read_word(words + 2), 3);
	assert_int_equal(cu->event_query(event), CUDA_NOT_READY);
	assert_success(cu->event_destroy(event)); /* its record goes on */
	write_word(words + 1, 1);
	assert_success(cu->stream_destroy(second));
}

/* ---------------------------------------------------------------- capture */

static void a_graph_is_replayed(void **state)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const fork = new_event(CUDA_EVENT_NO_TIMING),
				 *const join = new_event(CUDA_EVENT_NO_TIMING);
	unsigned status = 77;
	void *graph, *executable;

	assert_success(more.begin_capture(stream, MODE_GLOBAL));
	assert_success(cu->stream_is_capturing(stream, &status));
	assert_int_equal(status, CUDA_CAPTURE_ACTIVE);
	wait_for(stream, words, 1);
	store(stream, words, 0);
	assert_success(cu->event_record(fork, stream));
	assert_success(cu->stream_wait_event(second, fork, 0));
	assert_success(cu->stream_is_capturing(second, &status));
	assert_int_equal(status, CUDA_CAPTURE_ACTIVE);
	assert_success(cu->mem_set(address_of(words + 1), 4, 1, second));
	assert_success(cu->event_record(join, second));
	assert_success(cu->stream_wait_event(stream, join, 0));
	assert_success(more.end_capture(stream, &graph));
	assert_success(cu->stream_is_capturing(second, &status));
	assert_int_equal(status, CUDA_CAPTURE_NONE);
	assert_int_equal(read_word(words + 1), 0);
	assert_success(more.instantiate(&executable, graph, 0));
	assert_success(more.destroy_graph(graph));
	for (int i = 0; i < 3; i++) {
		assert_success(more.launch(executable, stream));
		store(stream, words + 2, (uint64_t)i);
		assert_int_equal(cu->stream_query(stream), CUDA_NOT_READY);
		write_word(words, 1);
		synchronize();
		assert_int_equal(read_word(words), 0);
		assert_int_equal(read_word(words + 1), 4);
		write_word(words + 1, 0);
	}
	assert_success(more.destroy_executable(executable));
	assert_success(cu->event_destroy(fork));
	assert_success(cu->event_destroy(join));
	assert_success(cu->stream_destroy(second));
}

/* Calls that a capture does not allow fail, and so does its end. */
static void capture_forbids_what_it_cannot_keep(void **state)
{
	struct CUevent_st *const event = new_event(0), *const captured = new_event(0);
	cuda_address memory;
	unsigned status;
	void *graph;

	assert_success(cu->event_record(event, stream));
	synchronize();
	for (int i = 0; i < 6; i++) {
		assert_success(more.begin_capture(stream, MODE_GLOBAL));
		switch (i) {
		case 0: assert_int_equal(cu->mem_alloc(&memory, 8), CAPTURE_UNSUPPORTED); break;
		case 1:
			assert_int_equal(cu->mem_free(address_of(words)), CAPTURE_UNSUPPORTED);
			break;
		case 2:
			assert_int_equal(cu->stream_synchronize(stream), CAPTURE_UNSUPPORTED);
			break;
		case 3: assert_int_equal(cu->event_query(event), CAPTURE_UNSUPPORTED); break;
		case 4:
			assert_int_equal(cu->stream_wait_event(stream, event, 0),
					 CAPTURE_ISOLATION);
			break;
		case 5:
			assert_success(cu->event_record(captured, stream));
			assert_int_equal(cu->event_query(captured), CAPTURED_EVENT);
			break;
		}
		assert_success(cu->stream_is_capturing(stream, &status));
		assert_int_equal(status, 2);
		assert_int_equal(cu->mem_set(address_of(words), 0, 1, stream), CAPTURE_INVALIDATED);
		assert_int_equal(more.end_capture(stream, &graph), CAPTURE_INVALIDATED);
		assert_null(graph);
	}
	assert_int_equal(more.end_capture(stream, &graph), ILLEGAL_STATE);
	assert_int_equal(more.begin_capture(NULL, MODE_GLOBAL), CAPTURE_UNSUPPORTED);
	assert_success(cu->event_destroy(event));
	assert_success(cu->event_destroy(captured));
}

static void capture_asks_for_all_branches_and_spares_the_relaxed(void **state)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(0);
	unsigned mode = MODE_RELAXED;
	cuda_address memory;
	void *graph;

	assert_success(more.begin_capture(stream, MODE_GLOBAL));
	assert_success(more.exchange_mode(&mode));
	assert_int_equal(mode, MODE_GLOBAL);
	assert_success(cu->mem_alloc(&memory, 8));
	assert_success(cu->mem_free(memory));
	assert_success(cu->stream_synchronize(second));
	assert_success(more.exchange_mode(&mode));
	assert_success(cu->event_record(event, stream));
	assert_success(cu->stream_wait_event(second, event, 0));
	assert_int_equal(more.end_capture(stream, &graph), CAPTURE_UNJOINED);
	assert_success(more.begin_capture((struct CUstream_st *)2,
					  MODE_THREAD_LOCAL)); /* a blocking one */
	assert_int_equal(cu->stream_is_capturing(NULL, &mode), CAPTURE_IMPLICIT);
	assert_success(more.end_capture((struct CUstream_st *)2, &graph));
	assert_success(more.destroy_graph(graph));
	assert_success(cu->event_destroy(event));
	assert_success(cu->stream_destroy(second));
}

/* ---------------------------------------------------------------- other processes */

/* What the program is run again for with the word "peer": it opens the memory that its handle,
 * 128 hexadecimal digits, names, and in a stream adds its word: it waits for word 0 to become 1,
 * copies word 1 to word 2 and stores 2 to word 0. Then word 3 is to become 1. */
static int be_peer(const char *text)
{
	struct CUipcMemHandle_st handle;
	cuda_address memory, again;

	for (size_t i = 0; i < sizeof(handle.reserved); i++) {
		unsigned byte;

		sscanf(text + 2 * i, "%2x", &byte);
		handle.reserved[i] = (char)byte;
	}
	open_driver();
	begin(NULL);
	if (cu->ipc_open(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS) ||
	    cu->ipc_open(&again, handle, CUDA_IPC_LAZY_PEER_ACCESS) || memory != again)
		return 2;
	uint64_t *const theirs = (uint64_t *)(uintptr_t)memory;

	if (look_at(theirs).type != CUDA_MEMORY_DEVICE)
		return 3;
	if (cu->mem_free(memory) != CUDA_INVALID_VALUE ||
	    cu->ipc_get(&handle, memory) != CUDA_INVALID_VALUE || cu->ipc_close(memory))
		return 4;
	wait_for(stream, theirs, 1);
	if (cu->mem_copy(address_of(theirs + 2), address_of(theirs + 1), 8, stream))
		return 5;
	store(stream, theirs, 2);
	wait_for(stream, theirs + 3, 1);
	if (cu->ipc_close(memory) || cu->ipc_close(memory) != CUDA_INVALID_VALUE)
		return 6;
	end(NULL);
	return 0;
}

/* "owner": it writes the handle of its memory, whose word 0 is 42, and ends when its input does. */
static int be_owner(void)
{
	struct CUipcMemHandle_st handle;
	char byte;

	open_driver();
	begin(NULL);
	write_word(words, 42);
	if (cu->ipc_get(&handle, address_of(words)) ||
	    write(1, &handle, sizeof(handle)) != sizeof(handle))
		return 2;
	while (read(0, &byte, 1) > 0)
		;
	return 0; /* the memory is not freed */
}

static void copy_by_kernel(void *dst, const void *src, size_t bytes, struct tt_cuda_place *place)
{
	struct tt_cuda_part part = {
		.src = { src }, .dst = { dst }, .bytes = { bytes }, .nsrc = 1, .ndst = 1
	};
	struct tt_cuda_sync sync = {
		.place = place, .kind = TT_CUDA_SILENT, .clear = -1, .post = -1
	};
	void *parameters[] = { &part, &sync };
	struct CUmod_st *module;
	struct CUfunc_st *copy;

	assert_success(cu->module_load(&module, "any"));
	if (!cu->module_get_function(&copy, module, "tt_cuda_copy"))
		assert_success(cu->launch(copy, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
	else
		assert_success(cu->mem_copy(address_of(dst), address_of(src), bytes, stream));
	synchronize();
	assert_success(cu->module_unload(module));
}

/* "apart", with STANDIN_APART: what the host does to memory of the GPU faults, what streams do
 * is done. */
static int be_apart(void)
{
	struct tt_cuda_place place = { .ranks = 1 };
	struct tt_cuda_control zero = { 0 };
	uint64_t here = 0, *control, *there;
	int pipes[2];

	open_driver();
	assert_success(cu->primary_retain(&context, 0));
	assert_success(cu->context_push(context));
	stream = new_stream();
	words = new_words();
	control = new_words();
	there = new_words();
	place.own = place.control[0] = (struct tt_cuda_control *)control;
	assert_success(cu->mem_copy(address_of(control), address_of(&zero), sizeof(zero), stream));
	assert_success(cu->mem_copy(address_of(there), address_of(&place), sizeof(place), stream));
	store(stream, words + 3, 33);
	wait_for(stream, words + 3, 33);
	copy_by_kernel(words + 7, words + 3, 8, (struct tt_cuda_place *)there);
	assert_success(cu->mem_copy(address_of(&here), address_of(words + 7), 8, stream));
	if (pipe2(pipes, O_CLOEXEC) || write(pipes[1], words, 8) != -1 || errno != EFAULT)
		return 2;
	return here == 33 && look_at(words).type == CUDA_MEMORY_DEVICE ? 0 : 3;
}

static pid_t start(const char *as, const char *with, int in, int out)
{
	char *arguments[] = { "test_standin", (char *)as, (char *)with, NULL };
	posix_spawn_file_actions_t actions;
	pid_t child;

	posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	return child;
}

static void assert_ends_well(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void streams_of_two_processes_wait_for_each_other(void **state)
{
	struct CUipcMemHandle_st handle;
	cuda_address memory;
	char text[129];

	assert_success(cu->ipc_get(&handle, address_of(words + 9))); /* is the allocation's */
	assert_int_equal(cu->ipc_open(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS),
			 CUDA_INVALID_CONTEXT);
	for (size_t i = 0; i < sizeof(handle.reserved); i++)
		sprintf(text + 2 * i, "%02x", (unsigned char)handle.reserved[i]);
	const pid_t child = start("peer", text, -1, -1);
	store(stream, words + 1, 123);
	store(stream, words, 1);
	wait_for(stream, words, 2);
	synchronize();
	assert_int_equal(read_word(words + 2), 123);
	store(stream, words + 3, 1);
	assert_ends_well(child);
}

static void memory_can_be_kept_from_the_host(void **state)
{
	setenv("STANDIN_APART", "1", 1);
	const pid_t child = start("apart", NULL, -1, -1);
	unsetenv("STANDIN_APART");
	assert_ends_well(child);
}

static void memory_of_a_process_that_ended_stays_with_those_who_opened_it(void **state)
{
	struct CUipcMemHandle_st handle;
	int to[2], from[2];
	cuda_address memory, again;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	const pid_t child = start("owner", NULL, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	assert_int_equal(read(from[0], &handle, sizeof(handle)), sizeof(handle));
	assert_int_equal(cu->ipc_open(&memory, handle, 0), CUDA_INVALID_VALUE);
	assert_success(cu->ipc_open(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS));
	close(to[1]);
	assert_ends_well(child);
	close(from[0]);
	assert_int_equal(read_word((uint64_t *)(uintptr_t)memory), 42);
	assert_success(cu->ipc_open(&again, handle, CUDA_IPC_LAZY_PEER_ACCESS));
	assert_true(memory == again);
	assert_success(cu->ipc_close(memory));
	assert_success(cu->ipc_close(memory));
	assert_int_equal(cu->ipc_open(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS), INVALID_HANDLE);
	memset(&handle, 0, sizeof(handle));
	assert_int_equal(cu->ipc_open(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS),
			 CUDA_INVALID_VALUE);
}

static void only_memory_of_gpus_has_handles(void **state)
{
	struct CUipcMemHandle_st handle;
	cuda_address managed;
	void *pinned;

	assert_success(cu->mem_host_alloc(&pinned, 100, 0));
	assert_success(more.alloc_managed(&managed, 100, 1));
	assert_int_equal(cu->ipc_get(&handle, address_of(pinned)), CUDA_INVALID_VALUE);
	assert_int_equal(cu->ipc_get(&handle, managed), CUDA_INVALID_VALUE);
	assert_int_equal(cu->ipc_get(&handle, address_of(&handle)), CUDA_INVALID_VALUE);
	assert_success(cu->mem_host_free(pinned));
	assert_success(cu->mem_free(managed));
}

static void a_child_of_fork_has_no_driver(void **state)
{
	const pid_t child = fork();

	if (child == 0)
		_exit(cu->init(0) == 3 && cu->stream_query(stream) == 3 ? 0 : 1);
	assert_ends_well(child);
}

/* ---------------------------------------------------------------- kernels */

static void kernels_move_bytes_and_give_word(void **state)
{
	struct tt_cuda_place *const place = (struct tt_cuda_place *)new_words();
	struct tt_cuda_control *const control = (struct tt_cuda_control *)new_words();
	struct tt_cuda_part part = {
		.src = { words }, .dst = { words + 100 }, .bytes = { 300 }, .nsrc = 1, .ndst = 1
	};
	struct tt_cuda_sync sync = {
		.place = place, .kind = TT_CUDA_COLLECTIVE, .clear = -1, .post = 1
	};
	void *parameters[] = { &part, &sync };
	struct CUmod_st *module;
	struct CUfunc_st *copy;
	void *report;
	int threads;

	assert_success(cu->mem_host_alloc(&report, sizeof(struct tt_cuda_report), 0));
	memset(control, 0, sizeof(*control));
	*place = (struct tt_cuda_place){
		.rank = 0, .ranks = 1, .own = control, .report = report, .control = { control }
	};
	for (int i = 0; i < 100; i++)
		words[i] = (uint64_t)i;
	assert_int_equal(cu->module_load(&module, NULL), CUDA_INVALID_VALUE);
	assert_success(cu->module_load(&module, "any"));
	assert_int_equal(cu->module_get_function(&copy, module, "cuInit"), NOT_FOUND);
	assert_int_equal(cu->module_get_function(&copy, module, "nothing"), NOT_FOUND);
	const cuda_result found = cu->module_get_function(&copy, module, "tt_cuda_copy");
	if (!found) {
		assert_success(cu->function_get_attribute(&threads, CUDA_FUNCTION_THREADS, copy));
		assert_int_equal(threads, 1024);
		assert_success(cu->launch(copy, 3, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
		part.src[0] = NULL; /* the call has taken it */
		synchronize();
		assert_memory_equal(words + 100, words, 300);
		assert_int_equal(control->posted[1][0], 1);
		assert_int_equal(cu->launch(copy, 0, 1, 1, 256, 1, 1, 0, stream, parameters, NULL),
				 CUDA_INVALID_VALUE);
		assert_int_equal(cu->launch(copy, 1, 1, 1, 1025, 1, 1, 0, stream, parameters, NULL),
				 CUDA_INVALID_VALUE);
		assert_int_equal(cu->launch(NULL, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
				 INVALID_HANDLE);
	}
	assert_success(cu->module_unload(module));
	assert_int_equal(cu->module_unload(module), INVALID_HANDLE);
	assert_success(cu->mem_host_free(report));
	assert_success(cu->mem_free(address_of(control)));
	assert_success(cu->mem_free(address_of(place)));
	if (found == NOT_FOUND)
		skip(); /* no C++ compiler */
	assert_success(found);
}

/* ---------------------------------------------------------------- failures */

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

static int open_it(void **state)
{
	open_driver();
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(contexts_are_a_stack_of_the_thread),
		TEST(threads_begin_without_a_context),
		TEST(a_peer_is_enabled_once),
		TEST(memory_has_a_limit_and_is_found_by_its_addresses),
		TEST(pointers_say_whose_they_are),
		TEST(freeing_waits_for_what_the_gpu_was_given),
		TEST(a_stream_does_its_work_in_order),
		TEST(functions_of_the_host_are_called_in_order),
		TEST(streams_run_beside_each_other),
		TEST(a_stream_that_is_destroyed_ends_its_work),
		TEST(waits_compare_as_they_are_told),
		TEST(wrong_work_is_refused),
		TEST(the_streams_without_a_name_are_streams),
		TEST(an_event_says_when_its_last_record_is_done),
		TEST(a_stream_waits_for_the_record_that_there_was),
		TEST(a_graph_is_replayed),
		TEST(capture_forbids_what_it_cannot_keep),
		TEST(capture_asks_for_all_branches_and_spares_the_relaxed),
		TEST(streams_of_two_processes_wait_for_each_other),
		TEST(memory_can_be_kept_from_the_host),
		TEST(memory_of_a_process_that_ended_stays_with_those_who_opened_it),
		TEST(only_memory_of_gpus_has_handles),
		TEST(a_child_of_fork_has_no_driver),
		TEST(kernels_move_bytes_and_give_word),
		TEST(every_function_fails_when_it_is_told_to),
		TEST(work_that_fails_breaks_the_context),
	};

	if (argc == 3 && strcmp(argv[1], "peer") == 0)
		return be_peer(argv[2]);
	if (argc == 2 && strcmp(argv[1], "owner") == 0)
		return be_owner();
	if (argc == 2 && strcmp(argv[1], "apart") == 0)
		return be_apart();
	return cmocka_run_group_tests(tests, open_it, NULL);
}
