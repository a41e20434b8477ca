/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the waits for whichever of several requests ends first.
 *
 * Requests of one communicator are driven by the thread that waits. It cannot sleep at the doorbells
 * of several: there it looks at them for a moment, and then hangs a bell on each request. The
 * progress threads drive, and the one that ends a request rings. A request's bell is behind the lock
 * of its communicator, as its end is: either this thread sees the end, or the end sees the bell. */
#include <sched.h>

#include "bell.h"
#include "clock.h"
#include "log.h"
#include "request.h"
#include "tutti/tutti.h"

enum {
	LOOK_NS = 50000, /* at the requests, before it sleeps: waking two threads costs as much */
	TURN_NS = 10000000, /* of sleep: where no progress thread could be started, calls drive */
};

/* All that is waited for. */
struct many {
	tutti_request_t *requests;
	size_t count;
	uint64_t until; /* tt_now(), when to give up */
};

/* The place of one that has ended, with its result; IN_PROGRESS: none has. `count` and TUTTI_OK:
 * there is none. */
static tutti_result_t look(const struct many *m, size_t *index)
{
	bool some = false;

	for (size_t i = 0; i < m->count; i++) {
		if (!m->requests[i])
			continue;
		some = true;
		*index = i;
		const tutti_result_t result = tutti_test(&m->requests[i]);

		if (result != TUTTI_IN_PROGRESS)
			return result;
	}
	*index = m->count;
	return some ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* NULL: they belong to several. */
static struct tutti_comm *only_comm(const struct many *m)
{
	struct tutti_comm *comm = NULL;

	for (size_t i = 0; i < m->count; i++) {
		if (m->requests[i] && comm && m->requests[i]->comm != comm)
			return NULL;
		if (m->requests[i])
			comm = m->requests[i]->comm;
	}
	return comm;
}

static bool any_has_ended(const void *of)
{
	const struct many *m = of;
	bool ended = false;

	for (size_t i = 0; i < m->count; i++)
		ended |= m->requests[i] && m->requests[i]->pending == 0;
	return ended;
}

static void pause_at(struct tutti_comm *comm, struct tt_waiter *waiter)
{
	tt_comm_lock(comm);
	/* one that ended since it was tested wakes nobody who goes to sleep now */
	if (!waiter->over(waiter->of))
		tt_comm_pause(comm, waiter);
	pthread_mutex_unlock(&comm->lock);
}

/* False: one has ended already. */
static bool hang(const struct many *m, struct tt_bell *bell)
{
	bool pending = true;

	for (size_t i = 0; i < m->count && pending; i++) {
		if (!m->requests[i])
			continue;
		pthread_mutex_lock(&m->requests[i]->comm->lock);
		pending = m->requests[i]->pending > 0;
		m->requests[i]->bell = bell;
		pthread_mutex_unlock(&m->requests[i]->comm->lock);
	}
	return pending;
}

static void take_down(const struct many *m)
{
	for (size_t i = 0; i < m->count; i++) {
		if (!m->requests[i])
			continue;
		pthread_mutex_lock(&m->requests[i]->comm->lock);
		m->requests[i]->bell = NULL;
		pthread_mutex_unlock(&m->requests[i]->comm->lock);
	}
}

static void sleep_for_any(const struct many *m)
{
	const uint64_t turn = tt_now() + TURN_NS;
	struct tt_bell bell;

	tt_bell_init(&bell);
	if (hang(m, &bell))
		tt_bell_wait(&bell, turn < m->until ? turn : m->until);
	take_down(m);
	tt_bell_finish(&bell);
}

static tutti_result_t wait_for(const struct many *m, size_t *index)
{
	struct tutti_comm *comm = m->until == UINT64_MAX ? only_comm(m) : NULL;
	struct tt_waiter waiter = { .over = any_has_ended, .of = m };
	const uint64_t begun = tt_now();

	for (;;) {
		const tutti_result_t result = look(m, index);

		if (result != TUTTI_IN_PROGRESS)
			return result;
		if (comm) {
			pause_at(comm, &waiter);
			continue;
		}
		const uint64_t now = tt_now();

		if (now >= m->until)
			return TUTTI_IN_PROGRESS;
		if (now - begun < LOOK_NS)
			sched_yield();
		else
			sleep_for_any(m);
	}
}

static tutti_result_t check(const char *call, const tutti_request_t *requests, size_t count,
			    const size_t *index)
{
	if (index && (requests || count == 0))
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: %s is NULL", call,
		       index ? "requests" : "index");
}

TUTTI_API tutti_result_t tutti_wait_any(tutti_request_t *requests, size_t count, size_t *index)
{
	const tutti_result_t result = check("tutti_wait_any", requests, count, index);

	return result ? result : wait_for(&(struct many){ requests, count, UINT64_MAX }, index);
}

TUTTI_API tutti_result_t tutti_wait_any_for(tutti_request_t *requests, size_t count,
					    double timeout_s, size_t *index)
{
	const tutti_result_t result = check("tutti_wait_any_for", requests, count, index);

	if (result)
		return result;
	if (!tt_seconds_sound(timeout_s))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_wait_any_for: timeout_s is %g, expected 0 to 1e9 seconds",
			       timeout_s);
	return wait_for(&(struct many){ requests, count, tt_now() + tt_nanoseconds(timeout_s) },
			index);
}
