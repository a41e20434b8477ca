/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the wait for reports that are not there yet: kill -USR1 of tutti-run returns before the
 * ranks have written anything. Only where a directory was read, in which a rank's report lies
 * beside those of the others of its communicator. */
#include "flights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SECOND	 1000000000
#define WAIT_NS	 (SECOND / 2)
#define PAUSE_NS (SECOND / 100)

enum { MOST = 4096 }; /* reports waited for */

struct list {
	char *path[MOST];
	size_t n;
	int64_t since; /* what was written before is old */
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

static void pause_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}

void flights_await_any(const char *directory)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + WAIT_NS;

	while (!flights_are_in(directory) && now_ns(CLOCK_MONOTONIC) < end)
		pause_a_little();
}

static bool same_communicator(const struct flight *a, const struct flight *b)
{
	return a->size == b->size && strcmp(a->communicator, b->communicator) == 0;
}

/* Its name but for the rank is that of `other`'s; NULL: `other` is named otherwise. */
static char *path_beside(const struct flight *other, int rank)
{
	char part[32], *found = NULL, *path;

	snprintf(part, sizeof(part), ".%d.flight.", other->rank);
	for (char *at = other->path; (at = strstr(at, part)); at++)
		found = at;
	if (!found)
		return NULL;
	path = need(malloc(strlen(other->path) + 32));
	sprintf(path, "%.*s.%d.flight.%s", (int)(found - other->path), other->path, rank,
		found + strlen(part));
	return path;
}

/* The newest of each rank of the communicator; NULL: there is none. */
static const struct flight **by_rank(const struct flights *flights, const struct flight *of)
{
	const struct flight **list = need(calloc((size_t)of->size, sizeof(*list)));

	for (size_t i = 0; i < flights->n; i++) {
		const struct flight *one = &flights->at[i];

		if (same_communicator(one, of) &&
		    (!list[one->rank] || one->realtime > list[one->rank]->realtime))
			list[one->rank] = one;
	}
	return list;
}

static void want_of(struct list *list, const struct flights *flights, const struct flight *newest)
{
	const struct flight **ranks = by_rank(flights, newest);

	for (int rank = 0; rank < newest->size && list->n < MOST; rank++) {
		if (ranks[rank] && ranks[rank]->realtime >= list->since)
			continue;
		list->path[list->n] = path_beside(newest, rank);
		list->n += list->path[list->n] != NULL;
	}
	free(ranks);
}

/* Is it the newest of its communicator, and has it just been written? */
static bool is_fresh(const struct flights *flights, size_t i, int64_t since)
{
	const struct flight *one = &flights->at[i];

	if (!one->listed || one->realtime < since)
		return false;
	for (size_t k = 0; k < flights->n; k++) {
		const struct flight *other = &flights->at[k];

		if (same_communicator(one, other) && (other->realtime > one->realtime ||
						      (other->realtime == one->realtime && k < i)))
			return false;
	}
	return true;
}

static bool is_written(const char *path, int64_t since)
{
	struct stat info;

	return stat(path, &info) == 0 &&
	       (int64_t)info.st_mtim.tv_sec * SECOND + info.st_mtim.tv_nsec >= since;
}

/* Those that have come are read, and wanted no more. */
static void take(struct flights *flights, struct list *list)
{
	for (size_t i = list->n; i-- > 0;) {
		if (!is_written(list->path[i], list->since))
			continue;
		flights_renew(flights, list->path[i]);
		free(list->path[i]);
		list->path[i] = list->path[--list->n];
	}
}

void flights_await(struct flights *flights)
{
	struct list *list = need(calloc(1, sizeof(*list)));
	const int64_t end = now_ns(CLOCK_MONOTONIC) + WAIT_NS;

	list->since = now_ns(CLOCK_REALTIME) - SECOND;
	for (size_t i = 0; i < flights->n; i++)
		if (is_fresh(flights, i, list->since))
			want_of(list, flights, &flights->at[i]);
	while (list->n > 0 && now_ns(CLOCK_MONOTONIC) < end) {
		pause_a_little();
		take(flights, list);
	}
	for (size_t i = 0; i < list->n; i++)
		free(list->path[i]);
	free(list);
}
