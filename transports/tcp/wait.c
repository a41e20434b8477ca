/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the two epoll instances, the doorbell and the timer.
 *
 * The inner epoll watches what progress() serves: listener, pending connections, attempts, control
 * links. The outer one is what threads sleep on: the inner one, the doorbell, the timer, and the
 * sockets of those links whose last operation found too little (struct tcp_link: starved, blocked).
 * It is brought up to date by arm(), and by the operations themselves while a thread is armed;
 * being level-triggered it then loses no event. A link that nobody waits for is not in it at all,
 * since epoll reports hang-ups and errors of whatever it holds.
 *
 * The doorbell rings until every thread that was armed when it began has disarmed. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "endpoint.h"

#define BATCH	32
#define BATCHES 16 /* in a poll: strangers may call without end */

static bool add(int epoll, int fd, uint32_t events, void *what)
{
	struct epoll_event event = { .events = events, .data.ptr = what };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

tutti_result_t tt_tcp_wait_open(struct tcp_endpoint *e)
{
	e->watch = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	e->sleep_on = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	e->doorbell = TT_FD(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	e->timer = TT_FD(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (e->watch < 0 || e->sleep_on < 0 || e->doorbell < 0 || e->timer < 0 ||
	    !add(e->sleep_on, e->watch, EPOLLIN, NULL) ||
	    !add(e->sleep_on, e->doorbell, EPOLLIN, NULL) ||
	    !add(e->sleep_on, e->timer, EPOLLIN, NULL))
		return tt_fail_errno(TCP, "make the epoll that threads sleep on");
	return TUTTI_OK;
}

void tt_tcp_sleep_close(struct tcp_endpoint *e)
{
	tt_fd_close(e->sleep_on);
	tt_fd_close(e->doorbell);
	tt_fd_close(e->timer);
	e->sleep_on = e->doorbell = e->timer = -1;
}

void tt_tcp_wait_close(struct tcp_endpoint *e)
{
	tt_tcp_sleep_close(e);
	tt_fd_close(e->watch);
}

bool tt_tcp_watch(struct tcp_endpoint *e, struct tcp_source *source, uint32_t events)
{
	return add(e->watch, source->connection.fd, events, source);
}

void tt_tcp_watch_for(struct tcp_endpoint *e, struct tcp_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (epoll_ctl(e->watch, EPOLL_CTL_MOD, source->connection.fd, &event) < 0)
		tt_log(WARN, TCP, "watch a connection: %s", strerror(errno));
}

/* Said aloud before every close: a child begun without the handlers of fork() may hold the
 * socket open, and so in the epoll. */
void tt_tcp_unwatch(struct tcp_endpoint *e, struct tcp_source *source)
{
	if (source->connection.fd >= 0)
		epoll_ctl(e->watch, EPOLL_CTL_DEL, source->connection.fd, NULL);
}

static void watch_rail(const struct tcp_link *link, struct tcp_rail *rail, uint32_t events)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(link->base.endpoint);
	struct epoll_event event = { .events = events, .data.ptr = rail };
	const int how = !rail->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (rail->connection.fd < 0 || events == rail->watched)
		return;
	if (epoll_ctl(e->sleep_on, how, rail->connection.fd, &event) < 0)
		tt_log(WARN, TCP, "watch the link with rank %d: %s", link->base.peer,
		       strerror(errno));
	else
		rail->watched = events;
}

void tt_tcp_unwatch_rail(const struct tcp_link *link, struct tcp_rail *rail)
{
	watch_rail(link, rail, 0);
}

/* Bring the outer epoll up to date with what the link waits for. */
void tt_tcp_link_watch(struct tcp_link *link)
{
	const bool up = link->state == TCP_LINK_UP;
	size_t bytes;

	for (int i = 0; i < link->count; i++) {
		struct tcp_rail *rail = &link->rail[i];
		const bool in = (up && link->starved &&
				 rail == tt_tcp_rail_at(link, link->received, &bytes)) ||
				(i == 0 && tt_tcp_awaits_weights(link)) ||
				tt_tcp_awaits_answer(link, i),
			   out = up && link->blocked &&
				 rail == tt_tcp_rail_at(link, link->sent, &bytes);

		watch_rail(link, rail,
			   (in ? (uint32_t)EPOLLIN : 0) | (out ? (uint32_t)EPOLLOUT : 0));
	}
}

static struct tcp_pending *pending_of(struct tcp_source *source)
{
	return (struct tcp_pending *)((char *)source - offsetof(struct tcp_pending, source));
}

static void serve(struct tcp_endpoint *e, struct tcp_source *source, uint64_t now)
{
	if (source->connection.fd < 0)
		return; /* released by an earlier event of the batch */
	switch (source->kind) {
	case TCP_LISTENER: tt_tcp_accept(e); break;
	case TCP_PENDING: tt_tcp_pending_step(e, pending_of(source)); break;
	case TCP_ATTEMPT: tt_tcp_attempt_step((struct tcp_attempt *)source, now); break;
	case TCP_CONTROL: tt_tcp_control_step(e, (struct tcp_control *)source); break;
	}
}

static void serve_timers(struct tcp_endpoint *e, uint64_t now)
{
	struct tcp_dial *next;

	if (e->pending_count > 0 || e->listen_again_at)
		tt_tcp_pending_expire(e, now);
	for (struct tcp_dial *dial = e->dials; dial; dial = next) {
		next = dial->next;
		tt_tcp_dial_step(dial, now);
	}
}

/* Serve all that has happened, as who watches e->watch by its edges is told no more of what is left;
 * wait for something to happen, `timeout_ms` at most. */
void tt_tcp_poll(struct tcp_endpoint *e, int timeout_ms)
{
	struct epoll_event events[BATCH];
	int n = BATCH;

	for (int batch = 0; batch < BATCHES && n == BATCH; batch++) {
		n = epoll_wait(e->watch, events, BATCH, batch ? 0 : timeout_ms);
		for (int i = 0; i < n; i++)
			serve(e, events[i].data.ptr, tt_now());
	}
	serve_timers(e, tt_now());
	while (e->released) {
		struct tcp_released *object = e->released;

		e->released = object->next;
		free(object);
	}
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t tt_tcp_due(const struct tcp_endpoint *e)
{
	uint64_t due = UINT64_MAX;

	for (int i = 0; i < e->pending_count; i++)
		due = sooner(due, e->pending[i]->handshake.deadline);
	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		due = sooner(due, tt_tcp_dial_due(dial));
	if (e->listen_again_at)
		due = sooner(due, e->listen_again_at);
	if (e->doubt_until > tt_now())
		due = sooner(due, e->doubt_until);
	if (e->rails_check_at)
		due = sooner(due, e->rails_check_at);
	for (int peer = 0; peer < e->size && e->negotiating; peer++)
		for (int channel = 0; channel < TT_CHANNELS; channel++)
			if (e->peers[peer].link[channel] &&
			    e->peers[peer].link[channel]->state == TCP_LINK_NEGOTIATING)
				due = sooner(due,
					     tt_tcp_negotiation_due(e->peers[peer].link[channel]));
	return due;
}

int tt_tcp_ms_until(uint64_t now, uint64_t due)
{
	const uint64_t ms = due > now ? (due - now + TCP_MS - 1) / TCP_MS : 0;

	return ms < 60000 ? (int)ms : 60000;
}

void tt_tcp_timer_set(struct tcp_endpoint *e)
{
	const uint64_t due = tt_tcp_due(e);
	struct itimerspec at = { 0 };

	if (due == UINT64_MAX && !e->timer_set)
		return;
	e->timer_set = due != UINT64_MAX;
	if (e->timer_set)
		at.it_value = tt_timespec(due);
	timerfd_settime(e->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* interrupt() knows no threads: note here, before the list of them changes, whom it was meant for.
 */
static void note_ring(struct tcp_endpoint *e)
{
	/* acquire: pairs with the release in tt_tcp_interrupt() */
	if (!__atomic_exchange_n(&e->called, false, __ATOMIC_ACQUIRE))
		return;
	e->ringing = true;
	for (int i = 0; i < e->armed; i++)
		e->sleepers[i].called = true;
}

/* Silence the doorbell once everyone it rang for has come. */
static void hush(struct tcp_endpoint *e)
{
	uint64_t rings;

	if (!e->ringing || e->unlisted)
		return;
	for (int i = 0; i < e->armed; i++)
		if (e->sleepers[i].called)
			return;
	e->ringing = false;
	while (read(e->doorbell, &rings, sizeof(rings)) < 0 && errno == EINTR)
		;
}

void tt_tcp_arm(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	note_ring(e);
	hush(e); /* what it rang for before is found by the pass that follows */
	if (e->armed == TCP_SLEEPERS_MAX) {
		e->unlisted++;
		tt_tcp_interrupt(base);
		return;
	}
	e->sleepers[e->armed++] = (struct tcp_sleeper){ pthread_self(), false };
	for (int i = 0; i < e->size; i++)
		for (int channel = 0; channel < TT_CHANNELS; channel++)
			if (e->peers[i].link[channel])
				tt_tcp_link_watch(e->peers[i].link[channel]);
	tt_tcp_timer_set(e);
}

void tt_tcp_disarm(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);
	int i = 0;

	note_ring(e);
	while (i < e->armed && !pthread_equal(e->sleepers[i].thread, pthread_self()))
		i++;
	if (i < e->armed)
		e->sleepers[i] = e->sleepers[--e->armed];
	else
		e->unlisted--;
	hush(e);
}

int tt_tcp_fd(struct tt_endpoint *base)
{
	return tcp_endpoint_of(base)->sleep_on;
}

void tt_tcp_sleep(struct tt_endpoint *base, int timeout_ms)
{
	struct epoll_event event;

	/* what happened is found out by progress() and the links */
	epoll_wait(tcp_endpoint_of(base)->sleep_on, &event, 1, timeout_ms);
}

void tt_tcp_interrupt(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);
	const uint64_t one = 1;

	while (write(e->doorbell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	/* release: pairs with the acquire in note_ring(); after the ring, which else would go on
	 * for ever if the bell was silenced between the two */
	__atomic_store_n(&e->called, true, __ATOMIC_RELEASE);
}
