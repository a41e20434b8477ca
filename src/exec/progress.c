/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the passes that advance what is in flight, and how a thread waits between them: poll,
 * then yield, then sleep until exactly what it waits for can have happened.
 *
 * The thread that waits drives. A progress thread takes over only while operations are pending
 * and nobody waits; it sleeps at once instead of polling, as the cores belong to the caller
 * then. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "area_post.h"
#include "blame.h"
#include "deadline.h"
#include "interrupt.h"
#include "log.h"
#include "notes.h"
#include "notices.h"
#include "op_life.h"
#include "progress.h"
#include "progress_state.h"
#include "request.h"
#include "spread.h"
#include "thread.h"
#include "turns.h"

#define PASSES_LOCKED 64 /* before other threads of the rank get their turn */
#define SPIN_NS                                                                                    \
	4000		 /* polling costs nothing where every rank has a core, as long as it
			  * has */
#define YIELD_NS 2000000 /* a yield costs little; sleeping costs a wake-up of 30 to 50 µs, … */
#define YIELD_MORE_NS                                                                              \
	14000000 /* … more where hosts are slow: so much longer at most, where sleeps turn out to
		  * be short */
#define POLL_NS                                                                                    \
	1000000 /* between thorough looks at peers; more where ranks share cores: so often for
		 * each core */
#define COMPARE_NS  10000000 /* a wait this long may be a mismatch; more where ranks share cores */
#define WORK_NS	    1000000  /* of the progress thread without a sleep, before it yields */
#define SERVE_NS    500000 /* while waits end one after the other: until the progress thread looks */
#define TURN_NS	    100000 /* of the progress thread, the least that the kernel grants */
#define SLEEP_MS    100	   /* look at peers at least so often */
#define RUNNING_MAX 32	   /* operations over links that run at once */

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- what a communicator needs for it */

bool tt_progress_open(struct tutti_comm *comm)
{
	const size_t cpus = (size_t)comm->size * sizeof(comm->progress->cpus[0]);

	comm->progress = calloc(1, sizeof(*comm->progress) + cpus);
	if (!comm->progress)
		return false;
	tt_thread_condition(&comm->progress->wanted);
	return true;
}

void tt_progress_free(struct tutti_comm *comm)
{
	/* in a child of fork() threads may have waited for the condition */
	if (comm->progress && tt_owned_here(&comm->owner))
		pthread_cond_destroy(&comm->progress->wanted);
	free(comm->progress);
	comm->progress = NULL;
}

/* ---- one pass */

static tutti_result_t begin(struct tt_op *op)
{
	tutti_result_t result;

	if (op->kind == TT_OP_SHARED)
		result = op->plan->eager ? tt_eager_begin(op) : tt_shared_begin(op);
	else if (!tt_area_post(op))
		result = TUTTI_IN_PROGRESS;
	else
		result = tt_links_begin(op);
	if (result == TUTTI_OK)
		op->state = TT_OP_RUNNING;
	return result;
}

static tutti_result_t advance(struct tt_op *op, bool *moved)
{
	switch (op->kind) {
	case TT_OP_SHARED:
		return op->plan->eager ? tt_eager_advance(op, moved) : tt_shared_advance(op, moved);
	case TT_OP_LINKS: return tt_links_advance(op, moved);
	case TT_OP_ONE_SIDED: return op->comm->one_sided->advance(op, moved);
	default: return tt_message_advance(op, moved);
	}
}

static void end_all(struct tutti_comm *comm)
{
	while (comm->first)
		tt_op_retire(comm, comm->first, (tutti_result_t)comm->fault.result);
}

/* Do peers' one-sided calls come as frames? */
static bool serves(const struct tutti_comm *comm)
{
	return atomic_load_explicit(&comm->serves, memory_order_relaxed) && !comm->fault.result;
}

bool tt_comm_progress(struct tutti_comm *comm)
{
	bool moved = false, shared_before = false;
	int running = 0;
	struct tt_op *next;

	tt_comm_check(comm, false);
	if (__builtin_expect(serves(comm), 0))
		moved = comm->one_sided->serve(comm, comm->progress->armed);
	for (struct tt_op *op = comm->first; op && !comm->fault.result; op = next) {
		tutti_result_t result = TUTTI_OK;
		bool own = false;

		next = op->next;
		if (op->state == TT_OP_WAITING) {
			/* collectives begin in order, and none while a shared one before it runs */
			if (shared_before || running >= RUNNING_MAX) {
				tt_recorder_pass(op, false);
				continue;
			}
			result = begin(op);
		}
		if (result == TUTTI_OK)
			result = advance(op, &own);
		moved |= own;
		if (result == TUTTI_OK) {
			tt_op_retire(comm, op, TUTTI_OK);
			moved = true;
		} else if (result < 0) {
			tt_comm_revoke_for(comm, result);
		} else {
			tt_recorder_pass(op, own);
			running += tt_op_is_collective(op);
			shared_before |= op->kind == TT_OP_SHARED || op->state == TT_OP_WAITING;
		}
	}
	if (__builtin_expect(comm->fault.result != 0, 0) && comm->first &&
	    tt_comm_is_settled(comm)) {
		end_all(comm);
		moved = true;
	}
	return moved;
}

/* ---- health checks, now and then */

/* How long a wait is taken for an ordinary one; what the others say then is to be known by the
 * deadline. */
static uint64_t patience(const struct tutti_comm *comm)
{
	const uint64_t crowded = tt_comm_stretch(comm, COMPARE_NS),
		       most = comm->settings.timeout_ns / 8;

	return crowded < most ? crowded : most > COMPARE_NS ? most : COMPARE_NS;
}

void tt_comm_look(struct tutti_comm *comm, uint64_t now)
{
	const struct tt_op *stalled = NULL;

	comm->next_check = now + tt_comm_stretch(comm, POLL_NS);
	tt_comm_check(comm, true);
	tt_deadlines_check(comm, now);
	for (struct tt_op *op = comm->first; op && !comm->fault.result; op = op->next) {
		if (now - op->started <= patience(comm))
			continue;
		if (tt_op_is_collective(op)) {
			stalled = stalled ? stalled : op;
			tt_area_compare(op);
		} else if (op->kind == TT_OP_ONE_SIDED) {
			comm->one_sided->look(op);
		}
	}
	if (stalled)
		tt_area_report_called(comm);
	if (!comm->control_area.base)
		tt_notes_exchange(comm, stalled ? &stalled->header : NULL,
				  stalled && now - stalled->started > tt_op_timeout_ns(stalled) / 4,
				  now);
}

/* ---- waiting */

/* Sleep unless one more pass, made after announcing it, moves something, or the wait is over. NULL: it is
 * the progress thread that sleeps. Lock held. */
static void sleep_unless(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	bool moved;

	tt_comm_arm(comm);
	comm->progress->armed = true;
	moved = tt_comm_progress(comm);
	comm->progress->armed = false;
	if (!moved && (comm->first || serves(comm)) && !(waiter && waiter->over(waiter->of))) {
		if (waiter)
			tt_turn_sleeps(comm, waiter);
		else
			comm->progress->asleep = true;
		tt_comm_sleep(comm, tt_deadlines_sleep_ms(comm, tt_now(), SLEEP_MS));
		if (waiter)
			tt_turn_is_up(comm, waiter);
		else
			comm->progress->asleep = false;
	}
	tt_comm_disarm(comm);
}

/* What ends a sleep soon would have come to one who yields at once, and may well come as late
 * the next time. */
static void learn_from_sleep(struct tutti_comm *comm, uint64_t slept)
{
	if (comm->oversubscribed || slept > YIELD_NS + YIELD_MORE_NS)
		comm->progress->yield_more = 0;
	else if (slept < YIELD_NS && comm->progress->yield_more < YIELD_MORE_NS)
		comm->progress->yield_more = 2 * comm->progress->yield_more + YIELD_NS;
}

void tt_comm_pause(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	const uint64_t now = tt_now();

	if (!waiter->since)
		waiter->since = now;
	if (!waiter->asked)
		waiter->asked = now;
	if (now >= comm->next_check)
		tt_comm_look(comm, now);
	if (now - waiter->asked >= TT_ASK_NS)
		tt_interrupt_ask(comm, waiter, now);
	if (now - waiter->since > YIELD_NS + comm->progress->yield_more) {
		sleep_unless(comm, waiter);
		learn_from_sleep(comm, tt_now() - now);
		return;
	}
	if (now - waiter->since > SPIN_NS)
		tt_spread(comm, now);
	/* other threads of this rank get the lock, other ranks the core */
	pthread_mutex_unlock(&comm->lock);
	if (comm->oversubscribed || now - waiter->since > SPIN_NS)
		sched_yield();
	tt_comm_lock(comm);
}

/* Can it end without being in flight? A receive from any peer is found by others that look for who
 * takes a message. */
static bool may_be_at_once(const struct tt_op *op)
{
	if (op->comm->first || serves(op->comm))
		return false;
	return op->kind == TT_OP_SHARED ? op->plan->eager
					: op->kind == TT_OP_MESSAGE && !op->from_any;
}

/* Most often there is nothing to learn, and that takes two loads. */
static void check_at_once(struct tutti_comm *comm)
{
	if (!comm->control_area.base || !tt_area_is_quiet(&comm->control_area))
		tt_comm_check(comm, false);
}

static tutti_result_t begin_and_advance(struct tt_op *op)
{
	const tutti_result_t result = tt_eager_begin(op);
	bool moved = false;

	if (result)
		return result;
	op->state = TT_OP_RUNNING;
	return tt_eager_advance(op, &moved);
}

bool tt_progress_at_once(struct tt_op *op)
{
	struct tutti_comm *comm = op->comm;
	/* a collective polls by itself */
	int passes = op->kind == TT_OP_SHARED || comm->oversubscribed ? 1 : PASSES_LOCKED;
	tutti_result_t result;
	bool moved = false;

	if (!may_be_at_once(op))
		return false;
	do {
		check_at_once(comm);
		if (comm->fault.result)
			return false;
		result = op->kind == TT_OP_SHARED ? begin_and_advance(op)
						  : tt_message_advance(op, &moved);
		if (result == TUTTI_IN_PROGRESS && op->recorded == TT_RECORDED_NOT &&
		    op->kind == TT_OP_MESSAGE)
			tt_recorder_pass(op, false);
	} while (result == TUTTI_IN_PROGRESS && --passes > 0);
	if (result < 0)
		tt_comm_revoke_for(comm, result);
	if (result)
		return false;
	tt_op_end(op, TUTTI_OK);
	return true;
}

static bool is_zero(const void *pending)
{
	return *(const uint32_t *)pending == 0;
}

void tt_comm_wait(struct tutti_comm *comm, const uint32_t *pending)
{
	struct tt_waiter waiter = { .over = is_zero, .of = pending };
	const int passes = comm->oversubscribed ? 1 : PASSES_LOCKED;

	comm->waiters++;
	tt_turn_take(comm, &waiter);
	while (*pending) {
		bool moved = false;

		if (__builtin_expect(comm->progress->drives != &waiter, 0)) {
			tt_turn_await(comm, &waiter);
			continue;
		}
		for (int i = 0; i < passes && *pending; i++) {
			moved |= tt_comm_progress(comm);
			if (!moved)
				relax();
		}
		if (moved)
			waiter.since = 0;
		else if (*pending)
			tt_comm_pause(comm, &waiter);
	}
	comm->waiters--;
	comm->progress->waits++;
	tt_turn_leave(comm, &waiter);
	if (comm->progress->started && comm->waiters == 0 &&
	    (comm->first || (comm->progress->dozes && serves(comm))))
		pthread_cond_signal(&comm->progress->wanted);
}

/* ---- the progress thread */

/* The thread works for some microseconds and then sleeps. Linux from 6.12 on lets one that asks
 * for short turns run as soon as it wakes, and not when the turn of some milliseconds ends of a
 * caller that computes; older ones take no notice. */
static void ask_for_short_turns(void)
{
	struct { /* struct sched_attr, as glibc has none before 2.41 */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { .size = 48 };

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) < 0 ||
	    attributes.policy != SCHED_OTHER)
		return;
	attributes.runtime = TURN_NS;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* Have waits ended since the progress thread looked last? Who makes one call after the other serves
 * peers in them. If this thread came between, it would be woken by what the others wait for, and
 * take the lock from them. */
static bool others_serve(const struct tutti_comm *comm)
{
	return comm->progress->waits != comm->progress->looked;
}

/* Until something is to be done that no wait does; the end of a long wait tells. */
static void await_work(struct tutti_comm *comm)
{
	struct tt_progress *p = comm->progress;

	if (!serves(comm) || (comm->waiters > 0 && !others_serve(comm))) {
		p->dozes = true;
		pthread_cond_wait(&p->wanted, &comm->lock);
		p->dozes = false;
		return;
	}
	const struct timespec at = tt_timespec(tt_now() + SERVE_NS);

	p->looked = p->waits;
	pthread_cond_timedwait(&p->wanted, &comm->lock, &at);
}

static void *progress_main(void *argument)
{
	struct tutti_comm *comm = argument;
	uint64_t resumed = tt_now();

	ask_for_short_turns();
	tt_comm_lock(comm);
	while (!comm->progress->stop) {
		if (tt_notices_call(comm))
			continue;
		if (comm->waiters > 0 || (!comm->first && (!serves(comm) || others_serve(comm)))) {
			await_work(comm);
			continue;
		}
		if (tt_now() >= comm->next_check)
			tt_comm_look(comm, tt_now());
		if (tt_comm_progress(comm)) {
			pthread_mutex_unlock(&comm->lock); /* the caller may be waiting to call */
			/* to one that computes a yield gives the core for milliseconds, while
			 * messages wait to be passed on */
			if (tt_now() - resumed > WORK_NS) {
				sched_yield();
				resumed = tt_now();
			}
			tt_comm_lock(comm);
		} else if (!comm->progress->stop) {
			sleep_unless(comm, NULL);
			resumed = tt_now();
		}
	}
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

void tt_progress_thread_want(struct tutti_comm *comm)
{
	if (!comm->progress->started) {
		const int error = tt_thread_begin(&comm->progress->thread, progress_main, comm);

		if (error) {
			tt_log(WARN, EXEC,
			       "rank %d: no progress thread (%s): requests advance only inside calls of tutti",
			       comm->rank, strerror(error));
			return;
		}
		comm->progress->started = true;
	}
	if (comm->sleepers)
		tt_comm_interrupt(comm);
	else
		pthread_cond_signal(&comm->progress->wanted);
}

void tt_progress_thread_stop(struct tutti_comm *comm)
{
	if (!comm->progress || !comm->progress->started)
		return;
	tt_comm_lock(comm);
	comm->progress->stop = true;
	pthread_cond_signal(&comm->progress->wanted);
	tt_comm_interrupt(comm);
	pthread_mutex_unlock(&comm->lock);
	pthread_join(comm->progress->thread, NULL);
}
