/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what threads said of their next calls: a list of each communicator, nearly always empty, so that the usual call
 * looks at one pointer. */
#include "next_call.h"

#include <stdlib.h>

#include "group.h"
#include "log.h"

#define LONGEST_TIMEOUT_S 1e9

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

static tutti_result_t check(const struct tutti_comm *comm, const tutti_call_t *call)
{
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_next_call");

	if (refused)
		return refused;
	if (!call)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_next_call: call is NULL");
	if (call->size != sizeof(*call))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_next_call: call->size is %zu, expected sizeof(tutti_call_t), %zu: start from "
			       "TUTTI_CALL_INIT",
			       call->size, sizeof(*call));
	if (!(call->timeout_s >= 0 && call->timeout_s <= LONGEST_TIMEOUT_S)) /* so for a NaN */
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_next_call: timeout_s is %g: expected seconds, more than 0 and at most 1e9, or 0 for "
			       "the communicator's",
			       call->timeout_s);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_next_call(tutti_comm_t comm, const tutti_call_t *call)
{
	tutti_result_t result = check(comm, call);

	if (result)
		return result;
	pthread_mutex_lock(&comm->lock);
	struct tt_next_call **at = find(comm);
	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (*at) {
		(*at)->thread = this_thread();
		(*at)->timeout_ns = (uint64_t)(call->timeout_s * 1e9);
	} else {
		result = tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "tutti_next_call: no memory; the next call has the "
							    "communicator's deadline");
	}
	pthread_mutex_unlock(&comm->lock);
	return result;
}
