/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of claims and turns them into cmocka tests. */
#include <stdio.h>
#include <stdlib.h>

#include "tests.h"
#include "transport_suite_rank.h"

#define TEXT_MAX 4096

struct test {
	const struct suite_claim *claim;
	const struct tt_transport *transport;
	const struct suite_options *options;
	bool processes;
	char name[128];
};

static bool fits(const struct suite_claim *claim, const struct suite_options *options,
		 bool processes)
{
	if (!(processes ? options->processes : options->threads))
		return false;
	if ((!options->shares && (claim->needs & SUITE_SHARES)) ||
	    (!options->allocate && (claim->needs & SUITE_EXPORTS)))
		return false;
	return processes || !(claim->needs & SUITE_PROCESSES);
}

static void try_claim(void **state)
{
	const struct test *test = *state;
	char text[TEXT_MAX];

	if (!suite_run_claim(test->claim, test->transport, test->options, test->processes, text,
			     sizeof(text)))
		fail_msg("%s", text);
}

struct list {
	struct CMUnitTest *tests;
	struct test *states;
	size_t n;
};

static void add_claims(struct list *list, const struct suite_claim *claims,
		       const struct tt_transport *transport, const struct suite_options *options,
		       bool processes)
{
	for (; claims->name; claims++) {
		struct test *test = &list->states[list->n];

		if (!fits(claims, options, processes))
			continue;
		*test = (struct test){ claims, transport, options, processes, "" };
		snprintf(test->name, sizeof(test->name), "%s %s: %s", transport->name,
			 processes ? "processes" : "threads", claims->name);
		list->tests[list->n++] = (struct CMUnitTest){ .name = test->name,
							      .test_func = try_claim,
							      .initial_state = test };
	}
}

static size_t count_claims(const struct suite_claim *const *lists)
{
	size_t n = 0;

	for (; *lists; lists++)
		for (const struct suite_claim *claim = *lists; claim->name; claim++)
			n++;
	return n;
}

int suite_run_claims(const struct suite_claim *const *lists, const struct tt_transport *transport,
		     const struct suite_options *options)
{
	const size_t capacity = 2 * count_claims(lists);
	struct list list = { .tests = calloc(capacity, sizeof(*list.tests)),
			     .states = calloc(capacity, sizeof(*list.states)) };
	int failed = 1;

	/* processes first: forking is safe while the program has one thread and has touched nothing
	 */
	for (int processes = 1; processes >= 0 && list.tests && list.states; processes--)
		for (int i = 0; lists[i]; i++)
			add_claims(&list, lists[i], transport, options, processes);
	if (list.n > 0)
		failed = _cmocka_run_group_tests(transport->name, list.tests, list.n, NULL, NULL);
	free(list.tests);
	free(list.states);
	return failed;
}

int transport_suite_run(const struct tt_transport *transport, const struct suite_options *options)
{
	static const struct suite_claim *const lists[] = {
		suite_meet_claims, suite_bytes_claims, suite_sleep_claims, suite_end_claims, NULL,
	};

	return suite_run_claims(lists, transport, options);
}
