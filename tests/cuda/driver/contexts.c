/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: stacks of threads, access to peers, and none after a fork. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

SCENE(contexts_are_a_stack_of_the_thread)
{
	struct CUctx_st *second, *current;
	cuda_device device;

	assert_success(tt_cu.primary_retain(&second, 1));
	assert_success(tt_cu.context_push(second));
	assert_success(tt_cu.context_get_device(&device));
	assert_int_equal(device, 1);
	assert_success(tt_cu.context_pop(&current));
	assert_ptr_equal(current, second);
	assert_success(tt_cu.context_get_current(&current));
	assert_ptr_equal(current, context);
	assert_success(tt_cu.context_push(second));
	assert_success(tt_cu.primary_release(1));
	assert_int_equal(tt_cu.context_get_device(&device), CONTEXT_IS_DESTROYED);
	assert_success(tt_cu.context_pop(NULL));
	assert_int_equal(tt_cu.context_push(second), CONTEXT_IS_DESTROYED);
	assert_int_equal(tt_cu.primary_release(1), CUDA_INVALID_CONTEXT);
}

static void *without_context(void *unused)
{
	struct CUctx_st *current = context;
	struct CUstream_st *some_stream;
	struct CUevent_st *event;
	cuda_address memory;
	cuda_device device;

	assert_success(tt_cu.context_get_current(&current));
	assert_null(current);
	assert_int_equal(tt_cu.context_pop(NULL), CUDA_INVALID_CONTEXT);
	assert_int_equal(tt_cu.context_get_device(&device), CUDA_INVALID_CONTEXT);
	assert_int_equal(tt_cu.mem_alloc(&memory, 8), CUDA_INVALID_CONTEXT);
	assert_int_equal(tt_cu.stream_create(&some_stream, 0), CUDA_INVALID_CONTEXT);
	assert_int_equal(tt_cu.event_create(&event, 0), CUDA_INVALID_CONTEXT);
	assert_int_equal(tt_cu.mem_set(cuda_at(words), 1, 8, stream), CUDA_INVALID_CONTEXT);
	assert_success(tt_cu.stream_synchronize(stream));
	return NULL;
}

SCENE(threads_begin_without_a_context)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, without_context, NULL), 0);
	pthread_join(thread, NULL);
}

SCENE(a_peer_is_enabled_once)
{
	struct CUctx_st *second;

	assert_success(tt_cu.primary_retain(&second, 1));
	assert_int_equal(tt_cu.context_enable_peer(second, 0),
			 PEER_UNSUPPORTED); /* 0 does not reach 1 */
	assert_success(tt_cu.context_push(second));
	assert_success(tt_cu.context_enable_peer(context, 0));
	assert_int_equal(tt_cu.context_enable_peer(context, 0), CUDA_PEER_ACCESS_ALREADY_ENABLED);
	assert_int_equal(tt_cu.context_enable_peer(second, 0), CUDA_INVALID_CONTEXT);
	assert_success(tt_cu.context_pop(NULL));
	assert_success(tt_cu.primary_release(1));
}

SCENE(a_child_of_fork_has_no_driver)
{
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(tt_cu.init(0) == CUDA_NOT_INITIALIZED &&
				      tt_cu.stream_query(stream) == CUDA_NOT_INITIALIZED
			      ? 0
			      : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
