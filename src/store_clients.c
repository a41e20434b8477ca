/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the host of a store knows of each client: its half-read request, its half-written
 * answer, the key it waits for.
 *
 * Anybody may connect. Until a client has said hello and proven that it has the job's key it is a stranger: nothing but a
 * hello and a proof is kept of it, it has a deadline for both, and where strangers are too many, the
 * oldest is dropped; a rank that lost its place that way connects again.
 *
 * A client is in one state at a time and has one request at most, so what it can make the host keep
 * is bounded: one key, one value coming in, one going out, and what it attends. A client that does what its state does
 * not allow is dropped. Dropped clients stay in memory until tt_store_clients_bury(), as the batch
 * of events in hand may still name them; what they attended ends there, too, since telling others of it may drop more. */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "store.h"
#include "store_address.h"
#include "store_clients.h"
#include "store_wire.h"
#include "transport.h"

#define STRANGERS_MAX 512
#define SECOND	   1000000000ull
#define HELLO_WAIT (10 * SECOND) /* for a client to say hello and to prove that it has the key */
#define SILENT_MAX 2 /* messages without an answer in one turn of a client */

enum client_state { SECURING, GREETING, PROVING, READING_HEADER, READING_BODY, PARKED, ANSWERING, GONE };

struct attended {
	bool told;	 /* that it was ended, or it ended it itself */
	size_t length;	 /* of the prefix, behind which is a '/' */
	size_t word_length;
	uint8_t word[TT_WIRE_WORD_MAX]; /* for the others, should the client be lost */
	char prefix[TT_STORE_KEY_MAX + 2];
};

struct tt_store_client {
	struct tt_store_client *prev, *next;		   /* in clients->first or clients->gone */
	struct tt_store_client *prev_waiter, *next_waiter; /* PARKED: in entry->waiters */
	struct tt_store_entry *entry;			   /* PARKED: what it waits for */
	uint64_t deadline; /* SECURING, GREETING, PROVING, PARKED; TT_STORE_NEVER elsewhere */
	enum client_state state;
	int fd;
	struct tt_tls_stream *tls; /* NULL: plain */
	bool wants_out; /* epoll watches for room */
	struct tt_wire_header header;
	uint8_t own[TT_WIRE_HELLO];   /* GREETING: the hello it was sent; PROVING: its proof, if it has the key */
	uint8_t fixed[TT_WIRE_HELLO]; /* hello, proof or header coming in */
	uint8_t *in, *out;	      /* body coming in: key, 0, value; answer going out */
	size_t in_length, in_done, out_length, out_done;
	struct attended *attended;	    /* NULL: nothing */
	const struct tt_store_ending *news; /* to be told with the next answer, or before, if it has none to wait for */
	char name[64]; /* for the log */
};
static_assert(TT_WIRE_HEADER <= TT_WIRE_HELLO && TT_PROOF_BYTES <= TT_WIRE_HELLO, "`fixed` holds any");

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

static void unpark(struct tt_store_clients *s, struct tt_store_client *c)
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

static ssize_t put(const struct tt_store_client *c, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)(uintptr_t)bytes, length };

	return c->tls ? tt_tls_write(c->tls, &iov, 1) : send(c->fd, bytes, length, MSG_NOSIGNAL);
}

static ssize_t get(const struct tt_store_client *c, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return c->tls ? tt_tls_read(c->tls, &iov, 1) : recv(c->fd, bytes, length, 0);
}

static bool stranger(const struct tt_store_client *c)
{
	return c->state == SECURING || c->state == GREETING || c->state == PROVING;
}

static void drop(struct tt_store_clients *s, struct tt_store_client *c, const char *why)
{
	if (c->state == GONE)
		return;
	if (why)
		tt_log(INFO, STORE, "drops %s, which %s", c->name, why);
	s->strangers -= stranger(c);
	if (c->entry)
		unpark(s, c);
	/* a child of fork() may hold it a moment longer: then the client still sees the end, and the epoll no longer has it */
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	shutdown(c->fd, SHUT_RDWR);
	tt_fd_close(c->fd);
	list_remove(&s->first, c);
	list_add(&s->gone, c);
	c->state = GONE;
}

static void watch_out(struct tt_store_clients *s, struct tt_store_client *c, bool out)
{
	struct epoll_event event = { .events = (out ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP,
				     .data.ptr = c };

	if (c->wants_out == out)
		return;
	c->wants_out = out;
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static void set_deadline(struct tt_store_clients *s, struct tt_store_client *c, uint64_t deadline)
{
	c->deadline = deadline;
	if (deadline < s->next_deadline)
		s->next_deadline = deadline;
}

/* ---------------------------------------------------------------- answers */

static void tell_news(struct tt_store_clients *s, struct tt_store_client *c);

static void read_next(struct tt_store_clients *s, struct tt_store_client *c)
{
	free(c->in);
	free(c->out);
	c->in = c->out = NULL;
	c->state = READING_HEADER;
	c->in_length = TT_WIRE_HEADER;
	c->in_done = 0;
	watch_out(s, c, false);
	tell_news(s, c);
}

static void write_answer(struct tt_store_clients *s, struct tt_store_client *c)
{
	while (c->out_done < c->out_length) {
		const ssize_t n = put(c, c->out + c->out_done, c->out_length - c->out_done);

		if (n >= 0)
			c->out_done += (size_t)n;
		else if (errno == EAGAIN) {
			watch_out(s, c, true);
			return;
		} else if (errno != EINTR) {
			drop(s, c, "has closed its connection");
			return;
		}
	}
	read_next(s, c);
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
	const size_t news = c->news ? TT_WIRE_HEADER + c->attended->length + c->news->word_length : 0;

	c->out = malloc(news + length);
	c->out_length = c->out_done = 0;
	if (!c->out)
		drop(s, c, "asks for a value for which there is no memory");
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
	c->state = ANSWERING;
	write_answer(s, c);
}

/* Unless it waits for an answer, with which they come. */
static void tell_news(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!c->news || c->state != READING_HEADER || c->in_done > 0 || !begin_answer(s, c, 0))
		return;
	c->state = ANSWERING;
	write_answer(s, c);
}

static void answer(struct tt_store_clients *s, struct tt_store_client *c,
		   enum tt_wire_status status)
{
	answer_with(s, c, status, NULL, 0);
}

static void answer_entry(struct tt_store_clients *s, struct tt_store_client *c,
			 const struct tt_store_entry *entry)
{
	answer_with(s, c, TT_WIRE_DONE, entry->value, entry->length);
}

static void answer_ending(struct tt_store_clients *s, struct tt_store_client *c,
			  const struct tt_store_ending *ending)
{
	answer_with(s, c, TT_WIRE_ENDED, ending->word, ending->word_length);
}

/* ---------------------------------------------------------------- requests */

static void handle_set(struct tt_store_clients *s, struct tt_store_client *c,
		       struct tt_store_entry *entry)
{
	const uint8_t *value = c->in + c->header.key_length + 1;

	if (!tt_store_keys_put(&s->keys, entry, value, c->header.value_length)) {
		tt_store_keys_trim(&s->keys, entry);
		answer(s, c, TT_WIRE_FULL);
		return;
	}
	/* waiters first: whoever sets tends to wait for them next */
	while (entry->waiters) {
		struct tt_store_client *waiter = entry->waiters;

		unpark(s, waiter);
		answer_entry(s, waiter, entry);
	}
	answer(s, c, TT_WIRE_DONE);
}

static void note_news(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (c->attended && !c->attended->told)
		c->news = tt_store_keys_ending(&s->keys, c->attended->prefix);
}

/* Tell those who wait below the prefix or attend it, but for who said so. False without memory. */
static bool end_below(struct tt_store_clients *s, const struct tt_store_client *by, const char *prefix, const uint8_t *word,
		      size_t length)
{
	if (!tt_store_keys_end(&s->keys, prefix, word, length))
		return false;
	for (struct tt_store_client *c = s->first, *next; c; c = next) {
		const struct tt_store_ending *ending = c->entry ? tt_store_keys_ending(&s->keys, c->entry->key) : NULL;

		next = c->next;
		if (c == by)
			continue;
		note_news(s, c);
		if (ending) {
			unpark(s, c);
			answer_ending(s, c, ending);
		} else {
			tell_news(s, c);
		}
	}
	return true;
}

static void handle_end(struct tt_store_clients *s, struct tt_store_client *c, const char *prefix)
{
	struct attended *own = c->attended;

	if (!end_below(s, c, prefix, c->in + c->header.key_length + 1, c->header.value_length)) {
		answer(s, c, TT_WIRE_FULL);
		return;
	}
	if (own && tt_store_keys_ending(&s->keys, own->prefix))
		own->told = true;
	answer(s, c, TT_WIRE_DONE);
}

static void leave(struct tt_store_client *c)
{
	free(c->attended);
	c->attended = NULL;
	c->news = NULL;
}

/* What it attends may have been ended before it came. */
static void handle_attend(struct tt_store_clients *s, struct tt_store_client *c, const char *prefix)
{
	struct attended *attended = malloc(sizeof(*attended));

	if (!attended) {
		drop(s, c, "attends something for which there is no memory");
		return;
	}
	leave(c);
	attended->told = false;
	attended->length = c->header.key_length;
	attended->word_length = c->header.value_length;
	memcpy(attended->word, c->in + c->header.key_length + 1, c->header.value_length);
	snprintf(attended->prefix, sizeof(attended->prefix), "%s/", prefix);
	c->attended = attended;
	note_news(s, c);
	read_next(s, c);
}

/* It may have closed before it heard that it was to be dropped. */
static void mourn(struct tt_store_clients *s, struct tt_store_client *c)
{
	struct attended *attended = c->attended;

	if (!attended)
		return;
	attended->prefix[attended->length] = 0;
	tt_log(INFO, STORE, "%s was lost while it attended %s", c->name, attended->prefix);
	if (!end_below(s, c, attended->prefix, attended->word, attended->word_length))
		tt_log(WARN, STORE, "no memory to tell that %s was lost", c->name);
}

void tt_store_clients_bury(struct tt_store_clients *s)
{
	while (s->gone) {
		struct tt_store_client *c = s->gone;

		s->gone = c->next;
		mourn(s, c);
		leave(c);
		tt_tls_stream_close(c->tls);
		free(c->in);
		free(c->out);
		free(c);
	}
}

static void handle_get(struct tt_store_clients *s, struct tt_store_client *c,
		       struct tt_store_entry *entry)
{
	const struct tt_store_ending *ending = tt_store_keys_ending(&s->keys, entry->key);
	struct tt_store_client *first = entry->waiters;

	if (entry->present) {
		answer_entry(s, c, entry);
		return;
	}
	if (c->header.timeout_ms == 0 || ending) {
		tt_store_keys_trim(&s->keys, entry);
		if (c->header.timeout_ms == 0)
			answer(s, c, TT_WIRE_MISSING);
		else
			answer_ending(s, c, ending);
		return;
	}
	c->state = PARKED;
	c->entry = entry;
	c->prev_waiter = NULL;
	c->next_waiter = first;
	if (first)
		first->prev_waiter = c;
	entry->waiters = c;
	set_deadline(s, c, tt_now() + c->header.timeout_ms * (SECOND / 1000));
}

static void handle_request(struct tt_store_clients *s, struct tt_store_client *c)
{
	const char *key = (const char *)c->in;

	if (strlen(key) != c->header.key_length) {
		drop(s, c, "names a key with a zero byte");
		return;
	}
	if (c->header.kind == TT_WIRE_END || c->header.kind == TT_WIRE_ATTEND) {
		(c->header.kind == TT_WIRE_END ? handle_end : handle_attend)(s, c, key);
		return;
	}
	struct tt_store_entry *entry = tt_store_keys_entry(&s->keys, key);
	if (!entry)
		answer(s, c, TT_WIRE_FULL);
	else if (c->header.kind == TT_WIRE_SET)
		handle_set(s, c, entry);
	else
		handle_get(s, c, entry);
}

/* Anybody can bring these lines about. */
static void turn_away(struct tt_store_clients *s, struct tt_store_client *c, const char *why)
{
	unsigned left_out;

	if (tt_log_due(&s->quota, &left_out))
		tt_log(WARN, STORE, "drops %s, which %s (%u like it since the last such line)", c->name, why, left_out);
	drop(s, c, NULL);
}

static void let_in(struct tt_store_clients *s, struct tt_store_client *c)
{
	s->strangers--;
	c->deadline = TT_STORE_NEVER;
	read_next(s, c);
}

static void handle_hello(struct tt_store_clients *s, struct tt_store_client *c)
{
	uint8_t proof[TT_PROOF_BYTES], expected[TT_PROOF_BYTES];

	if (!tt_key_is_set(s->key)) {
		let_in(s, c);
		return;
	}
	tt_wire_prove(s->key, TT_WIRE_HOST, c->own, c->fixed, proof);
	tt_wire_prove(s->key, TT_WIRE_CLIENT, c->own, c->fixed, expected);
	memcpy(c->own, expected, sizeof(expected));
	c->state = PROVING;
	c->in_length = TT_PROOF_BYTES;
	c->in_done = 0;
	if (put(c, proof, sizeof(proof)) != sizeof(proof)) /* there is room after a hello */
		drop(s, c, "has closed its connection");
}

static void handle_proof(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (tt_proof_equal(c->fixed, c->own))
		let_in(s, c);
	else
		turn_away(s, c, "has another key than this job");
}

static void handle_header(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!tt_wire_get_header(c->fixed, &c->header) || c->header.kind == TT_WIRE_ANSWER || c->header.kind == TT_WIRE_NEWS) {
		drop(s, c, "sent bytes that are no request");
		return;
	}
	if (c->header.kind == TT_WIRE_LEAVE) {
		leave(c);
		read_next(s, c);
		return;
	}
	const size_t body = (size_t)c->header.key_length + c->header.value_length;
	c->in = malloc(body + 1);
	if (!c->in) {
		drop(s, c, "sends a value for which there is no memory");
		return;
	}
	c->state = READING_BODY;
	c->in_length = body;
	c->in_done = 0;
}

/* Where the bytes to come belong. In a body, the place after the key is for its closing zero. */
static uint8_t *reading_place(struct tt_store_client *c, size_t *room)
{
	*room = c->in_length - c->in_done;
	if (c->state != READING_BODY)
		return c->fixed + c->in_done;
	if (c->in_done >= c->header.key_length)
		return c->in + 1 + c->in_done;
	*room = c->header.key_length - c->in_done;
	return c->in + c->in_done;
}

static void handle_complete(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (c->state == GREETING) {
		handle_hello(s, c);
	} else if (c->state == PROVING) {
		handle_proof(s, c);
	} else if (c->state == READING_HEADER) {
		handle_header(s, c);
	} else {
		c->in[c->header.key_length] = 0;
		handle_request(s, c);
	}
}

static bool reading(const struct tt_store_client *c)
{
	return c->state == GREETING || c->state == PROVING || c->state == READING_HEADER || c->state == READING_BODY;
}

/* As far as it has come. */
static bool hello_good(struct tt_store_clients *s, struct tt_store_client *c)
{
	const char *fault = tt_wire_hello_fault(tt_key_is_set(s->key), c->fixed, c->in_done);

	if (fault)
		turn_away(s, c, fault);
	return !fault;
}

/* Was what the client sent last one of the messages that have no answer? */
static bool was_silent(const struct tt_store_client *c)
{
	return c->header.kind == TT_WIRE_ATTEND || c->header.kind == TT_WIRE_LEAVE;
}

/* Read until nothing more is there or one request is done with, so that no client starves the others. What comes in front of
 * it may have come with it, and of what TLS has decrypted no event tells. */
static void client_read(struct tt_store_clients *s, struct tt_store_client *c)
{
	bool request = false;

	for (int silent = 0; reading(c) && !request && (c->tls || silent < SILENT_MAX);) {
		size_t room;
		uint8_t *place = reading_place(c, &room);
		const ssize_t n = get(c, place, room);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			drop(s, c, NULL);
			return;
		}
		c->in_done += (size_t)n;
		if (c->state == GREETING && !hello_good(s, c))
			return;
		if (c->in_done == c->in_length) {
			const enum client_state before = c->state;

			handle_complete(s, c);
			silent += c->state == READING_HEADER && was_silent(c);
			request = before == READING_BODY && !was_silent(c);
		}
	}
}

static void greet(struct tt_store_clients *s, struct tt_store_client *c)
{
	c->state = GREETING;
	if (put(c, c->own, sizeof(c->own)) != sizeof(c->own)) /* fits an empty buffer */
		drop(s, c, "has closed its connection");
	else
		client_read(s, c); /* its hello is often there by now */
}

/* What it sent is taken first: a connection closed with bytes unread would lose the hello that says why. */
static void refuse_plain(struct tt_store_clients *s, struct tt_store_client *c)
{
	const uint8_t nonce[TT_NONCE_BYTES] = { 0 };

	tt_wire_put_hello(TT_WIRE_KEYED | TT_WIRE_ENCRYPTED, nonce, c->own);
	while (get(c, c->fixed, sizeof(c->fixed)) > 0)
		continue;
	put(c, c->own, sizeof(c->own));
	turn_away(s, c, "does not encrypt, as this job does: give all ranks the same TUTTI_ENCRYPT");
}

/* The first byte says whether a client encrypts. False: it is not there yet, or does not. */
static bool begin_tls(struct tt_store_clients *s, struct tt_store_client *c)
{
	uint8_t first;
	const ssize_t n = recv(c->fd, &first, 1, MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		drop(s, c, NULL);
	else if (first != TT_TLS_FIRST_BYTE)
		refuse_plain(s, c);
	else if (tt_tls_stream_open(s->tls, c->fd, false, &c->tls) < 0)
		turn_away(s, c, "finds no memory for TLS");
	return c->tls;
}

static void secure(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (!c->tls && !begin_tls(s, c))
		return;
	const tutti_result_t result = tt_tls_handshake(c->tls);

	if (result < 0) {
		turn_away(s, c, "did not get through the TLS handshake: it has another key than this job, or is no rank");
		return;
	}
	watch_out(s, c, result && tt_tls_blocked(c->tls));
	if (result == TUTTI_OK)
		greet(s, c);
}

void tt_store_client_event(struct tt_store_clients *s, struct tt_store_client *c, uint32_t events)
{
	if (c->state == SECURING) {
		secure(s, c);
	} else if (reading(c)) {
		client_read(s, c);
	} else if (c->state == PARKED) {
		drop(s, c,
		     events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
			     ? NULL
			     : "sent a request before the answer to the one before");
	} else if (c->state == ANSWERING) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			drop(s, c, "left before its answer was sent");
		else
			write_answer(s, c);
	}
}

/* ---------------------------------------------------------------- coming and going */

/* Fills in the client's name; false if it may not take part. */
static bool admit(struct tt_store_client *c, const struct sockaddr_storage *from)
{
	const int one = 1;
	long uid;

	if (from->ss_family == AF_UNIX) {
		const bool trusted = tt_store_peer_trusted(c->fd, &uid);

		snprintf(c->name, sizeof(c->name), "a process of user %ld", uid);
		return trusted;
	}
	tt_store_sockaddr_name(from, c->name, sizeof(c->name));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	return true;
}

void tt_store_clients_add(struct tt_store_clients *s, int fd, const struct sockaddr_storage *from)
{
	struct tt_store_client *c = calloc(1, sizeof(*c));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = c };
	uint8_t nonce[TT_NONCE_BYTES];

	if (s->strangers >= STRANGERS_MAX)
		tt_store_clients_drop_stranger(s);
	if (!c || tt_nonce_make(nonce) < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		tt_log(WARN, STORE, "refuses a connection: %s", strerror(errno));
		free(c);
		tt_fd_close(fd);
		return;
	}
	c->fd = fd;
	c->state = s->tls && from->ss_family != AF_UNIX ? SECURING : GREETING;
	c->in_length = TT_WIRE_HELLO;
	list_add(&s->first, c);
	s->strangers++;
	set_deadline(s, c, tt_now() + HELLO_WAIT);
	tt_wire_put_hello(tt_key_is_set(s->key) ? TT_WIRE_KEYED : 0, nonce, c->own);
	if (!admit(c, from))
		drop(s, c, "may not use the store: only its owner and root may");
	else if (c->state == SECURING)
		secure(s, c);
	else
		greet(s, c);
}

/* Does `a` make room before `b`? */
static bool less_welcome(const struct tt_store_client *a, const struct tt_store_client *b)
{
	return a->state != b->state ? a->state < b->state : a->deadline < b->deadline;
}

bool tt_store_clients_drop_stranger(struct tt_store_clients *s)
{
	struct tt_store_client *oldest = NULL;

	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (stranger(c) && (!oldest || less_welcome(c, oldest)))
			oldest = c;
	if (oldest)
		turn_away(s, oldest, "has waited longest of too many that have not proven that they belong to the job");
	return oldest;
}

void tt_store_clients_hurry(struct tt_store_clients *s, uint64_t deadline)
{
	for (struct tt_store_client *c = s->first; c; c = c->next)
		if (stranger(c) && c->deadline > deadline)
			set_deadline(s, c, deadline);
}

void tt_store_clients_expire(struct tt_store_clients *s, uint64_t now)
{
	if (now < s->next_deadline)
		return;
	s->next_deadline = TT_STORE_NEVER;
	for (struct tt_store_client *c = s->first, *next; c; c = next) {
		next = c->next;
		if (c->deadline > now) {
			set_deadline(s, c, c->deadline);
		} else if (stranger(c)) {
			turn_away(s, c, "did not introduce itself in time");
		} else {
			unpark(s, c);
			answer(s, c, TT_WIRE_MISSING);
		}
	}
}

bool tt_store_clients_stuck(const struct tt_store_clients *s)
{
	for (const struct tt_store_client *c = s->first; c; c = c->next)
		if (c->state != PARKED)
			return false;
	return true;
}

/* So that they do not take the host for dead. */
static void say_closed(const struct tt_store_client *c)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_NEWS, .status = TT_WIRE_CLOSED };
	uint8_t bytes[TT_WIRE_HEADER];

	tt_wire_put_header(&header, bytes);
	if (c->state == PARKED || c->state == READING_HEADER)
		put(c, bytes, sizeof(bytes));
}

void tt_store_clients_finish(struct tt_store_clients *s)
{
	for (struct tt_store_client *c = s->first; c; c = c->next)
		say_closed(c);
	while (s->first)
		drop(s, s->first, "had not closed the store when its host did");
	tt_store_clients_bury(s);
	tt_store_keys_finish(&s->keys);
}
