/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the thread that serves a store: it lets clients in, waits for their events, and ends when
 * the host closes. Everything but the writing to `wake` belongs to that thread while it runs. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accept.h"
#include "fork.h"
#include "log.h"
#include "store_clients.h"
#include "store_server.h"
#include "store_pending.h"
#include "thread.h"
#include "transport.h"

#define SECOND	     1000000000ull
#define CLOSE_WAIT   (10 * SECOND) /* for clients to leave, once the host closes */
#define ACCEPT_PAUSE (SECOND / 20) /* after accept() found no descriptor or memory */
#define ACCEPT_MAX   64		   /* at a time, before others are looked after */
#define QUEUE_MAX    4096	   /* that the kernel keeps, see store_listen.c */

struct tt_store_server {
	pthread_t thread;
	int listening, wake; /* listening: -1 once closing */
	int spare; /* given up for the first client that finds no other: the host itself waits
		    * for one */
	uint64_t close_by;		       /* set before the host closes; 0: none */
	uint64_t close_deadline, accept_again; /* accept_again: TT_STORE_NEVER while accepting */
	struct tt_log_quota full; /* of lines about connections that cannot be accepted */
	struct tt_store_clients clients;
};

/* For want of descriptors or memory. */
static void pause_accept(struct tt_store_server *s)
{
	const int error = errno;
	char why[TT_ERRNO_MAX], more[TT_LOG_MORE];

	if (tt_log_due(&s->full, more))
		tt_log(WARN, STORE, "cannot accept a connection now: %s%s",
		       tt_errno_text(error, why), more);
	epoll_ctl(s->clients.epoll, EPOLL_CTL_DEL, s->listening, NULL);
	s->accept_again = tt_now() + ACCEPT_PAUSE;
}

/* Not more at a time than leaves those time who were let in before. False: there are no more. */
static bool accept_clients(struct tt_store_server *s)
{
	for (int i = 0; i < ACCEPT_MAX; i++) {
		struct sockaddr_storage from;
		const int fd = tt_accept(s->listening, &from);

		if (fd >= 0) {
			tt_store_clients_add(&s->clients, fd, &from);
		} else if (tt_errno_is_shortage(errno)) {
			if (tt_store_pending_make_space(&s->clients))
				continue;
			if (s->spare < 0) {
				pause_accept(s);
				return false;
			}
			tt_fd_close(s->spare);
			s->spare = -1;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return false;
		}
	}
	return true;
}

static bool watch_listening(struct tt_store_server *s)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &s->listening };

	s->accept_again = TT_STORE_NEVER;
	return epoll_ctl(s->clients.epoll, EPOLL_CTL_ADD, s->listening, &event) == 0;
}

/* The host closes. Those in the queue came before that and are let in; who is silent has a second
 * more. */
static void begin_close(struct tt_store_server *s)
{
	const uint64_t now = tt_now();

	for (int i = 0; i < QUEUE_MAX / ACCEPT_MAX && accept_clients(s); i++)
		continue;
	epoll_ctl(s->clients.epoll, EPOLL_CTL_DEL, s->listening, NULL);
	shutdown(s->listening, SHUT_RDWR); /* a child of fork() may hold it a moment longer */
	tt_fd_close(s->listening);
	s->listening = -1;
	s->accept_again = TT_STORE_NEVER;
	s->close_deadline = now + CLOSE_WAIT;
	/* acquire: pairs with the release in tt_store_server_stop() */
	const uint64_t close_by = __atomic_load_n(&s->close_by, __ATOMIC_ACQUIRE);
	if (close_by && close_by < now + CLOSE_WAIT)
		s->close_deadline = close_by > now + SECOND ? close_by : now + SECOND;
	tt_store_pending_hurry(&s->clients, now + SECOND);
	epoll_ctl(s->clients.epoll, EPOLL_CTL_DEL, s->wake, NULL);
}

static void resume_accept(struct tt_store_server *s, uint64_t now)
{
	if (now >= s->accept_again && !watch_listening(s))
		s->accept_again = now + ACCEPT_PAUSE;
}

/* Milliseconds to the next thing due, rounded up; -1: nothing is. */
static int pause_ms(const struct tt_store_server *s)
{
	uint64_t due = s->clients.next_deadline < s->accept_again ? s->clients.next_deadline
								  : s->accept_again;
	const uint64_t now = tt_now();

	if (s->listening < 0 && s->close_deadline < due)
		due = s->close_deadline;
	if (due == TT_STORE_NEVER)
		return -1;
	const uint64_t ms = due <= now ? 0 : (due - now + 999999) / 1000000;
	return ms < 3600000 ? (int)ms : 3600000;
}

static void *serve(void *argument)
{
	struct tt_store_server *s = argument;
	struct epoll_event events[64];

	while (s->listening >= 0 ||
	       (!tt_store_clients_stuck(&s->clients) && tt_now() < s->close_deadline)) {
		const int n = epoll_wait(s->clients.epoll, events, 64, pause_ms(s));

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &s->listening)
				accept_clients(s);
			else if (events[i].data.ptr != &s->wake)
				tt_store_client_event(&s->clients, events[i].data.ptr,
						      events[i].events);
			else
				begin_close(s);
		}
		tt_store_clients_expire(&s->clients, tt_now());
		resume_accept(s, tt_now());
		tt_store_clients_bury(&s->clients);
	}
	return NULL;
}

/* ---------------------------------------------------------------- life */

static void server_finish(struct tt_store_server *s)
{
	tt_store_clients_finish(&s->clients);
	tt_fd_close(s->listening);
	tt_fd_close(s->clients.epoll);
	tt_fd_close(s->wake);
	tt_fd_close(s->spare);
	free(s);
}

tutti_result_t tt_store_server_start(int fd, const struct tt_key *key, struct tt_tls *tls,
				     struct tt_store_server **out)
{
	struct tt_store_server *s = calloc(1, sizeof(*s));
	struct epoll_event event = { .events = EPOLLIN };
	tutti_result_t result;

	if (!s) {
		tt_fd_close(fd);
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "serve a store: no memory");
	}
	s->listening = fd;
	s->clients.admission = tt_store_pending_listener(key, tls);
	s->clients.next_deadline = TT_STORE_NEVER;
	s->clients.epoll = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	s->wake = TT_FD(eventfd(0, EFD_CLOEXEC));
	s->spare = TT_FD(eventfd(0, EFD_CLOEXEC));
	event.data.ptr = &s->wake;
	if (s->clients.epoll < 0 || s->wake < 0 || s->spare < 0 || !watch_listening(s) ||
	    epoll_ctl(s->clients.epoll, EPOLL_CTL_ADD, s->wake, &event) < 0) {
		result = tt_fail_errno(STORE, "serve a store: make its descriptors");
		goto finish;
	}
	errno = tt_thread_begin(&s->thread, serve, s);
	if (errno != 0) {
		result = tt_fail_errno(STORE, "serve a store: start its thread");
		goto finish;
	}
	*out = s;
	return TUTTI_OK;
finish:
	server_finish(s);
	return result;
}

void tt_store_server_stop(struct tt_store_server *s, uint64_t close_by)
{
	if (!s)
		return;
	/* release: pairs with the acquire in begin_close(), which comes once the thread is woken */
	__atomic_store_n(&s->close_by, close_by, __ATOMIC_RELEASE);
	eventfd_write(s->wake, 1);
	pthread_join(s->thread, NULL);
	server_finish(s);
}
