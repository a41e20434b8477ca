/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what threads said of their next calls: a list of each communicator, nearly always empty,
 * so that the usual call looks at one pointer. */
#include "next_call.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

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

/* NULL: no memory. */
static struct tt_next_call *find_or_make(struct tutti_comm *comm)
{
	struct tt_next_call **at = find(comm);

	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (!*at)
		return NULL;
	(*at)->thread = this_thread();
	atomic_store_explicit(&comm->said, true, memory_order_relaxed);
	return *at;
}

bool tt_next_call_set(struct tutti_comm *comm, const tutti_call_t *call)
{
	char *copy = call->caller ? strdup(call->caller) : NULL;
	struct tt_next_call *said = copy || !call->caller ? find_or_make(comm) : NULL;

	if (!said) {
		free(copy);
		return false;
	}
	free(said->caller);
	said->timeout_ns = tt_nanoseconds(call->timeout_s); /* 0: the communicator's */
	said->caller = copy;
	said->wire = call->wire;
	return true;
}

bool tt_next_call_set_element(struct tutti_comm *comm, uint64_t element)
{
	struct tt_next_call *said = find_or_make(comm);

	if (said)
		said->element = element;
	return said;
}
