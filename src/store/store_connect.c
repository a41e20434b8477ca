/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way to the host of a store: connecting, again and again while it is not there yet, the
 * exchange of hellos, and whole messages on a connection. Sockets are non-blocking; every wait has
 * a deadline. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "store_address.h"
#include "store_connect.h"
#include "store_wire.h"
#include "transport.h"
#include "unix_peer.h"

#define MILLISECOND 1000000ull
#define TRY_MS	    3000 /* for one address to answer, before the next is tried */
#define LEAVE_MS    500	 /* for a host to close a connection that it turns away */
#define NOTICE_MS   5000 /* of waiting in silence */

/* 0 once `events` are there, ETIMEDOUT, or another errno value. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		const uint64_t now = tt_now();

		if (now >= deadline)
			return ETIMEDOUT;
		const uint64_t ms = (deadline - now + MILLISECOND - 1) / MILLISECOND;
		const int n = poll(&p, 1, ms < 60000 ? (int)ms : 60000);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return errno;
	}
}

static void iov_advance(struct iovec **iov, int *n, size_t done)
{
	while (*n > 0 && done >= (*iov)->iov_len) {
		done -= (*iov)->iov_len;
		(*iov)++;
		(*n)--;
	}
	if (*n > 0) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + done;
		(*iov)->iov_len -= done;
	}
}

int tt_store_send(const struct tt_store_socket *socket, struct iovec *iov, int n, uint64_t deadline)
{
	while (n > 0) {
		const struct msghdr message = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		const ssize_t sent = socket->tls ? tt_tls_write(socket->tls, iov, n)
						 : sendmsg(socket->fd, &message, MSG_NOSIGNAL);

		if (sent >= 0) {
			iov_advance(&iov, &n, (size_t)sent);
		} else if (errno == EAGAIN) {
			const int error = wait_for(socket->fd, POLLOUT, deadline);

			if (error != 0)
				return error;
		} else if (errno != EINTR) {
			return errno == EPIPE ? ECONNRESET : errno;
		}
	}
	return 0;
}

int tt_store_receive(const struct tt_store_socket *socket, void *data, size_t length,
		     uint64_t deadline)
{
	for (size_t done = 0; done < length;) {
		const struct iovec rest = { (char *)data + done, length - done };
		const ssize_t n = socket->tls ? tt_tls_read(socket->tls, &rest, 1)
					      : recv(socket->fd, rest.iov_base, rest.iov_len, 0);

		if (n > 0) {
			done += (size_t)n;
		} else if (n == 0) {
			return ECONNRESET;
		} else if (errno == EAGAIN) {
			const int error = wait_for(socket->fd, POLLIN, deadline);

			if (error != 0)
				return error;
		} else if (errno != EINTR) {
			return errno;
		}
	}
	return 0;
}

/* While nobody listens, a connection from a port to itself can come about (simultaneous open). */
static bool connected_to_self(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t here_length = sizeof(here), there_length = sizeof(there);

	return getsockname(fd, (struct sockaddr *)&here, &here_length) == 0 &&
	       getpeername(fd, (struct sockaddr *)&there, &there_length) == 0 &&
	       here.ss_family != AF_UNIX && here_length == there_length &&
	       memcmp(&here, &there, here_length) == 0;
}

static int finish_connect(int fd, uint64_t deadline)
{
	int error = wait_for(fd, POLLOUT, deadline);
	socklen_t length = sizeof(error);

	if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		return errno;
	return error;
}

/* One attempt at one address; 0 and the socket, or an errno value. */
static int connect_at(const struct sockaddr_storage *at, socklen_t length, uint64_t deadline,
		      int *out)
{
	const int one = 1;
	int error = 0;
	const int fd = TT_FD(socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)at, length) < 0)
		error = errno == EINPROGRESS || errno == EINTR ? finish_connect(fd, deadline)
							       : errno;
	if (error == 0 && connected_to_self(fd))
		error = ECONNREFUSED;
	if (error != 0) {
		tt_fd_close(fd);
		return error;
	}
	if (at->ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*out = fd;
	return 0;
}

/* Nobody is there yet, or it does not matter why: worth another attempt. */
static bool passing(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ETIMEDOUT:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT: /* of one of several addresses */
	case EAGAIN: return true;
	}
	return false;
}

static int send_all(const struct tt_store_socket *socket, const uint8_t *bytes, size_t length,
		    uint64_t deadline)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, length };

	return tt_store_send(socket, &iov, 1, deadline);
}

/* Other versions may send less than this one. */
static int receive_hello(const struct tt_store_socket *socket, bool keyed,
			 uint8_t hello[TT_WIRE_HELLO], uint64_t deadline, const char **fault)
{
	int error = tt_store_receive(socket, hello, TT_WIRE_FIRST, deadline);

	if (error == 0)
		*fault = tt_wire_hello_fault(keyed, hello, TT_WIRE_FIRST);
	if (error == 0 && !*fault)
		error = tt_store_receive(socket, hello + TT_WIRE_FIRST,
					 TT_WIRE_HELLO - TT_WIRE_FIRST, deadline);
	if (error == 0 && !*fault)
		*fault = tt_wire_hello_fault(keyed, hello, TT_WIRE_HELLO);
	return error;
}

/* The host proves first, and learns by zeros that it has not. */
static int exchange_proofs(const struct tt_store_socket *socket, const struct tt_key *key,
			   const uint8_t host[TT_WIRE_HELLO], const uint8_t own[TT_WIRE_HELLO],
			   uint64_t deadline, bool *proven)
{
	uint8_t proof[TT_PROOF_BYTES], expected[TT_PROOF_BYTES];
	const int error = tt_store_receive(socket, proof, sizeof(proof), deadline);

	if (error != 0)
		return error;
	tt_wire_prove(key, TT_WIRE_HOST, host, own, expected);
	*proven = tt_proof_equal(proof, expected);
	memset(proof, 0, sizeof(proof));
	if (*proven)
		tt_wire_prove(key, TT_WIRE_CLIENT, host, own, proof);
	return send_all(socket, proof, sizeof(proof), deadline);
}

/* A host that turns this rank away finds out who it is while the connection is there, and closes
 * it then. */
static void await_end(const struct tt_store_socket *socket)
{
	uint8_t byte;

	while (tt_store_receive(socket, &byte, 1, tt_now() + LEAVE_MS * MILLISECOND) == 0)
		continue;
}

static int exchange_hellos(const struct tt_store_socket *socket, const struct tt_key *key, int rank,
			   const uint8_t nonce[TT_NONCE_BYTES], uint64_t deadline,
			   const char **fault, bool *proven)
{
	const bool keyed = tt_key_is_set(key);
	uint8_t own[TT_WIRE_HELLO], host[TT_WIRE_HELLO];

	tt_wire_put_hello(keyed ? TT_WIRE_KEYED : 0, rank, nonce, own);
	int error = send_all(socket, own, sizeof(own), deadline);
	if (error == 0)
		error = receive_hello(socket, keyed, host, deadline, fault);
	if (error == 0 && !*fault && keyed)
		error = exchange_proofs(socket, key, host, own, deadline, proven);
	if (error == 0 && rank >= 0 && (*fault || !*proven))
		await_end(socket);
	return error;
}

struct attempt {
	const char *address;
	const struct tt_key *key;
	int rank; /* see tt_store_open() */
	struct tt_tls *tls;
	struct tt_store_address parsed;
	uint64_t start, deadline;
	bool noticed;
	const char *why; /* what the last attempt met */
};

/* TUTTI_IN_PROGRESS: the other end went away again. */
static tutti_result_t secure(struct attempt *a, struct tt_store_socket *socket)
{
	tutti_result_t result = tt_tls_stream_open(a->tls, socket->fd, true, &socket->tls);
	char why[TT_ERROR_MAX];
	int error = 0;

	if (result == TUTTI_OK)
		result = tt_tls_handshake(socket->tls);
	while (result == TUTTI_IN_PROGRESS && error == 0) {
		error = wait_for(socket->fd, tt_tls_blocked(socket->tls) ? POLLOUT : POLLIN,
				 a->deadline);
		if (error == 0)
			result = tt_tls_handshake(socket->tls);
	}
	if (error == ETIMEDOUT)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, STORE,
			"the store %s took the connection, but did not answer the TLS handshake: is it another program's "
			"address?",
			a->address);
	if (error != 0 || result == TUTTI_ERR_PEER_LOST) {
		a->why = error ? strerror(error) : "it closed the connection";
		return TUTTI_IN_PROGRESS;
	}
	if (result == TUTTI_OK)
		return TUTTI_OK;
	snprintf(why, sizeof(why), "%s", tt_thread_error());
	return tt_fail(result, STORE, "the store %s: %s", a->address, why);
}

/* A connection is up: is a store at its other end? TUTTI_IN_PROGRESS: it went away again. */
static tutti_result_t greet(struct attempt *a, struct tt_store_socket *socket)
{
	const char *fault = NULL;
	uint8_t nonce[TT_NONCE_BYTES];
	bool proven = true;
	char who[TT_UNIX_PEER_TEXT];

	if (a->parsed.local && !tt_unix_peer_trusted(socket->fd))
		return tt_fail(
			TUTTI_ERR_SYSTEM, STORE,
			"the store %s is served by %s: expected user %ld or root; choose another name (TUTTI_STORE) or end that "
			"process",
			a->address, tt_unix_peer_text(socket->fd, who), (long)geteuid());
	if (tt_nonce_make(nonce) < 0)
		return TUTTI_ERR_SYSTEM;
	if (a->tls && !a->parsed.local) {
		const tutti_result_t result = secure(a, socket);

		if (result)
			return result;
	}
	const int error =
		exchange_hellos(socket, a->key, a->rank, nonce, a->deadline, &fault, &proven);
	if (error == ETIMEDOUT)
		return tt_fail(TUTTI_ERR_TIMEOUT, STORE,
			       "the store %s took the connection, but said nothing for %.1f s: is "
			       "it another "
			       "program's address?",
			       a->address, (double)(tt_now() - a->start) * 1e-9);
	if (error != 0) {
		a->why = strerror(error);
		return TUTTI_IN_PROGRESS;
	}
	if (fault)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "what listens at the store's address %s %s", a->address, fault);
	if (!proven)
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the key of this rank is not that of the job: the host of the store %s has another; "
			"give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
			a->address);
	return TUTTI_OK;
}

/* Try every address once. TUTTI_IN_PROGRESS: none answered, try again. */
static tutti_result_t attempt_all(struct attempt *a, struct tt_store_socket *out)
{
	struct tt_store_targets targets;

	a->why = tt_store_address_resolve(&a->parsed, false, &targets);
	if (!tt_key_is_set(a->key) && tt_store_loopback_only(&targets))
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the store %s is not on the loopback interface, and there is no key: give all ranks the "
			"same TUTTI_KEY or TUTTI_KEY_FILE",
			a->address);
	for (int i = 0; i < targets.count; i++) {
		const uint64_t limit = tt_now() + TRY_MS * MILLISECOND;
		struct tt_store_socket socket = { .fd = -1 };
		const int error = connect_at(&targets.at[i], targets.length[i],
					     limit < a->deadline ? limit : a->deadline, &socket.fd);

		if (error != 0) {
			a->why = strerror(error);
			errno = error;
			if (!passing(error))
				return tt_fail_errno(STORE, "connect to the store %s", a->address);
			continue;
		}
		const tutti_result_t result = greet(a, &socket);
		if (result == TUTTI_OK) {
			*out = socket;
			return TUTTI_OK;
		}
		tt_store_disconnect(&socket);
		if (result < 0)
			return result;
	}
	return TUTTI_IN_PROGRESS;
}

/* An eighth of the time waited so far: ranks started together meet at once, and a long wait costs
 * nothing. */
static void back_off(const struct attempt *a)
{
	const uint64_t least = MILLISECOND / 10, most = 50 * MILLISECOND;
	const uint64_t now = tt_now(), left = a->deadline > now ? a->deadline - now : 0;
	uint64_t pause = (now - a->start) / 8;

	pause = pause < least ? least : pause > most ? most : pause;
	pause = pause < left ? pause : left;
	nanosleep(&(struct timespec){ .tv_nsec = (long)pause }, NULL);
}

static void notice(struct attempt *a)
{
	if (a->noticed || tt_now() - a->start < NOTICE_MS * MILLISECOND)
		return;
	a->noticed = true;
	tt_log(WARN, STORE, "still waits for the store %s after %d s: %s", a->address,
	       NOTICE_MS / 1000, a->why);
}

/* A child begun without the handlers of fork() may hold the socket, too: the host must see the
 * end all the same. */
void tt_store_disconnect(struct tt_store_socket *socket)
{
	tt_tls_stream_close(socket->tls);
	shutdown(socket->fd, SHUT_RDWR);
	tt_fd_close(socket->fd);
}

tutti_result_t tt_store_connect(const char *address, const struct tt_key *key, int rank,
				struct tt_tls *tls, uint64_t deadline, struct tt_store_socket *out)
{
	struct attempt a = { .address = address,
			     .key = key,
			     .rank = rank,
			     .tls = tls,
			     .start = tt_now(),
			     .deadline = deadline };
	tutti_result_t result = tt_store_address_parse(address, &a.parsed);

	if (result != TUTTI_OK)
		return result;
	if (!a.parsed.local && atoi(a.parsed.port) == 0)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the store address \"%s\" has port 0, which only its host can open: "
			       "expected "
			       "the port that tutti_store_address() gave there",
			       address);
	for (;;) {
		result = attempt_all(&a, out);
		if (result != TUTTI_IN_PROGRESS)
			return result;
		if (tt_now() >= deadline)
			return tt_fail(
				TUTTI_ERR_TIMEOUT, STORE,
				"nobody serves the store %s; tried for %.1f s, last: %s. Is rank 0 "
				"running, and the address that of its machine?",
				address, (double)(tt_now() - a.start) * 1e-9, a.why);
		notice(&a);
		back_off(&a);
	}
}
