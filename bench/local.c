/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the processes of a run without a launcher, and waits for them: on SIGCHLD, blocked in the
 * caller and restored in the ranks. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local.h"
#include "launchers.h"
#include "lines.h"

#define GRACE_S 2

struct ranks {
	int count, left;
	pid_t *pids; /* 0: has ended */
	sigset_t before;
	bool failed;
};

bool bench_launched(void)
{
	return tt_launcher_find() != NULL;
}

static void set_number(const char *name, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	setenv(name, text, 1);
}

/* In the new process. */
static void become_rank(const struct ranks *ranks, int rank, char **argv, const char *store,
			pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before the line above */
		_exit(1);
	sigprocmask(SIG_SETMASK, &ranks->before, NULL);
	set_number("TUTTI_RANK", rank);
	set_number("TUTTI_SIZE", ranks->count);
	set_number("TUTTI_LOCAL_RANK", rank);
	set_number("TUTTI_LOCAL_SIZE", ranks->count);
	set_number("TUTTI_JOB", parent);
	setenv("TUTTI_STORE", store, 1);
	setenv("TUTTI_STORE_SERVED", "once", 1);
	execv("/proc/self/exe", argv);
	fprintf(stderr, "rank %d: cannot run /proc/self/exe: %m\n", rank);
	_exit(127);
}

static bool start(struct ranks *ranks, char **argv, const char *store)
{
	const pid_t parent = getpid();

	fflush(NULL);
	for (int r = 0; r < ranks->count; r++) {
		const pid_t pid = fork();

		if (pid < 0) {
			bench_complain("cannot start rank %d of %d: %m", r, ranks->count);
			return false;
		}
		if (pid == 0)
			become_rank(ranks, r, argv, store, parent);
		ranks->pids[r] = pid;
		ranks->left++;
	}
	return true;
}

static void report(int rank, int status)
{
	if (WIFSIGNALED(status))
		bench_complain("rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
			       strsignal(WTERMSIG(status)));
	else
		bench_complain("rank %d ended with exit status %d", rank, WEXITSTATUS(status));
}

/* Collect those that have ended; says so of the first that failed, as the others follow from it. */
static void collect(struct ranks *ranks)
{
	for (int r = 0; r < ranks->count; r++) {
		int status;

		if (ranks->pids[r] == 0 || waitpid(ranks->pids[r], &status, WNOHANG) <= 0)
			continue;
		ranks->pids[r] = 0;
		ranks->left--;
		if (status != 0 && !ranks->failed) {
			ranks->failed = true;
			report(r, status);
		}
	}
}

static void kill_all(const struct ranks *ranks)
{
	for (int r = 0; r < ranks->count; r++) {
		if (ranks->pids[r] != 0)
			kill(ranks->pids[r], SIGKILL);
	}
}

static void wait_for_all(struct ranks *ranks, const sigset_t *child)
{
	const struct timespec grace = { GRACE_S, 0 };

	for (collect(ranks); ranks->left > 0; collect(ranks))
		/* who ends meanwhile gives the others as long again */
		if (sigtimedwait(child, NULL, ranks->failed ? &grace : NULL) < 0 && errno == EAGAIN)
			kill_all(ranks);
}

int bench_run_local(int count, char **argv, const char *store)
{
	struct ranks ranks = { .count = count };
	sigset_t child;

	ranks.pids = calloc((size_t)count, sizeof(*ranks.pids));
	if (!ranks.pids) {
		bench_complain("no memory for %d ranks", count);
		return 1;
	}
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &ranks.before);
	if (!start(&ranks, argv, store)) {
		ranks.failed = true;
		kill_all(&ranks);
	}
	wait_for_all(&ranks, &child);
	sigprocmask(SIG_SETMASK, &ranks.before, NULL);
	free(ranks.pids);
	return ranks.failed;
}
