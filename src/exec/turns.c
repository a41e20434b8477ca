/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which of several threads that wait on one communicator drives it. If each polled, they would
 * take the lock and the cores from each other, and all would wake for every message.
 *
 * Who comes last drives, as its call is the one that most likely ends soon; the one before finds that
 * out when it next has the lock, and sleeps after a moment. Who drives ends the waits of all, and wakes
 * each by its own condition. Once its own is over, another one is woken to drive. But a thread that
 * makes one call after the other would wake it each time: then one stands by, and looks now and then
 * whether the calls have ceased. */
#include "turns.h"

#include <pthread.h>
#include <sched.h>

#include "comm.h"
#include "interrupt.h"
#include "progress_state.h"
#include "thread.h"

enum {
	LOOK_NS = 50000,      /* before a sleep: waking the thread costs as much */
	STAND_BY_NS = 100000, /* between two looks, whether calls go on */
	RESIGN_NS = 10000000, /* without a new call, of who drives: nobody need stand by */
};

void tt_turn_sleeps(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	waiter->next = comm->progress->sleeping;
	comm->progress->sleeping = waiter;
}

void tt_turn_is_up(struct tutti_comm *comm, const struct tt_waiter *waiter)
{
	struct tt_waiter **link = &comm->progress->sleeping;

	while (*link != waiter)
		link = &(*link)->next;
	*link = waiter->next;
}

void tt_turns_wake(struct tutti_comm *comm)
{
	bool at_doorbells = false;

	for (struct tt_waiter *w = comm->progress->sleeping; w; w = w->next) {
		if (!w->over(w->of))
			continue;
		if (w->wake)
			pthread_cond_signal(w->wake);
		else
			at_doorbells = true;
	}
	if (at_doorbells)
		tt_comm_interrupt(comm);
}

void tt_turn_take(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	struct tt_progress *p = comm->progress;

	p->drives = waiter;
	if (p->stands_by == waiter)
		p->stands_by = NULL;
}

void tt_turn_leave(struct tutti_comm *comm, const struct tt_waiter *waiter)
{
	struct tt_progress *p = comm->progress;
	struct tt_waiter *next = p->sleeping;

	if (p->drives == waiter)
		p->drives = NULL;
	if (p->stands_by == waiter)
		p->stands_by = NULL;
	if (p->drives || p->stands_by)
		return;
	while (next && !next->wake)
		next = next->next;
	if (next)
		pthread_cond_signal(next->wake);
}

static bool is_turn(const struct tt_progress *p, const struct tt_waiter *waiter, uint64_t waits)
{
	if (p->drives)
		return false;
	return p->stands_by == waiter ? p->waits == waits : !p->stands_by;
}

/* Who drives may well end this wait before this thread would sleep. */
static void look_for_end(struct tutti_comm *comm, const struct tt_waiter *waiter)
{
	const uint64_t until = tt_now() + LOOK_NS;

	while (!waiter->over(waiter->of) && tt_now() < until) {
		pthread_mutex_unlock(&comm->lock);
		sched_yield();
		tt_comm_lock(comm);
	}
}

/* Until the wait is over, or it is this thread's turn. */
static void sleep_until_turn(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	struct tt_progress *p = comm->progress;
	uint64_t waits, since = tt_now();
	bool calls = true; /* has there been one lately? */

	if (!waiter->asked)
		waiter->asked = since;
	do {
		if (calls && !p->stands_by)
			p->stands_by = waiter;
		const uint64_t ns = p->stands_by == waiter ? STAND_BY_NS : TT_ASK_NS;
		const struct timespec at = tt_timespec(tt_now() + ns);

		waits = p->waits;
		if (pthread_cond_timedwait(waiter->wake, &comm->lock, &at) == 0 ||
		    p->waits != waits)
			since = tt_now();
		calls = tt_now() - since < RESIGN_NS;
		if (!calls && p->stands_by == waiter && p->drives)
			p->stands_by = NULL;
		tt_interrupt_ask(comm, waiter, tt_now());
	} while (!waiter->over(waiter->of) && !is_turn(p, waiter, waits));
}

void tt_turn_await(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	pthread_cond_t wake;

	look_for_end(comm, waiter);
	if (waiter->over(waiter->of))
		return;
	tt_thread_condition(&wake);
	waiter->wake = &wake;
	tt_turn_sleeps(comm, waiter);
	sleep_until_turn(comm, waiter);
	tt_turn_is_up(comm, waiter);
	waiter->wake = NULL;
	pthread_cond_destroy(&wake);
	if (!waiter->over(waiter->of))
		tt_turn_take(comm, waiter);
}
