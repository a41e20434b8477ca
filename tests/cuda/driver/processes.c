/* SPDX-License-Identifier: BSD-3-Clause */
/* What several processes do with memory of one GPU. The others are this program, run again with a word. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "claims.h"
#include "scene.h"

extern char **environ;

/* What the program is run again for with the word "peer": it opens the memory that its handle,
 * 128 hexadecimal digits, names, and in a stream adds its word: it waits for word 0 to become 1,
 * copies word 1 to word 2 and stores 2 to word 0. Then word 3 is to become 1. */
int be_peer(const char *text)
{
	struct CUipcMemHandle_st handle;
	cuda_address memory, again;

	for (size_t i = 0; i < sizeof(handle.reserved); i++) {
		unsigned byte;

		sscanf(text + 2 * i, "%2x", &byte);
		handle.reserved[i] = (char)byte;
	}
	open_driver();
	begin_scene(NULL);
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
	end_scene(NULL);
	return 0;
}

/* "owner": it writes the handle of its memory, whose word 0 is 42, and ends when its input does. */
int be_owner(void)
{
	struct CUipcMemHandle_st handle;
	char byte;

	open_driver();
	begin_scene(NULL);
	write_word(words, 42);
	if (cu->ipc_get(&handle, address_of(words)) ||
	    write(1, &handle, sizeof(handle)) != sizeof(handle))
		return 2;
	while (read(0, &byte, 1) > 0)
		;
	return 0; /* the memory is not freed */
}

static void copy_by_kernel(void *dst, const void *src, size_t bytes,
			   struct tt_cuda_control *control)
{
	struct tt_cuda_program program = copies(dst, src, bytes);
	void *parameters[] = { &program };
	struct CUmod_st *module;
	struct CUfunc_st *copy;

	assert_success(cu->module_load(&module, "any"));
	program.sync = (struct tt_cuda_sync){ .own = control };
	if (!cu->module_get_function(&copy, module, "tt_cuda_copy"))
		assert_success(cu->launch(copy, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
	else
		assert_success(cu->mem_copy(address_of(dst), address_of(src), bytes, stream));
	synchronize();
	assert_success(cu->module_unload(module));
}

/* "apart", with STANDIN_APART: what the host does to memory of the GPU faults, what streams do
 * is done. */
int be_apart(void)
{
	struct tt_cuda_control zero = { 0 };
	uint64_t here = 0, *control;
	int pipes[2];

	open_driver();
	assert_success(cu->primary_retain(&context, 0));
	assert_success(cu->context_push(context));
	stream = new_stream();
	words = new_words();
	control = new_words();
	assert_success(cu->mem_copy(address_of(control), address_of(&zero), sizeof(zero), stream));
	store(stream, words + 3, 33);
	wait_for(stream, words + 3, 33);
	copy_by_kernel(words + 7, words + 3, 8, (struct tt_cuda_control *)control);
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

int claims_on_processes(void)
{
	const struct CMUnitTest tests[] = {
		TEST(streams_of_two_processes_wait_for_each_other),
		TEST(memory_can_be_kept_from_the_host),
		TEST(memory_of_a_process_that_ended_stays_with_those_who_opened_it),
		TEST(only_memory_of_gpus_has_handles),
		TEST(a_child_of_fork_has_no_driver),
	};

	return cmocka_run_group_tests_name("processes", tests, open_it, NULL);
}
