/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that end before their time, and those of other launchers. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "claims.h"
#include "runs.h"

#define ENDLESS "all_reduce -r 2 -b 8 -e 8 -n 10000000 -p out"

/* Wait for the ranks of `parent`, and give a pidfd of each. */
static void find_ranks(pid_t parent, pid_t pids[2], int fds[2])
{
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	while (n < 2) { /* the second is there a moment after the first */
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		n = fscanf(file, "%d %d", &pids[0], &pids[1]);
		fclose(file);
		assert_int_equal(waitpid(parent, NULL, WNOHANG), 0);
	}
	for (int i = 0; i < 2; i++) {
		fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
		assert_true(fds[i] >= 0);
	}
}

static void expect_gone(int fd)
{
	struct pollfd gone = { fd, POLLIN, 0 };

	assert_int_equal(poll(&gone, 1, 10000), 1);
	close(fd);
}

static void a_killed_rank_is_named(void **state)
{
	static struct run run;
	char line[4096];
	pid_t ranks[2];
	int fds[2];

	snprintf(line, sizeof(line), "%s %s", program, ENDLESS);
	start(&run, line);
	find_ranks(run.pid, ranks, fds);
	kill(ranks[1], SIGKILL);
	expect_gone(fds[0]);
	expect_gone(fds[1]);
	finish(&run);
	expect_status(&run, 1, "a killed rank");
	assert_non_null(strstr(run.err_text, "rank 1 was killed by signal 9"));
}

static void ranks_die_with_their_parent(void **state)
{
	static struct run run;
	char line[4096];
	pid_t ranks[2];
	int fds[2];

	snprintf(line, sizeof(line), "%s %s", program, ENDLESS);
	start(&run, line);
	find_ranks(run.pid, ranks, fds);
	kill(run.pid, SIGKILL);
	expect_gone(fds[0]);
	expect_gone(fds[1]);
	finish(&run);
	assert_int_equal(run.status, 128 + SIGKILL);
}

static void one_rank_of_a_job_complains(const char *arguments, const char *words)
{
	static struct run run;
	char line[4096];
	const char *found;

	snprintf(line, sizeof(line), "mpiexec.hydra -n 3 %s %s", program, arguments);
	start(&run, line);
	finish(&run);
	expect_status(&run, 2, line);
	found = strstr(run.err_text, words);
	if (!found || strstr(found + 1, words))
		fail_msg("\"%s\" is not there once: %s", words, run.err_text);
}

static void it_joins_the_ranks_of_a_launcher(void **state)
{
	static struct run run;
	char line[4096];

	if (system("mpiexec.hydra -version >/dev/null 2>&1") != 0) {
		print_message("mpiexec.hydra is not installed\n");
		skip();
	}
	snprintf(line, sizeof(line), "mpiexec.hydra -n 3 %s all_reduce -e 64 -f 8 -n 2", program);
	start(&run, line);
	finish(&run);
	expect_status(&run, 0, line);
	assert_non_null(strstr(run.out_text, "3 ranks"));
	snprintf(line, sizeof(line), "mpiexec.hydra -n 2 %s barrier --tune -n 2", program);
	start(&run, line);
	finish(&run);
	expect_status(&run, 0, line);
	assert_non_null(strstr(run.out_text, "# barrier: "));
	one_rank_of_a_job_complains("all_reduce -r 2", "-r is 2, but a launcher started 3 ranks");
	one_rank_of_a_job_complains("allreduce", "did you mean all_reduce?");
}

int claims_on_ends(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_rank_is_named),
		cmocka_unit_test(ranks_die_with_their_parent),
		cmocka_unit_test(it_joins_the_ranks_of_a_launcher),
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
