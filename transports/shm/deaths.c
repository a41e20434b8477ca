/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the watch over the processes of a host's ranks.
 *
 * Each rank holds descriptors of the processes of the WATCHED ranks after it, so each rank is
 * watched by as many before it, and a descriptor names the same process for good. At the others
 * it looks in turn, a few at a time: who waits for a rank finds out that it has died even where
 * all who watch that one are in no call. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "endpoint.h"
#include "fork.h"
#include "log.h"
#include "shm.h"

#define WATCHED 16
#define DEATHS	16 /* taken note of at once */
#define LOOKS	4  /* at ranks that are not watched, each time */

static int open_process(int pid)
{
	return TT_FD((int)syscall(SYS_pidfd_open, pid, 0));
}

bool shm_epoll_add(int epoll, int fd, uint32_t events, int place)
{
	struct epoll_event event = { .events = events, .data.fd = place };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static const struct tt_peer *peer_at(const struct shm_endpoint *ep, int place)
{
	return &ep->peers[ep->local_peers[place].rank];
}

static tutti_result_t watch_process(struct shm_endpoint *ep, int place)
{
	const struct tt_peer *peer = peer_at(ep, place);
	struct shm_local_peer *local_peer = &ep->local_peers[place];

	local_peer->pid_fd = open_process(peer->pid);
	if (local_peer->pid_fd < 0 && errno == ESRCH)
		return tt_fail(TUTTI_ERR_PEER_LOST, SHM, "rank %d (pid %d) died while joining",
			       peer->rank, peer->pid);
	if (local_peer->pid_fd < 0)
		return tt_fail_errno(SHM, "open a pidfd of rank %d (pid %d)", peer->rank,
				     peer->pid);
	return shm_epoll_add(ep->deaths, local_peer->pid_fd, EPOLLIN, place)
		       ? TUTTI_OK
		       : tt_fail_errno(SHM, "watch rank %d (pid %d)", peer->rank, peer->pid);
}

tutti_result_t shm_deaths_watch(struct shm_endpoint *ep)
{
	const int members = ep->arena.members;
	tutti_result_t result = TUTTI_OK;

	ep->deaths = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	if (ep->deaths < 0)
		return tt_fail_errno(SHM, "watch the other ranks of this host");
	for (int i = 1; i <= WATCHED && i < members && !result; i++)
		if (!shm_is_here(ep, (ep->me + i) % members))
			result = watch_process(ep, (ep->me + i) % members);
	return result;
}

/* The epoll is told before the descriptor is closed: a forked child may hold it open, and so in
 * the epoll. */
static void note_death(struct shm_endpoint *ep, struct shm_local_peer *local_peer)
{
	local_peer->died = true;
	if (local_peer->pid_fd < 0)
		return;
	epoll_ctl(ep->deaths, EPOLL_CTL_DEL, local_peer->pid_fd, NULL);
	tt_fd_close(local_peer->pid_fd);
	local_peer->pid_fd = -1;
}

/* Has the process ended? False where that cannot be known now. */
static bool has_ended(const struct shm_endpoint *ep, int place)
{
	const int held = ep->local_peers[place].pid_fd;
	const int fd = held < 0 ? open_process(peer_at(ep, place)->pid) : held;
	struct pollfd poller = { fd, POLLIN, 0 };

	if (fd < 0)
		return errno == ESRCH;
	const bool ended = poll(&poller, 1, 0) > 0;
	if (held < 0)
		tt_fd_close(fd);
	return ended;
}

bool shm_died(struct shm_endpoint *ep, int place)
{
	struct shm_local_peer *local_peer = &ep->local_peers[place];

	if (!local_peer->died && !shm_is_here(ep, place) && has_ended(ep, place))
		note_death(ep, local_peer);
	return local_peer->died;
}

/* acquire: pairs with the release in shm_destroy() */
bool shm_left(const struct shm_endpoint *ep, int place)
{
	return atomic_load_explicit(&shm_member(&ep->arena, place)->state, memory_order_acquire) ==
	       SHM_LEFT;
}

bool shm_report_death(struct shm_endpoint *ep, int place)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST,
				  .rank = ep->local_peers[place].rank };

	if (shm_left(ep, place))
		return false;
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d (pid %d) died; see its own output for the cause", fault.rank,
		 peer_at(ep, place)->pid);
	shm_revoke(&ep->base, &fault);
	return true;
}

/* At some of those that are not watched. */
static void look_further(struct shm_endpoint *ep)
{
	const int further = ep->arena.members - 1 - WATCHED;

	for (int i = 0; i < LOOKS && i < further; i++) {
		const int place = (ep->me + 1 + WATCHED + (int)(ep->looks++ % (unsigned)further)) %
				  ep->arena.members;

		if (!ep->local_peers[place].died && shm_died(ep, place) &&
		    shm_report_death(ep, place))
			return;
	}
}

void shm_check_deaths(struct shm_endpoint *ep)
{
	struct epoll_event events[DEATHS];
	const int n = epoll_wait(ep->deaths, events, DEATHS, 0);

	for (int i = 0; i < n; i++) {
		note_death(ep, &ep->local_peers[events[i].data.fd]);
		if (shm_report_death(ep, events[i].data.fd))
			return;
	}
	look_further(ep);
}
