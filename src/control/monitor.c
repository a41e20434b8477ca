/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the monitor: one thread of the process that sleeps on the control descriptors of its
 * communicators, and takes in and passes on what comes there while the program computes, so that
 * a fault reaches every rank at once, and those behind this one. Communicators whose ranks all
 * read one record have no such descriptors and need none.
 *
 * It costs calls next to nothing: data never wakes it, news do a hundred times a second at most,
 * and it only tries for a communicator's lock. A thread that has the lock is in a call, and will
 * mostly look itself; the monitor tries again a little later until it has looked once. Ten times a
 * second it looks for deaths that no descriptor tells of.
 *
 * `life` serialises coming and going, and so the start and end of the thread; `lock` guards the
 * list, and is held while the monitor looks: a communicator that has left is not looked at any
 * more. Locks of communicators are only tried for inside, never waited for. */
#include "monitor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fault.h"
#include "fork.h"
#include "log.h"
#include "notes.h"
#include "thread.h"

#define BATCH 16
#define PAUSE_MS                                                                                   \
	10 /* from one poll to the next at least, and to the next attempt at a lock that a call
	    * has */
#define TRY_NS	200000 /* some short calls */
#define LOOK_MS 100    /* for deaths: as often as threads that sleep in a call */

struct watched {
	struct watched *next;
	struct tutti_comm *comm;
	uint64_t number; /* what events bring; another communicator may come to lie at the same
			  * place */
	bool mortal;	 /* no descriptor tells of deaths */
	bool due;	 /* something has come and was not looked at, or may have */
};

static struct {
	pthread_mutex_t life, lock;
	pthread_t thread;
	int epoll, bell; /* the bell ends the thread; -1 while there is none */
	struct watched *first;
	uint64_t numbers;
	uint64_t look_at; /* for deaths, the next time */
} monitor = { .life = PTHREAD_MUTEX_INITIALIZER,
	      .lock = PTHREAD_MUTEX_INITIALIZER,
	      .epoll = -1,
	      .bell = -1 };

/* ---- the thread */

/* A thread that makes one short call after the other lets go of the lock between them, but looks
 * at nothing. */
static bool try_lock(struct tutti_comm *comm)
{
	const uint64_t enough = tt_now() + TRY_NS;

	while (pthread_mutex_trylock(&comm->lock))
		if (tt_now() > enough)
			return false;
	return true;
}

/* False: it is to be looked at again soon, as somebody else has the lock, or ranks are settling
 * on a fault. */
static bool look(struct tutti_comm *comm)
{
	if (!try_lock(comm))
		return false;
	tt_comm_check(comm, true);
	if (!comm->control_area.base)
		tt_notes_exchange(comm, NULL, false, tt_now());
	const bool settling = comm->fault.result && !tt_comm_is_settled(comm);
	pthread_mutex_unlock(&comm->lock);
	return !settling;
}

/* Under the lock. True if some are still to be looked at. */
static bool check_due(void)
{
	bool left = false;

	for (struct watched *w = monitor.first; w; w = w->next) {
		if (w->due)
			w->due = !look(w->comm);
		left |= w->due;
	}
	return left;
}

static void mark_due(uint64_t number)
{
	for (struct watched *w = monitor.first; w; w = w->next)
		w->due |= w->number == number;
}

static void mark_mortal(void)
{
	const uint64_t now = tt_now();

	if (now < monitor.look_at)
		return;
	monitor.look_at = now + LOOK_MS * 1000000ull;
	for (struct watched *w = monitor.first; w; w = w->next)
		w->due |= w->mortal;
}

/* Wait until something comes or deaths are to be looked for, or not at all; false: the bell rang. */
static bool await(bool at_once)
{
	struct epoll_event events[BATCH];
	const int n = epoll_wait(monitor.epoll, events, BATCH, at_once ? 0 : LOOK_MS);
	bool go_on = true;

	pthread_mutex_lock(&monitor.lock);
	for (int i = 0; i < n; i++) {
		go_on &= events[i].data.u64 != 0;
		mark_due(events[i].data.u64);
	}
	mark_mortal();
	pthread_mutex_unlock(&monitor.lock);
	return go_on;
}

static void *monitor_main(void *unused)
{
	struct pollfd bell = { monitor.bell, POLLIN, 0 };
	bool left = false;

	prctl(PR_SET_NAME, "tutti-monitor");
	while (await(left)) {
		pthread_mutex_lock(&monitor.lock);
		left = check_due();
		pthread_mutex_unlock(&monitor.lock);
		/* where many ranks wait for long, many notes go round: they are taken in
		 * together */
		poll(&bell, 1, PAUSE_MS);
	}
	return unused;
}

/* ---- its life */

static void close_descriptors(void)
{
	tt_fd_close(monitor.epoll);
	tt_fd_close(monitor.bell);
	monitor.epoll = monitor.bell = -1;
}

/* A forked child has no such thread, and its parent's communicators are not its own; the
 * descriptors are closed (fork.h). */
static void forget(void)
{
	pthread_mutex_init(&monitor.life, NULL);
	pthread_mutex_init(&monitor.lock, NULL);
	monitor.first = NULL;
	monitor.epoll = monitor.bell = -1;
}

static void mind_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

/* 0, or an errno value. */
static int start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct epoll_event end = { .events = EPOLLIN, .data.u64 = 0 };
	int error = 0;

	pthread_once(&once, mind_forks);
	monitor.epoll = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	monitor.bell = TT_FD(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (monitor.epoll < 0 || monitor.bell < 0 ||
	    epoll_ctl(monitor.epoll, EPOLL_CTL_ADD, monitor.bell, &end) < 0)
		error = errno;
	if (!error)
		error = tt_thread_begin(&monitor.thread, monitor_main, NULL);
	if (error)
		close_descriptors();
	return error;
}

static void stop(void)
{
	const uint64_t one = 1;

	while (write(monitor.bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(monitor.thread, NULL);
	close_descriptors();
}

/* ---- communicators */

static int control_fd(const struct tutti_comm *comm, int i)
{
	return comm->endpoints[i]->ops->control->fd(comm->endpoints[i]);
}

static void unwatch(const struct tutti_comm *comm)
{
	for (int i = 0; i < comm->nendpoints; i++)
		if (control_fd(comm, i) >= 0)
			epoll_ctl(monitor.epoll, EPOLL_CTL_DEL, control_fd(comm, i), NULL);
}

static int watch(const struct tutti_comm *comm, uint64_t number)
{
	/* by edges: what a call has not yet taken in is announced once */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = number };

	for (int i = 0; i < comm->nendpoints; i++) {
		if (control_fd(comm, i) < 0 ||
		    epoll_ctl(monitor.epoll, EPOLL_CTL_ADD, control_fd(comm, i), &event) == 0)
			continue;
		const int error = errno;

		unwatch(comm);
		return error;
	}
	return 0;
}

static bool is_mortal(const struct tutti_comm *comm)
{
	bool mortal = false;

	for (int i = 0; i < comm->nendpoints; i++)
		mortal |= control_fd(comm, i) >= 0 &&
			  comm->endpoints[i]->ops->control->looks_for_deaths;
	return mortal;
}

/* Under `life`. */
static int enter(struct tutti_comm *comm)
{
	struct watched *w = calloc(1, sizeof(*w));
	int error = 0;

	if (!w)
		return ENOMEM;
	if (!monitor.first)
		error = start();
	if (error) {
		free(w);
		return error;
	}
	pthread_mutex_lock(&monitor.lock);
	*w = (struct watched){ monitor.first, comm, ++monitor.numbers, is_mortal(comm), false };
	monitor.first = w;
	pthread_mutex_unlock(&monitor.lock);
	error = watch(comm, w->number);
	return error;
}

static bool is_needed(const struct tutti_comm *comm)
{
	bool needed = false;

	for (int i = 0; i < comm->nendpoints; i++)
		needed |= control_fd(comm, i) >= 0;
	return needed;
}

void tt_monitor_enter(struct tutti_comm *comm)
{
	if (!is_needed(comm))
		return;
	pthread_mutex_lock(&monitor.life);
	const int error = enter(comm);

	pthread_mutex_unlock(&monitor.life);
	if (error)
		tt_log(WARN, COMM,
		       "rank %d: nobody listens to its peers (%s): it learns of faults, and passes them on, only inside calls "
		       "of tutti",
		       comm->rank, strerror(error));
}

void tt_monitor_leave(struct tutti_comm *comm)
{
	struct watched **at = &monitor.first, *gone;

	pthread_mutex_lock(&monitor.life);
	pthread_mutex_lock(&monitor.lock);
	while (*at && (*at)->comm != comm)
		at = &(*at)->next;
	gone = *at;
	if (gone) {
		*at = gone->next;
		unwatch(comm);
	}
	pthread_mutex_unlock(&monitor.lock);
	if (gone && !monitor.first)
		stop();
	pthread_mutex_unlock(&monitor.life);
	free(gone);
}
