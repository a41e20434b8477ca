/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the rendezvous of a host's ranks: the lowest leads; it makes the arena, the others connect
 * to its unix socket, say which they are, and receive the arena and what all of them ring. When
 * all say that they have mapped it, the leader says that all have joined.
 *
 * Nobody waits for a rank that fails or dies meanwhile: its sockets close. The others watch the
 * leader by their connection; the leader watches each of them by a connection to the socket
 * where that one listens, and by the one it made once it has come. A rank that can say why it
 * gives up does. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "fd_message.h"
#include "unix_peer.h"

#define SHM_PURPOSE  "shm" /* of its sockets, by their names */
#define JOIN_BACKLOG 512
#define REPORT_NS    500000000	/* for a leader to say who is missing, at its deadline */
#define LATE_NS	     1000000000 /* for those to come who are to be told that they need not */

tutti_result_t shm_listen(struct shm_endpoint *ep)
{
	ep->listen_fd = tt_unix_listen(SHM_PURPOSE, JOIN_BACKLOG, &ep->address.socket);
	return ep->listen_fd >= 0 ? TUTTI_OK : tt_fail_errno(SHM, "listen on a unix socket");
}

/* ---- the leader */

/* How far each of the others is, by place; [0] is the leader's listening socket. */
struct host {
	struct pollfd *at; /* the connection with each */
	enum { GONE, AWAITED, CAME, READY } * stage;
	struct tt_log_quota quota; /* of lines about processes that are none of the others */
};

static int rank_at(const struct shm_endpoint *ep, int place)
{
	return ep->local_peers[place].rank;
}

/* A connection to the socket where the rank listens, which nobody accepts: it ends with that
 * socket. -1: none to be had, and nothing is lost but time. False: the rank is gone. */
static bool watch_local_peer(const struct shm_endpoint *ep, int place, int *out)
{
	struct shm_address address;
	struct sockaddr_un name;
	const int fd = tt_unix_socket();

	*out = fd;
	memcpy(&address, ep->peers[rank_at(ep, place)].address, sizeof(address));
	const socklen_t length = tt_unix_name(SHM_PURPOSE, address.socket, &name);
	if (fd < 0 || connect(fd, (struct sockaddr *)&name, length) == 0)
		return true;
	const bool gone = shm_is_gone(errno);
	tt_fd_close(fd);
	*out = -1;
	return !gone;
}

static tutti_result_t lose(const struct shm_endpoint *ep, struct host *host, int place)
{
	host->stage[place] = GONE;
	return shm_fail_gone(rank_at(ep, place));
}

static tutti_result_t watch_local_peers(const struct shm_endpoint *ep, struct host *host)
{
	host->at[0] = (struct pollfd){ ep->listen_fd, POLLIN, 0 };
	for (int place = 1; place < ep->arena.members; place++) {
		host->at[place] = (struct pollfd){ -1, POLLIN, 0 };
		host->stage[place] = AWAITED;
	}
	for (int place = 1; place < ep->arena.members; place++)
		if (!watch_local_peer(ep, place, &host->at[place].fd))
			return lose(ep, host, place);
	return TUTTI_OK;
}

/* Anybody can connect. */
static tutti_result_t turn_away(struct host *host, int socket, const char *why)
{
	char who[TT_UNIX_PEER_TEXT], more[TT_LOG_MORE];

	if (tt_log_due(&host->quota, more))
		tt_log(WARN, SHM, "turns away %s, which %s%s", tt_unix_peer_text(socket, who), why,
		       more);
	tt_fd_close(socket);
	return TUTTI_IN_PROGRESS;
}

/* TUTTI_IN_PROGRESS: whoever connected is none of the host's ranks. */
static tutti_result_t accept_local_peer(struct shm_endpoint *ep, struct host *host,
					uint64_t deadline)
{
	struct shm_fd_message fd_message;
	const int socket = TT_FD(accept4(ep->listen_fd, NULL, NULL, SOCK_CLOEXEC));

	if (socket < 0)
		return errno == EINTR || errno == EAGAIN
			       ? TUTTI_IN_PROGRESS
			       : tt_fail_errno(SHM, "accept a rank of this host");
	if (!tt_unix_peer_trusted(socket))
		return turn_away(
			host, socket,
			"connects to the ranks of another user; only those of one user share memory");
	const tutti_result_t result = shm_receive(ep, socket, -1, &fd_message, deadline);
	if (result) {
		tt_fd_close(socket);
		return result == TUTTI_ERR_PEER_LOST ? TUTTI_IN_PROGRESS : result;
	}
	tt_unix_descriptors_close(&fd_message.fds);
	if (fd_message.place <= 0 || host->stage[fd_message.place] != AWAITED)
		return turn_away(host, socket,
				 "claims the place of a rank that has joined, or that no rank has");
	tt_fd_close(host->at[fd_message.place].fd);
	host->at[fd_message.place] = (struct pollfd){ socket, POLLIN, 0 };
	host->stage[fd_message.place] = CAME;
	return TUTTI_OK;
}

/* Something came from a rank, or its end. */
static tutti_result_t receive_local_peer(struct shm_endpoint *ep, struct host *host, int place,
					 uint64_t deadline)
{
	if (host->stage[place] == AWAITED)
		return lose(ep, host, place);
	const tutti_result_t result =
		shm_receive_word(ep, host->at[place].fd, rank_at(ep, place), SHM_MAPPED, deadline);
	if (!result)
		host->stage[place] = READY;
	return result;
}

/* The first rank that is not at `stage`, -1 if all are. */
static int behind(const struct shm_endpoint *ep, const struct host *host, int stage)
{
	for (int place = 1; place < ep->arena.members; place++)
		if ((int)host->stage[place] < stage)
			return rank_at(ep, place);
	return -1;
}

/* Wait until all are at `stage`. */
static tutti_result_t await_local_peers(struct shm_endpoint *ep, struct host *host, int stage,
					uint64_t deadline)
{
	tutti_result_t result = TUTTI_OK;
	int late;

	while ((late = behind(ep, host, stage)) >= 0 && result >= 0) {
		const uint64_t now = tt_now();

		if (now >= deadline)
			return tt_fail(
				TUTTI_ERR_TIMEOUT, SHM,
				"rank %d has not joined rank %d's shared memory by the deadline",
				late, ep->config.rank);
		const int ready =
			poll(host->at, (nfds_t)ep->arena.members, shm_wait_ms(ep, now, deadline));
		if (ready < 0 && errno != EINTR)
			return tt_fail_errno(SHM, "wait for the ranks of this host");
		if (ready == 0)
			result = shm_check_elsewhere(ep);
		if (ready <= 0)
			continue;
		if (host->at[0].revents)
			result = accept_local_peer(ep, host, deadline);
		for (int place = 1; place < ep->arena.members && result >= 0; place++)
			if (host->at[place].revents)
				result = receive_local_peer(ep, host, place, deadline);
	}
	return result < 0 ? result : TUTTI_OK;
}

static tutti_result_t hand_out(struct shm_endpoint *ep, const struct host *host, uint64_t deadline)
{
	for (int to = 1; to < ep->arena.members; to++) {
		const int socket = host->at[to].fd, rank = rank_at(ep, to);
		const tutti_result_t result = shm_send_arena(ep, socket, rank, deadline);

		if (result)
			return result == TUTTI_ERR_PEER_LOST
				       ? shm_last_word(ep, socket, rank, deadline)
				       : result;
	}
	return TUTTI_OK;
}

/* What the others are handed. */
static tutti_result_t open_all(struct shm_endpoint *ep, int members)
{
	if (!ep->whole) {
		ep->bell = TT_FD(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
		ep->alarm = TT_FD(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		if (ep->bell < 0 || ep->alarm < 0)
			return tt_fail_errno(SHM, "make an eventfd");
	}
	return shm_arena_open(&ep->arena, -1, members, 0);
}

/* The rank has the arena: before the others learn that. */
static tutti_result_t prepare(struct shm_endpoint *ep)
{
	const tutti_result_t result = shm_bell_open(ep);

	ep->base.sleepers = &shm_header(&ep->arena)->sleepers;
	ep->base.faults = &shm_header(&ep->arena)->faults;
	if (!result)
		shm_heap_tell(ep);
	return result;
}

static tutti_result_t lead_local_peers(struct shm_endpoint *ep, struct host *host,
				       uint64_t deadline)
{
	tutti_result_t result = await_local_peers(ep, host, CAME, deadline);

	if (result)
		return result;
	host->at[0].fd = -1;
	result = hand_out(ep, host, deadline);
	if (!result)
		result = await_local_peers(ep, host, READY, deadline);
	for (int place = 1; place < ep->arena.members && !result; place++)
		shm_heap_try(ep, place);
	return result;
}

static void hang_up(struct host *host, int place)
{
	tt_fd_close(host->at[place].fd);
	host->at[place].fd = -1;
	host->stage[place] = GONE;
}

static bool some_awaited(const struct shm_endpoint *ep, const struct host *host)
{
	for (int place = 1; place < ep->arena.members; place++)
		if (host->stage[place] == AWAITED)
			return true;
	return false;
}

/* Let those come to whom it is to be said why all is in vain, unless they learn it elsewhere. */
static void receive_late(struct shm_endpoint *ep, struct host *host)
{
	const uint64_t enough = tt_now() + LATE_NS;
	char error_text[TT_ERROR_MAX];

	snprintf(error_text, sizeof(error_text), "%s", tt_thread_error());
	while (some_awaited(ep, host) && tt_now() < enough && !shm_check_elsewhere(ep)) {
		if (poll(host->at, (nfds_t)ep->arena.members, LATE_NS / 10000000) <= 0)
			continue;
		for (int place = 1; place < ep->arena.members; place++)
			if (host->at[place].revents && receive_local_peer(ep, host, place, enough))
				hang_up(host, place);
		if (host->at[0].revents)
			accept_local_peer(ep, host, enough);
	}
	tt_thread_error_set(error_text);
}

static void inform_local_peers(struct shm_endpoint *ep, struct host *host, tutti_result_t result)
{
	for (int place = 1; place < ep->arena.members; place++) {
		if (host->stage[place] < CAME)
			continue;
		if (result)
			shm_send_why(ep, host->at[place].fd, result, rank_at(ep, place));
		else
			shm_send_word(ep, host->at[place].fd, SHM_ALL_JOINED, rank_at(ep, place));
		hang_up(host, place);
	}
}

/* Those who are there do not wait for those who are late. */
static void inform_all(struct shm_endpoint *ep, struct host *host, tutti_result_t result)
{
	inform_local_peers(ep, host, result);
	if (!result)
		return;
	receive_late(ep, host);
	inform_local_peers(ep, host, result);
	for (int place = 1; place < ep->arena.members; place++)
		hang_up(host, place);
}

static tutti_result_t lead(struct shm_endpoint *ep, int members, uint64_t deadline)
{
	struct host host = { calloc((size_t)members, sizeof(*host.at)),
			     calloc((size_t)members, sizeof(*host.stage)) };
	tutti_result_t result = TUTTI_OK;

	if (host.at && host.stage) {
		result = watch_local_peers(ep, &host);
		if (!result)
			result = open_all(ep, members);
		if (!result)
			result = prepare(ep);
		if (!result)
			result = lead_local_peers(ep, &host, deadline);
		inform_all(ep, &host, result);
	} else {
		result = tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for %d ranks", members);
	}
	free(host.at);
	free(host.stage);
	return result;
}

/* ---- the others */

/* By errno; TUTTI_OK: it may be tried again. */
static tutti_result_t fail_to_connect(int leader, const struct sockaddr_un *address,
				      uint64_t deadline)
{
	if (shm_is_gone(errno))
		return shm_fail_gone(leader);
	if (errno != EAGAIN && errno != EINTR)
		return tt_fail_errno(SHM, "connect to rank %d of this host at unix socket @%s",
				     leader, address->sun_path + 1);
	if (tt_now() < deadline)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_TIMEOUT, SHM,
		       "rank %d of this host takes no connection at unix socket @%s: stopped?",
		       leader, address->sun_path + 1);
}

/* Connecting to a full backlog blocks, so it is tried again until the deadline. */
static tutti_result_t dial(const struct shm_endpoint *ep, uint64_t number, int leader,
			   uint64_t deadline, int *out)
{
	struct sockaddr_un address;
	const socklen_t length = tt_unix_name(SHM_PURPOSE, number, &address);
	char who[TT_UNIX_PEER_TEXT];
	const int fd = tt_unix_socket();

	if (fd < 0)
		return tt_fail_errno(SHM, "make a unix socket");
	while (connect(fd, (struct sockaddr *)&address, length) < 0) {
		tutti_result_t result = fail_to_connect(leader, &address, deadline);

		if (!result)
			result = shm_check_elsewhere(ep);
		if (result) {
			tt_fd_close(fd);
			return result;
		}
		poll(NULL, 0, 1);
	}
	if (!tt_unix_peer_trusted(fd)) {
		tt_fail(TUTTI_ERR_PEER_LOST, SHM,
			"%s listens at unix socket @%s: expected rank %d of user %ld or root; the rank's own output says why it has ended",
			tt_unix_peer_text(fd, who), address.sun_path + 1, leader, (long)geteuid());
		tt_fd_close(fd);
		return TUTTI_ERR_PEER_LOST;
	}
	*out = fd;
	return TUTTI_OK;
}

static tutti_result_t take_all(struct shm_endpoint *ep, int socket, int members, uint64_t deadline)
{
	struct shm_fd_message fd_message;
	const int *const fds = fd_message.fds.fd;
	tutti_result_t result = shm_receive(ep, socket, rank_at(ep, 0), &fd_message, deadline);

	if (result)
		return result;
	if (fd_message.place != SHM_ARENA)
		return shm_fail_gone(rank_at(ep, 0));
	if (!ep->whole) {
		ep->bell = fds[SHM_BELL];
		ep->alarm = fds[SHM_ALARM];
	}
	result = shm_arena_open(&ep->arena, fds[SHM_MEMORY], members, ep->me);
	if (!result)
		result = prepare(ep);
	if (!result)
		shm_heap_try(ep, 0);
	return result;
}

static tutti_result_t follow(struct shm_endpoint *ep, const struct shm_address *leader, int members,
			     uint64_t leaders_deadline)
{
	/* the leader waits for the others, too, and says at its deadline who is missing */
	const uint64_t deadline = leaders_deadline + REPORT_NS;
	const int rank = rank_at(ep, 0);
	int socket = -1;
	tutti_result_t result = dial(ep, leader->socket, rank, leaders_deadline, &socket);

	if (result)
		return result;
	ep->arena.members = members; /* bounds the places that a message may name */
	result = shm_send_word(ep, socket, ep->me, rank);
	if (!result)
		result = take_all(ep, socket, members, deadline);
	if (!result) {
		result = shm_send_word(ep, socket, SHM_MAPPED, rank);
		if (result == TUTTI_ERR_PEER_LOST)
			result = shm_last_word(ep, socket, rank, deadline);
	}
	if (!result)
		result = shm_receive_word(ep, socket, rank, SHM_ALL_JOINED, deadline);
	if (result)
		shm_send_why(ep, socket, result, rank);
	tt_fd_close(socket);
	return result;
}

static tutti_result_t prepare_local_peers(struct shm_endpoint *ep, int size)
{
	int members = 0;

	ep->local_peer_of = malloc((size_t)size * sizeof(*ep->local_peer_of));
	ep->local_peers = calloc((size_t)size, sizeof(*ep->local_peers));
	if (!ep->local_peer_of || !ep->local_peers)
		return tt_fail(TUTTI_ERR_NO_MEMORY, SHM, "no memory for %d ranks", size);
	for (int rank = 0; rank < size; rank++) {
		ep->local_peer_of[rank] = -1;
		if (rank != ep->config.rank && !ep->peers[rank].use)
			continue;
		if (rank == ep->config.rank)
			ep->me = members;
		ep->local_peer_of[rank] = members;
		ep->local_peers[members++] = (struct shm_local_peer){ rank };
	}
	ep->arena.members = members;
	ep->whole = members == size;
	return TUTTI_OK;
}

tutti_result_t shm_join(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			uint64_t deadline)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	struct shm_address leader;

	ep->peers = peers;
	tutti_result_t result = prepare_local_peers(ep, size);
	const int members = ep->arena.members;

	if (result || members == 1)
		return result;
	memcpy(&leader, peers[ep->local_peers[0].rank].address, sizeof(leader));
	result = ep->me == 0 ? lead(ep, members, deadline) : follow(ep, &leader, members, deadline);
	if (result)
		return result;
	tt_fd_close(ep->listen_fd);
	ep->listen_fd = -1;
	atomic_store_explicit(&shm_member(&ep->arena, ep->me)->state, SHM_PRESENT,
			      memory_order_release); /* pairs with the acquire in shm_left() */
	tt_log(DEBUG, SHM, "rank %d shares %zu bytes of address space with %d ranks of this host",
	       ep->config.rank, ep->arena.bytes, members - 1);
	return TUTTI_OK;
}
