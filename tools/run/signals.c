/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what each signal to tutti-run means for the job.
 *
 * A signal that was ignored when tutti-run started stays ignored, by it and its ranks (nohup). */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "loop.h"
#include "losses.h"

#define FORWARD_GRACE 5.0

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };

static void ignore(int sig, struct sigaction *before)
{
	const struct sigaction action = { .sa_handler = SIG_IGN };

	sigaction(sig, &action, before);
}

int signals_init(struct inherited *inherited)
{
	sigset_t set;

	/* a closed output shows as EPIPE; the terminal must not stop who relays its input */
	ignore(SIGPIPE, &inherited->pipe);
	ignore(SIGTTIN, &inherited->ttin);
	ignore(SIGTTOU, &inherited->ttou);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
		struct sigaction action;

		if (sigaction(forwarded[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, forwarded[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, &inherited->mask) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The user wants the job to end; whoever asks again wants it now. */
static bool end_by(struct job *job, int sig)
{
	const double grace = job->options->grace < 0 ? FORWARD_GRACE : job->options->grace;

	if (job->gone)
		return sig != SIGINT;
	if (job->ending == ENDING_NOT) {
		job->forwarded = sig;
		job_end(job, sig, grace);
	} else if (sig == SIGINT) {
		job->forwarded = job->forwarded ? job->forwarded : sig;
		job_kill(job);
	} else {
		job_signal_groups(job, sig);
	}
	return true;
}

static void stop_all(struct job *job)
{
	/* SIGTSTP itself has no effect on a group without a terminal */
	job_signal_groups(job, SIGSTOP);
	raise(SIGSTOP);
}

static bool act(struct job *job, const struct signalfd_siginfo *info)
{
	const int sig = (int)info->ssi_signo;

	switch (sig) {
	case SIGINT:
	case SIGTERM:
	case SIGHUP: return end_by(job, sig);
	/* deadly to whoever does not expect them */
	case SIGUSR1:
	case SIGUSR2: job_signal_ranks(job, sig); return true;
	case SIGTSTP: stop_all(job); return true;
	case SIGCONT:
		job_signal_groups(job, sig);
		if (job->losses.left_out_at > 0) /* nobody could go on meanwhile */
			left_out_look(job);
		return true;
	case SIGCHLD:
		if (info->ssi_code == CLD_STOPPED && job->ended_well > 0)
			left_out_look(job);
		job_reap_children(job, (pid_t)info->ssi_pid);
		return true;
	default: return true;
	}
}

bool signals_read(int fd, struct job *job)
{
	struct signalfd_siginfo info;
	bool go_on = true;

	while (go_on && read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		go_on = act(job, &info);
	return go_on;
}
