/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns who is there of a store's clients, and what they send until it is a whole message: the
 * half-read request of each. What a message does is in store_pending.c and
 * store_requests.c.
 *
 * A client that does what its state does not allow is dropped. Dropped clients stay in memory
 * until tt_store_clients_bury(), as the batch of events in hand may still name them; what they
 * attended ends there, too, since telling others of it may drop more. */
#include "store_clients.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "store_requests.h"
#include "store_session.h"
#include "store_pending.h"

#define SILENT_MAX 2 /* messages without an answer in one turn of a client */

static void handle_header(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!tt_wire_get_header(c->fixed, &c->header) || c->header.kind == TT_WIRE_ANSWER ||
	    c->header.kind == TT_WIRE_NEWS) {
		tt_store_client_drop(s, c, "sent bytes that are no request");
		return;
	}
	if (c->header.kind == TT_WIRE_LEAVE) {
		tt_store_client_leave(c);
		tt_store_client_read_next(s, c);
		return;
	}
	const size_t body = (size_t)c->header.key_length + c->header.value_length;
	c->in = malloc(body + 1);
	if (!c->in) {
		tt_store_client_drop(s, c, "sends a value for which there is no memory");
		return;
	}
	c->state = TT_CLIENT_READING_BODY;
	c->in_length = body;
	c->in_done = 0;
}

/* Where the bytes to come belong. In a body, the place after the key is for its closing zero. */
static uint8_t *reading_place(struct tt_store_client *c, size_t *capacity)
{
	*capacity = c->in_length - c->in_done;
	if (c->state != TT_CLIENT_READING_BODY)
		return c->fixed + c->in_done;
	if (c->in_done >= c->header.key_length)
		return c->in + 1 + c->in_done;
	*capacity = c->header.key_length - c->in_done;
	return c->in + c->in_done;
}

static void handle_complete(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (c->state == TT_CLIENT_READING_HEADER) {
		handle_header(s, c);
	} else {
		c->in[c->header.key_length] = 0;
		tt_store_client_request(s, c);
	}
}

static bool reading(const struct tt_store_client *c)
{
	return c->state == TT_CLIENT_READING_HEADER || c->state == TT_CLIENT_READING_BODY;
}

/* Was what the client sent last one of the messages that have no answer? */
static bool was_silent(const struct tt_store_client *c)
{
	return c->header.kind == TT_WIRE_ATTEND || c->header.kind == TT_WIRE_LEAVE;
}

/* Read until nothing more is there or one request is done with, so that no client starves the
 * others. What comes in front of it may have come with it, and of what TLS has decrypted no
 * event tells. */
static void client_read(struct tt_store_clients *s, struct tt_store_client *c)
{
	bool request = false;

	for (int silent = 0;
	     reading(c) && !request && (c->connection.tls || silent < SILENT_MAX);) {
		size_t capacity;
		uint8_t *place = reading_place(c, &capacity);
		const ssize_t n = tt_connection_receive(c->connection, place, capacity);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			tt_store_client_drop(s, c, NULL);
			return;
		}
		c->in_done += (size_t)n;
		if (c->in_done == c->in_length) {
			const enum tt_client_state before = c->state;

			handle_complete(s, c);
			silent += c->state == TT_CLIENT_READING_HEADER && was_silent(c);
			request = before == TT_CLIENT_READING_BODY && !was_silent(c);
		}
	}
}

/* ---------------------------------------------------------------- coming and going */

void tt_store_clients_add(struct tt_store_clients *s, int fd, const struct sockaddr_storage *from)
{
	struct tt_store_client *c = tt_store_pending_receive(s, fd, from);

	if (c)
		tt_store_client_event(s, c, EPOLLIN); /* its hello is often there by now */
}

void tt_store_client_event(struct tt_store_clients *s, struct tt_store_client *c, uint32_t events)
{
	if (c->state == TT_CLIENT_PENDING)
		tt_store_pending_step(s, c);
	if (reading(c)) {
		client_read(s, c);
	} else if (c->state == TT_CLIENT_PARKED) {
		tt_store_client_drop(
			s, c,
			events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
				? NULL
				: "sent a request before the answer to the one before");
	} else if (c->state == TT_CLIENT_ANSWERING) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			tt_store_client_drop(s, c, "left before its answer was sent");
		else
			tt_store_client_write_answer(s, c);
	}
}

void tt_store_clients_expire(struct tt_store_clients *s, uint64_t now)
{
	if (now < s->next_deadline)
		return;
	s->next_deadline = TT_STORE_NEVER;
	for (struct tt_store_client *c = s->first, *next; c; c = next) {
		next = c->next;
		if (c->deadline > now) {
			tt_store_client_set_deadline(s, c, c->deadline);
		} else if (c->state == TT_CLIENT_PENDING) {
			tt_store_pending_turn_away(s, c, "did not introduce itself in time");
		} else {
			tt_store_client_unpark(s, c);
			tt_store_client_answer(s, c, TT_WIRE_MISSING);
		}
	}
}

bool tt_store_clients_stuck(const struct tt_store_clients *s)
{
	for (const struct tt_store_client *c = s->first; c; c = c->next)
		if (c->state != TT_CLIENT_PARKED)
			return false;
	return true;
}

void tt_store_clients_bury(struct tt_store_clients *s)
{
	while (s->gone) {
		struct tt_store_client *c = s->gone;

		s->gone = c->next;
		tt_store_client_mourn(s, c);
		tt_store_client_leave(c);
		tt_tls_stream_close(c->connection.tls);
		free(c->in);
		free(c->out);
		free(c);
	}
}

/* So that they do not take the host for dead. */
static void send_closed(const struct tt_store_client *c)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_NEWS, .status = TT_WIRE_CLOSED };
	uint8_t bytes[TT_WIRE_HEADER];

	tt_wire_put_header(&header, bytes);
	if (c->state == TT_CLIENT_PARKED || c->state == TT_CLIENT_READING_HEADER)
		tt_connection_send(c->connection, bytes, sizeof(bytes));
}

void tt_store_clients_finish(struct tt_store_clients *s)
{
	for (struct tt_store_client *c = s->first; c; c = c->next)
		send_closed(c);
	while (s->first)
		tt_store_client_drop(s, s->first, "had not closed the store when its host did");
	tt_store_clients_bury(s);
	tt_store_keys_finish(&s->keys);
}
