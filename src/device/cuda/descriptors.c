/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sockets by which ranks of a host hand each other descriptors, as the kernel does not let
 * every process take another one's by itself. */
#include "descriptors.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "machine.h"
#include "unix_peer.h"

#define PURPOSE "descriptors" /* of the sockets, by their names */
#define LOOK_MS 100 /* longer sleeps would be taken for times in which the process was stopped */

/* What a rank sends that has connected. */
struct ask {
	uint64_t process; /* the other one's, which ranks of the communicator know alone */
	int32_t rank;
};

void tt_cuda_sockets_begin(struct tt_cuda_sockets *sockets, const struct tutti_comm *comm)
{
	*sockets = (struct tt_cuda_sockets){ .comm = comm,
					     .deadline = tt_now() + comm->settings.timeout_ns,
					     .listener = -1 };
	for (int rank = 0; rank < TT_CUDA_RANKS; rank++)
		sockets->to[rank] = sockets->from[rank] = -1;
}

tutti_result_t tt_cuda_sockets_listen(struct tt_cuda_sockets *sockets, uint64_t *number)
{
	sockets->listener = tt_unix_listen(PURPOSE, TT_CUDA_RANKS, number);
	return sockets->listener >= 0
		       ? TUTTI_OK
		       : tt_fail_errno(CUDA, "listen for ranks that map this one's memory");
}

void tt_cuda_sockets_close(struct tt_cuda_sockets *sockets)
{
	tt_fd_close(sockets->listener);
	sockets->listener = -1;
	for (int rank = 0; rank < TT_CUDA_RANKS; rank++) {
		tt_fd_close(sockets->to[rank]);
		tt_fd_close(sockets->from[rank]);
		sockets->to[rank] = sockets->from[rank] = -1;
	}
}

static tutti_result_t fail_late(const struct tt_cuda_sockets *sockets, int rank, const char *what)
{
	return tt_fail(TUTTI_ERR_TIMEOUT, CUDA, "rank %d does not %s within %.3g s (TUTTI_TIMEOUT)",
		       rank, what, (double)sockets->comm->settings.timeout_ns * 1e-9);
}

static tutti_result_t await(struct tt_cuda_sockets *sockets, int fd, int rank, const char *what)
{
	for (;;) {
		struct pollfd poller = { fd, POLLIN, 0 };
		const uint64_t now = tt_now();

		if (now >= sockets->deadline)
			return fail_late(sockets, rank, what);
		const uint64_t ms = (sockets->deadline - now) / 1000000 + 1;
		const int ready = poll(&poller, 1, ms < LOOK_MS ? (int)ms : LOOK_MS);
		if (ready > 0)
			return TUTTI_OK;
		if (ready < 0 && errno != EINTR)
			return tt_fail_errno(CUDA, "wait for rank %d", rank);
		sockets->deadline += tt_uncounted(now, tt_now(), TT_LOOK_NS);
	}
}

static tutti_result_t fail_gone(int rank)
{
	return tt_fail(TUTTI_ERR_PEER_LOST, CUDA,
		       "rank %d has failed or died while ranks mapped each other's memory", rank);
}

tutti_result_t tt_cuda_sockets_connect(struct tt_cuda_sockets *sockets, int rank, uint64_t number,
				       uint64_t process)
{
	const struct ask ask = { process, sockets->comm->rank };
	struct sockaddr_un name;
	const socklen_t length = tt_unix_name(PURPOSE, number, &name);
	const int fd = sockets->from[rank] = tt_unix_socket();

	if (fd < 0)
		return tt_fail_errno(CUDA, "make a socket");
	if (connect(fd, (struct sockaddr *)&name, length))
		return errno == ECONNREFUSED
			       ? tt_fail(TUTTI_ERR_SYSTEM, CUDA,
					 "nobody listens where rank %d hands on its memory: it has failed, or is in another network namespace (containers need one: docker run --network=host)",
					 rank)
			       : tt_fail_errno(CUDA, "connect to rank %d", rank);
	if (!tt_unix_peer_trusted(fd)) {
		char who[TT_UNIX_PEER_TEXT];

		return tt_fail(
			TUTTI_ERR_SYSTEM, CUDA,
			"%s is at the socket of rank %d, expected a process of the same user",
			tt_unix_peer_text(fd, who), rank);
	}
	return send(fd, &ask, sizeof(ask), MSG_NOSIGNAL) == (ssize_t)sizeof(ask) ? TUTTI_OK
										 : fail_gone(rank);
}

/* Is it one of the communicator's ranks, which has not come before? */
static bool is_expected(const struct tt_cuda_sockets *sockets, const struct ask *ask)
{
	return ask->process == sockets->process && ask->rank >= 0 &&
	       ask->rank < sockets->comm->size && sockets->to[ask->rank] < 0;
}

/* One more has connected; who is none of them is turned away. */
static tutti_result_t accept_one(struct tt_cuda_sockets *sockets, int missing)
{
	const char *const what = "ask for this rank's memory";
	struct ask ask = { 0 };
	tutti_result_t result = await(sockets, sockets->listener, missing, what);
	const int fd = result ? -1
			      : TT_FD(accept4(sockets->listener, NULL, NULL,
					      SOCK_CLOEXEC | SOCK_NONBLOCK));

	if (fd < 0)
		return result || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED
			       ? result
			       : tt_fail_errno(CUDA, "accept a connection of rank %d", missing);
	const bool trusted = tt_unix_peer_trusted(fd);
	if (trusted)
		result = await(sockets, fd, missing, what);
	if (trusted && !result && recv(fd, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask) &&
	    is_expected(sockets, &ask))
		sockets->to[ask.rank] = fd;
	else
		tt_fd_close(fd);
	return result;
}

tutti_result_t tt_cuda_sockets_accept(struct tt_cuda_sockets *sockets, int rank)
{
	tutti_result_t result = TUTTI_OK;

	while (!result && sockets->to[rank] < 0)
		result = accept_one(sockets, rank);
	return result;
}

static tutti_result_t send_one(struct tt_cuda_sockets *sockets, int rank,
			       const struct tt_cuda_descriptors *message)
{
	if (tt_unix_send(sockets->to[rank], message->bytes,
			 message->fds.n * sizeof(message->bytes[0]), &message->fds,
			 sockets->deadline) >= 0)
		return TUTTI_OK;
	return errno == EPIPE || errno == ECONNRESET
		       ? fail_gone(rank)
		       : tt_fail_errno(CUDA, "hand descriptors to rank %d", rank);
}

tutti_result_t tt_cuda_descriptors_send(struct tt_cuda_sockets *sockets,
					const struct tt_cuda_descriptors *message)
{
	tutti_result_t result = TUTTI_OK;
	char taken;

	for (int rank = 0; rank < sockets->comm->size && !result; rank++)
		if (sockets->to[rank] >= 0)
			result = send_one(sockets, rank, message);
	for (int rank = 0; rank < sockets->comm->size && !result; rank++) {
		if (sockets->to[rank] < 0)
			continue;
		result = await(sockets, sockets->to[rank], rank, "map this rank's memory");
		if (!result && recv(sockets->to[rank], &taken, 1, 0) != 1)
			result = fail_gone(rank);
	}
	return result;
}

tutti_result_t tt_cuda_descriptors_receive(struct tt_cuda_sockets *sockets, int rank,
					   struct tt_cuda_descriptors *message)
{
	const tutti_result_t result =
		await(sockets, sockets->from[rank], rank, "hand on its memory");

	message->fds.n = 0;
	if (result)
		return result;
	const ssize_t bytes = tt_unix_receive(sockets->from[rank], message->bytes,
					      sizeof(message->bytes), &message->fds);
	if (bytes < 0 && errno != ECONNRESET)
		return tt_fail_errno(CUDA, "receive descriptors of memory of rank %d", rank);
	return bytes > 0 && (size_t)bytes == message->fds.n * sizeof(message->bytes[0])
		       ? TUTTI_OK
		       : fail_gone(rank);
}

tutti_result_t tt_cuda_descriptors_taken(const struct tt_cuda_sockets *sockets, int rank)
{
	return send(sockets->from[rank], "", 1, MSG_NOSIGNAL) == 1 ? TUTTI_OK : fail_gone(rank);
}
