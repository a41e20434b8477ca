/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels. */
#include "claims.h"
#include "scene.h"

static void kernels_move_bytes_and_give_word(void **state)
{
	struct tt_cuda_place *const place = (struct tt_cuda_place *)new_words();
	struct tt_cuda_control *const control = (struct tt_cuda_control *)new_words();
	struct tt_cuda_program program = copies(words + 100, words, 300);
	void *parameters[] = { &program };
	struct CUmod_st *module;
	struct CUfunc_st *copy;
	void *report;
	int threads;

	assert_success(cu->mem_host_alloc(&report, sizeof(struct tt_cuda_report), 0));
	memset(control, 0, sizeof(*control));
	*place = (struct tt_cuda_place){ .control = { control } };
	program.sync = (struct tt_cuda_sync){
		.own = control, .report = report, .place = place, .ranks = 1
	};
	program.part[0].arrives = 1;
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
		program.part[0].src[0] = NULL; /* the call has taken it */
		synchronize();
		assert_memory_equal(words + 100, words, 300);
		assert_int_equal(control->arrived[0], 1);
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

int claims_on_kernels(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kernels_move_bytes_and_give_word),
	};

	return cmocka_run_group_tests_name("kernels", tests, open_it, NULL);
}
