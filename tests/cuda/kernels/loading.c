/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that cannot be loaded are explained; and memory that they move is not the host's. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "world.h"

TEST(unreadable_kernels_are_named)
{
	const char *set = getenv("TUTTI_CUDA_KERNELS");
	char *kept = set ? strdup(set) : NULL;
	struct tt_cuda_module none = { NULL };

	setenv("TUTTI_CUDA_KERNELS", "/nowhere/kernels.fatbin", 1);
	assert_int_equal(tt_cuda_module_load(&none), TUTTI_ERR_SYSTEM);
	assert_string_equal(
		tutti_last_error(NULL),
		"TUTTI_CUDA_KERNELS is \"/nowhere/kernels.fatbin\", which cannot be read: No such file or directory");
	assert_null(none.module);
	if (kept)
		setenv("TUTTI_CUDA_KERNELS", kept, 1);
	else
		unsetenv("TUTTI_CUDA_KERNELS");
	free(kept);
}

/* The stand-in fails as it is told to. */
static void assert_not_loaded(const char *function, const char *error, const char *error_text)
{
	struct tt_cuda_module none = { NULL };

	setenv("STANDIN_ERROR", error, 1);
	setenv("STANDIN_FAILS", function, 1);
	assert_int_equal(tt_cuda_module_load(&none), TUTTI_ERR_UNSUPPORTED);
	unsetenv("STANDIN_FAILS");
	unsetenv("STANDIN_ERROR");
	assert_null(none.module);
	if (!strstr(tutti_last_error(NULL), error_text))
		fail_msg("\"%s\" says nothing of \"%s\"", tutti_last_error(NULL), error_text);
}

TEST(kernels_that_are_for_other_gpus_or_drivers_are_explained)
{
	if (!getenv("TUTTI_CUDA_LIBRARY"))
		skip();
	assert_not_loaded("cuModuleLoadData", "209",
			  "the GPU has compute capability 9.0, the kernels of ");
	assert_not_loaded("cuModuleLoadData", "222",
			  "were built with a newer version of CUDA than this driver's, 13.0, ");
	assert_not_loaded(
		"cuModuleGetFunction", "500",
		"has no kernel tt_cuda_copy: expected what is made of src/device/cuda/kernels.cu of this version");
}

TEST(every_operation_has_a_kernel)
{
	assert_non_null(module.copy);
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		assert_non_null(module.scale[dtype]);
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			assert_int_equal(module.reduce[op][dtype] != NULL, is_defined(op, dtype));
	}
}

/* The stand-in's is as far away as a GPU's, where STANDIN_APART says so. */
TEST(the_host_cannot_read_memory_of_the_gpu)
{
	int pipes[2];

	if (!getenv("STANDIN_APART"))
		skip();
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(write(pipes[1], gpu_arena, 8), -1);
	assert_int_equal(errno, EFAULT);
	close(pipes[0]);
	close(pipes[1]);
}
