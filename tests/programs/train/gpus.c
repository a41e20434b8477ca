/* SPDX-License-Identifier: BSD-3-Clause */
/* What there is beyond on GPUs. */
#include "claims.h"
#include "curves.h"

static void gpus_reach_the_losses_of_the_host(void **state)
{
	static const char *const each[] = {
		"--epochs 8 --batch 53 --bucket 4K --dtype f64",
		"--epochs 5 --hidden none --seed 3 --dtype f64",
		"--epochs 3 --hidden 50,40,30,20,10 --bucket 1 --momentum 0 --schedule constant "
		"--dtype f64",
	};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct curve host;

		device = "host";
		host = train_digits(1, each[i]);
		device = "cuda";
		for (int ranks = 1; ranks <= 4; ranks *= 2) {
			const struct curve curve = train_digits(ranks, each[i]);

			assert_int_equal(curve.ranks, ranks);
			assert_int_equal(curve.epochs, host.epochs);
			for (int e = 0; e < host.epochs; e++) {
				assert_close(host.train[e], curve.train[e]);
				assert_close(host.test[e], curve.test[e]);
			}
			assert_float_equal(host.accuracy, curve.accuracy, 1e-12);
		}
	}
}

/* As their memory cannot be mapped by others. */
static void gpus_that_do_not_reach_each_other_do_it_too(void **state)
{
	static const char options[] = "--epochs 3 --batch 50 --verify --dtype f64";
	struct curve host, curve;

	if (!getenv("STANDIN_PEERS"))
		skip();
	device = "host";
	host = train_digits(1, options);
	device = "cuda";
	setenv("STANDIN_PEERS", "none", 1);
	curve = train_digits(3, options);
	setenv("STANDIN_PEERS", "all", 1);
	for (int e = 0; e < 3; e++)
		assert_close(host.train[e], curve.train[e]);
}

static void without_is_explained(const char *variable, const char *value, const char *error_text)
{
	const char *was = getenv(variable);
	char options[256];

	was = was ? strdup(was) : NULL;
	setenv(variable, value, 1);
	snprintf(options, sizeof(options), "--data %s --epochs 1", digits);
	refuses(2, options, error_text);
	if (was)
		setenv(variable, was, 1);
	else
		unsetenv(variable);
	free((char *)was);
}

static void what_is_not_there_is_explained(void **state)
{
	if (!getenv("STANDIN_PEERS")) /* no stand-in */
		skip();
	without_is_explained(
		"TUTTI_CUDA_LIBRARY", "/nowhere/libcuda.so",
		"--device cuda: CUDA's driver cannot be opened: /nowhere/libcuda.so: cannot open");
	without_is_explained("STANDIN_DEVICES", "0", "--device cuda: cuInit: ");
	without_is_explained(
		"TUTTI_CUBLAS_LIBRARY", "/nowhere/libcublas.so",
		"--device cuda: cuBLAS was not found: /nowhere/libcublas.so: cannot open");
	without_is_explained("TUTTI_CUBLAS_LIBRARY", getenv("TUTTI_CUDA_LIBRARY"),
			     "has no cublasGetStatusString: expected cuBLAS of CUDA 12 or 13");
	without_is_explained("CUBLAS_FAILS", "1",
			     "cuBLAS failed to begin: CUBLAS_STATUS_NOT_INITIALIZED");
	without_is_explained(
		"TUTTI_TRAIN_KERNELS", "/nowhere/kernels",
		"TUTTI_TRAIN_KERNELS is \"/nowhere/kernels\", which cannot be read: No such file");
	without_is_explained("STANDIN_FAILS", "cuModuleLoadData",
			     "cannot be loaded into this GPU: cuModuleLoadData: ");
	without_is_explained("STANDIN_MEMORY", "100000", "--device cuda: the GPU has no ");
	if (!getenv("TRAIN_HAS_KERNELS"))
		without_is_explained(
			"TUTTI_TRAIN_KERNELS", "",
			"--device cuda: tutti-train was built without CUDA's compiler");
}

static void gpus_that_fail_end_all_ranks(void **state)
{
	if (!getenv("STANDIN_PEERS"))
		skip();
	without_is_explained("STANDIN_FAILS", "work:200", "the GPU ");
	without_is_explained("STANDIN_FAILS", "cuLaunchKernel:150", "CUDA");
}

static void ranks_on_host_and_gpu_do_not_mix(void **state)
{
	char options[512];

	snprintf(
		options, sizeof(options),
		"if [ $TUTTI_RANK = 1 ]; then exec \"$1\" --data %s; fi; exec \"$1\" --device cuda --data %s",
		digits, digits);
	refuses_unequal(options, "rank 1 has other options than rank 0");
}

int claims_of_gpus(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpus_reach_the_losses_of_the_host),
		cmocka_unit_test(gpus_that_do_not_reach_each_other_do_it_too),
		cmocka_unit_test(what_is_not_there_is_explained),
		cmocka_unit_test(gpus_that_fail_end_all_ranks),
		cmocka_unit_test(ranks_on_host_and_gpu_do_not_mix),
	};

	return cmocka_run_group_tests_name("gpus", tests, prepare, clean_up);
}
