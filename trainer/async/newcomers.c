/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of awaited workers, and the words about them in the store: under the launcher's number
 * of the rank that is replaced, the number of the new process. */
#include "newcomers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_ROOM = 64, PID_ROOM = 24, TRIES = 2 /* of each process: it may have died since */ };

#define STORE_S 5.0

struct awaited {
	int origin;
	double until_s;
	char pid[PID_ROOM]; /* that was found last */
	int tries;
};

static void key_of(int origin, char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "tutti-train/newcomer/%d", origin);
}

static tutti_result_t open_store(tutti_store_t *store, struct why *why)
{
	const char *address = getenv("TUTTI_STORE");
	tutti_result_t result;

	if (*store || !address)
		return TUTTI_OK;
	result = tutti_store_open(address, 0, STORE_S, store);
	return result == TUTTI_OK
		       ? TUTTI_OK
		       : why_set(why, result, "the launcher's store: %s", tutti_last_error(NULL));
}

tutti_result_t newcomers_await(struct newcomers *n, int origin, long pid, double until_s,
			       struct why *why)
{
	const tutti_result_t result = open_store(&n->store, why);
	struct awaited *more, one = { .origin = origin, .until_s = until_s, .tries = TRIES };

	if (result != TUTTI_OK || !n->store)
		return result;
	more = realloc(n->awaited, (n->count + 1) * sizeof(*more));
	if (!more)
		return why_no_memory(why, "the list of awaited ranks");
	n->awaited = more;
	snprintf(one.pid, sizeof(one.pid), "%ld", pid); /* it may have been a newcomer itself */
	n->awaited[n->count++] = one;
	return TUTTI_OK;
}

bool newcomers_may_come(const struct newcomers *n, double now_s)
{
	bool may = false;

	for (size_t i = 0; i < n->count; i++)
		may |= now_s < n->awaited[i].until_s;
	return may;
}

static bool has_come(struct newcomers *n, struct awaited *a)
{
	char key[KEY_ROOM], pid[PID_ROOM] = "";
	size_t length = sizeof(pid) - 1;

	key_of(a->origin, key);
	if (tutti_store_get(n->store, key, pid, &length, 0) != TUTTI_OK)
		return false;
	pid[length] = '\0';
	if (strcmp(pid, a->pid) != 0) {
		memcpy(a->pid, pid, sizeof(pid));
		a->tries = 0;
	}
	return a->tries++ < TRIES;
}

int newcomers_look(struct newcomers *n, double now_s)
{
	for (size_t i = 0; i < n->count; i++)
		if (now_s < n->awaited[i].until_s && has_come(n, &n->awaited[i]))
			return n->awaited[i].origin;
	return -1;
}

void newcomers_taken(struct newcomers *n, int origin)
{
	for (size_t i = 0; i < n->count; i++)
		if (n->awaited[i].origin == origin)
			n->awaited[i].until_s = 0;
}

void newcomers_finish(struct newcomers *n)
{
	tutti_store_close(n->store);
	free(n->awaited);
	*n = (struct newcomers){ 0 };
}

tutti_result_t newcomer_announce(struct why *why)
{
	const char *rank = getenv("TUTTI_RANK");
	tutti_store_t store = NULL;
	tutti_result_t result = rank ? open_store(&store, why) : TUTTI_OK;
	char key[KEY_ROOM], pid[PID_ROOM];

	if (result != TUTTI_OK || !store)
		return result;
	key_of(atoi(rank), key);
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	result = tutti_store_set(store, key, pid, strlen(pid));
	if (result != TUTTI_OK)
		why_set(why, result, "the launcher's store: %s", tutti_last_error(NULL));
	tutti_store_close(store);
	return result;
}
