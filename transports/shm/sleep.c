/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns sleeping and waking: a futex in the arena where shared memory is all a rank waits for, a
 * bell where it also waits for sockets. All ranks of a host ring the same eventfd, which nobody
 * ever reads: each has it in an epoll of its own, which is readable once it has rung since this
 * rank looked last, as an edge (epoll(7)). So there is one descriptor for all, not one for each.
 *
 * No wake-up is lost: the sleeper adds itself to `sleepers`, then looks at the memory once more;
 * the waker writes the memory, then looks at `sleepers`; a full fence stands between the two
 * steps on both sides, so at least one of them sees the other (Dekker). */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"
#include "fork.h"
#include "log.h"
#include "shm.h"

/* The futex word when this thread last armed: each compares with its own, as a newer value would
 * hide its wake-up and an older one keep it awake. A thread sleeps in one endpoint at a time. */
static _Thread_local uint32_t wake_seen;

static void futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

void shm_ring(int event_fd)
{
	const uint64_t one = 1;
	/* of 2^64: it is never full */
	ssize_t ignored = event_fd < 0 ? 0 : write(event_fd, &one, sizeof(one));

	(void)ignored;
}

/* For this rank alone. */
static void ring_here(struct shm_endpoint *ep)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	/* what is readable is an edge to an epoll that is asked to look again */
	epoll_ctl(ep->waiting, EPOLL_CTL_MOD, ep->bell, &event);
}

static void wake_sleepers(struct shm_endpoint *ep)
{
	struct shm_header *header = shm_header(&ep->arena);

	atomic_fetch_add_explicit(&header->wake, 1, memory_order_release);
	futex_wake_all(&header->wake);
	if (atomic_load_explicit(&header->bells, memory_order_relaxed))
		shm_ring(ep->bell);
}

tutti_result_t shm_bell_open(struct shm_endpoint *ep)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	if (ep->whole)
		return TUTTI_OK;
	ep->waiting = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	return ep->waiting >= 0 && epoll_ctl(ep->waiting, EPOLL_CTL_ADD, ep->bell, &event) == 0
		       ? TUTTI_OK
		       : tt_fail_errno(SHM, "wait for the bell of this host");
}

void shm_wake(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base)
		return;
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in shm_arm() */
	if (__builtin_expect(atomic_load_explicit(&shm_header(&ep->arena)->sleepers,
						  memory_order_relaxed) != 0,
			     0))
		wake_sleepers(ep);
}

void shm_arm(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base)
		return;
	wake_seen = atomic_load_explicit(&shm_header(&ep->arena)->wake, memory_order_acquire);
	if (wake_seen != ep->armed_at) {
		ep->armed_at = wake_seen;
		ep->called = ep->armed;
	}
	ep->armed++;
	atomic_fetch_add_explicit(&shm_header(&ep->arena)->sleepers, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in shm_wake() */
}

/* All threads that the bell rang for are up: those that are armed have looked since. It rings on
 * where that is not so, or not any more: a waker counts before it rings, so a ring that was
 * silenced too soon shows in the count. */
static void silence_bell(struct shm_endpoint *ep)
{
	const _Atomic uint32_t *wake = &shm_header(&ep->arena)->wake;
	struct epoll_event event;

	if (ep->armed && atomic_load_explicit(wake, memory_order_acquire) != ep->armed_at)
		return;
	epoll_wait(ep->waiting, &event, 1, 0);
	if (ep->armed && atomic_load_explicit(wake, memory_order_acquire) != ep->armed_at)
		ring_here(ep);
}

void shm_disarm(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base)
		return;
	atomic_fetch_sub_explicit(&shm_header(&ep->arena)->sleepers, 1, memory_order_relaxed);
	ep->armed--;
	ep->called -= wake_seen != ep->armed_at;
	if (ep->called == 0 && ep->sleeps_on_fd)
		silence_bell(ep);
}

int shm_fd(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (!ep->arena.base || ep->whole)
		return -1;
	if (!atomic_exchange_explicit(&ep->sleeps_on_fd, true, memory_order_relaxed)) {
		/* a waker that came before this did not ring: ring here, once in a
		 * communicator's life */
		atomic_fetch_add_explicit(&shm_header(&ep->arena)->bells, 1, memory_order_seq_cst);
		ring_here(ep);
	}
	return ep->waiting;
}

void shm_sleep(struct tt_endpoint *endpoint, int timeout_ms)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	const struct timespec timeout = { timeout_ms / 1000, (timeout_ms % 1000) * 1000000L };

	if (!ep->arena.base) {
		poll(NULL, 0, timeout_ms);
		return;
	}
	syscall(SYS_futex, &shm_header(&ep->arena)->wake, FUTEX_WAIT, wake_seen, &timeout, NULL, 0);
}

void shm_interrupt(struct tt_endpoint *endpoint)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	if (ep->arena.base)
		wake_sleepers(ep);
}
