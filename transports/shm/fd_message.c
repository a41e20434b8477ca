/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the messages of the rendezvous: their bytes, the descriptors beside them, and what is
 * made of a connection that ends. */
#include "fd_message.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"
#include "fork.h"
#include "log.h"

#define MAGIC 0x747474696a6f696eull

#define FULL_NS 100000 /* before descriptors are sent again of which too many are on their way */

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

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SHM_DESCRIPTORS * sizeof(int))];
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

static tutti_result_t wait_for(const struct shm_endpoint *ep, int fd, short events,
			       uint64_t deadline, const char *what)
{
	tutti_result_t result = TUTTI_OK;

	while (!result) {
		const uint64_t now = tt_now();
		struct pollfd poller = { fd, events, 0 };

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
static int descriptors_of(const struct shm_endpoint *ep)
{
	return ep->whole ? SHM_BELL : SHM_DESCRIPTORS;
}

static struct message message_about(const struct shm_endpoint *ep, int place)
{
	struct message message = {
		.header = { .magic = MAGIC, .comm_id = ep->config.comm_id, .place = place }
	};

	return message;
}

static void attach(struct msghdr *out, union control *control, const int *fds, int n)
{
	out->msg_control = control->bytes;
	out->msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
	struct cmsghdr *rights = CMSG_FIRSTHDR(out);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(rights), fds, (size_t)n * sizeof(int));
}

/* The kernel bounds how many descriptors a user has on their way, by the limit of open ones:
 * those sent before are taken soon. */
static tutti_result_t wait_for_room(uint64_t deadline)
{
	if (tt_now() >= deadline)
		return tt_fail_errno(SHM, "hand descriptors to a rank of this host");
	nanosleep(&(struct timespec){ .tv_nsec = FULL_NS }, NULL);
	return TUTTI_OK;
}

/* `more`: bytes behind the header. */
static tutti_result_t send_message(const struct shm_endpoint *ep, int socket,
				   struct message *message, size_t more, const int *fds, int n,
				   int rank, uint64_t deadline)
{
	union control control = { 0 };
	struct iovec iov = { message, sizeof(message->header) + more };
	struct msghdr out = { .msg_iov = &iov, .msg_iovlen = 1 };
	tutti_result_t result = TUTTI_OK;

	if (n > 0)
		attach(&out, &control, fds, n);
	while (!result && sendmsg(socket, &out, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EAGAIN)
			result = wait_for(ep, socket, POLLOUT, deadline,
					  "handing descriptors to a rank of this host");
		else if (errno == ETOOMANYREFS)
			result = wait_for_room(deadline);
		else if (shm_is_gone(errno))
			result = shm_fail_gone(rank);
		else if (errno != EINTR)
			result = tt_fail_errno(SHM, "hand descriptors to a rank of this host");
	}
	return result;
}

tutti_result_t shm_send_arena(const struct shm_endpoint *ep, int socket, int rank,
			      uint64_t deadline)
{
	struct message message = message_about(ep, SHM_ARENA);
	const int fds[SHM_DESCRIPTORS] = { ep->arena.fd, ep->bell, ep->alarm };

	return send_message(ep, socket, &message, 0, fds, descriptors_of(ep), rank, deadline);
}

tutti_result_t shm_send_word(const struct shm_endpoint *ep, int socket, int word, int rank)
{
	struct message message = message_about(ep, word);

	return send_message(ep, socket, &message, 0, NULL, 0, rank, 0);
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
	send_message(ep, socket, &message, strlen(message.error_text), NULL, 0, rank, 0);
	tt_thread_error_set(error_text);
}

/* ---- receiving */

/* A process that closes before it has read everything resets the connection; its last message comes
 * behind that. */
static ssize_t receive_bytes(int socket, struct msghdr *in)
{
	const size_t capacity = in->msg_controllen;
	bool reset = false;

	for (;;) {
		in->msg_controllen = capacity;
		const ssize_t bytes = recvmsg(socket, in, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

		if (bytes >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
			return bytes;
		reset |= errno == ECONNRESET;
	}
}

/* For the sake of alignment there is room for more than a message of ours has, which the kernel
 * fills if they are sent. Gives how many came. */
static int take_descriptors(struct msghdr *in, struct shm_fd_message *out)
{
	int came[(sizeof(union control) - CMSG_LEN(0)) / sizeof(int)];
	const struct cmsghdr *rights = CMSG_FIRSTHDR(in);
	int n = 0;

	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
		n = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	if (n > 0)
		memcpy(came, CMSG_DATA(rights), (size_t)n * sizeof(int));
	for (int i = 0; i < n; i++) {
		if (i < SHM_DESCRIPTORS)
			out->fds[i] = tt_fd_add(came[i]);
		else
			close(came[i]);
	}
	return n;
}

void shm_fd_message_drop(const struct shm_fd_message *fd_message)
{
	for (int i = 0; i < SHM_DESCRIPTORS; i++)
		tt_fd_close(fd_message->fds[i]);
}

/* As shm_send_why() says it. */
static bool gives_reason(const struct message *message)
{
	const int32_t result = message->header.result;

	return (result == TUTTI_ERR_PEER_LOST || result == TUTTI_ERR_TIMEOUT) &&
	       message->error_text[0];
}

/* A part of setting up this communicator? Descriptors come with the arena. */
static bool is_ours(const struct shm_endpoint *ep, const struct message *message, ssize_t bytes,
		    int descriptors)
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
	union control control;
	struct message message = { 0 };
	struct iovec iov = { &message, sizeof(message) - 1 };
	struct msghdr in = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes) };
	char what[64];

	if (rank < 0)
		snprintf(what, sizeof(what), "waiting for descriptors of a rank of this host");
	else
		snprintf(what, sizeof(what), "waiting for rank %d to set up shared memory", rank);
	const tutti_result_t result = wait_for(ep, socket, POLLIN, deadline, what);
	if (result)
		return result;
	tt_fd_hold();
	const ssize_t bytes = receive_bytes(socket, &in);
	memset(out->fds, -1, sizeof(out->fds)); /* all of them none */
	const int descriptors = bytes >= 0 ? take_descriptors(&in, out) : 0;
	tt_fd_let_go();
	if (bytes == 0 || (bytes < 0 && shm_is_gone(errno))) {
		shm_fd_message_drop(out); /* an empty message may have brought some */
		return shm_fail_gone(rank);
	}
	if (bytes < 0)
		return tt_fail_errno(SHM, "receive descriptors of a rank of this host");
	out->place = message.header.place;
	if (in.msg_flags & MSG_CTRUNC) {
		shm_fd_message_drop(out);
		errno = EMFILE;
		return tt_fail_errno(SHM, "no space for %d descriptor%s of the shared memory",
				     descriptors_of(ep), descriptors_of(ep) > 1 ? "s" : "");
	}
	if (!is_ours(ep, &message, bytes, descriptors)) {
		shm_fd_message_drop(out);
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
	shm_fd_message_drop(&fd_message);
	return shm_fail_gone(rank);
}

tutti_result_t shm_last_word(struct shm_endpoint *ep, int socket, int rank, uint64_t deadline)
{
	struct shm_fd_message fd_message;
	tutti_result_t result;

	while ((result = shm_receive(ep, socket, rank, &fd_message, deadline)) == TUTTI_OK)
		shm_fd_message_drop(&fd_message);
	return result;
}
