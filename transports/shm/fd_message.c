/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the messages of the rendezvous: their bytes, the descriptors beside them, and what is
 * made of a connection that ends. */
#include "fd_message.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "failure.h"
#include "log.h"

#define MAGIC 0x747474696a6f696eull

/* Without an error message it is the header alone. */
struct message {
	struct header {
		uint64_t magic;
		uint64_t comm_id;
		int32_t place;
		int32_t result; /* SHM_GIVEN_UP: what everybody returns, with the error message */
	} header;
	char error_text[sizeof(((struct tt_fault *)0)->text)];
};

tutti_result_t shm_check_elsewhere(const struct shm_endpoint *ep)
{
	return ep->config.should_abort ? ep->config.should_abort(ep->config.context) : TUTTI_OK;
}

int shm_wait_ms(const struct shm_endpoint *ep, uint64_t now, uint64_t deadline)
{
	const uint64_t ms = (deadline - now) / 1000000 + 1,
		       most = ep->config.should_abort ? SHM_HOPE_MS : INT_MAX;

	return (int)(ms < most ? ms : most);
}

static tutti_result_t wait_for(const struct shm_endpoint *ep, int fd, uint64_t deadline,
			       const char *what)
{
	tutti_result_t result = TUTTI_OK;

	while (!result) {
		const uint64_t now = tt_now();
		struct pollfd poller = { fd, POLLIN, 0 };

		if (now >= deadline)
			return tt_fail(TUTTI_ERR_TIMEOUT, SHM, "deadline passed: %s", what);
		const int ready = poll(&poller, 1, shm_wait_ms(ep, now, deadline));
		if (ready > 0)
			return TUTTI_OK;
		if (ready < 0 && errno != EINTR)
			return tt_fail_errno(SHM, "%s", what);
		if (ready == 0)
			result = shm_check_elsewhere(ep);
	}
	return result;
}

bool shm_is_gone(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ECONNREFUSED;
}

tutti_result_t shm_fail_gone(int rank)
{
	if (rank < 0)
		return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
			       "a process that connected to join went away again");
	return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
		       "rank %d failed or died while joining: its own error or output says why",
		       rank);
}

/* ---- sending */

/* Beside the arena, that included. */
static size_t descriptors_of(const struct shm_endpoint *ep)
{
	return ep->whole ? SHM_BELL : SHM_DESCRIPTORS;
}

static const struct tt_unix_descriptors none;

static struct message message_about(const struct shm_endpoint *ep, int place)
{
	struct message message = {
		.header = { .magic = MAGIC, .comm_id = ep->config.comm_id, .place = place }
	};

	return message;
}

/* `more`: bytes behind the header. */
static tutti_result_t send_message(int socket, const struct message *message, size_t more,
				   const struct tt_unix_descriptors *fds, int rank,
				   uint64_t deadline)
{
	if (tt_unix_send(socket, message, sizeof(message->header) + more, fds, deadline) >= 0)
		return TUTTI_OK;
	return shm_is_gone(errno) ? shm_fail_gone(rank)
				  : tt_fail_errno(SHM, "hand descriptors to a rank of this host");
}

tutti_result_t shm_send_arena(const struct shm_endpoint *ep, int socket, int rank,
			      uint64_t deadline)
{
	const struct message message = message_about(ep, SHM_ARENA);
	const struct tt_unix_descriptors fds = {
		descriptors_of(ep),
		{ [SHM_MEMORY] = ep->arena.fd, [SHM_BELL] = ep->bell, [SHM_ALARM] = ep->alarm }
	};

	return send_message(socket, &message, 0, &fds, rank, deadline);
}

tutti_result_t shm_send_word(const struct shm_endpoint *ep, int socket, int word, int rank)
{
	const struct message message = message_about(ep, word);

	return send_message(socket, &message, 0, &none, rank, 0);
}

void shm_send_why(const struct shm_endpoint *ep, int socket, tutti_result_t why, int rank)
{
	const bool told = why == TUTTI_ERR_PEER_LOST || why == TUTTI_ERR_TIMEOUT;
	struct message message = message_about(ep, SHM_GIVEN_UP);
	char error_text[TT_ERROR_MAX];

	snprintf(error_text, sizeof(error_text), "%s", tt_thread_error());
	message.header.result = told ? why : TUTTI_ERR_PEER_LOST;
	if (told)
		snprintf(message.error_text, sizeof(message.error_text), "%.*s",
			 (int)sizeof(message.error_text) - 1, error_text);
	else
		snprintf(message.error_text, sizeof(message.error_text),
			 "rank %d could not join: %.580s", ep->config.rank, error_text);
	send_message(socket, &message, strlen(message.error_text), &none, rank, 0);
	tt_thread_error_set(error_text);
}

/* ---- receiving */

/* As shm_send_why() says it. */
static bool gives_reason(const struct message *message)
{
	const int32_t result = message->header.result;

	return (result == TUTTI_ERR_PEER_LOST || result == TUTTI_ERR_TIMEOUT) &&
	       message->error_text[0];
}

/* A part of setting up this communicator? Descriptors come with the arena. */
static bool is_ours(const struct shm_endpoint *ep, const struct message *message, ssize_t bytes,
		    size_t descriptors)
{
	const struct header *header = &message->header;

	return bytes >= (ssize_t)sizeof(*header) && header->magic == MAGIC &&
	       header->comm_id == ep->config.comm_id && header->place >= SHM_GIVEN_UP &&
	       header->place < ep->arena.members &&
	       descriptors == (header->place == SHM_ARENA ? descriptors_of(ep) : 0) &&
	       (header->place != SHM_GIVEN_UP || gives_reason(message));
}

tutti_result_t shm_receive(struct shm_endpoint *ep, int socket, int rank,
			   struct shm_fd_message *out, uint64_t deadline)
{
	struct message message = { 0 };
	char what[64];

	if (rank < 0)
		snprintf(what, sizeof(what), "waiting for descriptors of a rank of this host");
	else
		snprintf(what, sizeof(what), "waiting for rank %d to set up shared memory", rank);
	const tutti_result_t result = wait_for(ep, socket, deadline, what);
	if (result)
		return result;
	const ssize_t bytes = tt_unix_receive(socket, &message, sizeof(message) - 1, &out->fds);
	if (bytes == 0 || (bytes < 0 && shm_is_gone(errno)))
		return shm_fail_gone(rank);
	if (bytes < 0)
		return tt_fail_errno(SHM, "receive descriptors of a rank of this host");
	out->place = message.header.place;
	if (!is_ours(ep, &message, bytes, out->fds.n)) {
		tt_unix_descriptors_close(&out->fds);
		return tt_fail(TUTTI_ERR_PEER_LOST, SHM,
			       "a rank of this host sent %zd bytes that are no part of setting up "
			       "this communicator",
			       bytes);
	}
	if (out->place == SHM_GIVEN_UP)
		return tt_fail_reported(SHM, "", message.header.result, message.error_text,
					sizeof(message.error_text));
	return TUTTI_OK;
}

tutti_result_t shm_receive_word(struct shm_endpoint *ep, int socket, int rank, int word,
				uint64_t deadline)
{
	struct shm_fd_message fd_message;
	const tutti_result_t result = shm_receive(ep, socket, rank, &fd_message, deadline);

	if (result || fd_message.place == word)
		return result;
	tt_unix_descriptors_close(&fd_message.fds);
	return shm_fail_gone(rank);
}

tutti_result_t shm_last_word(struct shm_endpoint *ep, int socket, int rank, uint64_t deadline)
{
	struct shm_fd_message fd_message;
	tutti_result_t result;

	while ((result = shm_receive(ep, socket, rank, &fd_message, deadline)) == TUTTI_OK)
		tt_unix_descriptors_close(&fd_message.fds);
	return result;
}
