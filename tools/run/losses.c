/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the decision whether a job goes on when ranks have failed.
 *
 * It does while so many ranks as --min-ranks asks for go on or have ended well, those counted that
 * take the place of failed ones. Failures within a moment are decided about together: two that die
 * at once are two that do not go on, and where all give up since one has died, it is that one whose
 * failure counts. Only ranks that run can take a newcomer in, and only while the
 * program is not over: once a rank has ended well, nobody is replaced, and a failure gives the exit
 * status, since nobody does the work of that rank again, unless the others had left the rank out
 * before. */
#include "losses.h"

#include <signal.h>
#include <stdio.h>

#define LOOK_S 0.5

bool losses_told(const struct job *job, const char *state, int number)
{
	char key[64], value;
	size_t length = 1;

	snprintf(key, sizeof(key), "tutti-run/%s/%d", state, number);
	return tutti_store_get(job->store, key, &value, &length, 0) == TUTTI_OK;
}

bool losses_waits(const struct job *job, const struct rank *rank)
{
	return rank->ticket >= 0 && losses_told(job, "waits", rank->ticket) &&
	       !losses_told(job, "joined", rank->ticket);
}

/* Do all that run wait to be taken in? Nobody is left who could. */
static bool all_wait(const struct job *job)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running && !losses_waits(job, &job->ranks[i]))
			return false;
	return job->running > 0;
}

static bool only_replacements(const struct job *job)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running && job->ranks[i].ticket < 0)
			return false;
	return job->running > 0;
}

/* How many of the ranks that have failed now are replaced. */
static int replacements(const struct job *job)
{
	const struct losses *losses = &job->losses;

	if (losses->restarts == 0 || job->ended_well > 0 || !left_out_not_all(job))
		return 0;
	return losses->open_count < losses->restarts ? losses->open_count : losses->restarts;
}

static bool enough(const struct job *job, int replaced)
{
	return job->running + job->ended_well + replaced >= job->options->min_ranks;
}

/* The first whose work nobody does: not that of one whom the others had left out before. */
static struct rank_exit first_missed(const struct job *job)
{
	const struct losses *losses = &job->losses;

	for (int i = 0; i < losses->open_count; i++)
		if (!left_out_has(job, losses->open[i].pid))
			return losses->open[i];
	return (struct rank_exit){ .rank = -1 };
}

static void outlive(struct job *job, int replaced)
{
	char directory[EXITS_PATH_BYTES];

	for (int i = 0; i < job->losses.open_count; i++) {
		report_loss(job, &job->losses.open[i]);
		if (i < replaced)
			job->ranks[job->losses.open[i].rank].awaited = true;
	}
	if (job->ended_well > 0 && job->failure.rank < 0)
		job->failure = first_missed(job);
	/* the job may go on for long; should it fail, it is written, and said, at the end */
	exits_write(job, directory);
}

/* The first has its say in any job; the others' ends are news only where ranks may be lost. */
static void end(struct job *job)
{
	report_failure(job, &job->losses.open[0]);
	for (int i = 1; i < job->losses.open_count && options_outlive(job->options); i++)
		report_loss(job, &job->losses.open[i]);
	job_fail(job, &job->losses.open[0]);
}

/* The user wants the job to end: nobody needs to be told who ended because of that. */
static void end_as_wanted(struct job *job)
{
	const struct rank_exit *first = &job->losses.open[0];

	if (job->failure.rank >= 0)
		return;
	job->failure = *first;
	if (!first->by_signal || (first->code != job->forwarded && first->code != SIGKILL))
		report_failure(job, first);
}

static bool due(const struct job *job)
{
	return job->running == 0 || job->ending != ENDING_NOT || job_now() >= job->losses.settle_at;
}

/* Replacements of which nobody has been taken in are left alone when the others have ended, or died
 * before they could. Nothing tells of that but a look now and then, while only replacements run. */
static void look_for_lonely(struct job *job)
{
	struct losses *losses = &job->losses;

	if (job->ending != ENDING_NOT || !only_replacements(job)) {
		losses->look_at = 0;
		return;
	}
	if (losses->look_at > job_now())
		return;
	const bool first = losses->look_at == 0;
	losses->look_at = job_now() + LOOK_S;
	/* not at once: failures that just came are to be told and decided about before */
	if (first || losses->open_count > 0 || !all_wait(job))
		return;
	report_lonely(job);
	if (job->ended_well > 0)
		job_stop(job);
	else
		job_fail(job, &losses->last);
}

void losses_settle(struct job *job)
{
	int replaced;

	look_for_lonely(job);
	if (job->losses.open_count == 0 || !due(job))
		return;
	replaced = replacements(job);
	job->losses.last = job->losses.open[0];
	if (job->ending != ENDING_NOT)
		end_as_wanted(job);
	else if (enough(job, replaced))
		outlive(job, replaced);
	else
		end(job);
	job->losses.open_count = 0;
}

int losses_next(struct job *job)
{
	for (int i = 0; i < job->started && job->ending == ENDING_NOT; i++)
		if (job->ranks[i].awaited)
			return i;
	return -1;
}

void losses_replaced(struct job *job, int rank)
{
	job->ranks[rank].awaited = false;
	job->losses.restarts--;
	report_replacement(job, rank);
}

void losses_not_replaced(struct job *job, int rank, int status)
{
	const struct rank_exit failure = { .rank = rank, .code = status };
	int awaited = 0;

	job->ranks[rank].awaited = false;
	for (int i = 0; i < job->started; i++)
		awaited += job->ranks[i].awaited;
	report_no_replacement(job, rank, !enough(job, awaited));
	if (!enough(job, awaited))
		job_fail(job, &failure);
}
