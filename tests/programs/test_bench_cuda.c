/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench -m cuda as its users run it, with the stand-in for CUDA's driver. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "launched.h"

#define WORDS 32

static const char *program;

/* Remarks as they were before they were wrapped. */
static void unwrap(char *text)
{
	for (char *at = text; (at = strstr(at, "\n# "));)
		memmove(at, at + 2, strlen(at + 2) + 1);
}

static struct launched bench(const char *arguments, int status)
{
	const char *words[WORDS] = { program };
	struct launched l;
	char copy[512], *save;
	int n = 1;

	snprintf(copy, sizeof(copy), "%s", arguments);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		assert_true(n < WORDS - 1);
		words[n++] = w;
	}
	if (launched_run(&l, words) != status)
		fail_msg("%s: not status %d:\n%s%s", arguments, status, launched_out(&l),
			 launched_err(&l));
	assert_narrow(launched_out(&l));
	unwrap(launched_out(&l));
	return l;
}

/* What every object of a run must have. */
struct expected {
	int ranks;
	bool shared, windows, graph, threads, on_host;
	int calls;	       /* of a sample; 0: two or more */
	const char *transport; /* NULL: cuda */
	const char *library;   /* NULL: tutti */
};

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		fail_msg("%s is no number", key);
	return json_number_value(value);
}

static void expect_object(const json_t *object, const struct expected *e)
{
	const json_t *cuda = json_object_get(object, "cuda");
	const char *kind = json_string_value(json_object_get(object, "collective"));
	const bool moves = strcmp(kind, "barrier") != 0;

	assert_int_equal(number(object, "ranks"), e->ranks);
	assert_true(number(json_object_get(object, "time_us"), "min") > 0);
	assert_string_equal(json_string_value(json_object_get(object, "transport")),
			    e->transport ? e->transport : "cuda");
	assert_string_equal(json_string_value(json_object_get(object, "library")),
			    e->library ? e->library : "tutti");
	assert_int_equal(json_integer_value(json_object_get(object, "wrong")), 0);
	assert_int_equal(json_is_null(json_object_get(object, "wrong")), !moves);
	assert_string_equal(json_string_value(json_object_get(cuda, "gpu")), "Stand-in 0");
	assert_int_equal(json_is_true(json_object_get(cuda, "shared")), e->shared);
	assert_int_equal(json_is_true(json_object_get(cuda, "windows")), e->windows);
	assert_int_equal(json_is_true(json_object_get(cuda, "graph")), e->graph);
	assert_int_equal(json_is_true(json_object_get(cuda, "threads")), e->threads);
	assert_true(e->calls == 0 || number(cuda, "calls") == e->calls);
	assert_string_equal(json_string_value(json_object_get(cuda, "checks")),
			    e->on_host ? "host" : "gpu");
	assert_true(number(cuda, "calls") >= 2 && number(cuda, "enqueue_us") > 0);
	assert_int_equal(json_is_null(json_object_get(cuda, "copy_gbs")), !moves);
	assert_int_equal(json_is_null(json_object_get(cuda, "least_bytes")), !(moves && e->shared));
	assert_int_equal(json_is_null(json_object_get(cuda, "of_copy")), !(moves && e->shared));
	if (moves && e->shared && strcmp(kind, "all_reduce") == 0)
		assert_int_equal(number(cuda, "least_bytes"),
				 2 * e->ranks * number(object, "bytes"));
}

/* Every object of the run is as expected, and there are so many. */
static void expect_objects(const char *arguments, const struct expected *e, int count)
{
	struct launched l = bench(arguments, 0);
	char *save;
	int n = 0;

	for (char *line = strtok_r(launched_out(&l), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save), n++) {
		json_error_t error;
		json_t *object = json_loads(line, 0, &error);

		if (!object)
			fail_msg("not JSON: %s: %s", error.text, line);
		expect_object(object, e);
		json_decref(object);
	}
	assert_int_equal(n, count);
	launched_free(&l);
}

static void refuse(const char *arguments, int status, const char *words)
{
	struct launched l = bench(arguments, status);

	assert_contains(launched_err(&l), words);
	assert_string_equal(launched_out(&l), "");
	launched_free(&l);
}

/* ---- */

/* 10 collectives with data, in and out of place, of 2 sizes; and the barrier */
#define ALL	"all -r 2 -m cuda -b 64 -e 4K -f 64 -n 33 -w 1 --json - "
#define OBJECTS (10 * 2 * 2 + 1)

static void every_collective_is_right(void **state)
{
	expect_objects(ALL, &(struct expected){ 2, .shared = true }, OBJECTS);
	expect_objects(ALL "--windows", &(struct expected){ 2, .shared = true, .windows = true },
		       OBJECTS);
}

static void every_collective_is_right_by_graphs(void **state)
{
	expect_objects(ALL "--graph", &(struct expected){ 2, .shared = true, .graph = true },
		       OBJECTS);
	expect_objects(ALL "--graph --windows",
		       &(struct expected){ 2, .shared = true, .windows = true, .graph = true },
		       OBJECTS);
}

/* A chain of more calls than CUDA takes ahead of a stream. */
static void ranks_may_be_threads(void **state)
{
	expect_objects(ALL "--threads", &(struct expected){ 2, .shared = true, .threads = true },
		       OBJECTS);
	expect_objects(
		"all_reduce -r 3 -m cuda --threads --chain 700 -b 8 -e 8 -n 700 -w 0 --json -",
		&(struct expected){ 3, .shared = true, .threads = true, .calls = 700 }, 2);
	expect_objects(
		"all_reduce -r 2 -m cuda --threads --chain 700 --graph --windows -b 8 -e 8 -n 700 -w 0 --json -",
		&(struct expected){ 2, .shared = true, .windows = true, .graph = true,
				    .threads = true, .calls = 700 },
		2);
}

static void messages_are_right(void **state)
{
	expect_objects("latency -r 2 -m cuda -b 64 -e 4K -f 64 -n 8 -w 1 --json -",
		       &(struct expected){ 2, .shared = true }, 2);
	expect_objects("bandwidth -r 3 -m cuda -b 64 -e 4K -f 64 -n 8 -w 1 --graph --json -",
		       &(struct expected){ 3, .shared = true, .graph = true }, 2);
}

static void types_and_long_vectors_are_right(void **state)
{
	expect_objects(
		"all_reduce -r 3 -m cuda -b 24K -e 24K -n 1 -w 0 -d bf16 -o avg --windows --json -",
		&(struct expected){ 3, .shared = true, .windows = true }, 2);
	expect_objects("reduce_scatter -r 1 -m cuda -b 8K -e 8K -n 1 -w 0 -d int8 -o bxor --json -",
		       &(struct expected){ 1, .shared = true }, 2);
	expect_objects("scan -r 2 -m cuda -b 2K -e 2K -n 1 -w 0 -d double -o max -c 1 --json -",
		       &(struct expected){ 2, .shared = true }, 2);
}

/* Of every object of a run that finds wrong elements; and where they are, by what the ranks say. */
static double wrong_of(const char *arguments, char **said)
{
	struct launched l = bench(arguments, 1);
	double sum = 0;
	char *save;

	for (char *line = strtok_r(launched_out(&l), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		json_t *object = json_loads(line, 0, NULL);

		assert_non_null(object);
		if (strcmp(json_string_value(json_object_get(object, "collective")), "barrier") !=
		    0)
			sum += number(object, "wrong");
		json_decref(object);
	}
	*said = strdup(launched_err(&l));
	launched_free(&l);
	return sum;
}

/* Of a line that begins so; the text ends behind it. */
static const char *line_of(char *text, const char *beginning)
{
	char *at = strstr(text, beginning);

	if (!at)
		fail_msg("nothing begins with \"%s\" in\n%s", beginning, text);
	at[strcspn(at, "\n")] = '\0';
	return at;
}

static void what_is_wrong_is_found_on_the_gpu_as_on_the_host(void **state)
{
	static const char *const runs[] = {
		"all -r 3 -m cuda -b 256 -e 6K -f 24 -n 33 -w 1 --json -",
		"all_reduce -r 3 -m cuda -b 4K -e 4K -n 33 -w 1 -d bf16 -o avg --json -",
		"reduce_scatter -r 2 -m cuda -b 64 -e 64 -n 33 -w 1 -d uint8 -o max --windows --json -",
	};

	setenv("STANDIN_SPOILS", "1", 1);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		char *there, *here;
		const double on_gpu = wrong_of(runs[i], &there);

		/* the library's kernels come first */
		setenv("STANDIN_FAILS", "cuModuleLoadData:2", 1);
		const double on_host = wrong_of(runs[i], &here);
		unsetenv("STANDIN_FAILS");
		assert_true(on_gpu > 0);
		assert_true(fabs(on_gpu - on_host) < 0.5);
		assert_string_equal(line_of(there, "rank 1: "), line_of(here, "rank 1: "));
		free(there);
		free(here);
	}
	unsetenv("STANDIN_SPOILS");
}

static void wrong_elements_are_counted_and_the_first_is_named(void **state)
{
	struct launched l;

	setenv("STANDIN_SPOILS", "1", 1);
	l = bench("all_reduce -r 2 -m cuda -b 4K -e 4K -n 33 -w 1 -p out", 1);
	assert_contains(launched_out(&l), "results verified on the GPU");
	assert_contains(
		launched_err(&l),
		"rank 1: all_reduce of 4096 bytes, call 1 of 32: 1 of 1024 elements are wrong, the first is number 0");
	assert_contains(launched_err(&l),
			"64 elements were wrong"); /* one of each call, on both ranks */
	launched_free(&l);
	unsetenv("STANDIN_SPOILS");
}

static void without_kernels_the_host_verifies_and_says_why(void **state)
{
	struct launched l;

	setenv("STANDIN_FAILS", "cuModuleLoadData:2", 1);
	expect_objects("all -r 2 -m cuda -b 64 -e 64 -n 33 -w 1 --json -",
		       &(struct expected){ 2, .shared = true, .on_host = true }, 10 * 2 + 1);
	l = bench("all_reduce -m cuda -b 8 -e 8 -n 1 -w 0", 0);
	assert_contains(launched_out(&l), "results verified on the host: the kernels of ");
	assert_contains(launched_out(&l), "cannot be used: cuModuleLoadData: unknown error");
	launched_free(&l);
	unsetenv("STANDIN_FAILS");
	char *kernels = strdup(getenv("TUTTI_BENCH_KERNELS"));

	setenv("TUTTI_BENCH_KERNELS", "", 1);
	l = bench("all_reduce -m cuda -b 8 -e 8 -n 1 -w 0", 0);
	assert_contains(
		launched_out(&l),
		getenv("BENCH_HAS_KERNELS")
			? "results verified on the GPU"
			: "results verified on the host: tutti-bench was built without CUDA's compiler");
	launched_free(&l);
	setenv("TUTTI_BENCH_KERNELS", "/nowhere/kernels", 1);
	refuse("all_reduce -m cuda -b 8 -e 8", 1,
	       "TUTTI_BENCH_KERNELS is \"/nowhere/kernels\", which cannot be read: No such file");
	setenv("TUTTI_BENCH_KERNELS", kernels, 1);
	free(kernels);
}

static void each_rank_has_a_gpu_where_there_are_enough(void **state)
{
	setenv("STANDIN_DEVICES", "2", 1);
	setenv("STANDIN_PEERS", "all", 1);
	expect_objects("all_reduce -r 2 -m cuda -b 64 -e 64 -n 1 -w 0 --json -",
		       &(struct expected){ 2, .shared = false }, 2);
	expect_objects("all_reduce -r 2 -m cuda --gpu 0 -b 64 -e 64 -n 1 -w 0 --json -",
		       &(struct expected){ 2, .shared = true }, 2);
	setenv("STANDIN_PEERS", "none", 1); /* all goes by the host */
	expect_objects("all_reduce -r 2 -m cuda -b 64 -e 64 -n 1 -w 0 --json -",
		       &(struct expected){ 2, .transport = "shm" }, 2);
	expect_objects("latency -r 2 -m cuda -b 64 -e 64 -n 1 -w 0 --json -",
		       &(struct expected){ 2, .transport = "shm" }, 1);
	unsetenv("STANDIN_PEERS");
	setenv("STANDIN_DEVICES", "1", 1);
}

/* By the same loop, with the same checks; of what NCCL has not, nothing is shown. */
static void nccl_is_measured_in_place_of_tutti(void **state)
{
	const struct expected e = { 1, .shared = true, .transport = "unknown", .library = "nccl" };
	char *nccl = strdup(getenv("TUTTI_NCCL_LIBRARY"));

	/* 5 collectives in and out of place, all_to_all out of place, of 2 sizes; and the barrier */
	expect_objects("all -r 1 -m cuda --library nccl -b 64 -e 4K -f 64 -n 33 -w 1 --json -", &e,
		       (5 * 2 + 1) * 2 + 1);
	expect_objects(
		"all_reduce -r 1 -m cuda --library nccl --graph --threads -d bf16 -o avg -b 64 -e 64 -n 33 -w 1 --json -",
		&(struct expected){ 1, .shared = true, .transport = "unknown", .library = "nccl",
				    .graph = true, .threads = true },
		2);
	refuse("all_reduce -r 2 -m cuda --library nccl -b 8 -e 8", 1,
	       "NCCL: invalid usage: Duplicate GPU detected");
	setenv("STANDIN_NCCL_WAITS", "1", 1);
	refuse("all_reduce -r 3 -m cuda --threads --library nccl -b 8 -e 8", 1,
	       "a rank has failed, and others have not ended 2 s later");
	unsetenv("STANDIN_NCCL_WAITS");
	refuse("scan -r 1 -m cuda --library nccl --json -", 0,
	       "nccl has no scan with these options");
	setenv("TUTTI_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
	refuse("all_reduce -r 1 -m cuda --library nccl", 1,
	       "NCCL cannot be opened: /nowhere/libnccl.so.2");
	setenv("TUTTI_NCCL_LIBRARY", nccl, 1);
	free(nccl);
}

static void the_table_has_two_more_columns(void **state)
{
	struct launched l = bench("all_reduce -m cuda --windows --graph -b 8 -e 8 -n 1 -w 0", 0);

	assert_contains(launched_out(&l), "memory of one Stand-in 0, in windows, by graphs");
	assert_int_equal(count_of(launched_out(&l), "of_copy"), 1);
	assert_int_equal(count_of(launched_out(&l), "enqueue"), 1);
	launched_free(&l);
	l = bench("all_reduce -m host -b 8 -e 8 -n 1 -w 0", 0);
	assert_contains(launched_out(&l), "memory of malloc");
	assert_lacks(launched_out(&l), "of_copy");
	launched_free(&l);
}

static void wrong_use_is_refused(void **state)
{
	refuse("all_reduce --windows", 2, "--windows was found without -m cuda");
	refuse("all_reduce --graph -m tutti", 2, "--graph was found without -m cuda");
	refuse("all_reduce --gpu 0", 2, "--gpu was found without -m cuda");
	refuse("all_reduce --threads", 2, "--threads was found without -m cuda");
	refuse("all_reduce --chain 4", 2, "--chain was found without -m cuda");
	refuse("all_reduce -m cuda --chain 1", 2,
	       "--chain \"1\" is not a whole number from 2 to 65536");
	refuse("all_reduce --library nccl", 2, "--library nccl was found without -m cuda");
	refuse("all_reduce -m cuda --library ncl", 2, "did you mean nccl?");
	refuse("all_reduce -m cuda --library nccl --windows", 2,
	       "--windows was found beside --library nccl");
	setenv("TUTTI_RANK", "0", 1);
	refuse("all_reduce -m cuda --threads", 2, "a launcher has started this process as a rank");
	unsetenv("TUTTI_RANK");
	refuse("all_reduce -m gpu", 2, "none of malloc, host, tutti and cuda");
	refuse("all_reduce -m cuda --tune", 2, "beside --tune");
	refuse("all_reduce -m cuda --overlap", 2, "beside --overlap");
	refuse("init -m cuda", 2, "init");
	refuse("all_reduce -m cuda --gpu 1", 2, "--gpu is 1, but this process has 1");
}

static void a_missing_gpu_is_said_once(void **state)
{
	char *driver = strdup(getenv("TUTTI_CUDA_LIBRARY"));

	setenv("STANDIN_DEVICES", "0", 1);
	refuse("all_reduce -m cuda", 1, "tutti-bench: -m cuda needs a GPU, and there is none");
	setenv("STANDIN_DEVICES", "1", 1);
	setenv("TUTTI_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
	refuse("all_reduce -m cuda", 1, "/nowhere/libcuda.so");
	setenv("TUTTI_CUDA_LIBRARY", driver, 1);
	free(driver);
}

static void what_fails_is_said(void **state)
{
	struct launched l;

	setenv("STANDIN_FAILS", "cuGraphLaunch:2", 1);
	l = bench("all_reduce -m cuda --graph -b 8 -e 8 -n 1 -w 40", 1);
	assert_contains(launched_err(&l), "cuGraphLaunch");
	launched_free(&l);
	unsetenv("STANDIN_FAILS");
	setenv("STANDIN_MEMORY", "150000000", 1);
	refuse("all_reduce -m cuda -b 64M", 1, "lower -e");
	unsetenv("STANDIN_MEMORY");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_is_right),
		cmocka_unit_test(every_collective_is_right_by_graphs),
		cmocka_unit_test(ranks_may_be_threads),
		cmocka_unit_test(messages_are_right),
		cmocka_unit_test(types_and_long_vectors_are_right),
		cmocka_unit_test(what_is_wrong_is_found_on_the_gpu_as_on_the_host),
		cmocka_unit_test(wrong_elements_are_counted_and_the_first_is_named),
		cmocka_unit_test(without_kernels_the_host_verifies_and_says_why),
		cmocka_unit_test(each_rank_has_a_gpu_where_there_are_enough),
		cmocka_unit_test(nccl_is_measured_in_place_of_tutti),
		cmocka_unit_test(the_table_has_two_more_columns),
		cmocka_unit_test(wrong_use_is_refused),
		cmocka_unit_test(a_missing_gpu_is_said_once),
		cmocka_unit_test(what_fails_is_said),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH-OF-TUTTI-BENCH\n", argv[0]);
		return 2;
	}
	program = argv[1];
	setenv("STANDIN_DEVICES", "1", 1);
	return cmocka_run_group_tests_name("bench_cuda", tests, NULL, NULL);
}
