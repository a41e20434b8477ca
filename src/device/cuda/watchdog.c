/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the thread that looks after a communicator's streams: it finds out that a rank was lost,
 * called something else or does not come, and lets streams that wait go on then.
 *
 * While something is on a stream, or a graph may be launched any time, it looks every few
 * milliseconds at what the kernels reported and at the communicator. Otherwise it sleeps until
 * the next call. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bound.h"
#include "deadline.h"
#include "hierarchy.h"
#include "log.h"
#include "recorder.h"
#include "machine.h"
#include "mismatch.h"
#include "proxy.h"
#include "thread.h"

#define POLL_MS	  5
#define FINISH_NS 200000000
#define ANSWER_NS 2000000000 /* beyond a deadline, for CUDA to tell who is missing */
#define RELEASE_CHUNK_MS                                                                           \
	1 /* by the host, where each chunk of a graph waits for a release of its own */
#define RELEASE_MS                                                                                 \
	50 /* from one release to the next: a kernel that ran during the first one may have
	    * cleared a flag after it */

struct tt_cuda_watchdog {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	bool busy, putting, replayed, stop; /* behind the lock */
	uint64_t puts;			    /* likewise: how often something was put */
	bool released;			    /* likewise: the streams were let go on */
	/* the thread's: what it looks for may stand behind others' copies, and streams are let
	 * go on nevertheless */
	struct CUstream_st *polls, *releases;
	bool missed; /* likewise: the communicator was another thread's when it was to be looked
		      * at */
	/* likewise: a wait, since when, and at how many that had ended; when it was last looked at,
	 * and how long CUDA has kept the thread since then */
	uint64_t waiting, since, ended, looked, in_cuda;
};

/* Kernels and streams write the report, also while it is read. */
static uint64_t read_flag(const uint64_t *flag)
{
	return __atomic_load_n(
		flag, __ATOMIC_ACQUIRE); /* pairs with the kernels' fence to the system before
					  * their last store */
}

/* ---- letting streams go on */

/* Every flag that a stream may wait for. */
static unsigned all_flags(const struct tt_cuda *cuda, union CUstreamBatchMemOpParams_union *ops)
{
	const cuda_address control = cuda->peer[cuda->comm->rank].memory;
	const int size = cuda->comm->size;
	unsigned n = 0;

	for (int rank = 0; rank < size; rank += TT_CUDA_FLAG) {
		uint64_t all = 0;

		for (int i = 0; i < TT_CUDA_FLAG && rank + i < size; i++)
			all |= 1ull << 8 * i;
		for (size_t sync = 0; sync < TT_CUDA_SYNCS; sync++)
			ops[n++] = tt_cuda_write_flag(
				control + offsetof(struct tt_cuda_control, posted) +
					sync * TT_CUDA_RANKS + (size_t)rank,
				all);
	}
	for (size_t rank = 0; rank < (size_t)size; rank++) {
		ops[n++] = tt_cuda_write_flag(control + offsetof(struct tt_cuda_control, sent) +
						      rank * sizeof(uint64_t),
					      1);
		ops[n++] = tt_cuda_write_flag(control + offsetof(struct tt_cuda_control, taken) +
						      rank * sizeof(uint64_t),
					      1);
	}
	return n;
}

/* Wait for one of the thread's own streams, which wait for nothing; but where CUDA has more
 * streams than connections to the GPU (CUDA_DEVICE_MAX_CONNECTIONS), it may stand behind one
 * that does. */
static cuda_result finish(const struct tt_cuda *cuda, struct CUstream_st *stream)
{
	const uint64_t enough = tt_now() + FINISH_NS;
	cuda_result error;

	while ((error = cuda->driver->stream_query(stream)) == CUDA_NOT_READY && tt_now() < enough)
		poll(NULL, 0, 1);
	return error;
}

/* What ranks wait for comes from now on, whatever peers do, and kernels do nothing. False: the driver
 * has gone. */
static bool release(struct tt_cuda *cuda)
{
	union CUstreamBatchMemOpParams_union
		ops[1 + TT_CUDA_SYNCS * TT_CUDA_RANKS / TT_CUDA_FLAG + 2 * TT_CUDA_RANKS];
	const struct cuda_driver *driver = cuda->driver;
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	const cuda_result before = driver->stream_query(watchdog->releases);

	if (before == CUDA_DEINITIALIZED)
		return false;
	if (before == CUDA_NOT_READY) /* the last release is on its way still */
		return true;
	ops[0] = tt_cuda_write_flag(
		cuda->peer[cuda->comm->rank].memory + offsetof(struct tt_cuda_control, dead), 1);
	ops[0].writeValue.operation =
		CUDA_MEM_OP_WRITE_32; /* a memset may be a kernel, and one that is launched for
				       * the first time may wait for those that wait */
	cuda_result error =
		driver->stream_mem_ops(watchdog->releases, 1 + all_flags(cuda, ops + 1), ops, 0);

	if (!error)
		error = finish(cuda, watchdog->releases);
	pthread_mutex_lock(&watchdog->lock);
	if (error && !watchdog->released) {
		tt_cuda_fail(driver,
			     "let streams go on that wait for a communicator that has ended",
			     error);
		tt_log(ERROR, CUDA, "rank %d: %s", cuda->owner->rank, tt_thread_error());
	}
	watchdog->released = true;
	pthread_mutex_unlock(&watchdog->lock);
	return true;
}

static void release_proxy(struct tt_cuda *cuda)
{
	tt_cuda_proxy_release(cuda);
	pthread_mutex_lock(&cuda->watchdog->lock);
	cuda->watchdog->released = true;
	pthread_mutex_unlock(&cuda->watchdog->lock);
}

/* ---- looking */

/* Who has not come to what this rank waits for: a bit for each rank. */
static uint64_t missing_ranks(const struct tt_cuda *cuda, uint64_t waiting)
{
	const struct cuda_driver *driver = cuda->driver;
	const int size = cuda->comm->size, own = cuda->comm->rank;
	struct CUstream_st *stream = cuda->watchdog->polls;
	uint8_t(*const posted)[TT_CUDA_RANKS] =
		cuda->report->posted; /* pinned: the copy may end later than this */
	uint64_t missing = 0;

	const bool at_end = waiting == TT_CUDA_AWAITS_LAST;

	if (waiting != TT_CUDA_AWAITS_ALL && !at_end)
		return 1ull << (waiting >> 8);
	if (driver->mem_copy((cuda_address)(uintptr_t)posted,
			     cuda->peer[own].memory + offsetof(struct tt_cuda_control, posted),
			     sizeof(cuda->report->posted), stream) ||
	    finish(cuda, stream))
		return 0;
	for (int sync = at_end ? TT_CUDA_LAST : 0; sync < (at_end ? TT_CUDA_SYNCS : TT_CUDA_LAST);
	     sync++)
		for (int rank = 0; rank < size && posted[sync][own]; rank++)
			missing |= posted[sync][rank] ? 0 : 1ull << rank;
	return missing;
}

/* `missing`: 0 where CUDA does not tell. `own`: the operation's own deadline, 0: it has none. */
static void revoke_for_deadline(struct tt_cuda *cuda, uint64_t missing, uint64_t own)
{
	struct tutti_comm *comm = cuda->owner;
	struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT,
				  .rank = missing ? cuda->named[__builtin_ctzll(missing)]
						  : comm->rank };
	int at = snprintf(fault.text, sizeof(fault.text),
			  "a stream of rank %d has waited %.3g s for ", comm->rank,
			  (double)(own ? own : comm->settings.timeout_ns) * 1e-9);

	if (!missing)
		at += snprintf(fault.text + at, sizeof(fault.text) - (size_t)at, "other ranks");
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

/* A wait that has lasted longer than it may. */
struct overdue {
	uint64_t missing, own; /* as in revoke_for_deadline() */
};

/* CUDA had the thread from `begun` on. That counts towards a deadline, unlike the rest of a time in
 * which nobody looked: then the process was stopped. */
static void count_cuda(struct tt_cuda_watchdog *watchdog, uint64_t begun)
{
	watchdog->in_cuda += tt_now() - begun;
}

/* What does not count of the time since this was asked before. */
static uint64_t take_uncounted(struct tt_cuda_watchdog *watchdog, uint64_t now)
{
	const uint64_t uncounted =
		tt_deadlines_uncounted(watchdog->looked + watchdog->in_cuda, now);

	watchdog->looked = now;
	watchdog->in_cuda = 0;
	return uncounted;
}

/* Lock not held: CUDA is asked. */
static bool is_overdue(struct tt_cuda *cuda, uint64_t now, struct overdue *out)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;
	const uint64_t own = read_flag(
		&cuda->report->timeout); /* first: what is read then is no older wait, which may
					  * have had longer */
	const uint64_t ended = read_flag(&cuda->report->ended),
		       waiting = read_flag(&cuda->report->waiting);
	/* of two the hierarchy: that all have come is seen to by who announces it (the
	 * hierarchy.c), which is told better; who stops later is told by those who wait for it,
	 * and not by those who wait for them behind a crossing */
	const uint64_t timeout = own ? own : cuda->owner->settings.timeout_ns,
		       quarters = cuda->owner == cuda->comm	      ? 0
				  : read_flag(&cuda->report->crossed) ? 3
								      : 1;
	const uint64_t patience = timeout + quarters * (timeout / 4),
		       uncounted = take_uncounted(watchdog, now);

	if (cuda->comm->size == 1) /* it waits for nobody, whatever the report says */
		return false;
	if (waiting == 0 || waiting != watchdog->waiting || ended != watchdog->ended) {
		watchdog->waiting = waiting;
		watchdog->ended = ended;
		watchdog->since = now;
	} else {
		watchdog->since += uncounted;
	}
	if (now - watchdog->since <= patience)
		return false;
	*out = (struct overdue){ missing_ranks(cuda, waiting), own };
	count_cuda(watchdog, now);
	return out->missing ||
	       now - watchdog->since > patience + ANSWER_NS; /* or somebody came just now */
}

/* Lock held. */
static void compare_headers(struct tt_cuda *cuda)
{
	struct tt_op_header mine, theirs;

	/* pairs as in read_flag() */
	if (!__atomic_load_n(&cuda->report->mismatch, __ATOMIC_ACQUIRE))
		return;
	memcpy(&mine, cuda->report->mine, sizeof(mine));
	memcpy(&theirs, cuda->report->theirs, sizeof(theirs));
	/* a clique's ranks compare what the whole communicator was called for, of which it has no
	 * plan */
	const struct tt_fault fault = cuda->owner == cuda->comm
					      ? tt_mismatch(cuda->comm, &mine, &theirs)
					      : tt_op_header_mismatch(&mine, &theirs, NULL);
	tt_comm_revoke(cuda->owner, &fault);
}

/* The thread looks only now and then: who has seen a stream's end is to know at once whether its
 * operations agreed. */
void tt_cuda_learn(struct tt_cuda *cuda)
{
	struct tt_cuda *clique = tt_cuda_clique_of(cuda);

	compare_headers(cuda);
	if (clique)
		compare_headers(clique);
}

/* A kernel's fault ends the context, and with it all that the communicator could do. `error`:
 * what CUDA says of it. Lock held. */
static void check_context(struct tt_cuda *cuda, cuda_result error)
{
	const bool capturing =
		error >= CUDA_CAPTURE_UNSUPPORTED && error <= CUDA_CAPTURE_CAPTURED_EVENT;

	if (error == 0 || error == CUDA_NOT_READY || capturing)
		return;
	const tutti_result_t result = tt_cuda_fail(
		cuda->driver,
		"the GPU's context has failed, and cannot be used again in this process (compute-sanitizer finds the kernel)",
		error);
	tt_comm_revoke_for(cuda->owner, result);
}

/* For the flight recorder: of a clique's operations each is a part of a call, and graphs are
 * launched unseen. Lock held. */
static void note_waits(const struct tt_cuda *cuda)
{
	if (cuda->owner == cuda->comm && !cuda->proxy && !cuda->captures)
		atomic_store_explicit(&cuda->comm->recorder->flight->streams_waits,
				      read_flag(&cuda->report->ended), memory_order_relaxed);
}

/* What CUDA says, which is asked without the communicator's lock: where it keeps the thread
 * waiting, the communicator is nobody's meanwhile. */
struct answer {
	cuda_result context;
	bool is_late;
	struct overdue overdue;
};

static struct answer ask(struct tt_cuda *cuda)
{
	const uint64_t begun = tt_now();
	struct answer answer = { .context = cuda->driver->stream_query(cuda->watchdog->polls) };

	count_cuda(cuda->watchdog, begun);
	answer.is_late = !cuda->watchdog->released && is_overdue(cuda, tt_now(), &answer.overdue);
	return answer;
}

/* False: the communicator has ended, and all ranks know why. `answer`: NULL where CUDA was not
 * asked. */
static bool look(struct tt_cuda *cuda, const struct answer *answer)
{
	struct tutti_comm *comm = cuda->owner;

	cuda->watchdog->missed = pthread_mutex_trylock(&comm->lock) != 0;
	if (cuda->watchdog->missed) { /* whoever has it is in a call that soon ends: again, then */
		tt_cuda_watchdog_busy(cuda, false);
		return true;
	}
	tt_comm_check(comm, true);
	note_waits(cuda);
	if (!comm->fault.result)
		compare_headers(cuda);
	if (!comm->fault.result && answer)
		check_context(cuda, answer->context);
	if (!comm->fault.result && answer && answer->is_late)
		revoke_for_deadline(cuda, answer->overdue.missing, answer->overdue.own);
	/* whoever finds a stream at its end learns of the fault from tutti_comm_error() */
	const bool ended = tt_comm_is_settled(comm);
	pthread_mutex_unlock(&comm->lock);
	return !ended;
}

static struct timespec in_ms(int ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += ms * 1000000l;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
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
	const bool idle = cuda->driver->event_query(cuda->last) == 0;

	count_cuda(watchdog, begun);
	return idle;
}

/* Until it is time to poll again; false: the thread is to end. `idle`: when so much had been put,
 * all of it had ended. */
static bool await(struct tt_cuda *cuda, bool idle, uint64_t puts)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;
	int error = 0;

	pthread_mutex_lock(&watchdog->lock);
	const struct timespec at = in_ms(!watchdog->released ? POLL_MS
					 : cuda->proxy	     ? RELEASE_CHUNK_MS
							     : RELEASE_MS);
	/* what was put on a stream before `busy` was set is behind the event by now; what it has
	 * reported is looked at once more */
	idle &= puts == watchdog->puts;
	const bool ended = idle && !watchdog->replayed && !watchdog->missed;

	if (idle && cuda->owner == cuda->comm)
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

/* False as of release(). */
static bool let_go_on(struct tt_cuda *cuda)
{
	if (!cuda->proxy)
		return release(cuda);
	release_proxy(cuda);
	return true;
}

/* What the communicator knows comes before what CUDA is asked, which may keep the thread waiting. */
static void *watchdog_main(void *argument)
{
	struct tt_cuda *cuda = argument;
	struct tt_cuda_entered entered;
	uint64_t puts = 0;
	bool idle = false;

	prctl(PR_SET_NAME, "tutti-cuda");
	if (tt_cuda_enter(cuda, &entered))
		return NULL;
	for (bool there = true; there && await(cuda, idle, puts);) {
		idle = false;
		if (!look(cuda, NULL)) {
			there = let_go_on(cuda);
			continue;
		}
		const struct answer answer = ask(cuda);
		/* at the end of the process the driver may go first */
		there = answer.context != CUDA_DEINITIALIZED;
		if (there && look(cuda, &answer))
			idle = is_idle(cuda, &puts);
		else if (there)
			there = let_go_on(cuda);
	}
	tt_cuda_leave(cuda, &entered);
	return NULL;
}

/* ---- its life */

static void free_streams(const struct tt_cuda *cuda, struct tt_cuda_watchdog *watchdog)
{
	if (watchdog->polls)
		cuda->driver->stream_destroy(watchdog->polls);
	if (watchdog->releases)
		cuda->driver->stream_destroy(watchdog->releases);
}

/* They must get through to the GPU when others wait there. */
static cuda_result make_streams(const struct tt_cuda *cuda, struct tt_cuda_watchdog *watchdog)
{
	int least = 0, greatest = 0;
	cuda_result error = cuda->driver->context_get_priorities(&least, &greatest);

	if (!error)
		error = cuda->driver->stream_create_urgent(&watchdog->polls,
							   CUDA_STREAM_NON_BLOCKING, greatest);
	if (!error && !cuda->proxy)
		error = cuda->driver->stream_create_urgent(&watchdog->releases,
							   CUDA_STREAM_NON_BLOCKING, greatest);
	return error;
}

tutti_result_t tt_cuda_watchdog_begin(struct tt_cuda *cuda)
{
	struct tt_cuda_watchdog *watchdog = calloc(1, sizeof(*watchdog));
	pthread_condattr_t monotonic;

	if (!watchdog)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the watchdog of streams");
	const cuda_result failed = make_streams(cuda, watchdog);
	if (failed) {
		free_streams(cuda, watchdog);
		free(watchdog);
		return tt_cuda_fail(cuda->driver, "make a stream", failed);
	}
	pthread_mutex_init(&watchdog->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&watchdog->wanted, &monotonic);
	pthread_condattr_destroy(&monotonic);
	cuda->watchdog = watchdog;
	const int error = tt_thread_begin(&watchdog->thread, watchdog_main, cuda);
	if (!error)
		return TUTTI_OK;
	free_streams(cuda, watchdog);
	cuda->watchdog = NULL;
	free(watchdog);
	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "start the watchdog of streams: %s",
		       strerror(error));
}

void tt_cuda_watchdog_end(struct tt_cuda *cuda, bool frees)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	if (!watchdog)
		return;
	pthread_mutex_lock(&watchdog->lock);
	watchdog->stop = true;
	pthread_cond_signal(&watchdog->wanted);
	pthread_mutex_unlock(&watchdog->lock);
	pthread_join(watchdog->thread, NULL);
	if (frees)
		free_streams(cuda, watchdog);
	pthread_cond_destroy(&watchdog->wanted);
	pthread_mutex_destroy(&watchdog->lock);
	free(watchdog);
	cuda->watchdog = NULL;
}

void tt_cuda_watchdog_putting(struct tt_cuda *cuda, bool putting)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	pthread_mutex_lock(&watchdog->lock);
	watchdog->putting = putting;
	watchdog->puts++;
	watchdog->busy = true;
	pthread_cond_signal(&watchdog->wanted);
	pthread_mutex_unlock(&watchdog->lock);
}

void tt_cuda_watchdog_busy(struct tt_cuda *cuda, bool replayed)
{
	struct tt_cuda_watchdog *watchdog = cuda->watchdog;

	pthread_mutex_lock(&watchdog->lock);
	watchdog->replayed |= replayed;
	if (!watchdog->busy)
		pthread_cond_signal(&watchdog->wanted);
	watchdog->busy = true;
	pthread_mutex_unlock(&watchdog->lock);
}
