/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sentences about failed ranks. */
#include <stdio.h>
#include <string.h>

#include "report.h"

/* "ranks 0, 2, 5" of those that run; a long list is cut. */
static const char *running_ranks(const struct job *job, char *text, size_t room)
{
	size_t used = (size_t)snprintf(text, room, job->running == 1 ? "rank" : "ranks");
	const char *comma = "";

	for (int i = 0; i < job->started; i++) {
		if (!job->ranks[i].running)
			continue;
		if (used + 24 > room) {
			snprintf(text + used, room - used, " and more");
			break;
		}
		used += (size_t)snprintf(text + used, room - used, "%s %d", comma, i);
		comma = ",";
	}
	return text;
}

static void report_last_words(struct job *job)
{
	static const char *const names[] = { "stdout", "stderr" };
	const struct rank *rank = &job->ranks[job->failure.rank];

	for (int stream = 1; stream >= 0; stream--) {
		const struct lines *lines = &rank->lines[stream];
		const int count = lines_last_count(lines);

		if (count == 0)
			continue;
		job_say(job, "its last words on %s:", names[stream]);
		for (int i = 0; i < count; i++)
			job_say(job, "    %s", lines_last(lines, i));
		return;
	}
	job_say(job, "it wrote nothing");
}

void report_failure(struct job *job)
{
	const struct failure *failure = &job->failure;
	const int pid = (int)job->ranks[failure->rank].process.pid;
	char how[128], others[128] = "";

	if (failure->by_signal)
		snprintf(how, sizeof(how), "was killed by signal %d (%s%s)", failure->code,
			 strsignal(failure->code), failure->core ? ", core dumped" : "");
	else
		snprintf(how, sizeof(how), "exited with status %d", failure->code);
	if (job->running > 0 && job->ending == ENDING_NOT) {
		strcpy(others, "; ending ");
		running_ranks(job, others + strlen(others), sizeof(others) - strlen(others));
	}
	job_say(job, "rank %d (pid %d) %s after %.2f s%s", failure->rank, pid, how, failure->after,
		others);
	report_last_words(job);
}

void report_timeout(struct job *job)
{
	char ranks[128];

	job_say(job, "the job is not done after the %g s of --timeout; ending %s",
		job->options->timeout, running_ranks(job, ranks, sizeof(ranks)));
}

void report_kill(struct job *job)
{
	char ranks[128] = "what the ranks started";

	if (job->running > 0)
		running_ranks(job, ranks, sizeof(ranks));
	job_say(job, "%s did not end within %g s of SIG%s: killed", ranks, job->grace,
		sigabbrev_np(job->asked_with));
}
