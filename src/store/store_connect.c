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

#define MILLISECOND  1000000ull
#define TRY_MS	     3000 /* for one address to answer, before the next is tried */
#define FIRST_TRY_MS 250  /* of several, at first */
#define LEAVE_MS     500  /* for a host to close a connection that it turns away */
#define NOTICE_MS    5000 /* of waiting in silence */

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

int tt_store_send(const struct tt_connection *socket, struct iovec *iov, int n, uint64_t deadline)
{
	while (n > 0) {
		const ssize_t sent = tt_connection_send_vector(*socket, iov, n);

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

int tt_store_receive(const struct tt_connection *socket, void *data, size_t length,
		     uint64_t deadline)
{
	for (size_t done = 0; done < length;) {
		const ssize_t n =
			tt_connection_receive(*socket, (char *)data + done, length - done);

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
	case EACCES: /* a firewall or a route that forbids it (ICMPv6) */
	case ETIMEDOUT:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT: /* of one of several addresses */
	case EAGAIN: return true;
	}
	return false;
}

/* A host that turns this rank away finds out who it is while the connection is there, and closes
 * it then. */
static void await_end(int fd)
{
	const struct tt_connection plain = { .fd = fd }; /* whatever comes */
	const uint64_t until = tt_now() + LEAVE_MS * MILLISECOND;
	uint8_t byte;

	while (tt_now() < until && tt_store_receive(&plain, &byte, 1, until) == 0)
		continue;
}

struct attempt {
	const char *address;
	const struct tt_key *key;
	int rank; /* see tt_store_open() */
	struct tt_tls *tls;
	struct tt_store_address parsed;
	uint64_t start, deadline;
	bool noticed;
	char why[TT_ERROR_MAX]; /* what the last attempt met; "": there was none */
	tutti_result_t refused; /* by what listens at one of several hosts; 0: none did */
	char refusal[TT_ERROR_MAX];
};

static void note(struct attempt *a, const char *why)
{
	snprintf(a->why, sizeof(a->why), "%s", why);
}

/* An attempt that ends with the time of all of them says nothing of the host: what one before met
 * counts. */
static void note_error(struct attempt *a, int error)
{
	if (error != ETIMEDOUT || !*a->why || tt_now() < a->deadline)
		note(a,
		     error == ETIMEDOUT
			     ? "no reaction to the connection attempt, as where a firewall drops it"
			     : strerror(error));
}

/* An errno value if the socket failed, or the time is up. */
static int shake_hands(struct attempt *a, struct tt_connection *socket, struct tt_dialing *dialing,
		       uint64_t limit, enum tt_handshake_state *state)
{
	const struct tt_handshake_terms terms = { &tt_store_protocol, a->key,
						  a->parsed.local ? NULL : a->tls };
	const struct tt_hello hello = { .from = a->rank < 0 ? -1 : a->rank };
	int error = 0;

	*state = tt_dialing_begin(&terms, dialing, socket, &hello);
	while (error == 0 && (*state == TT_HANDSHAKE_READS || *state == TT_HANDSHAKE_WRITES)) {
		error = wait_for(socket->fd, *state == TT_HANDSHAKE_READS ? POLLIN : POLLOUT,
				 limit);
		if (error == 0)
			*state = tt_dialing_step(&terms, dialing, socket);
	}
	return error;
}

/* TUTTI_IN_PROGRESS: it went away again. */
static tutti_result_t refused(struct attempt *a, const struct tt_connection *socket,
			      const struct tt_dialing *dialing)
{
	const enum tt_verdict verdict = dialing->verdict;
	char why[TT_ERROR_MAX];

	snprintf(why, sizeof(why), "%s", dialing->why);
	if (verdict == TT_VERDICT_GONE) {
		note(a, why);
		return TUTTI_IN_PROGRESS;
	}
	if (a->rank >= 0 && verdict != TT_VERDICT_SYSTEM)
		await_end(socket->fd);
	if (verdict == TT_VERDICT_SYSTEM)
		return tt_fail(TUTTI_ERR_INVALID, STORE, "the store %s: %s", a->address, why);
	return tt_fail(TUTTI_ERR_INVALID, STORE, "what listens at the store's address %s %s",
		       a->address, why);
}

/* A connection is up: is a store at its other end? TUTTI_IN_PROGRESS: it went away again. */
static tutti_result_t greet(struct attempt *a, struct tt_connection *socket, uint64_t limit)
{
	enum tt_handshake_state state;
	struct tt_dialing dialing;
	char who[TT_UNIX_PEER_TEXT];

	if (a->parsed.local && !tt_unix_peer_trusted(socket->fd))
		return tt_fail(
			TUTTI_ERR_SYSTEM, STORE,
			"the store %s is served by %s: expected user %ld or root; choose another name (TUTTI_STORE) or end that "
			"process",
			a->address, tt_unix_peer_text(socket->fd, who), (long)geteuid());
	const int error = shake_hands(a, socket, &dialing, limit, &state);
	if (error == ETIMEDOUT)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, STORE,
			"the store %s took the connection, but said nothing for %.1f s: is its host stopped, or is it another program's address?",
			a->address, (double)(tt_now() - a->start) * 1e-9);
	if (error != 0) {
		note(a, strerror(error));
		return TUTTI_IN_PROGRESS;
	}
	return state == TT_HANDSHAKE_DONE ? TUTTI_OK : refused(a, socket, &dialing);
}

static bool has_several(const struct attempt *a)
{
	return !a->parsed.local &&
	       tt_store_next_host(&a->parsed, tt_store_next_host(&a->parsed, NULL));
}

/* For one address to answer: of several, some may be on networks that this machine is not on. */
static uint64_t patience_ms(struct attempt *a, int addresses)
{
	const uint64_t some = FIRST_TRY_MS + (tt_now() - a->start) / MILLISECOND / 4;

	return addresses > 1 && some < TRY_MS ? some : TRY_MS;
}

/* One address. TUTTI_IN_PROGRESS: nobody is there. */
static tutti_result_t attempt_at(struct attempt *a, const struct sockaddr_storage *at,
				 socklen_t length, uint64_t limit, struct tt_connection *out)
{
	struct tt_connection socket = { .fd = -1 };
	const int error = connect_at(at, length, limit, &socket.fd);

	if (error != 0) {
		note_error(a, error);
		errno = error;
		return passing(error) ? TUTTI_IN_PROGRESS
				      : tt_fail_errno(STORE, "connect to the store %s", a->address);
	}
	const tutti_result_t result = greet(a, &socket, has_several(a) ? limit : a->deadline);
	if (result == TUTTI_OK)
		*out = socket;
	else
		tt_store_disconnect(&socket);
	return result;
}

/* Of several hosts some are other machines by that address: what is there counts if no store is found. */
static void keep_refusal(struct attempt *a, tutti_result_t result)
{
	a->refused = result;
	snprintf(a->refusal, sizeof(a->refusal), "%s", tt_thread_error());
}

/* Try every address once. TUTTI_IN_PROGRESS: none answered, try again. */
static tutti_result_t attempt_all(struct attempt *a, struct tt_connection *out)
{
	struct tt_store_targets targets;
	const bool several = has_several(a);

	const char *fault = tt_store_address_resolve(&a->parsed, false, &targets);
	if (fault)
		note(a, fault);
	if (!tt_key_is_set(a->key) && tt_store_loopback_only(&targets))
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the store %s is not on the loopback interface, and there is no key: give all ranks the "
			"same TUTTI_KEY or TUTTI_KEY_FILE",
			a->address);
	for (int i = 0; i < targets.count; i++) {
		const uint64_t limit = tt_now() + patience_ms(a, targets.count) * MILLISECOND;
		const tutti_result_t result =
			attempt_at(a, &targets.at[i], targets.length[i],
				   limit < a->deadline ? limit : a->deadline, out);

		if (result == TUTTI_OK || (result < 0 && !several))
			return result;
		if (result < 0)
			keep_refusal(a, result);
	}
	return TUTTI_IN_PROGRESS;
}

/* The time is up. */
static tutti_result_t fail_nobody(struct attempt *a)
{
	if (a->refused)
		tt_thread_error_set(a->refusal);
	return a->refused
		       ? a->refused
		       : tt_fail(TUTTI_ERR_TIMEOUT, STORE,
				 "nobody serves the store %s; tried for %.1f s, last: %s. Is its host "
				 "running (rank 0, unless TUTTI_STORE_SERVED is set), and the address that of "
				 "its machine?",
				 a->address, (double)(tt_now() - a->start) * 1e-9, a->why);
}

/* An eighth of the time waited so far: ranks started together meet at once, and a long wait costs
 * nothing. */
static void back_off(const struct attempt *a)
{
	const uint64_t least = MILLISECOND / 10, most = 50 * MILLISECOND;
	const uint64_t left = tt_left(a->deadline);
	uint64_t pause = (tt_now() - a->start) / 8;

	pause = pause < least ? least : pause > most ? most : pause;
	pause = pause < left ? pause : left;
	nanosleep(&(struct timespec){ .tv_nsec = (long)pause }, NULL);
}

static void notice(struct attempt *a)
{
	const uint64_t waited = tt_now() - a->start;

	if (a->noticed || waited < NOTICE_MS * MILLISECOND)
		return;
	a->noticed = true;
	char rank[32] = "";
	if (a->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %d ", a->rank);
	tt_log(WARN, STORE, "%sstill waits for the store %s after %.0f s: %s", rank, a->address,
	       (double)waited * 1e-9, a->refused ? a->refusal : a->why);
}

/* A child begun without the handlers of fork() may hold the socket, too: the host must see the
 * end all the same. */
void tt_store_disconnect(struct tt_connection *socket)
{
	tt_tls_stream_close(socket->tls);
	shutdown(socket->fd, SHUT_RDWR);
	tt_fd_close(socket->fd);
}

tutti_result_t tt_store_connect(const char *address, const struct tt_key *key, int rank,
				struct tt_tls *tls, uint64_t deadline, struct tt_connection *out)
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
			return fail_nobody(&a);
		notice(&a);
		back_off(&a);
	}
}
