/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from a peer's card to a connection that the peer has accepted. The candidates are
 * tried in order, each a little after the one before it, without giving that up: a rank that
 * computes answers late, and one that accepted must not find its choice closed. The first to be
 * accepted wins; only then are the others closed. A dial ends when every attempt has failed
 * several times over, and at once when this rank has no descriptor left; one that waits for its
 * answer does so until it is dropped: the deadline is the operation's. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"

#define CONNECT_MS  5000 /* for an address to react at all */
#define STAGGER_MS  300	 /* from one candidate to the next, while it does not react */
#define PATIENCE_MS 2000 /* the same, when it reacted and its handshake is to come */
#define ROUNDS	    7 /* of failing attempts; after the k-th we wait 2^k × BACKOFF_MS: 3 s in all */
#define SILENT_ROUNDS                                                                              \
	2 /* after which addresses of which one does not react at all are given up, where the      \
	   * others refuse: 10 s, in which the kernel asks six times */
#define BACKOFF_MS 25

static int find_candidates(struct tcp_endpoint *e, int to, struct tcp_candidate *out)
{
	const struct tt_peer *peer = &e->known[to];
	const int proven = e->peers[to].proven;
	struct tcp_card card;
	int n;

	if (!tt_tcp_card_read(peer->address, peer->address_length, &card))
		return 0;
	n = tt_tcp_candidates(&e->card, &card, out, !proven);
	if (proven && proven <= n) {
		out[0] = out[proven - 1];
		n = 1;
	}
	return n;
}

static tutti_result_t dial_at(struct tcp_endpoint *e, const struct tt_hello *hello,
			      const struct tcp_candidate *candidates, int n, int rounds)
{
	struct tcp_dial *dial = calloc(1, sizeof(*dial) + (size_t)n * sizeof(dial->attempts[0]));

	if (!dial)
		return tt_fail_errno(TCP, "connect to rank %d", hello->to);
	dial->endpoint = e;
	dial->hello = *hello;
	dial->round = ROUNDS - rounds;
	dial->count = n;
	for (int i = 0; i < n; i++) {
		dial->attempts[i].source = (struct tcp_source){ TCP_ATTEMPT, { .fd = -1 } };
		dial->attempts[i].dial = dial;
		dial->attempts[i].candidate = candidates[i];
	}
	dial->next = e->dials;
	e->dials = dial;
	e->dial_count++;
	tt_tcp_dial_step(dial, tt_now());
	return TUTTI_OK;
}

tutti_result_t tt_tcp_dial(struct tcp_endpoint *e, const struct tt_hello *hello)
{
	struct tcp_candidate candidates[TCP_CANDIDATES_MAX];
	const int n = find_candidates(e, hello->to, candidates);

	if (n == 0)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, TCP,
			"rank %d has no address that rank %d can connect to; TUTTI_LOG=tcp:debug "
			"shows the addresses and why each is passed over",
			hello->to, e->rank);
	return dial_at(e, hello, candidates, n, ROUNDS);
}

tutti_result_t tt_tcp_dial_way(struct tcp_endpoint *e, const struct tt_hello *hello,
			       const struct tcp_candidate *way)
{
	return dial_at(e, hello, way, 1, 1);
}

static void hang_up(struct tcp_attempt *attempt)
{
	if (attempt->source.connection.fd < 0)
		return;
	tt_tcp_unwatch(attempt->dial->endpoint, &attempt->source);
	tt_tls_stream_close(attempt->source.connection.tls);
	tt_fd_close(attempt->source.connection.fd);
	attempt->source.connection = (struct tt_connection){ .fd = -1 };
}

/* Closes what is open, takes the dial off the endpoint, frees it in time. */
static void finish(struct tcp_dial *dial)
{
	struct tcp_endpoint *e = dial->endpoint;
	struct tcp_dial **at = &e->dials;

	for (int i = 0; i < dial->count; i++)
		hang_up(&dial->attempts[i]);
	while (*at != dial)
		at = &(*at)->next;
	*at = dial->next;
	e->dial_count--;
	tt_tcp_release(e, &dial->released);
}

static void give_up(struct tcp_dial *dial)
{
	struct tcp_endpoint *e = dial->endpoint;
	const struct tt_hello hello = dial->hello;
	struct tt_fault fault = { .result = dial->shortage ? TUTTI_ERR_SYSTEM : TUTTI_ERR_PEER_LOST,
				  .rank = dial->shortage ? e->rank : hello.to };

	snprintf(fault.text, sizeof(fault.text), "rank %d cannot be reached from rank %d: %s",
		 hello.to, e->rank, dial->last);
	if (hello.to < e->rank) { /* asked, see tt_tcp_control_ask() */
		e->peers[hello.to].gone = dial->refused == dial->count;
		finish(dial);
		return;
	}
	finish(dial);
	if (hello.purpose == TCP_FOR_DATA && hello.channel >= TT_CHANNELS)
		tt_tcp_rail_failed(e->peers[hello.to].link[hello.channel % TT_CHANNELS],
				   hello.channel / TT_CHANNELS);
	else if (hello.purpose == TCP_FOR_DATA)
		tt_tcp_link_fail(e->peers[hello.to].link[hello.channel], &fault);
	else if (fault.rank == e->rank)
		tt_tcp_own_fault(e, &fault);
	else
		tt_tcp_fault(e, &fault, NULL);
}

static void fail_attempt(struct tcp_attempt *attempt, const char *why, uint64_t now)
{
	struct tcp_dial *dial = attempt->dial;
	char text[TCP_ADDRESS_TEXT];

	snprintf(dial->last, sizeof(dial->last), "%s: %s",
		 tt_tcp_text(&attempt->candidate.to, text), why);
	tt_log(DEBUG, TCP, "rank %d not reached at %s (%s)", dial->hello.to, dial->last,
	       tt_tcp_path_name(attempt->candidate.path));
	hang_up(attempt);
	attempt->state = TCP_FAILED;
	dial->alive--;
	if (dial->begun < dial->count)
		dial->next_at = now;
	if (dial->begun < dial->count || dial->alive > 0)
		return;
	dial->begun = 0;
	dial->next_at = now + ((uint64_t)BACKOFF_MS << dial->round) * TCP_MS;
	dial->round++;
	if (dial->silent > 0 && dial->silent + dial->refused == dial->count &&
	    dial->round >= SILENT_ROUNDS)
		dial->round = ROUNDS;
	if (dial->round < ROUNDS)
		dial->refused = dial->silent = 0;
}

static void fail_connect(struct tcp_attempt *attempt, int error, uint64_t now)
{
	attempt->dial->refused += error == ECONNREFUSED;
	fail_attempt(attempt, strerror(error), now);
}

/* This rank itself has no descriptor or memory for the connection. */
static void run_short(struct tcp_attempt *attempt, uint64_t now)
{
	char text[TT_ERRNO_MAX];
	const int error = errno;

	fail_attempt(attempt, tt_errno_text(error, text), now);
	if (!tt_errno_is_shortage(error) || attempt->dial->alive > 0)
		return;
	attempt->dial->shortage = true;
	attempt->dial->round = ROUNDS;
}

static void win(struct tcp_attempt *attempt)
{
	struct tcp_dial *dial = attempt->dial;
	struct tcp_endpoint *e = dial->endpoint;
	const struct tt_hello hello = dial->hello;
	const struct tt_connection connection = attempt->source.connection;
	const int place = (int)(attempt - dial->attempts);
	char text[TCP_ADDRESS_TEXT];

	if (!e->peers[hello.to].proven) {
		e->peers[hello.to].proven = (uint8_t)(place + 1);
		tt_log(INFO, TCP, "rank %d reaches rank %d at %s (%s)", e->rank, hello.to,
		       tt_tcp_text(&attempt->candidate.to, text),
		       tt_tcp_path_name(attempt->candidate.path));
	}
	tt_tcp_unwatch(e, &attempt->source);
	attempt->source.connection = (struct tt_connection){ .fd = -1 }; /* finish() closes none */
	finish(dial);
	tt_tcp_connected(e, &hello, hello.to, connection);
}

static void follow(struct tcp_attempt *attempt, enum tt_handshake_state state, uint64_t now)
{
	struct tcp_endpoint *e = attempt->dial->endpoint;

	switch (state) {
	case TT_HANDSHAKE_READS: tt_tcp_watch_for(e, &attempt->source, EPOLLIN); break;
	case TT_HANDSHAKE_WRITES: tt_tcp_watch_for(e, &attempt->source, EPOLLOUT); break;
	case TT_HANDSHAKE_DONE: win(attempt); break;
	case TT_HANDSHAKE_FAILED: fail_attempt(attempt, attempt->handshake.why, now); break;
	}
}

/* The connection is up. */
static void introduce(struct tcp_attempt *attempt, uint64_t now)
{
	struct tcp_dial *dial = attempt->dial;

	attempt->state = TCP_ASKING;
	if (dial->begun < dial->count)
		dial->next_at = now + PATIENCE_MS * TCP_MS;
	follow(attempt,
	       tt_dialing_begin(&dial->endpoint->admission.terms, &attempt->handshake,
				&attempt->source.connection, &dial->hello),
	       now);
}

/* The port is chosen when it connects, so that it may be one that is used to other hosts. */
static bool bind_to(int fd, const struct tcp_candidate *way)
{
	const int on = 1;

	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, (const struct sockaddr *)&way->from, way->from_length) == 0;
}

static void start(struct tcp_dial *dial, uint64_t now)
{
	struct tcp_attempt *attempt = &dial->attempts[dial->begun++];
	const struct tcp_candidate *to = &attempt->candidate;
	const int fd =
		TT_FD(socket(to->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	dial->alive++;
	dial->next_at = now + STAGGER_MS * TCP_MS;
	attempt->source.connection.fd = fd;
	attempt->state = TCP_CONNECTING;
	attempt->deadline = now + CONNECT_MS * TCP_MS;
	if (fd < 0) {
		run_short(attempt, now);
		return;
	}
	tt_tcp_tune(dial->endpoint, fd, to->local);
	if (!tt_tcp_watch(dial->endpoint, &attempt->source, EPOLLOUT)) {
		run_short(attempt, now);
		return;
	}
	if (to->from_length && !bind_to(fd, to)) {
		fail_connect(attempt, errno, now);
		return;
	}
	if (connect(fd, (const struct sockaddr *)&to->to, to->length) == 0)
		introduce(attempt, now);
	else if (errno != EINPROGRESS && errno != EINTR)
		fail_connect(attempt, errno, now);
}

void tt_tcp_dial_step(struct tcp_dial *dial, uint64_t now)
{
	for (int i = 0; i < dial->begun; i++) {
		struct tcp_attempt *attempt = &dial->attempts[i];

		if (attempt->state == TCP_CONNECTING && now >= attempt->deadline) {
			dial->silent++;
			fail_attempt(
				attempt,
				"no reaction to the connection attempt: does a firewall drop it, or is its way cut? "
				"(TUTTI_PORT_RANGE names ports, TUTTI_INTERFACE interfaces)",
				now);
			break; /* the round may be over, and i with it */
		}
	}
	while (dial->begun < dial->count && now >= dial->next_at && dial->round < ROUNDS)
		start(dial, now);
	if (dial->round == ROUNDS)
		give_up(dial);
}

/* When to poll again although nothing happened. */
uint64_t tt_tcp_dial_due(const struct tcp_dial *dial)
{
	uint64_t due = UINT64_MAX;

	if (dial->begun < dial->count && dial->next_at < due)
		due = dial->next_at;
	for (int i = 0; i < dial->begun; i++)
		if (dial->attempts[i].state == TCP_CONNECTING && dial->attempts[i].deadline < due)
			due = dial->attempts[i].deadline;
	return due;
}

const char *tt_tcp_dial_trouble(const struct tcp_endpoint *e, int peer)
{
	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		if (dial->hello.to == peer)
			return dial->last;
	return "";
}

void tt_tcp_attempt_step(struct tcp_attempt *attempt, uint64_t now)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (attempt->state == TCP_ASKING) {
		follow(attempt,
		       tt_dialing_step(&attempt->dial->endpoint->admission.terms,
				       &attempt->handshake, &attempt->source.connection),
		       now);
		return;
	}
	if (getsockopt(attempt->source.connection.fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		error = errno;
	if (error)
		fail_connect(attempt, error, now);
	else
		introduce(attempt, now);
}

bool tt_tcp_dialling(const struct tcp_endpoint *e, int peer)
{
	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		if (dial->hello.to == peer)
			return true;
	return false;
}

bool tt_tcp_dial_is_silent(const struct tcp_endpoint *e, int peer, int slot)
{
	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		if (dial->hello.to == peer && dial->hello.purpose == TCP_FOR_DATA &&
		    dial->hello.channel == slot)
			return dial->attempts[0].state == TCP_CONNECTING;
	return false;
}

void tt_tcp_dial_drop(struct tcp_endpoint *e, int peer, int slot)
{
	for (struct tcp_dial *dial = e->dials; dial; dial = dial->next) {
		if (dial->hello.to == peer && dial->hello.purpose == TCP_FOR_DATA &&
		    dial->hello.channel == slot) {
			finish(dial);
			return;
		}
	}
}

void tt_tcp_dials_drop(struct tcp_endpoint *e)
{
	while (e->dials)
		finish(e->dials);
}
