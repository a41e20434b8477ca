/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the connection of one client of a store: its bytes, the key it waits for, the answer and
 * the news on their way to it, and its end.
 *
 * A client is in one state at a time and has one request at most, so what it can make the host
 * keep is bounded: one key, one value coming in, one going out, and what it attends. */
#include "store_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "fork.h"
#include "log.h"
#include "transport.h"

#define MS 1000000ull

void tt_store_client_watch_out(struct tt_store_clients *s, struct tt_store_client *c, bool out)
{
	struct epoll_event event = { .events = (out ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP,
				     .data.ptr = c };

	if (c->wants_out == out)
		return;
	c->wants_out = out;
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->connection.fd, &event);
}

void tt_store_client_set_deadline(struct tt_store_clients *s, struct tt_store_client *c,
				  uint64_t deadline)
{
	c->deadline = deadline;
	if (deadline < s->next_deadline)
		s->next_deadline = deadline;
}

void tt_store_client_park(struct tt_store_clients *s, struct tt_store_client *c,
			  struct tt_store_entry *entry)
{
	struct tt_store_client *first = entry->waiters;

	c->state = TT_CLIENT_PARKED;
	c->entry = entry;
	c->prev_waiter = NULL;
	c->next_waiter = first;
	if (first)
		first->prev_waiter = c;
	entry->waiters = c;
	tt_store_client_set_deadline(s, c, tt_now() + c->header.timeout_ms * MS);
}

void tt_store_client_unpark(struct tt_store_clients *s, struct tt_store_client *c)
{
	struct tt_store_client *first = c->entry->waiters;

	*(c->prev_waiter ? &c->prev_waiter->next_waiter : &first) = c->next_waiter;
	if (c->next_waiter)
		c->next_waiter->prev_waiter = c->prev_waiter;
	c->entry->waiters = first;
	tt_store_keys_trim(&s->keys, c->entry);
	c->entry = NULL;
	c->deadline = TT_STORE_NEVER;
}

static void list_remove(struct tt_store_client **list, struct tt_store_client *c)
{
	*(c->prev ? &c->prev->next : list) = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static void list_add(struct tt_store_client **list, struct tt_store_client *c)
{
	c->prev = NULL;
	c->next = *list;
	if (*list)
		(*list)->prev = c;
	*list = c;
}

void tt_store_client_enter(struct tt_store_clients *s, struct tt_store_client *c)
{
	list_add(&s->first, c);
	s->pending++;
}

void tt_store_client_drop(struct tt_store_clients *s, struct tt_store_client *c, const char *why)
{
	if (c->state == TT_CLIENT_GONE)
		return;
	if (why)
		tt_log(INFO, STORE, "drops %s, which %s", c->name, why);
	s->pending -= c->state == TT_CLIENT_PENDING;
	if (c->entry)
		tt_store_client_unpark(s, c);
	/* a child of fork() may hold it a moment longer: then the client still sees the end, and
	 * the epoll no longer has it */
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->connection.fd, NULL);
	shutdown(c->connection.fd, SHUT_RDWR);
	tt_fd_close(c->connection.fd);
	list_remove(&s->first, c);
	list_add(&s->gone, c);
	c->state = TT_CLIENT_GONE;
}

/* ---------------------------------------------------------------- answers */

void tt_store_client_read_next(struct tt_store_clients *s, struct tt_store_client *c)
{
	free(c->in);
	free(c->out);
	c->in = c->out = NULL;
	c->state = TT_CLIENT_READING_HEADER;
	c->in_length = TT_WIRE_HEADER;
	c->in_done = 0;
	tt_store_client_watch_out(s, c, false);
	tt_store_client_send_news(s, c);
}

void tt_store_client_write_answer(struct tt_store_clients *s, struct tt_store_client *c)
{
	while (c->out_done < c->out_length) {
		const ssize_t n = tt_connection_send(c->connection, c->out + c->out_done,
						     c->out_length - c->out_done);

		if (n >= 0)
			c->out_done += (size_t)n;
		else if (errno == EAGAIN) {
			tt_store_client_watch_out(s, c, true);
			return;
		} else if (errno != EINTR) {
			tt_store_client_drop(s, c, "has closed its connection");
			return;
		}
	}
	tt_store_client_read_next(s, c);
}

static void append(struct tt_store_client *c, const void *bytes, size_t length)
{
	if (length > 0)
		memcpy(c->out + c->out_length, bytes, length);
	c->out_length += length;
}

static void append_header(struct tt_store_client *c, const struct tt_wire_header *header)
{
	uint8_t bytes[TT_WIRE_HEADER];

	tt_wire_put_header(header, bytes);
	append(c, bytes, sizeof(bytes));
}

static void append_news(struct tt_store_client *c)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_NEWS,
					       .status = TT_WIRE_ENDED,
					       .key_length = (uint8_t)c->attended->length,
					       .value_length = (uint32_t)c->news->word_length };

	append_header(c, &header);
	append(c, c->attended->prefix, c->attended->length);
	append(c, c->news->word, c->news->word_length);
	c->news = NULL;
	c->attended->told = true;
}

/* Room for `length` bytes and the news, which are put there. */
static bool begin_answer(struct tt_store_clients *s, struct tt_store_client *c, size_t length)
{
	const size_t news =
		c->news ? TT_WIRE_HEADER + c->attended->length + c->news->word_length : 0;

	c->out = malloc(news + length);
	c->out_length = c->out_done = 0;
	if (!c->out)
		tt_store_client_drop(s, c, "asks for a value for which there is no memory");
	else if (c->news)
		append_news(c);
	return c->out;
}

static void answer_with(struct tt_store_clients *s, struct tt_store_client *c,
			enum tt_wire_status status, const void *value, size_t length)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_ANSWER,
					       .status = (uint8_t)status,
					       .value_length = (uint32_t)length };

	if (!begin_answer(s, c, TT_WIRE_HEADER + length))
		return;
	append_header(c, &header);
	append(c, value, length);
	c->state = TT_CLIENT_ANSWERING;
	tt_store_client_write_answer(s, c);
}

void tt_store_client_send_news(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!c->news || c->state != TT_CLIENT_READING_HEADER || c->in_done > 0 ||
	    !begin_answer(s, c, 0))
		return;
	c->state = TT_CLIENT_ANSWERING;
	tt_store_client_write_answer(s, c);
}

void tt_store_client_answer(struct tt_store_clients *s, struct tt_store_client *c,
			    enum tt_wire_status status)
{
	answer_with(s, c, status, NULL, 0);
}

void tt_store_client_answer_entry(struct tt_store_clients *s, struct tt_store_client *c,
				  const struct tt_store_entry *entry)
{
	answer_with(s, c, TT_WIRE_DONE, entry->value, entry->length);
}

void tt_store_client_answer_ending(struct tt_store_clients *s, struct tt_store_client *c,
				   const struct tt_store_ending *ending)
{
	answer_with(s, c, TT_WIRE_ENDED, ending->word, ending->word_length);
}
