/* SPDX-License-Identifier: BSD-3-Clause */
/* What is refused before anything is measured. */
#include <unistd.h>

#include "claims.h"
#include "runs.h"

static void wrong_command_lines_end_with_status_2(void **state)
{
	struct run *run = bench("all_reduce -d float33");

	expect_status(run, 2, "-d float33");
	assert_non_null(strstr(run->err_text, "float33"));
	run = bench("broadcast -r 2 -R 2");
	expect_status(run, 2, "-R 2");
	run = bench("latency -r 1");
	expect_status(run, 2, "latency -r 1");
	run = bench("--version");
	expect_status(run, 0, "--version");
	assert_memory_equal(run->out_text, "tutti-bench ", strlen("tutti-bench "));
}

/* One process prints each error: there are no ranks yet. */
static void misspelt_words_are_explained_before_ranks_start(void **state)
{
	static const struct {
		const char *arguments, *words;
	} wrong[] = {
		{ "allreduce -r 4", "\"allreduce\" was found (did you mean all_reduce?)" },
		{ "all_reduce -r 4 -d flaot32", "(did you mean float32?)" },
		{ "all_reduce -r 4 -o summ", "(did you mean sum?)" },
		{ "all_reduce -r 4 -m mallloc", "(did you mean malloc?)" },
		{ "all_reduce -r 4 --tnue", "unknown option --tnue (did you mean --tune?)" },
		{ "all_reduce -r 4 --tune=3", "--tune takes no value" },
		{ "all_reduce -r", "-r needs a value" },
		{ "all_reduce -r 4 --transport tpc", "\"tpc\" (did you mean tcp?)" },
		{ "all_reduce -r 4 --algorithm rnig", "\"rnig\" (did you mean ring?)" },
		{ "all_reduce -r 4 --plot x.pdf",
		  "\"x.pdf\" is not a file name that ends in .svg or .png" },
		{ "all_reduce -r 4 --plot x",
		  "\"x\" is not a file name that ends in .svg or .png" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct run *run = bench(wrong[i].arguments);
		const char *end;

		expect_status(run, 2, wrong[i].arguments);
		if (!strstr(run->err_text, wrong[i].words))
			fail_msg("\"%s\" is not in: %s", wrong[i].words, run->err_text);
		end = strchr(run->err_text, '\n');
		if (!end || end[1] != '\0')
			fail_msg("%s: not one line: %s", wrong[i].arguments, run->err_text);
	}
}

static void a_file_that_cannot_be_written_is_said_before_measuring(void **state)
{
	struct run *run = bench("all_reduce -e 8 --json /dev/null/results.json");

	expect_status(run, 1, "--json");
	assert_non_null(strstr(run->err_text, "/dev/null/results.json"));
	assert_string_equal(run->out_text, "");
}

static void a_missing_gnuplot_is_said_before_measuring(void **state)
{
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.svg";
	char *old = strdup(getenv("PATH"));
	struct run *run;
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	close(fd);
	snprintf(arguments, sizeof(arguments), "all_reduce -e 8 --plot %s", path);
	setenv("PATH", "/dev/null", 1);
	run = bench(arguments);
	setenv("PATH", old, 1);
	free(old);
	unlink(path);
	expect_status(run, 1, "--plot");
	assert_non_null(strstr(run->err_text, "gnuplot was not found"));
	assert_string_equal(run->out_text, "");
}

int claims_on_refusals(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_command_lines_end_with_status_2),
		cmocka_unit_test(misspelt_words_are_explained_before_ranks_start),
		cmocka_unit_test(a_file_that_cannot_be_written_is_said_before_measuring),
		cmocka_unit_test(a_missing_gnuplot_is_said_before_measuring),
	};

	return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
