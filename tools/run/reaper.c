/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reaper. The kernel kills the ranks themselves when tutti-run dies (PR_SET_PDEATHSIG),
 * but not what the ranks have started. The reaper does, by the mark in their environment: it needs
 * no list that could be out of date, and process groups or sessions of their own hide nobody.
 *
 * It leads a session of its own, so that no Ctrl-C reaches it, and holds none of the descriptors
 * that others wait to see closed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reaper.h"
#include "proc.h"

static void let_go_of_everything_but(int fd)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		dup2(null, i);
	dup2(fd, 3);
	proc_close_from(4);
	if (chdir("/") < 0) /* "/" always is; a mount that stays busy is all that could be lost */
		return;
}

__attribute__((noreturn)) static void keep(const char *mark, int lifeline)
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "tutti-keeper");
	let_go_of_everything_but(lifeline);
	while (read(3, &byte, 1) > 0)
		continue;
	/* one that forked while it was looked for has a child left for the next round */
	while (proc_kill_marked(mark) > 0)
		continue;
	_exit(0);
}

bool reaper_start(struct reaper *reaper, const char *mark)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	reaper->pid = fork();
	if (reaper->pid == 0) {
		close(ends[1]);
		keep(mark, ends[0]);
	}
	close(ends[0]);
	if (reaper->pid < 0) {
		close(ends[1]);
		return false;
	}
	reaper->lifeline = ends[1];
	return true;
}

void reaper_stop(struct reaper *reaper)
{
	kill(reaper->pid, SIGKILL);
	while (waitpid(reaper->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(reaper->lifeline);
}
