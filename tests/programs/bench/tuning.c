/* SPDX-License-Identifier: BSD-3-Clause */
/* --tune: what is chosen against what can be forced. */
#include "claims.h"
#include "runs.h"

#define TUNE "all_reduce --tune -r 2 --transport shm -b 64 -e 4K -f 64 -n 5 -w 1 "

/* What can do an all-reduce of two ranks that share memory. */
static const char *const able[] = {
	"board", "direct",   "flat",	 "star",       "doubling", "tree", "halving_doubling",
	"ring",	 "pairwise", "two_shot", "double_tree"
};
#define ABLE (sizeof(able) / sizeof(able[0]))

static size_t able_number(const char *name)
{
	size_t i = 0;

	while (i < ABLE && strcmp(able[i], name) != 0)
		i++;
	return i;
}

/* Below each row all that can, each with its time, and nobody else. */
static void expect_forced(const char *text, int rows)
{
	char list[512] = "", *save;
	int found = 0, names = 0;

	for (const char *at = strstr(text, "\n# board "); at; at = strstr(at + 1, "\n# board ")) {
		snprintf(list, sizeof(list), "%s", at + 2);
		char *end = strchr(list, '\n');

		while (end && end[1] == '#' && strncmp(end, "\n# all_reduce", 13) != 0)
			end = strchr(end + 1, '\n');
		assert_non_null(end); /* the next row, or the summary */
		*end = '\0';
		found++;
	}
	assert_int_equal(found, rows);
	for (char *word = strtok_r(list, " ,#\n", &save); word;
	     word = strtok_r(NULL, " ,#\n", &save)) {
		if (word[0] < 'a')
			continue;
		assert_string_equal(word, able[names]);
		names++;
	}
	assert_int_equal(names, ABLE);
}

static void expect_row(const char *row)
{
	char chosen[64], best[64];
	double times[2], ratio;

	assert_int_equal(sscanf(row, "%*d %*s %63s %lf %63s %lf %lf", chosen, &times[0], best,
				&times[1], &ratio),
			 5);
	assert_true(able_number(chosen) < ABLE && able_number(best) < ABLE);
	assert_true(times[0] > 0 && times[1] > 0 && ratio > 0);
}

static void tune_shows_what_is_chosen_beside_all_that_can(void **state)
{
	struct run *run = bench(TUNE);
	char *save, *line;
	int rows = 0;

	expect_status(run, 0, TUNE);
	assert_null(strstr(run->err_text, "cannot do"));
	assert_non_null(strstr(run->out_text, "# all_reduce: "));
	assert_non_null(strstr(run->out_text, " of 4 within 10 %"));
	expect_forced(run->out_text, 4);
	for (line = strtok_r(run->out_text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (line[0] == '#')
			continue;
		expect_row(line);
		rows++;
	}
	assert_int_equal(rows, 4);
}

static void check_contestant(const json_t *object, const void *context)
{
	const int ranks = 2;
	int *seen = (int *)context;
	const json_t *forced = json_object_get(object, "forced");
	const size_t number = able_number(string_of(object, "algorithm"));

	check_result(object, &ranks);
	assert_string_equal(string_of(object, "transport"), "shm");
	assert_true(json_is_boolean(forced) && number < ABLE);
	seen[json_is_true(forced) ? number : ABLE]++;
}

static void tune_writes_an_object_for_each_contestant(void **state)
{
	int seen[ABLE + 1] = { 0 };
	struct run *run = bench(TUNE "-p out --json -");

	expect_status(run, 0, TUNE "--json");
	assert_int_equal(each_result(run, check_contestant, seen), 2 * (ABLE + 1));
	for (size_t i = 0; i <= ABLE; i++)
		assert_int_equal(seen[i], 2);
}

static void check_without_shared_memory(const json_t *object, const void *context)
{
	const char *algorithm = string_of(object, "algorithm");

	check_result(object, context);
	assert_string_equal(string_of(object, "transport"), "tcp");
	assert_true(strcmp(algorithm, "board") != 0 && strcmp(algorithm, "direct") != 0);
}

static void tune_compares_every_collective_over_tcp(void **state)
{
	const int ranks = 3;
	struct run *run = bench("all --tune -r 3 --transport tcp -b 64 -e 64 -n 2 -w 1 -p in "
				"--json -");

	expect_status(run, 0, "all --tune");
	/* of 11 collectives, each by choice and by two algorithms at least */
	assert_true(each_result(run, check_without_shared_memory, &ranks) >= 33);
}

static void wrong_names_are_those_of_the_option_that_was_given(void **state)
{
	struct run *run;

	expect_refused("all_reduce -o add",
		       "tutti-bench: -o \"add\" is not an operation: expected sum, prod, min, max, "
		       "avg, band, bor or bxor");
	expect_refused("all_reduce -d flaot32",
		       "-d \"flaot32\" is not a type (did you mean float32?): expected int8, ");
	expect_refused("all_reduce --transport tpc",
		       "tutti-bench: --transport has \"tpc\" (did you mean tcp?)");
	expect_refused("all_reduce --algorithm rign",
		       "tutti-bench: --algorithm is \"rign\" (did you mean ring?)");
	setenv("TUTTI_TRANSPORT", "tpc", 1);
	expect_refused("all_reduce", "tutti-bench: TUTTI_TRANSPORT has \"tpc\" (did you");
	unsetenv("TUTTI_TRANSPORT");
	run = bench("all_reduce --json /dev/null/x");
	expect_status(run, 1, "--json /dev/null/x");
	assert_non_null(
		strstr(run->err_text, "tutti-bench: --json: cannot write \"/dev/null/x\": Not a"));
}

static void tune_says_what_it_does_not_go_with(void **state)
{
	expect_refused("all_reduce --tune --algorithm ring", "--algorithm ring leaves no choice");
	expect_refused("all_reduce --tune --plot x.svg", "--tune was found beside --plot");
	expect_refused("all_reduce --tune -r 1", "two ranks");
	expect_refused("latency --tune", "latency");
	setenv("TUTTI_ALGORITHM", "tree", 1);
	expect_refused("all_reduce --tune", "TUTTI_ALGORITHM is \"tree\"");
	unsetenv("TUTTI_ALGORITHM");
}

int claims_on_tuning(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tune_shows_what_is_chosen_beside_all_that_can),
		cmocka_unit_test(tune_writes_an_object_for_each_contestant),
		cmocka_unit_test(tune_compares_every_collective_over_tcp),
		cmocka_unit_test(wrong_names_are_those_of_the_option_that_was_given),
		cmocka_unit_test(tune_says_what_it_does_not_go_with),
	};

	return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
