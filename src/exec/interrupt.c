/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the function by which a program ends waits, and when it is asked. */
#include "interrupt.h"

#include <stdatomic.h>
#include <stdio.h>

#include "callback.h"
#include "turns.h"
#include "tutti/tutti.h"

#define MOVING_NS 500000000u /* between two times while others keep this rank busy */

static _Atomic(tutti_interrupt_fn_t) function;

TUTTI_API void tutti_interrupt_set(tutti_interrupt_fn_t asked)
{
	atomic_store(&function, asked);
}

static void revoke(struct tutti_comm *comm)
{
	struct tt_fault fault = { .result = TUTTI_ERR_ABORTED, .rank = comm->rank };

	snprintf(fault.text, sizeof(fault.text),
		 "rank %d aborted the communicator: interrupted by a signal", comm->rank);
	tt_comm_revoke(comm, &fault);
}

void tt_interrupt_ask(struct tutti_comm *comm, struct tt_waiter *waiter, uint64_t now)
{
	const tutti_interrupt_fn_t asked = atomic_load_explicit(&function, memory_order_relaxed);
	const uint64_t after = now - waiter->since < TT_ASK_NS ? MOVING_NS : TT_ASK_NS;

	if (!asked || comm->fault.result || now - waiter->asked < after)
		return;
	waiter->asked = now;
	tt_turn_leave(comm, waiter);
	pthread_mutex_unlock(&comm->lock);
	TT_CALLBACK callback = tt_callback_begin("the function of tutti_interrupt_set()");
	const int wanted = asked();

	tt_callback_end(&callback);
	tt_comm_lock(comm);
	if (wanted && !comm->fault.result)
		revoke(comm);
}
