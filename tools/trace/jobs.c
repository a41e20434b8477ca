/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of jobs that files are of. */
#include "jobs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exits.h"

/* A process that a file tells of. */
struct sign {
	const char *job, *hostname;
	int pid;
	int64_t at;
	bool report;
};

static size_t count_signs(const struct flights *flights)
{
	size_t count = flights->n;

	for (size_t i = 0; i < flights->nexits; i++)
		count += flights->exits[i].n;
	return count;
}

static struct sign *find_signs(const struct flights *flights)
{
	struct sign *signs = need(calloc(count_signs(flights) + 1, sizeof(*signs))), *next = signs;

	for (size_t i = 0; i < flights->n; i++) {
		const struct flight *flight = &flights->at[i];

		*next++ = (struct sign){ flight->job, flight->hostname, flight->pid, flight->alive,
					 true };
	}
	for (size_t i = 0; i < flights->nexits; i++) {
		const struct exits *exits = &flights->exits[i];

		for (size_t k = 0; k < exits->n; k++)
			*next++ = (struct sign){ exits->job, exits->hostname, exits->at[k].pid,
						 exits->realtime, false };
	}
	return signs;
}

static int by_process(const void *a, const void *b)
{
	const struct sign *one = a, *other = b;
	int order = strcmp(one->job, other->job);

	if (!order)
		order = strcmp(one->hostname, other->hostname);
	return order ? order : (one->pid > other->pid) - (one->pid < other->pid);
}

static int by_age(const void *a, const void *b)
{
	const struct job *one = a, *other = b;

	if (one->newest != other->newest)
		return one->newest > other->newest ? -1 : 1;
	return strcmp(one->name, other->name);
}

size_t jobs_find(const struct flights *flights, struct job **out)
{
	const size_t count = count_signs(flights);
	struct sign *signs = find_signs(flights);
	struct job *jobs = need(calloc(count + 1, sizeof(*jobs)));
	size_t n = 0;

	qsort(signs, count, sizeof(*signs), by_process);
	for (size_t i = 0; i < count; i++) {
		const struct sign *sign = &signs[i];

		if (i == 0 || strcmp(signs[i - 1].job, sign->job) != 0)
			jobs[n++] = (struct job){ .name = sign->job, .newest = NEVER };
		struct job *job = &jobs[n - 1];
		job->newest = sign->at > job->newest ? sign->at : job->newest;
		job->reports += sign->report;
		job->ranks += job->ranks == 0 || by_process(&signs[i - 1], sign) != 0;
	}
	free(signs);
	qsort(jobs, n, sizeof(*jobs), by_age);
	*out = jobs;
	return n;
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
	const size_t n = jobs_find(flights, &jobs);
	char text[32];

	for (size_t i = 0; i < n; i++)
		fprintf(out, "%-32s  %s  %zu rank%s\n", jobs[i].name,
			time_text(jobs[i].newest, text), jobs[i].ranks,
			jobs[i].ranks == 1 ? "" : "s");
	free(jobs);
}
