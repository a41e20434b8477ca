/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns faults in the arena: each rank writes its own, all others read them.
 *
 * Where the host's ranks are the whole communicator, the first fault is that of all: whoever
 * exchanges `decided` for its number has decided. Where there are ranks elsewhere, too, the best
 * of all counts, and a better one may come from there later; then each rank also has an alarm,
 * so that it learns of faults and deaths while it is in no call. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "endpoint.h"
#include "fork.h"
#include "log.h"

static bool watch_fd(int epoll, int fd, int place)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = place };

	return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

tutti_result_t shm_watch(struct shm_endpoint *ep)
{
	ep->deaths = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	bool good = ep->deaths >= 0;

	for (int i = 0; good && i < ep->arena.members; i++)
		good = watch_fd(ep->deaths, ep->local_peers[i].pid_fd, i);
	if (good && !ep->whole) {
		ep->watch = TT_FD(epoll_create1(EPOLL_CLOEXEC));
		good = ep->watch >= 0 && watch_fd(ep->watch, ep->deaths, 0) &&
		       watch_fd(ep->watch, ep->local_peers[ep->me].alarm_fd, 0);
	}
	return good ? TUTTI_OK : tt_fail_errno(SHM, "watch the other ranks of this host");
}

int shm_deaths(const struct shm_endpoint *ep, int places[SHM_DEATHS])
{
	struct epoll_event events[SHM_DEATHS];
	const int n = epoll_wait(ep->deaths, events, SHM_DEATHS, 0);

	for (int i = 0; i < n; i++)
		places[i] = events[i].data.fd;
	return n > 0 ? n : 0;
}

/* Said aloud before the close: a forked child may hold the descriptor open, and so in the epoll. */
void shm_unwatch(struct shm_endpoint *ep, struct shm_local_peer *local_peer)
{
	epoll_ctl(ep->deaths, EPOLL_CTL_DEL, local_peer->pid_fd, NULL);
	tt_fd_close(local_peer->pid_fd);
	local_peer->pid_fd = -1;
}

int shm_control_fd(const struct tt_endpoint *endpoint)
{
	return ((const struct shm_endpoint *)endpoint)->watch;
}

/* A copy, as another process may write there. */
static bool read_fault(const struct shm_endpoint *ep, const struct tt_fault *from,
		       struct tt_fault *out)
{
	*out = *from;
	return tt_fault_check(out, ep->config.size);
}

static void take_best(struct shm_endpoint *ep)
{
	struct tt_fault *best = &ep->base.fault;

	for (int i = 0; i < ep->arena.members; i++) {
		const struct shm_member *member = shm_member(&ep->arena, i);
		/* acquire: pairs with the release in report_fault() */
		const uint32_t told =
			atomic_load_explicit(&member->faults_told, memory_order_acquire);

		for (uint32_t k = 0; k < told && k < SHM_FAULTS; k++) {
			struct tt_fault fault;

			if (read_fault(ep, &member->faults[k], &fault) &&
			    (!best->result || tt_fault_before(&fault, best)))
				*best = fault;
		}
	}
}

/* Of the member that has decided. */
static void take_first(struct shm_endpoint *ep)
{
	/* acquire: pairs with the release in shm_revoke() */
	const uint32_t decided =
		atomic_load_explicit(&shm_header(&ep->arena)->decided, memory_order_acquire);
	struct tt_fault fault;

	if (decided >= 1 && decided <= (uint32_t)ep->arena.members &&
	    read_fault(ep, &shm_member(&ep->arena, (int)decided - 1)->faults[0], &fault))
		ep->base.fault = fault;
}

void shm_take_faults(struct shm_endpoint *ep)
{
	struct shm_header *header = shm_header(&ep->arena);
	uint64_t rings;

	if (!atomic_load_explicit(&header->faults, memory_order_relaxed))
		return;
	if (!ep->whole) {
		ssize_t ignored = read(ep->local_peers[ep->me].alarm_fd, &rings, sizeof(rings));

		(void)ignored; /* empty is fine */
	}
	/* acquire: pairs with the release in shm_revoke() */
	ep->faults_seen = atomic_load_explicit(&header->faults, memory_order_acquire);
	if (!ep->whole)
		take_best(ep);
	else if (!ep->base.fault.result)
		take_first(ep);
}

/* False: so many have been told that nobody needs one more. */
static bool report_fault(struct shm_member *me, const struct tt_fault *fault)
{
	const uint32_t told = atomic_load_explicit(&me->faults_told, memory_order_relaxed);

	if (told == SHM_FAULTS)
		return false;
	me->faults[told] = *fault;
	/* release: pairs with the acquire in take_best() */
	atomic_store_explicit(&me->faults_told, told + 1, memory_order_release);
	return true;
}

static void ring_alarms(const struct shm_endpoint *ep)
{
	const uint64_t one = 1;

	for (int i = 0; i < ep->arena.members; i++)
		if (i != ep->me && ep->local_peers[i].alarm_fd >= 0) {
			ssize_t ignored = write(ep->local_peers[i].alarm_fd, &one, sizeof(one));

			(void)ignored; /* full: it is ringing already */
		}
}

void shm_revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	uint32_t nobody = 0;

	if (!ep->arena.base)
		return;
	shm_take_faults(ep);
	if (ep->base.fault.result && (ep->whole || !tt_fault_before(fault, &ep->base.fault)))
		return;
	struct shm_header *header = shm_header(&ep->arena);

	if (!report_fault(shm_member(&ep->arena, ep->me), fault)) {
		tt_log(WARN, SHM, "rank %d: %d faults were reported already, this one is not: %s",
		       ep->config.rank, SHM_FAULTS, fault->text);
		return;
	}
	if (ep->whole) /* release: who reads this member's number finds its fault written */
		atomic_compare_exchange_strong_explicit(&header->decided, &nobody,
							(uint32_t)ep->me + 1, memory_order_acq_rel,
							memory_order_acquire);
	/* release: pairs with the acquires in shm_progress() and shm_take_faults() */
	atomic_fetch_add_explicit(&header->faults, 1, memory_order_release);
	shm_take_faults(ep);
	shm_interrupt(endpoint);
	ring_alarms(ep);
}
