/* SPDX-License-Identifier: BSD-3-Clause */
/* --overlap: what hides behind a computation. */
#include <unistd.h>

#include "claims.h"
#include "runs.h"

#define OVERLAP "all_reduce --overlap -b 64 -e 64K -f 1024 -n 6 -w 1 -p out "

static void check_overlap(const json_t *object, const void *context)
{
	const json_t *overlap = json_object_get(object, "overlap");
	const double alone = json_number_value(json_object_get(overlap, "alone_us"));
	const double computation = json_number_value(json_object_get(overlap, "computation_us"));
	const double processor = json_number_value(json_object_get(overlap, "processor_us"));
	const double bound = json_number_value(json_object_get(overlap, "bound_us"));

	check_result(object, context);
	assert_true(alone > 0 && computation > 0 && processor > 0);
	assert_true(bound > 0.999 * alone &&
		    bound > 0.999 * (computation + processor)); /* they are rounded */
	/* below 0 there is a reason */
	assert_true(json_is_real(json_object_get(overlap, "hidden")));
	assert_int_equal(json_is_string(json_object_get(overlap, "cause")),
			 json_number_value(json_object_get(overlap, "hidden")) < 0);
}

static void overlap_shows_call_and_computation_alone_and_together(void **state)
{
	const int ranks = 2;
	struct run *run = bench(OVERLAP);

	expect_status(run, 0, OVERLAP);
	assert_non_null(strstr(run->out_text, "processor"));
	assert_non_null(strstr(run->out_text, "65536"));
	run = bench(OVERLAP "--transport tcp --json -");
	expect_status(run, 0, OVERLAP "--json");
	assert_int_equal(each_result(run, check_overlap, &ranks), 2);
	run = bench("all --overlap -b 4K -e 4K -n 1 -w 1 -p in --json -");
	expect_status(run, 0, "all --overlap");
	assert_int_equal(each_result(run, check_overlap, &ranks), 11);
}

/* As many ranks as cores are there four times. */
static void an_overlap_below_0_has_a_reason(void **state)
{
	char arguments[128];
	struct run *run;

	snprintf(arguments, sizeof(arguments), "all_reduce --overlap -r %ld -b 64 -e 64 -n 6 -w 1",
		 4 * sysconf(_SC_NPROCESSORS_ONLN));
	run = bench(arguments);
	expect_status(run, 0, arguments);
	if (strstr(run->out_text, "%a "))
		assert_contains(run->out_text,
				"\n# a: hidden is below 0, as the pair takes longer");
	for (const char *at = strchr(run->out_text, '%'); at; at = strchr(at + 1, '%')) {
		const char *begin = at;

		while (begin[-1] != ' ')
			begin--;
		assert_int_equal(*begin == '-', at[1] == 'a'); /* the only cause that counts here */
	}
}

static void overlap_says_what_it_does_not_go_with(void **state)
{
	expect_refused("all_reduce --overlap --tune", "--tune");
	expect_refused("all_reduce --overlap --plot x.svg", "--overlap was found beside --plot");
	expect_refused("all_reduce --overlap -r 1", "two ranks");
	expect_refused("bandwidth --overlap", "bandwidth");
}

int claims_on_overlaps(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlap_shows_call_and_computation_alone_and_together),
		cmocka_unit_test(an_overlap_below_0_has_a_reason),
		cmocka_unit_test(overlap_says_what_it_does_not_go_with),
	};

	return cmocka_run_group_tests_name("overlaps", tests, NULL, NULL);
}
