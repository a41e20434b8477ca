/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what threads said of their next calls: a list of each communicator, nearly always empty,
 * so that the usual call looks at one pointer. */
#include "next_call.h"

#include <stdlib.h>

struct tt_next_call {
	struct tt_next_call *next;
	uint64_t thread;
	uint64_t timeout_ns;
};

/* A thread's own number: what names threads to the system is given to later ones again. */
static uint64_t this_thread(void)
{
	static _Atomic uint64_t threads;
	static _Thread_local uint64_t number;

	if (!number)
		number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
	return number;
}

/* The place of the calling thread's, or the list's end. */
static struct tt_next_call **find(struct tutti_comm *comm)
{
	struct tt_next_call **at = &comm->next_calls;

	while (*at && (*at)->thread != this_thread())
		at = &(*at)->next;
	return at;
}

uint64_t tt_next_call_take(struct tutti_comm *comm)
{
	struct tt_next_call **at = find(comm), *taken = *at;

	if (!taken)
		return 0;
	const uint64_t timeout_ns = taken->timeout_ns;

	*at = taken->next;
	free(taken);
	return timeout_ns;
}

void tt_next_calls_free(struct tutti_comm *comm)
{
	while (comm->next_calls) {
		struct tt_next_call *first = comm->next_calls;

		comm->next_calls = first->next;
		free(first);
	}
}

bool tt_next_call_set(struct tutti_comm *comm, uint64_t timeout_ns)
{
	struct tt_next_call **at = find(comm);

	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (!*at)
		return false;
	(*at)->thread = this_thread();
	(*at)->timeout_ns = timeout_ns;
	return true;
}
