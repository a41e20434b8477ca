/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what threads said of their next calls: a list of each communicator, nearly always empty,
 * so that the usual call looks at one pointer. */
#include "next_call.h"

#include <stdlib.h>
#include <string.h>

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

struct tt_next_call *tt_next_call_take(struct tutti_comm *comm)
{
	struct tt_next_call **at = find(comm), *taken = *at;

	if (taken)
		*at = taken->next;
	atomic_store_explicit(&comm->said, comm->next_calls != NULL, memory_order_relaxed);
	return taken;
}

void tt_next_call_free(struct tt_next_call *said)
{
	if (said)
		free(said->caller);
	free(said);
}

void tt_next_calls_free(struct tutti_comm *comm)
{
	while (comm->next_calls) {
		struct tt_next_call *first = comm->next_calls;

		comm->next_calls = first->next;
		tt_next_call_free(first);
	}
}

bool tt_next_call_set(struct tutti_comm *comm, const tutti_call_t *call)
{
	struct tt_next_call **at = find(comm);
	char *copy = call->caller ? strdup(call->caller) : NULL;

	if (!*at && (copy || !call->caller))
		*at = calloc(1, sizeof(**at));
	if (!*at || (call->caller && !copy)) {
		free(copy);
		return false;
	}
	free((*at)->caller);
	(*at)->thread = this_thread();
	(*at)->timeout_ns = (uint64_t)(call->timeout_s * 1e9);
	(*at)->caller = copy;
	(*at)->wire = call->wire;
	atomic_store_explicit(&comm->said, true, memory_order_relaxed);
	return true;
}
