/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of tutti-bench: each call verified, tables and objects. */
#include "claims.h"
#include "runs.h"

/* 10 collectives with data, in and out of place, of 3 sizes; and the barrier */
#define RESULTS_OF_ALL (10 * 2 * 3 + 1)

static void every_collective_is_right_with(int ranks, const char *transport)
{
	char arguments[256];
	struct run *run;

	snprintf(arguments, sizeof(arguments),
		 "all -r %d -b 64 -e 256K -f 64 -n 3 -w 1 --json - %s", ranks, transport);
	run = bench(arguments);
	expect_status(run, 0, arguments);
	assert_int_equal(each_result(run, check_result, &ranks), RESULTS_OF_ALL);
}

static void every_collective_is_right_with_1_2_and_4_ranks(void **state)
{
	every_collective_is_right_with(1, "");
	every_collective_is_right_with(2, "");
	every_collective_is_right_with(4, "");
}

static void every_collective_is_right_over_tcp(void **state)
{
	every_collective_is_right_with(3, "--transport tcp");
}

static void every_collective_is_right_in_memory_of_tutti(void **state)
{
	every_collective_is_right_with(3, "-m tutti");
}

static void point_to_point_is_right(void **state)
{
	const int ranks = 3;
	struct run *run = bench("latency -r 3 -e 1M -f 128 -n 4 --json -");

	expect_status(run, 0, "latency");
	assert_int_equal(each_result(run, check_result, &ranks), 3);
	run = bench("bandwidth -r 3 -e 1M -f 128 -n 4 --json -");
	expect_status(run, 0, "bandwidth");
	assert_int_equal(each_result(run, check_result, &ranks), 3);
}

/* Over each way, in memory that peers map and in other. */
static void one_sided_calls_are_right(void **state)
{
	static const char *const kinds[] = { "put", "get", "put_bandwidth", "put_signal" };
	static const char *const ways[] = { "-m malloc --transport shm", "-m tutti --transport shm",
					    "-m malloc --transport tcp" };
	const int ranks = 3;
	char arguments[256];

	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			snprintf(arguments, sizeof(arguments),
				 "%s -r 3 -e 1M -f 128 -n 4 --json - %s", kinds[k], ways[w]);
			struct run *run = bench(arguments);

			expect_status(run, 0, arguments);
			assert_int_equal(each_result(run, check_result, &ranks), 3);
		}
		snprintf(arguments, sizeof(arguments), "fetch_add -r 3 -n 40 %s", ways[w]);
		expect_status(bench(arguments), 0, arguments);
	}
}

static void every_type_and_operation_is_right(void **state)
{
	static const char *const types[] = { "int8",	    "uint8",	  "int16",   "uint16",
					     "int32",	    "uint32",	  "int64",   "uint64",
					     "float16",	    "bfloat16",	  "float32", "float64",
					     "float8_e4m3", "float8_e5m2" };
	static const char *const ops[] = { "prod", "avg", "max", "min", "bxor" };
	char arguments[256];

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		const bool real = strstr(types[t], "float");
		const char *op = ops[t % (real ? 4 : 5)];

		snprintf(arguments, sizeof(arguments),
			 "all_reduce -r 3 -b 3K -e 3K -n 1 -w 0 -d %s -o %s", types[t], op);
		expect_status(bench(arguments), 0, arguments);
	}
}

static void a_table_has_the_columns_that_its_test_fills(void **state)
{
	struct run *run = bench("all -e 8 -n 1 -w 0");

	expect_status(run, 0, "all");
	assert_contains(run->out_text, "# tutti reduce of float32, sum, root 0, 2 ranks,");
	assert_contains(run->out_text, "#   size (B) place   median      p99      min   algbw   "
				       "busbw wrong  transport/algorithm\n");
	assert_contains(run->out_text, "           8   out ");
	assert_contains(run->out_text, "           8    in ");
	assert_contains(run->out_text,
			"#   median      p99      min  transport/algorithm\n"); /* of the barrier */
	assert_lacks(run->out_text, " -  ");
	for (int i = 0; i < 2; i++) {
		run = bench(i ? "bandwidth -e 8 -n 64 -w 0" : "latency -e 8 -n 1 -w 0");
		expect_status(run, 0, "point to point");
		assert_contains(run->out_text, "#   size (B)   median      p99      min   algbw   "
					       "busbw wrong  transport\n");
		assert_contains(run->out_text, "     0  shm\n");
		assert_lacks(run->out_text, "place");
	}
	run = bench("init -n 1");
	expect_status(run, 0, "init");
	assert_contains(run->out_text, "transport/algorithm\n");
	assert_contains(run->out_text, " shared\n");
}

/* Four ranks that believe to be on the hosts `hosts`, a letter for each, print `words`. */
static void expect_on_hosts(const char *hosts, const char *arguments, const char *words)
{
	static struct run run;
	char script[2048];
	char *shell[] = { "sh", "-c", script, NULL };

	snprintf(script, sizeof(script),
		 "export TUTTI_STORE=file:$(mktemp -d) TUTTI_JOB=hosts TUTTI_SIZE=4; h=%s; "
		 "ended=0; pids=; for r in 0 1 2 3; do "
		 "TUTTI_RANK=$r TUTTI_HOST_ID=$(echo $h | cut -c $((r + 1))) %s %s & pids=\"$pids "
		 "$!\"; done; "
		 "for p in $pids; do wait $p || ended=1; done; rm -r ${TUTTI_STORE#file:}; exit "
		 "$ended",
		 hosts, program, arguments);
	start_words(&run, shell);
	finish(&run);
	expect_status(&run, 0, arguments);
	assert_contains(run.out_text, words);
}

static void the_transport_is_that_of_what_ran(void **state)
{
	expect_on_hosts("aabb", "latency -e 8 -n 1 -w 0", "  shm\n");
	expect_on_hosts("abab", "latency -e 8 -n 1 -w 0", "  tcp\n");
	expect_on_hosts("abbb", "bandwidth -e 8 -n 64 -w 0", "  tcp\n");
	expect_on_hosts("aabb", "all_reduce --algorithm hierarchical_split -e 8 -n 1 -w 0",
			"  shm+tcp/hierarchical_split\n");
	/* rank 0 sends over TCP alone, others meet in shared memory */
	expect_on_hosts("abbb", "all_reduce --algorithm ring -e 8 -n 1 -w 0", "  shm+tcp/ring\n");
	expect_on_hosts("aabb", "barrier -n 1 -w 0 --json -", "\"transport\": \"shm+tcp\"");
}

int claims_on_results(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_is_right_with_1_2_and_4_ranks),
		cmocka_unit_test(every_collective_is_right_over_tcp),
		cmocka_unit_test(every_collective_is_right_in_memory_of_tutti),
		cmocka_unit_test(point_to_point_is_right),
		cmocka_unit_test(one_sided_calls_are_right),
		cmocka_unit_test(every_type_and_operation_is_right),
		cmocka_unit_test(a_table_has_the_columns_that_its_test_fills),
		cmocka_unit_test(the_transport_is_that_of_what_ran),
	};

	return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
