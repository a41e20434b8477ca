/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of claims and turns them into cmocka tests. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests.h"
#include "transport_suite.h"

enum { CLAIMS_MAX = 64, TEXT_MAX = 4096 };

static struct suite_claim claims[CLAIMS_MAX];
static size_t count;

struct test {
	const struct suite_claim *claim;
	const struct tt_transport *transport;
	const struct suite_options *options;
	bool processes;
	char name[128];
};

void suite_add_claim(const struct suite_claim *claim)
{
	if (count == CLAIMS_MAX)
		abort();
	claims[count++] = *claim;
}

static bool fits(const struct suite_claim *claim, const struct suite_options *options,
		 bool processes)
{
	if (!(processes ? options->processes : options->threads))
		return false;
	if ((!options->shares && (claim->needs & SUITE_SHARES)) ||
	    (!options->locates && (claim->needs & SUITE_LOCATES)) ||
	    (!options->allocate && (claim->needs & SUITE_EXPORTS)) ||
	    (geteuid() != 0 && (claim->needs & SUITE_ROOT)))
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

int transport_suite_run(const struct tt_transport *transport, const struct suite_options *options)
{
	static struct test states[2 * CLAIMS_MAX];
	struct CMUnitTest tests[2 * CLAIMS_MAX];
	size_t n = 0;

	/* processes first: forking is safe while there is one thread and nothing was touched */
	for (int processes = 1; processes >= 0; processes--)
		for (size_t i = 0; i < count; i++) {
			struct test *test = &states[n];

			if (!fits(&claims[i], options, processes))
				continue;
			*test = (struct test){ &claims[i], transport, options, processes, "" };
			snprintf(test->name, sizeof(test->name), "%s %s: %s", transport->name,
				 processes ? "processes" : "threads", claims[i].name);
			tests[n++] = (struct CMUnitTest){ .name = test->name,
							  .test_func = try_claim,
							  .initial_state = test };
		}
	return _cmocka_run_group_tests(transport->name, tests, n, NULL, NULL);
}
