/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench --simulate as its users run it: what it shows of clusters, and what it says of
 * files that describe none. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "launched.h"

#define WITHIN                                                                                                   \
	"\"within_host\": {\"latency_us\": 0.5, \"overhead_us\": 0.5, \"bandwidth_gbs\": 4, \"shared_gbs\": 8, " \
	"\"sync_us\": 1, \"reduce_gbs\": 10}"
#define BETWEEN                                                                                    \
	"\"between_hosts\": {\"latency_us\": 5, \"overhead_us\": 1, \"bandwidth_gbs\": 1, "        \
	"\"host_bandwidth_gbs\": 2}"
/* a host of `ranks` */
#define CLUSTER(ranks)                                                                             \
	"{\"name\": \"mine\", \"ranks_per_host\": " ranks ", " WITHIN ", " BETWEEN "}"

#define WORDS 20

static const char *program, *example;			  /* of the command line */
static char file[] = "/tmp/tutti-cluster-XXXXXX";	  /* what a test describes */
static char output[] = "/tmp/tutti-simulated-XXXXXX.svg"; /* what it has written */

static void describe(const char *text)
{
	FILE *out = fopen(file, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void read_output(char *text, size_t size)
{
	FILE *in = fopen(output, "re");

	assert_non_null(in);
	text[fread(text, 1, size - 1, in)] = '\0';
	fclose(in);
}

/* Run with the words of `line` and the file, or another one. */
static struct launched simulate_file(const char *line, const char *path, int status)
{
	const char *words[WORDS] = { program, "--simulate", path };
	struct launched l;
	char copy[512], *save;
	int n = 3;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		assert_true(n < WORDS - 1);
		words[n++] = w;
	}
	if (launched_run(&l, words) != status)
		fail_msg("%s: not status %d:\n%s%s", line, status, launched_out(&l),
			 launched_err(&l));
	return l;
}

static struct launched simulate(const char *line)
{
	struct launched l = simulate_file(line, file, 0);

	assert_string_equal(launched_err(&l), "");
	assert_narrow(launched_out(&l));
	return l;
}

/* ---- the table */

struct row {
	char *words[WORDS];
	int n;
};

static struct row split(char *line)
{
	struct row row = { .n = 0 };
	char *save;

	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		assert_true(row.n < WORDS);
		row.words[row.n++] = w;
	}
	return row;
}

/* What stands under `column` in the line that begins with these bytes and ranks. Its title has
 * "# size (B)" for bytes. */
static void find_cell(const char *table, const char *column, const char *bytes, const char *ranks,
		      char out[32])
{
	char *copy = strdup(table), *save;
	int at = -1;

	assert_non_null(copy);
	out[0] = '\0';
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const struct row row = split(line);

		if (row.n > 4 &&
		    strcmp(row.words[1], "size") == 0) /* of as many algorithms as fit a line */
			at = -1;
		for (int i = 3;
		     at < 0 && row.n > 4 && strcmp(row.words[1], "size") == 0 && i < row.n; i++)
			if (strcmp(row.words[i], column) == 0)
				at = i - 2;
		if (at >= 0 && strcmp(row.words[0], bytes) == 0 && strcmp(row.words[1], ranks) == 0)
			snprintf(out, 32, "%s", row.words[at]);
	}
	free(copy);
}

static void expect_cell(const struct launched *l, const char *column, const char *bytes,
			const char *ranks, const char *wanted)
{
	char found[32];

	find_cell(launched_out(l), column, bytes, ranks, found);
	if (strcmp(found, wanted) != 0)
		fail_msg("%s of %s bytes and %s ranks: \"%s\", expected \"%s\":\n%s", column, bytes,
			 ranks, found, wanted, launched_out(l));
}

/* A ring sends 2(p-1) messages of 6 µs, 2n(p-1)/p bytes of 1 ns, and adds up n(p-1)/p of 0.1 ns. */
static void a_table_shows_what_is_worked_out_by_hand(void **state)
{
	describe(CLUSTER("1"));
	struct launched l = simulate("all_reduce -b 4000 -e 4000");

	assert_contains(launched_out(&l), "mine, 1 ranks a host");
	expect_cell(&l, "ring", "4000", "2", "16.20");
	expect_cell(&l, "ring", "4000", "4", "42.30");
	expect_cell(&l, "ring", "4000", "65536", "786428.40");
	expect_cell(&l, "hosts", "4000", "1024", "1024");
	expect_cell(&l, "doubling", "4000", "4", "20.80*"); /* 2 × (6 + 4 + 0.4) */
	expect_cell(&l, "flat", "4000", "4", "21.20");	    /* 6 + 2 × 1 + 3 × 4.4 */
	launched_free(&l);
}

static void ranks_of_a_host_share_memory_and_its_network(void **state)
{
	describe(CLUSTER("4"));
	struct launched l = simulate("all_reduce -b 4000 -e 4000 --most-ranks 8");

	expect_cell(&l, "board", "4000", "4", "4.20*"); /* 1 + 4 × 0.5 + 3 × 0.4 */
	expect_cell(&l, "hierarchical", "4000", "4", "-");
	expect_cell(&l, "board", "4000", "8", "-");
	expect_cell(&l, "doubling", "4000", "8",
		    "43.20"); /* 3 × (6 + 4 × 2 + 0.4): four ranks, 2 GB/s */
	expect_cell(&l, "hosts", "4000", "8", "2");
	assert_lacks(launched_out(&l), " 16 ");
	launched_free(&l);
}

static void what_does_not_fit_is_a_dash(void **state)
{
	describe(CLUSTER("1"));
	struct launched l = simulate("all_reduce -b 8 -e 8");

	expect_cell(&l, "flat", "8", "65536", "-");
	expect_cell(&l, "star", "8", "65536", "-");
	assert_lacks(launched_out(&l), "board"); /* fits nowhere: no column */
	launched_free(&l);
}

/* One element of each rank at least; a barrier has no sizes. */
static void sizes_are_those_of_measurements(void **state)
{
	describe(CLUSTER("8"));
	struct launched l = simulate("all_gather -b 8 -e 16 -d float64 --most-ranks 4");

	expect_cell(&l, "ranks", "16", "2", "2");
	expect_cell(&l, "ranks", "32", "4", "4");
	launched_free(&l);
	l = simulate("barrier --most-ranks 8");
	expect_cell(&l, "board", "0", "8", "1.00*");
	assert_int_equal(count_of(launched_out(&l), "\n"), 5 + 3);
	assert_contains(launched_out(&l), "formulas: ");
	launched_free(&l);
}

static void each_collective_has_a_table(void **state)
{
	static const char *const names[] = { " all_reduce, ",	  " broadcast, ",  " reduce, ",
					     " reduce_scatter, ", " all_gather, ", " gather, ",
					     " scatter, ",	  " all_to_all, ", " scan, ",
					     " exscan, ",	  " barrier, " };

	describe(CLUSTER("8"));
	struct launched l = simulate("all -f 1024");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(count_of(launched_out(&l), names[i]), 1);
	launched_free(&l);
}

/* ---- JSON */

/* The chosen one takes least. */
static void check_object(const json_t *object, int ranks)
{
	const char *chosen = json_string_value(json_object_get(object, "chosen"));
	json_t *times = json_object_get(object, "time_us"), *value;
	const double least = json_number_value(json_object_get(times, chosen ? chosen : ""));
	const char *key;

	assert_int_equal(json_integer_value(json_object_get(object, "ranks")), ranks);
	assert_int_equal(json_integer_value(json_object_get(object, "ranks_per_host")), 8);
	assert_int_equal(json_integer_value(json_object_get(object, "hosts")), (ranks + 7) / 8);
	assert_int_equal(json_integer_value(json_object_get(object, "bytes")), 64);
	assert_string_equal(json_string_value(json_object_get(object, "cluster")), "mine");
	assert_string_equal(json_string_value(json_object_get(object, "collective")), "all_reduce");
	assert_true(least > 0);
	json_object_foreach(times, key, value)
		assert_true(json_is_null(value) || json_number_value(value) >= least);
	assert_true(json_is_null(json_object_get(times, "chain"))); /* has no all_reduce */
	assert_true(json_is_real(json_object_get(times, "ring")));
}

static void check_objects(char *text)
{
	int ranks = 2;
	char *save;

	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save), ranks *= 2) {
		json_error_t error;
		json_t *object = json_loads(line, 0, &error);

		if (!object)
			fail_msg("not JSON: %s: %s", error.text, line);
		check_object(object, ranks);
		json_decref(object);
	}
	assert_int_equal(ranks, 2 * 65536);
}

static void json_has_an_object_for_each_line(void **state)
{
	char line[256], text[65536];

	describe(CLUSTER("8"));
	struct launched l = simulate("all_reduce -b 64 -e 64 --json -");
	check_objects(launched_out(&l));
	launched_free(&l);
	snprintf(line, sizeof(line), "all_reduce -b 64 -e 64 --json %s", output);
	l = simulate(line);
	assert_contains(launched_out(&l), "simulated: mine");
	read_output(text, sizeof(text));
	check_objects(text);
	launched_free(&l);
}

/* ---- pictures */

static void a_picture_has_a_graph_for_each_size(void **state)
{
	char line[256], text[1 << 17];

	if (system("gnuplot --version >/dev/null 2>&1") != 0) {
		print_message("gnuplot is not installed\n");
		skip();
	}
	describe("{\"name\": \"it's `mine`\", \"ranks_per_host\": 4, " WITHIN ", " BETWEEN "}");
	snprintf(line, sizeof(line), "all_reduce -b 64 -e 4096 -f 64 --plot %s", output);
	struct launched l = simulate(line);
	launched_free(&l);
	read_output(text, sizeof(text));
	assert_contains(text, ">it's `mine`, simulated; circles: chosen<");
	assert_contains(text, ">all_reduce, 64 B<");
	assert_contains(text, ">all_reduce, 4 KiB<");
	assert_contains(text, ">ranks, 4 a host<");
	assert_contains(text, ">costs of algorithms, no measurement · tutti ");
	assert_int_equal(count_of(text, ">hierarchical_split<"), 1); /* one legend for all */
}

/* ---- what is wrong */

static void refuse(const char *text, const char *error_text)
{
	char whole[1024];

	describe(text);
	struct launched l = simulate_file("all_reduce", file, 2);
	snprintf(whole, sizeof(whole), "--simulate: %s: %s", file, error_text);
	assert_contains(launched_err(&l), whole);
	assert_string_equal(launched_out(&l), "");
	launched_free(&l);
}

#define HEAD "{\"name\": \"mine\", \"ranks_per_host\": 4, "

static void unknown_and_missing_keys_are_named(void **state)
{
	refuse(HEAD WITHIN ", " BETWEEN ", \"ranks\": 3}",
	       "the key \"ranks\" is unknown, expected only name, note, ranks_per_host, within_host and between_hosts\n");
	refuse(HEAD "\"between_hosts\": {\"latency_ms\": 1}, " WITHIN "}",
	       "the key \"between_hosts.latency_ms\" is unknown, expected only latency_us, overhead_us, bandwidth_gbs, "
	       "host_bandwidth_gbs\n");
	refuse("{\"ranks_per_host\": 4, " WITHIN ", " BETWEEN "}",
	       "\"name\" is missing, expected a string of 1 to 127 bytes without control characters\n");
	refuse("{\"name\": \"mine\", " WITHIN ", " BETWEEN "}",
	       "\"ranks_per_host\" is missing, expected a whole number from 1 to 65536\n");
	refuse(HEAD BETWEEN "}",
	       "\"within_host\" is missing, expected an object with its figures\n");
	refuse(HEAD WITHIN "}",
	       "\"between_hosts\" is missing, expected an object with its figures\n");
	refuse(HEAD WITHIN ", \"between_hosts\": {\"latency_us\": 1, \"bandwidth_gbs\": 1}}",
	       "\"between_hosts.overhead_us\" is missing, expected microseconds, a number of 0 or more\n");
	refuse(HEAD WITHIN ", \"between_hosts\": {\"latency_us\": 1, \"overhead_us\": 1}}",
	       "\"between_hosts.bandwidth_gbs\" is missing, expected 10^9 bytes per second, a number above 0\n");
}

static void wrong_types_are_named(void **state)
{
	refuse("[1]", "holds an array, expected an object that describes a cluster\n");
	refuse("{\"name\": 3}",
	       "\"name\" is 3, expected a string of 1 to 127 bytes without control characters\n");
	refuse("{\"name\": \"mine\", \"note\": [1]}", "\"note\" is an array, expected a string\n");
	refuse("{\"name\": \"mine\", \"ranks_per_host\": \"4\"}",
	       "\"ranks_per_host\" is a string, expected a whole number from 1 to 65536\n");
	refuse("{\"name\": \"mine\", \"ranks_per_host\": 1.5}",
	       "\"ranks_per_host\" is 1.5, expected a whole number from 1 to 65536\n");
	refuse(HEAD "\"within_host\": 7}",
	       "\"within_host\" is 7, expected an object with its figures\n");
	refuse(HEAD "\"within_host\": {\"latency_us\": null}}",
	       "\"within_host.latency_us\" is null, expected microseconds, a number of 0 or more\n");
	refuse(HEAD "\"within_host\": {\"latency_us\": {}}}",
	       "\"within_host.latency_us\" is an object, expected microseconds, a number of 0 or more\n");
	refuse(HEAD "\"within_host\": {\"latency_us\": true}}",
	       "\"within_host.latency_us\" is true, expected microseconds, a number of 0 or more\n");
}

static void numbers_out_of_range_are_named(void **state)
{
	refuse("{\"name\": \"\"}", "\"name\" has 0 bytes, expected a string");
	refuse("{\"name\": \"a\\nb\"}", "\"name\" has a control character, expected a string");
	refuse("{\"name\": \"mine\", \"ranks_per_host\": 0}",
	       "\"ranks_per_host\" is 0, expected a whole number from 1 to 65536\n");
	refuse("{\"name\": \"mine\", \"ranks_per_host\": 65537}",
	       "\"ranks_per_host\" is 65537, expected a whole number from 1 to 65536\n");
	refuse(HEAD "\"within_host\": {\"latency_us\": -0.5}}",
	       "\"within_host.latency_us\" is -0.5, expected microseconds, a number of 0 or more\n");
	refuse(HEAD WITHIN
	       ", \"between_hosts\": {\"latency_us\": 1, \"overhead_us\": 1, \"bandwidth_gbs\": 0}}",
	       "\"between_hosts.bandwidth_gbs\" is 0, expected 10^9 bytes per second, a number above 0\n");
	refuse(HEAD WITHIN
	       ", \"between_hosts\": {\"latency_us\": 1, \"overhead_us\": 1, \"bandwidth_gbs\": -2}}",
	       "\"between_hosts.bandwidth_gbs\" is -2, expected 10^9 bytes per second, a number above 0\n");
}

static void files_that_are_not_json_are_named(void **state)
{
	refuse("", "line 1, column 0 is not JSON: ");
	refuse("{\n\"name\": }", "line 2, column 9 is not JSON: ");
	refuse("{\"name\": \"a\",\n\"name\": \"b\"}",
	       "line 2, column 6 is not JSON: duplicate object key");
	struct launched l = simulate_file("all_reduce", "/dev/null/cluster.json", 2);
	assert_contains(launched_err(&l),
			"/dev/null/cluster.json: cannot be read (Not a directory)");
	launched_free(&l);
	l = simulate_file("all_reduce", "/", 2);
	assert_contains(launched_err(&l), "tutti-bench: --simulate: /: ");
	launched_free(&l);
}

static void command_lines_that_run_something_are_refused(void **state)
{
	static const char *const lines[][2] = {
		{ "latency", "--simulate has no latency" },
		{ "all_reduce -r 4", "leave out -r" },
		{ "all_reduce -n 4", "leave out -r, -n" },
		{ "all_reduce -w 0", "leave out -r, -n, -w" },
		{ "all_reduce --transport tcp", "--transport" },
		{ "all_reduce --tune", "--tune" },
		{ "all_reduce --overlap", "and --overlap" },
		{ "all_reduce --algorithm ring", "--algorithm" },
		{ "all_reduce --most-ranks 1",
		  "--most-ranks \"1\" is not a whole number from 2 to 65536" },
		{ "all_reduce --most-ranks 65537", "from 2 to 65536" },
	};

	describe(CLUSTER("4"));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct launched l = simulate_file(lines[i][0], file, 2);

		assert_contains(launched_err(&l), lines[i][1]);
		launched_free(&l);
	}
	const char *alone[] = { program, "all_reduce", "--most-ranks", "8", NULL };
	struct launched l;
	assert_int_equal(launched_run(&l, alone), 2);
	assert_contains(launched_err(&l), "--most-ranks is said without --simulate");
	launched_free(&l);
}

static void a_file_that_cannot_be_written_is_said(void **state)
{
	describe(CLUSTER("4"));
	struct launched l = simulate_file("all_reduce --json /dev/null/x.json", file, 1);

	assert_contains(launched_err(&l), "--json: cannot write \"/dev/null/x.json\"");
	assert_string_equal(launched_out(&l), "");
	launched_free(&l);
}

/* Also that 24 sizes of 16 numbers of ranks by 11 collectives are soon done: the test has a
 * limit of time. */
static void the_example_is_one(void **state)
{
	struct launched l = simulate_file("all", example, 0);

	assert_string_equal(launched_err(&l), "");
	assert_contains(launched_out(&l), "65536");
	launched_free(&l);
}

static int make_files(void **state)
{
	const int in = mkstemp(file), out = mkstemps(output, 4);

	return in < 0 || out < 0 || close(in) < 0 || close(out) < 0 ? -1 : 0;
}

static int remove_files(void **state)
{
	return unlink(file) < 0 || unlink(output) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_shows_what_is_worked_out_by_hand),
		cmocka_unit_test(ranks_of_a_host_share_memory_and_its_network),
		cmocka_unit_test(what_does_not_fit_is_a_dash),
		cmocka_unit_test(sizes_are_those_of_measurements),
		cmocka_unit_test(each_collective_has_a_table),
		cmocka_unit_test(json_has_an_object_for_each_line),
		cmocka_unit_test(a_picture_has_a_graph_for_each_size),
		cmocka_unit_test(unknown_and_missing_keys_are_named),
		cmocka_unit_test(wrong_types_are_named),
		cmocka_unit_test(numbers_out_of_range_are_named),
		cmocka_unit_test(files_that_are_not_json_are_named),
		cmocka_unit_test(command_lines_that_run_something_are_refused),
		cmocka_unit_test(a_file_that_cannot_be_written_is_said),
		cmocka_unit_test(the_example_is_one),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: %s PATH-OF-TUTTI-BENCH EXAMPLE-OF-A-CLUSTER\n", argv[0]);
		return 2;
	}
	program = argv[1];
	example = argv[2];
	return cmocka_run_group_tests_name("bench_simulate", tests, make_files, remove_files);
}
