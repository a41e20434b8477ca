/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of jobs that files are of, and which of them is told of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exits.h"

#define NAMED 3 /* jobs, of those that are passed over */

struct job {
	const char *name; /* a file's */
	int64_t newest;	  /* the last sign of life, nanoseconds of CLOCK_REALTIME; NEVER: unknown */
	size_t reports;	  /* of ranks, one for each communicator */
	size_t ranks;
};

/* A rank that a file tells of. */
struct sign {
	const char *job, *hostname;
	int rank; /* as its launcher numbers it; negative where only its process is known */
	int64_t at;
	bool report;
};

/* A process that replaced another is the same rank. */
static int rank_of(const struct flights *flights, const struct flight *flight)
{
	for (size_t i = 0; i < flights->nexits; i++) {
		const struct rank_exit *one = strcmp(flights->exits[i].job, flight->job) == 0
						      ? exits_of(&flights->exits[i], flight)
						      : NULL;

		if (one)
			return one->rank;
	}
	return flight->launched_as >= 0 ? flight->launched_as : -flight->pid;
}

/* Of all ranks that files tell of; to be freed. */
static struct sign *find_signs(const struct flights *flights, size_t *count)
{
	*count = flights->n;
	for (size_t i = 0; i < flights->nexits; i++)
		*count += flights->exits[i].n;
	struct sign *signs = need(calloc(*count + 1, sizeof(*signs))), *next = signs;

	for (size_t i = 0; i < flights->n; i++) {
		const struct flight *flight = &flights->at[i];

		*next++ = (struct sign){ flight->job, flight->hostname, rank_of(flights, flight),
					 flight->alive, true };
	}
	for (size_t i = 0; i < flights->nexits; i++) {
		const struct exits *exits = &flights->exits[i];

		for (size_t k = 0; k < exits->n; k++)
			*next++ = (struct sign){ exits->job, exits->hostname, exits->at[k].rank,
						 exits->realtime, false };
	}
	return signs;
}

static int by_rank(const void *a, const void *b)
{
	const struct sign *one = a, *other = b;
	int order = strcmp(one->job, other->job);

	if (!order)
		order = strcmp(one->hostname, other->hostname);
	return order ? order : (one->rank > other->rank) - (one->rank < other->rank);
}

static int by_age(const void *a, const void *b)
{
	const struct job *one = a, *other = b;

	if (one->newest != other->newest)
		return one->newest > other->newest ? -1 : 1;
	return strcmp(one->name, other->name);
}

/* All of them, the newest first; how many. To be freed. */
static size_t find_jobs(const struct flights *flights, struct job **out)
{
	size_t count, n = 0;
	struct sign *signs = find_signs(flights, &count);
	struct job *jobs = need(calloc(count + 1, sizeof(*jobs)));

	qsort(signs, count, sizeof(*signs), by_rank);
	for (size_t i = 0; i < count; i++) {
		const struct sign *sign = &signs[i];

		if (i == 0 || strcmp(signs[i - 1].job, sign->job) != 0)
			jobs[n++] = (struct job){ .name = sign->job, .newest = NEVER };
		struct job *job = &jobs[n - 1];
		job->newest = sign->at > job->newest ? sign->at : job->newest;
		job->reports += sign->report;
		job->ranks += job->ranks == 0 || by_rank(&signs[i - 1], sign) != 0;
	}
	free(signs);
	qsort(jobs, n, sizeof(*jobs), by_age);
	*out = jobs;
	return n;
}

/* "A, B, C" */
static void say_newest(const struct job *jobs, size_t n)
{
	for (size_t i = 0; i < n && i < NAMED; i++)
		fprintf(stderr, "%s%s", i ? ", " : "", jobs[i].name);
}

/* Of all but the first, which is told of. */
static void say_others(const struct job *jobs, size_t n)
{
	size_t others = 0;

	for (size_t i = 1; i < n; i++)
		others += jobs[i].reports;
	if (others == 0)
		return;
	fprintf(stderr,
		"tutti-trace: %zu report%s of other jobs than %s, the last one, %s passed over; "
		"--job NAME shows one (the newest: ",
		others, others == 1 ? "" : "s", jobs->name, others == 1 ? "is" : "are");
	say_newest(jobs + 1, n - 1);
	fputs("), --list names all\n", stderr);
}

bool jobs_select(struct flights *flights, const char *name)
{
	struct job *jobs;
	const size_t n = find_jobs(flights, &jobs);
	size_t at = 0;

	while (name && at < n && strcmp(jobs[at].name, name) != 0)
		at++;
	if (at < n) {
		if (!name)
			say_others(jobs, n);
		flights_keep(flights, jobs[at].name);
	} else if (n > 0) {
		fprintf(stderr,
			"tutti-trace: no report is of job %s; expected one that --list names (the newest: ",
			name);
		say_newest(jobs, n);
		fputs(")\n", stderr);
	}
	free(jobs);
	return at < n;
}

static const char *time_text(int64_t at, char text[32])
{
	const time_t seconds = (time_t)(at / 1000000000);
	struct tm parts;

	if (at == NEVER || !localtime_r(&seconds, &parts) ||
	    strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
		snprintf(text, 32, "%-19s", "unknown");
	return text;
}

void jobs_print(FILE *out, const struct flights *flights)
{
	struct job *jobs;
	const size_t n = find_jobs(flights, &jobs);
	char text[32];

	for (size_t i = 0; i < n; i++)
		fprintf(out, "%-32s  %s  %zu rank%s\n", jobs[i].name,
			time_text(jobs[i].newest, text), jobs[i].ranks,
			jobs[i].ranks == 1 ? "" : "s");
	free(jobs);
}
