/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the error messages about failed ranks. */
#include <stdio.h>
#include <string.h>

#include "losses.h"

/* "ranks 0, 2, 5" of those that run; a long list is cut. */
static const char *running_ranks(const struct job *job, char *text, size_t capacity)
{
	size_t used = (size_t)snprintf(text, capacity, job->running == 1 ? "rank" : "ranks");
	const char *comma = "";

	for (int i = 0; i < job->started; i++) {
		if (!job->ranks[i].running)
			continue;
		if (used + 24 > capacity) {
			snprintf(text + used, capacity - used, " and more");
			break;
		}
		used += (size_t)snprintf(text + used, capacity - used, "%s %d", comma, i);
		comma = ",";
	}
	return text;
}

static void report_last_words(struct job *job, int rank)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int stream = 1; stream >= 0; stream--) {
		const struct lines *lines = &job->ranks[rank].lines[stream];
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

static void say_failure(struct job *job, const struct rank_exit *failure, const char *then)
{
	char how[128];

	if (failure->by_signal)
		snprintf(how, sizeof(how), "was killed by signal %d (%s%s)", failure->code,
			 strsignal(failure->code), failure->core ? ", core dumped" : "");
	else
		snprintf(how, sizeof(how), "exited with status %d", failure->code);
	job_say(job, "rank %d (pid %d) %s after %.2f s%s", failure->rank, (int)failure->pid, how,
		failure->after, then);
	report_last_words(job, failure->rank);
}

static const char *restarts_left(const struct job *job)
{
	static char text[48];

	if (job->options->restarts > 0)
		snprintf(text, sizeof(text), ", %d restart%s left", job->losses.restarts,
			 job->losses.restarts == 1 ? "" : "s");
	return text;
}

void report_failure(struct job *job, const struct rank_exit *failure)
{
	char then[256] = "";

	if (job->ending == ENDING_NOT && options_outlive(job->options))
		snprintf(then, sizeof(then), "; %d rank%s left where at least %d must go on%s",
			 job->running + job->ended_well,
			 job->running + job->ended_well == 1 ? " is" : "s are",
			 job->options->min_ranks, restarts_left(job));
	if (job->running > 0 && job->ending == ENDING_NOT) {
		strcat(then, "; ending ");
		running_ranks(job, then + strlen(then), sizeof(then) - strlen(then));
	}
	say_failure(job, failure, then);
}

void report_loss(struct job *job, const struct rank_exit *failure)
{
	char then[128];

	if (job->ended_well > 0)
		snprintf(then, sizeof(then), "; %d rank%s on, %d ended well before", job->running,
			 job->running == 1 ? " goes" : "s go", job->ended_well);
	else
		snprintf(then, sizeof(then), "; %d rank%s on%s", job->running,
			 job->running == 1 ? " goes" : "s go", restarts_left(job));
	say_failure(job, failure, then);
}

void report_replacement(struct job *job, int rank)
{
	job_say(job, "rank %d is replaced (pid %d)%s", rank, (int)job->ranks[rank].process.pid,
		restarts_left(job));
}

void report_no_replacement(struct job *job, int rank, bool ends)
{
	char others[128];

	if (ends)
		job_say(job, "rank %d cannot be replaced; ending %s", rank,
			running_ranks(job, others, sizeof(others)));
	else
		job_say(job, "rank %d cannot be replaced; %d rank%s on", rank, job->running,
			job->running == 1 ? " goes" : "s go");
}

void report_lonely(struct job *job)
{
	char ranks[128];

	job_say(job, "nobody is left to take replacements in; ending %s",
		running_ranks(job, ranks, sizeof(ranks)));
}

void report_left_out(struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		const struct rank *rank = &job->ranks[i];
		const char *how = "has not ended", *others = ", which went on without it";

		if (!rank->running)
			continue;
		if (losses_waits(job, rank)) {
			how = "waits for ranks that could take it in";
			others = " ended";
		} else if (!left_out_has(job, rank->process.pid)) {
			how = "is stopped and has not gone on (kill -CONT)";
			others = " ended";
		}
		job_say(job, "rank %d (pid %d) %s %g s after the others%s; ending it", i,
			(int)rank->process.pid, how, JOB_LEFT_OUT_GRACE, others);
		report_last_words(job, i);
	}
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
	job_say(job, "%s did not end within %g s of signal %d (%s): killed", ranks, job->grace,
		job->asked_with, strsignal(job->asked_with));
}
