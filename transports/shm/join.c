/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the meeting of a host's ranks: the lowest makes the arena, the others connect to its unix socket, hand over
 * their doorbell and heap, and receive the arena and everyone's doorbells and heaps. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "endpoint.h"
#include "log.h"
#include "memory.h"

#define JOIN_MAGIC 0x747474696a6f696eull
#define JOIN_BACKLOG 512

/* One message of the meeting; descriptors travel beside it. */
struct parcel {
	uint64_t magic;
	uint64_t comm_id;
	int32_t place; /* whose descriptors these are, -1: the arena */
	int32_t has_heap;
};

static socklen_t socket_name(const char *name, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* a leading zero byte: the abstract namespace, which leaves no file */
	memcpy(out->sun_path + 1, name, strlen(name));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

tutti_result_t shm_listen(struct shm_endpoint *ep)
{
	struct sockaddr_un name;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return tt_fail_errno(SHM, "read random bytes");
	snprintf(ep->address.socket, sizeof(ep->address.socket), "tutti-shm-%016llx",
		 (unsigned long long)random);
	ep->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ep->listen_fd < 0)
		return tt_fail_errno(SHM, "make a unix socket");
	const socklen_t length = socket_name(ep->address.socket, &name);
	if (bind(ep->listen_fd, (struct sockaddr *)&name, length) < 0 ||
	    listen(ep->listen_fd, JOIN_BACKLOG) < 0)
		return tt_fail_errno(SHM, "listen on unix socket @%s", ep->address.socket);
	return TUTTI_OK;
}

static tutti_result_t wait_for(int fd, short events, uint64_t deadline, const char *what)
{
	for (;;) {
		const uint64_t now = tt_now();
		struct pollfd poller = { fd, events, 0 };

		if (now >= deadline)
			return tt_fail(TUTTI_ERR_TIMEOUT, SHM, "deadline passed: %s", what);
		const int ready = poll(&poller, 1, (int)((deadline - now) / 1000000 + 1));
		if (ready > 0)
			return TUTTI_OK;
		if (ready < 0 && errno != EINTR)
			return tt_fail_errno(SHM, "%s", what);
	}
}

static tutti_result_t send_parcel(int socket, const struct parcel *parcel, const int *fds, int n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)parcel, sizeof(*parcel) };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	message.msg_control = control.bytes;
	message.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(header), fds, (size_t)n * sizeof(int));
	while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return tt_fail_errno(SHM, "hand descriptors to a rank of this host");
	return TUTTI_OK;
}

/* Receives `parcel` and up to two descriptors; closes what came with a message that is not ours. */
static tutti_result_t receive_parcel(struct shm_endpoint *ep, int socket, struct parcel *parcel,
				     int fds[2], uint64_t deadline)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { parcel, sizeof(*parcel) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t bytes;

	fds[0] = fds[1] = -1;
	const tutti_result_t result =
		wait_for(socket, POLLIN, deadline, "waiting for descriptors of a rank of this host");
	if (result)
		return result;
	do {
		bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return tt_fail_errno(SHM, "receive descriptors of a rank of this host");
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	if (bytes == sizeof(*parcel) && parcel->magic == JOIN_MAGIC &&
	    parcel->comm_id == ep->config.comm_id && parcel->place >= -1 &&
	    parcel->place < ep->arena.members && fds[0] >= 0)
		return TUTTI_OK;
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
		       "a rank of this host closed its connection or sent %zd bytes that are no part of "
		       "setting up this communicator",
		       bytes);
}

static struct parcel parcel_of(const struct shm_endpoint *ep, int place)
{
	return (struct parcel){ JOIN_MAGIC, ep->config.comm_id, place,
				place >= 0 && ep->mates[place].heap_fd >= 0 };
}

static tutti_result_t send_mate(const struct shm_endpoint *ep, int socket, int place)
{
	const struct parcel parcel = parcel_of(ep, place);
	const int fds[2] = { ep->mates[place].event_fd, ep->mates[place].heap_fd };

	return send_parcel(socket, &parcel, fds, parcel.has_heap ? 2 : 1);
}

static void keep_mate(struct shm_endpoint *ep, const struct parcel *parcel, const int fds[2])
{
	struct shm_mate *mate = &ep->mates[parcel->place];

	mate->event_fd = fds[0];
	mate->heap_fd = parcel->has_heap ? fds[1] : -1;
}

/* Only processes of the same user may join. */
static bool same_user(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static tutti_result_t accept_mate(struct shm_endpoint *ep, int *sockets, uint64_t deadline)
{
	struct parcel parcel;
	int fds[2];

	tutti_result_t result = wait_for(ep->listen_fd, POLLIN, deadline,
					 "waiting for the other ranks of this host to connect");
	if (result)
		return result;
	const int socket = accept4(ep->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (socket < 0)
		return errno == EINTR || errno == EAGAIN ? TUTTI_IN_PROGRESS :
							   tt_fail_errno(SHM, "accept a rank of this host");
	if (!same_user(socket)) {
		tt_log(WARN, SHM, "turned away a process of another user on unix socket @%s",
		       ep->address.socket);
		close(socket);
		return TUTTI_IN_PROGRESS;
	}
	result = receive_parcel(ep, socket, &parcel, fds, deadline);
	if (result) {
		close(socket);
		return result == TUTTI_ERR_PEER_LOST ? TUTTI_IN_PROGRESS : result;
	}
	if (parcel.place <= 0 || sockets[parcel.place] >= 0) {
		tt_log(WARN, SHM, "a second rank claims place %d of this host", parcel.place);
		close(fds[0]);
		if (fds[1] >= 0)
			close(fds[1]);
		close(socket);
		return TUTTI_IN_PROGRESS;
	}
	keep_mate(ep, &parcel, fds);
	sockets[parcel.place] = socket;
	return TUTTI_OK;
}

static tutti_result_t hand_out(struct shm_endpoint *ep, const int *sockets)
{
	const struct parcel arena = parcel_of(ep, -1);

	for (int to = 1; to < ep->arena.members; to++) {
		tutti_result_t result = send_parcel(sockets[to], &arena, &ep->arena.fd, 1);

		for (int place = 0; !result && place < ep->arena.members; place++)
			if (place != to)
				result = send_mate(ep, sockets[to], place);
		if (result)
			return result;
	}
	return TUTTI_OK;
}

static tutti_result_t lead(struct shm_endpoint *ep, int members, uint64_t deadline)
{
	tutti_result_t result = shm_arena_open(&ep->arena, -1, members);
	int *sockets = malloc((size_t)members * sizeof(*sockets));

	if (!sockets && !result)
		result = tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for %d ranks", members);
	if (result) {
		free(sockets);
		return result;
	}
	for (int i = 0; i < members; i++)
		sockets[i] = -1;
	for (int come = 1; come < members && result >= 0;) {
		result = accept_mate(ep, sockets, deadline);
		come += result == TUTTI_OK;
	}
	if (!result)
		result = hand_out(ep, sockets);
	for (int i = 0; i < members; i++)
		if (sockets[i] >= 0)
			close(sockets[i]);
	free(sockets);
	return result;
}

/* Connecting to a full backlog blocks, so it is tried again until the deadline. */
static tutti_result_t dial(const char *name, int leader, uint64_t deadline, int *out)
{
	struct sockaddr_un address;
	const socklen_t length = socket_name(name, &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return tt_fail_errno(SHM, "make a unix socket");
	while (connect(fd, (struct sockaddr *)&address, length) < 0) {
		if ((errno != EAGAIN && errno != EINTR) || tt_now() >= deadline) {
			const tutti_result_t result =
				tt_fail_errno(SHM, "connect to rank %d of this host at unix socket @%s",
					      leader, name);
			close(fd);
			return result;
		}
		poll(NULL, 0, 1);
	}
	*out = fd;
	return TUTTI_OK;
}

static tutti_result_t follow(struct shm_endpoint *ep, const struct shm_address *leader, int members,
			     uint64_t deadline)
{
	struct parcel parcel;
	int socket = -1, fds[2];
	tutti_result_t result = dial(leader->socket, ep->mates[0].rank, deadline, &socket);

	if (result)
		return result;
	ep->arena.members = members; /* bounds the places that a parcel may name */
	result = send_mate(ep, socket, ep->me);
	for (int i = 0; i < members && !result; i++) {
		result = receive_parcel(ep, socket, &parcel, fds, deadline);
		if (result)
			break;
		if (parcel.place >= 0)
			keep_mate(ep, &parcel, fds);
		else
			result = shm_arena_open(&ep->arena, fds[0], members);
	}
	close(socket);
	return result;
}

static tutti_result_t prepare_mates(struct shm_endpoint *ep, int size)
{
	int members = 0;

	ep->mate_of = malloc((size_t)size * sizeof(*ep->mate_of));
	ep->mates = calloc((size_t)size, sizeof(*ep->mates));
	if (!ep->mate_of || !ep->mates)
		return tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for %d ranks", size);
	for (int rank = 0; rank < size; rank++) {
		ep->mate_of[rank] = -1;
		if (rank != ep->config.rank && !ep->peers[rank].use)
			continue;
		if (rank == ep->config.rank)
			ep->me = members;
		ep->mate_of[rank] = members;
		ep->mates[members++] = (struct shm_mate){ rank, -1, -1, -1, NULL, 0 };
	}
	ep->arena.members = members;
	return TUTTI_OK;
}

static tutti_result_t watch_processes(struct shm_endpoint *ep)
{
	const struct tt_peer *self = &ep->peers[ep->config.rank];

	for (int i = 0; i < ep->arena.members; i++) {
		const struct tt_peer *peer = &ep->peers[ep->mates[i].rank];

		if (peer->process == self->process)
			continue;
		ep->mates[i].pid_fd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
		if (ep->mates[i].pid_fd < 0 && errno == ESRCH)
			return tt_fail(TUTTI_ERR_PEER_LOST, SHM, "rank %d (pid %d) died while joining",
				       peer->rank, peer->pid);
		if (ep->mates[i].pid_fd < 0)
			return tt_fail_errno(SHM, "open a pidfd of rank %d (pid %d)", peer->rank,
					     peer->pid);
	}
	return TUTTI_OK;
}

tutti_result_t shm_join(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			uint64_t deadline)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	struct shm_address leader;

	ep->peers = peers;
	tutti_result_t result = prepare_mates(ep, size);
	const int members = ep->arena.members;

	if (result || members == 1)
		return result;
	ep->mates[ep->me].event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ep->mates[ep->me].event_fd < 0)
		return tt_fail_errno(SHM, "make an eventfd");
	ep->mates[ep->me].heap_fd = tt_heap_fd();
	memcpy(&leader, peers[ep->mates[0].rank].address, sizeof(leader));
	/* before meeting them: nobody has joined, and may be gone in order, while this rank has not */
	result = watch_processes(ep);
	if (!result)
		result = ep->me == 0 ? lead(ep, members, deadline) :
				       follow(ep, &leader, members, deadline);
	if (result)
		return result;
	close(ep->listen_fd);
	ep->listen_fd = -1;
	atomic_store_explicit(&shm_member(&ep->arena, ep->me)->state, SHM_PRESENT,
			      memory_order_release); /* pairs with the acquire in look_at_mates() */
	tt_log(DEBUG, SHM, "rank %d shares %zu bytes of address space with %d ranks of this host",
	       ep->config.rank, ep->arena.bytes, members - 1);
	return TUTTI_OK;
}
