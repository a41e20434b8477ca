/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the end of ranks that hang while the job outlives them.
 *
 * The library tells in the store whom tutti_comm_shrink has left out (tt_launch_report_left_out()).
 * A rank that is not left out may work on for as long as it likes after the others have ended. */
#include "left_out.h"

#include <signal.h>
#include <stdio.h>

#include "proc.h"
#include "report.h"

static bool has(const void *context, pid_t pid)
{
	const struct job *job = context;
	char key[48], value;
	size_t length = 1;

	snprintf(key, sizeof(key), "tutti-run/left out/%d", (int)pid);
	return tutti_store_get(job->store, key, &value, &length, 0) == TUTTI_OK;
}

bool left_out_has(const struct job *job, pid_t pid)
{
	return has(job, pid);
}

/* A rank may be what a script has started: that is in its group. */
static bool all_that_run(const struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		const pid_t pid = job->ranks[i].process.pid;

		if (job->ranks[i].running && !has(job, pid) && !proc_group_has(pid, has, job))
			return false;
	}
	return job->running > 0;
}

static struct failure first_that_runs(const struct job *job)
{
	struct failure failure = { .by_signal = true, .code = SIGTERM };

	while (!job->ranks[failure.rank].running)
		failure.rank++;
	return failure;
}

void left_out_settle(struct job *job)
{
	struct losses *losses = &job->losses;

	if (losses->left_out_at == 0 || job_now() < losses->left_out_at)
		return;
	losses->left_out_at = 0; /* the next end of a rank sets it again */
	if (job->ending != ENDING_NOT || !all_that_run(job))
		return;
	report_left_out(job);
	if (job->ended_well >= job->options->min_ranks) {
		job_stop(job);
		return;
	}
	const struct failure failure = losses->last.rank < 0 ? first_that_runs(job) : losses->last;
	job_fail(job, &failure);
}
