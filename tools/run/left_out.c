/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the end of ranks that hang while the others end.
 *
 * The library tells in the store whom tutti_comm_shrink has left out (tt_launch_report_left_out()),
 * and /proc who is stopped: since before the others could leave it out, as while ranks meet, or since
 * they have ended. A rank that is neither may work on for as long as it likes after the others have
 * ended. A job whose ranks are all stopped, and none has ended, is one that somebody has suspended. */
#include <signal.h>

#include "losses.h"
#include "proc.h"

static bool has(const void *context, pid_t pid)
{
	return losses_told(context, "left out", (int)pid);
}

static bool is_stopped(const void *context, pid_t pid)
{
	(void)context;
	return proc_is_stopped(pid);
}

/* A rank may be what a script has started: that is in its group. */
static bool either(const struct job *job, pid_t pid, bool (*found)(const void *, pid_t))
{
	return found(job, pid) || proc_group_has(pid, found, job);
}

bool left_out_has(const struct job *job, pid_t pid)
{
	return either(job, pid, has);
}

/* Can it not go on, nor take others in? */
static bool rests(const struct job *job, const struct rank *rank)
{
	return losses_waits(job, rank) || left_out_has(job, rank->process.pid) ||
	       either(job, rank->process.pid, is_stopped);
}

bool left_out_not_all(const struct job *job)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running && !rests(job, &job->ranks[i]))
			return true;
	return false;
}

static struct rank_exit first_that_runs(const struct job *job)
{
	struct rank_exit failure = { .by_signal = true, .code = SIGTERM };

	while (!job->ranks[failure.rank].running)
		failure.rank++;
	return failure;
}

void left_out_look(struct job *job)
{
	job->losses.left_out_at = job_now() + JOB_LEFT_OUT_GRACE;
}

void left_out_settle(struct job *job)
{
	struct losses *losses = &job->losses;

	if (losses->left_out_at == 0 || job_now() < losses->left_out_at)
		return;
	losses->left_out_at = 0; /* the next end of a rank sets it again */
	if (job->ending != ENDING_NOT || job->running == 0 || left_out_not_all(job))
		return;
	report_left_out(job);
	if (job->ended_well >= job->options->min_ranks) {
		job_stop(job);
		return;
	}
	const struct rank_exit failure =
		losses->last.rank < 0 ? first_that_runs(job) : losses->last;
	job_fail(job, &failure);
}
