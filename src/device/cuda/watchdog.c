/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the thread that looks after a communicator's streams: it finds out that a rank was lost,
 * called something else or does not come, and lets streams that wait go on then.
 *
 * While something is on a stream, or a graph may be launched any time, it looks every few
 * milliseconds at what the kernels reported and at the communicator. Otherwise it sleeps until
 * the next call. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bound.h"
#include "fault.h"
#include "hierarchy.h"
#include "log.h"
#include "recorder.h"
#include "machine.h"
#include "mismatch.h"
#include "numbers.h"
#include "proxy.h"
#include "thread.h"

#define POLL_MS 5
#define RELEASE_MS                                                                                 \
	1 /* from one release to the next: of what is host-staged, each wait of a graph needs one
		      * of its own … */
#define REST_MS 100 /* … and kernels find themselves that all is over */

struct tt_cuda_watchdog {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	bool busy, putting, replayed, stop; /* behind the lock */
	uint64_t puts;			    /* likewise: how often something was put */
	bool released;			    /* likewise: the streams were let go on */
	bool missed; /* the thread's: the communicator was another thread's when it was to be looked
		      * at */
	/* likewise: when waits were last looked at, and how long CUDA has kept the thread since then */
	uint64_t looked, in_cuda;
	/* likewise: what was waited for then, since when, and how many waits had ended */
	struct wait {
		uint64_t waiting, since, ended, progress;
	} wait;
};

/* ---- letting streams go on */

/* Whatever peers do, kernels that wait end and do nothing from now on, and streams go on. It needs
 * nothing of CUDA's, whose calls may wait for those very streams. */
static void release(struct tt_cuda *cuda)
{
	struct tt_cuda *reached = tt_cuda_who_waits(cuda);

	if (reached) /* pairs with kernels' looks */
		__atomic_store_n(&reached->report->abort, 1, __ATOMIC_RELEASE);
	if (cuda->proxy)
		tt_cuda_proxy_release(cuda);
	pthread_mutex_lock(&cuda->watchdog->lock);
	cuda->watchdog->released = true;
	pthread_mutex_unlock(&cuda->watchdog->lock);
}

/* ---- looking */

/* Who has not come to what this rank waits for: a bit for each rank. */
static uint64_t missing_ranks(const struct tt_cuda *cuda)
{
	uint64_t missing = 0;

	for (int rank = 0; rank < cuda->comm->size; rank++)
		/* relaxed: kernels change it while they wait */
		missing |= (uint64_t)__atomic_load_n(&cuda->report->missing[rank], __ATOMIC_RELAXED)
			   << rank;
	return missing;
}

/* `own`: the operation's own deadline, 0: it has none. */
static void revoke_for_deadline(struct tt_cuda *cuda, uint64_t missing, uint64_t own)
{
	struct tutti_comm *comm = cuda->owner;
	struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT,
				  .rank = cuda->named[__builtin_ctzll(missing)] };
	int at = tt_print(fault.text, sizeof(fault.text),
			  "a stream of rank %d has waited %.3g s for ", comm->rank,
			  (double)(own ? own : comm->settings.timeout_ns) * 1e-9);

	for (uint64_t left = missing; left; left &= left - 1)
		at += snprintf(fault.text + at, sizeof(fault.text) - (size_t)at, "%s%d",
			       left == missing ? (missing & (missing - 1) ? "ranks " : "rank ")
					       : ", ",
			       cuda->named[__builtin_ctzll(left)]);
	snprintf(fault.text + at, sizeof(fault.text) - (size_t)at,
		 ", whose streams have not come %s (%s)",
		 cuda->owner == cuda->comm
			 ? "to the operation"
			 : "so far in the operation", /* of a clique: all have begun it */
		 own ? "tutti_next_call" : "TUTTI_TIMEOUT");
	tt_comm_revoke(comm, &fault);
}

/* What CUDA says, which is asked without the communicator's lock: where it keeps the thread
 * waiting, the communicator is nobody's meanwhile. */
struct answer {
	cuda_result context;
	uint64_t missing; /* for whom a wait has lasted longer than it may; 0: for nobody … */
	uint64_t own;	  /* … as in revoke_for_deadline() */
};

/* How long may be waited? `own`: as in revoke_for_deadline(). */
static uint64_t patience_of(const struct tt_cuda *waits, uint64_t *own)
{
	*own = tt_cuda_read_flag(&waits->report->timeout);
	/* of operations on two levels: that all have come is seen to by who announces it
	 * (hierarchy.c), which is told better; who stops later is told by those who wait for it,
	 * and not by those who wait for them behind a crossing */
	const uint64_t timeout = *own ? *own : waits->owner->settings.timeout_ns,
		       quarters = waits->owner == waits->comm		       ? 0
				  : tt_cuda_read_flag(&waits->report->crossed) ? 3
									       : 1;

	return timeout + quarters * (timeout / 4);
}

/* CUDA had the thread from `begun` on. That counts towards a deadline, unlike the rest of a time in
 * which nobody looked: then the process was stopped. It may have been stopped in CUDA, too, so no call
 * alone is enough for a deadline to pass. */
static void count_cuda(struct tt_cuda *cuda, uint64_t begun)
{
	const struct tt_cuda *waits = tt_cuda_who_waits(cuda);
	const uint64_t ns = tt_now() - begun;
	uint64_t own;
	const uint64_t most = waits ? patience_of(waits, &own) / 2 : 0;

	cuda->watchdog->in_cuda += ns < most ? ns : most;
}

/* What does not count of the time since this was asked before. */
static uint64_t take_uncounted(struct tt_cuda_watchdog *watchdog, uint64_t now)
{
	const uint64_t uncounted =
		tt_uncounted(watchdog->looked + watchdog->in_cuda, now, TT_LOOK_NS);

	watchdog->looked = now;
	watchdog->in_cuda = 0;
	return uncounted;
}

/* It waits for the same as when it was last looked at: since when? */
static uint64_t waits_since(struct wait *wait, const struct tt_cuda_report *report, uint64_t now,
			    uint64_t uncounted)
{
	const struct wait seen = { .waiting = tt_cuda_read_flag(&report->waiting),
				   .since = now,
				   .ended = tt_cuda_read_flag(&report->ended),
				   .progress = tt_cuda_read_flag(&report->progress) };

	if (seen.waiting == 0 || seen.waiting != wait->waiting || seen.ended != wait->ended ||
	    seen.progress != wait->progress)
		*wait = seen;
	else
		wait->since += uncounted;
	return wait->since;
}

static void find_overdue(struct wait *wait, const struct tt_cuda *cuda, uint64_t now,
			 uint64_t uncounted, struct answer *out)
{
	/* first: what is read then is no older wait, which may have had longer */
	const uint64_t patience = patience_of(cuda, &out->own),
		       since = waits_since(wait, cuda->report, now, uncounted);

	/* one rank alone waits for nobody, whatever the report says */
	if (cuda->comm->size > 1 && now - since > patience)
		out->missing = missing_ranks(cuda);
}

/* The thread looks only now and then: who has seen a stream's end is to know at once whether its
 * operations agreed. */
void tt_cuda_learn(struct tt_cuda *cuda)
{
	const struct tt_cuda *waits = tt_cuda_who_waits(cuda);
	struct tt_op_header mine, theirs;

	/* pairs as in tt_cuda_read_flag() */
	if (!waits || !__atomic_load_n(&waits->report->mismatch, __ATOMIC_ACQUIRE))
		return;
	memcpy(&mine, waits->report->mine, sizeof(mine));
	memcpy(&theirs, waits->report->theirs, sizeof(theirs));
	/* a clique's ranks compare what the whole communicator was called for, of which it has no
	 * plan */
	const struct tt_fault fault = waits == cuda ? tt_mismatch(cuda->comm, &mine, &theirs)
						    : tt_op_header_mismatch(&mine, &theirs, NULL);
	tt_comm_revoke(cuda->comm, &fault);
}

/* A kernel's fault ends the context, and with it all that the communicator could do. `error`:
 * what CUDA says of it. Lock held. */
static void check_context(struct tt_cuda *cuda, cuda_result error)
{
	const bool capturing =
		error >= CUDA_CAPTURE_UNSUPPORTED && error <= CUDA_CAPTURE_CAPTURED_EVENT;

	if (error == 0 || error == CUDA_NOT_READY || capturing)
		return;
	const tutti_result_t result = tt_cuda_check(
		error,
		"the GPU's context has failed, and cannot be used again in this process (compute-sanitizer finds the kernel)");
	tt_comm_revoke_for(cuda->comm, result);
}

/* For the flight recorder. Lock held. */
static void note_waits(const struct tt_cuda *cuda)
{
	if (!cuda->proxy)
		atomic_store_explicit(&cuda->comm->recorder->flight->streams_waits,
				      tt_cuda_read_flag(&cuda->report->ended),
				      memory_order_relaxed);
}

static struct answer ask(struct tt_cuda *cuda)
{
	const uint64_t begun = tt_now();
	struct answer answer = { .context = tt_cu.stream_query(cuda->setup) };
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;
	const struct tt_cuda *waits = tt_cuda_who_waits(cuda);

	count_cuda(cuda, begun);
	const uint64_t now = tt_now(), uncounted = take_uncounted(watchdog, now);
	if (waits && !watchdog->released)
		find_overdue(&watchdog->wait, waits, now, uncounted, &answer);
	return answer;
}

/* False: the communicator has ended, and all ranks know why. `answer`: NULL where CUDA was not
 * asked. */
static bool look(struct tt_cuda *cuda, const struct answer *answer)
{
	struct tutti_comm *comm = cuda->comm;

	cuda->watchdog->missed = pthread_mutex_trylock(&comm->lock) != 0;
	if (cuda->watchdog->missed) { /* whoever has it is in a call that soon ends: again, then */
		tt_cuda_watchdog_busy(cuda);
		return true;
	}
	tt_comm_check(comm, true);
	note_waits(cuda);
	if (!comm->fault.result)
		tt_cuda_learn(cuda);
	if (!comm->fault.result && answer)
		check_context(cuda, answer->context);
	if (!comm->fault.result && answer && answer->missing)
		revoke_for_deadline(tt_cuda_who_waits(cuda), answer->missing, answer->own);
	/* whoever finds a stream at its end learns of the fault from tutti_comm_error() */
	const bool ended = tt_comm_is_settled(comm);
	pthread_mutex_unlock(&comm->lock);
	return !ended;
}

/* Has all ended that was put? CUDA is asked without the lock, which those need who put
 * something. */
static bool is_idle(struct tt_cuda *cuda, uint64_t *puts)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	pthread_mutex_lock(&watchdog->lock);
	const bool may_be = watchdog->busy && !watchdog->putting && !watchdog->released;
	*puts = watchdog->puts;
	pthread_mutex_unlock(&watchdog->lock);
	if (!may_be)
		return false;
	const uint64_t begun = tt_now();
	const bool idle = tt_cu.event_query(cuda->last) == 0;

	count_cuda(cuda, begun);
	return idle;
}

/* Until it is time to poll again; false: the thread is to end. `idle`: when so much had been put,
 * all of it had ended. */
static bool await(struct tt_cuda *cuda, bool idle, uint64_t puts)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;
	int error = 0;

	pthread_mutex_lock(&watchdog->lock);
	const int rest_ms = !watchdog->released ? POLL_MS : cuda->proxy ? RELEASE_MS : REST_MS;
	const struct timespec at = tt_timespec(tt_now() + (uint64_t)rest_ms * 1000000u);
	/* what was put on a stream before `busy` was set is behind the event by now; what it has
	 * reported is looked at once more */
	idle &= puts == watchdog->puts;
	const bool ended = idle && !watchdog->replayed && !watchdog->missed;

	if (idle)
		atomic_store_explicit(&cuda->comm->recorder->flight->streams_ended, cuda->noted,
				      memory_order_relaxed);
	watchdog->busy &= !ended;
	while (!watchdog->stop && !error && !ended)
		error = watchdog->busy || watchdog->released
				? pthread_cond_timedwait(&watchdog->wanted, &watchdog->lock, &at)
				: pthread_cond_wait(&watchdog->wanted, &watchdog->lock);
	const bool go_on = !watchdog->stop;
	pthread_mutex_unlock(&watchdog->lock);
	return go_on;
}

/* What the communicator knows comes before what CUDA is asked, which may keep the thread waiting. */
static void *watchdog_main(void *argument)
{
	struct tt_cuda *cuda = argument;
	struct tt_cuda_entered entered;
	uint64_t puts = 0;
	bool idle = false;

	prctl(PR_SET_NAME, "tutti-cuda");
	if (tt_cuda_enter(cuda->context, &entered))
		return NULL;
	for (bool there = true; there && await(cuda, idle, puts);) {
		idle = false;
		if (!look(cuda, NULL)) {
			release(cuda);
			continue;
		}
		const struct answer answer = ask(cuda);
		/* at the end of the process the driver may go first */
		there = answer.context != CUDA_DEINITIALIZED;
		if (there && look(cuda, &answer))
			idle = is_idle(cuda, &puts);
		else if (there)
			release(cuda);
	}
	tt_cuda_leave(&entered);
	return NULL;
}

/* ---- its life */

tutti_result_t tt_cuda_watchdog_begin(struct tt_cuda *cuda)
{
	struct tt_cuda_watchdog *watchdog = calloc(1, sizeof(*watchdog));

	if (!watchdog)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the watchdog of streams");
	pthread_mutex_init(&watchdog->lock, NULL);
	tt_thread_condition(&watchdog->wanted);
	cuda->watchdog = watchdog;
	const int error = tt_thread_begin(&watchdog->thread, watchdog_main, cuda);
	if (!error)
		return TUTTI_OK;
	cuda->watchdog = NULL;
	free(watchdog);
	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "start the watchdog of streams: %s",
		       strerror(error));
}

void tt_cuda_watchdog_end(struct tt_cuda *cuda)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	if (!watchdog)
		return;
	pthread_mutex_lock(&watchdog->lock);
	watchdog->stop = true;
	pthread_cond_signal(&watchdog->wanted);
	pthread_mutex_unlock(&watchdog->lock);
	pthread_join(watchdog->thread, NULL);
	pthread_cond_destroy(&watchdog->wanted);
	pthread_mutex_destroy(&watchdog->lock);
	free(watchdog);
	cuda->watchdog = NULL;
}

void tt_cuda_watchdog_putting(struct tt_cuda *cuda, bool putting, bool captured)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	pthread_mutex_lock(&watchdog->lock);
	watchdog->putting = putting;
	watchdog->replayed |= captured;
	watchdog->puts++;
	pthread_mutex_unlock(&watchdog->lock);
	tt_cuda_watchdog_busy(cuda);
}

void tt_cuda_watchdog_busy(struct tt_cuda *cuda)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	pthread_mutex_lock(&watchdog->lock);
	watchdog->busy = true;
	pthread_cond_signal(&watchdog->wanted);
	pthread_mutex_unlock(&watchdog->lock);
}
