/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TESTS_MAX = 100 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t count;

void add_test(const struct CMUnitTest *test)
{
	if (count == TESTS_MAX)
		abort();
	tests[count++] = *test;
}

int run_claims(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	return _cmocka_run_group_tests("tests", tests, count, setup, teardown);
}

void expect_words(const char *text, const char *words, const char *file, int line)
{
	if (strstr(text, words))
		return;
	print_error("\"%s\" does not say \"%s\"\n", text, words);
	_fail(file, line);
}

pid_t child_that(bool (*begins)(void *argument), void *argument)
{
	int ends[2];
	char begun = 0;

	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begun = !begins || begins(argument);
		while (write(ends[1], &begun, 1) == 1)
			pause();
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &begun, 1), 1);
	assert_int_equal(begun, 1);
	close(ends[0]);
	return child;
}

void stop_child(pid_t child)
{
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
}

void end_child(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

void await_exit(pid_t child, int status)
{
	int ended;

	assert_int_equal(waitpid(child, &ended, 0), child);
	if (!WIFEXITED(ended) || WEXITSTATUS(ended) != status)
		fail_msg("wait status %#x, expected an exit with %d", (unsigned)ended, status);
}

void in_child(int (*body)(void *argument), void *argument)
{
	const pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's goes on with the tests */
		_exit(body(argument));
	}
	await_exit(child, 0);
}

void leave_out(const char *why)
{
	print_message("skipped: %s\n", why);
	skip();
}

void need_namespaces(void)
{
	if (geteuid() != 0 || system("ip -V >/dev/null 2>&1 && unshare -n true 2>/dev/null") != 0)
		leave_out("no network namespaces, or no ip(8)");
}

void need_descriptors(unsigned n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= n)
		return;
	print_message(
		"skipped: the hard limit of descriptors is %llu, expected at least %u: raise it (ulimit -Hn)\n",
		(unsigned long long)limit.rlim_max, n);
	skip();
}

int run_claims_about(const struct subject *subjects, size_t n)
{
	static struct CMUnitTest *all;

	all = calloc(n * count, sizeof(*all));
	for (size_t i = 0; all && i < n * count; i++) {
		const struct subject *subject = &subjects[i / count];
		char *name;

		all[i] = tests[i % count];
		all[i].initial_state = (void *)(uintptr_t)subject->state;
		if (asprintf(&name, "%s: %s", subject->name, all[i].name) < 0)
			abort();
		all[i].name = name;
	}
	return _cmocka_run_group_tests("tests", all, n * count, NULL, NULL);
}
