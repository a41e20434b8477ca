/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a store that is reached through sockets: the idle connections, and the server if this
 * process hosts it.
 *
 * A call takes an idle connection, or makes one, and puts it back in the end: threads that wait
 * for keys do not hold up those that set them. A connection on which anything went wrong is
 * closed, so that a late answer is never taken for another's.
 *
 * A thread that attends something does so on a connection of its own, which no other uses
 * meanwhile: the host sees it end when the process does, and the thread may look for news
 * whenever it has no call under way. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failure.h"
#include "store.h"
#include "store_connect.h"
#include "store_server.h"
#include "store_wire.h"
#include "transport.h"

#define END_NS	   1000000000ull /* to tell it that a rank gives up */
#define ATTEND_MAX (TT_WIRE_HEADER + TT_STORE_KEY_MAX + TT_WIRE_WORD_MAX)

/* What a thread attends. */
struct attendance {
	pthread_t thread;
	char prefix[TT_STORE_KEY_MAX + 1];
	uint8_t unsaid[ATTEND_MAX]; /* bytes that the host is to be told with the next request */
	size_t unsaid_length;
	uint8_t word[TT_WIRE_WORD_MAX]; /* why it was ended */
	size_t word_length;		/* 0: it was not, as far as is known */
};

struct connection {
	struct connection *next;
	struct tt_connection socket;
	struct attendance *attendance; /* NULL: any thread's */
	bool closed;		       /* by the host, in order */
};

struct client_store {
	struct tutti_store base;
	struct tt_store_server *server; /* NULL: another process hosts it */
	uint64_t timeout_ns;		/* of opening and of set */
	struct tt_key key;
	int rank;	      /* that opened it; -1: unknown */
	struct tt_tls *tls;   /* NULL: connections are plain */
	pthread_mutex_t lock; /* of what follows */
	struct connection *idle;
	int lost; /* 0, or an errno value: the last that was heard of the host is that a
		   * connection ended so */
};

static const struct tt_store_ops client_ops;

static struct client_store *client_of(tutti_store_t store)
{
	assert(store->ops == &client_ops);
	return (struct client_store *)store;
}

static void connection_close(struct connection *c)
{
	tt_store_disconnect(&c->socket);
	free(c->attendance);
	free(c);
}

static void put_back(struct client_store *s, struct connection *c)
{
	pthread_mutex_lock(&s->lock);
	c->next = s->idle;
	s->idle = c;
	pthread_mutex_unlock(&s->lock);
}

static tutti_result_t connection_make(struct client_store *s, uint64_t deadline,
				      struct connection **out)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "connect to the store %s: no memory",
			       s->base.address);
	const tutti_result_t result =
		tt_store_connect(s->base.address, &s->key, s->rank, s->tls, deadline, &c->socket);
	if (result != TUTTI_OK) {
		free(c);
		return result;
	}
	pthread_mutex_lock(&s->lock);
	s->lost = 0;
	pthread_mutex_unlock(&s->lock);
	*out = c;
	return TUTTI_OK;
}

/* `in_order`: also of one that has closed so. */
static int loss_of(struct client_store *s, bool in_order)
{
	pthread_mutex_lock(&s->lock);
	const int lost = s->base.closed && !in_order ? 0 : s->lost;
	pthread_mutex_unlock(&s->lock);
	return lost;
}

static bool is_own(const struct connection *c)
{
	return c->attendance && pthread_equal(c->attendance->thread, pthread_self());
}

static bool is_free(const struct connection *c)
{
	return !c->attendance;
}

/* NULL: none is idle that is as it should be. */
static struct connection *take_idle(struct client_store *s, bool (*fits)(const struct connection *))
{
	struct connection **at = &s->idle;

	pthread_mutex_lock(&s->lock);
	while (*at && !fits(*at))
		at = &(*at)->next;
	struct connection *c = *at;
	if (c)
		*at = c->next;
	pthread_mutex_unlock(&s->lock);
	return c;
}

static tutti_result_t take(struct client_store *s, uint64_t deadline, struct connection **out)
{
	*out = take_idle(s, is_own);
	if (!*out)
		*out = take_idle(s, is_free);
	return *out ? TUTTI_OK : connection_make(s, deadline, out);
}

static tutti_result_t fail_talk(struct client_store *s, const char *verb, const char *key,
				int error)
{
	if (error == ETIMEDOUT)
		return tt_fail(TUTTI_ERR_TIMEOUT, STORE,
			       "%s \"%s\": the host of the store %s does not answer; it is "
			       "stopped, or the "
			       "network is cut",
			       verb, key, s->base.address);
	if (error == ECONNRESET) /* which all who lose it say alike */
		return tt_fail(TUTTI_ERR_PEER_LOST, STORE,
			       "%s%sthe host of the store %s%s has closed the connection or ended",
			       s->base.host ? s->base.host : "", s->base.host ? ", " : "",
			       s->base.address, s->base.host ? "," : "");
	errno = error;
	return tt_fail_errno(STORE, "%s \"%s\" in the store %s", verb, key, s->base.address);
}

/* The first word counts. */
static void note_end(struct attendance *a, const uint8_t *word, size_t length)
{
	if (a->word_length > 0)
		return;
	memcpy(a->word, word, length);
	a->word_length = length;
}

/* The rest of news, which may be of something that the thread has left meanwhile. */
static int take_news(struct connection *c, const struct tt_wire_header *header, uint64_t deadline)
{
	char prefix[TT_STORE_KEY_MAX + 1] = "";
	uint8_t word[TT_WIRE_WORD_MAX];

	if (header->status == TT_WIRE_CLOSED) {
		c->closed = true;
		return 0;
	}
	int error = tt_store_receive(&c->socket, prefix, header->key_length, deadline);
	if (error == 0)
		error = tt_store_receive(&c->socket, word, header->value_length, deadline);
	if (error == 0 && c->attendance && strcmp(prefix, c->attendance->prefix) == 0)
		note_end(c->attendance, word, header->value_length);
	return error;
}

/* News that have come, all of them; 0 or an errno value. */
static int read_news(struct connection *c)
{
	struct tt_wire_header header;
	uint8_t bytes[TT_WIRE_HEADER];
	int error;

	while ((error = tt_store_receive(&c->socket, bytes, 1, 0)) == 0) {
		const uint64_t deadline = tt_now() + END_NS; /* the rest was sent at once */

		error = tt_store_receive(&c->socket, bytes + 1, sizeof(bytes) - 1, deadline);
		if (error == 0 &&
		    (!tt_wire_get_header(bytes, &header) || header.kind != TT_WIRE_NEWS))
			error = EPROTO;
		if (error == 0)
			error = take_news(c, &header, deadline);
		if (error != 0)
			return error;
	}
	return error == ETIMEDOUT ? 0 : error;
}

/* Nothing more can be said on the connection, which may have ended behind word that the host
 * closes in order. */
static void lose(struct client_store *s, struct connection *c, int error)
{
	if (error == ECONNRESET)
		(void)read_news(c);
	pthread_mutex_lock(&s->lock);
	s->lost = error;
	s->base.closed |= c->closed;
	pthread_mutex_unlock(&s->lock);
	connection_close(c);
}

/* The header of an answer, behind any news. */
static int receive_header(struct connection *c, struct tt_wire_header *header, uint64_t deadline)
{
	uint8_t bytes[TT_WIRE_HEADER];
	int error;

	do {
		error = tt_store_receive(&c->socket, bytes, sizeof(bytes), deadline);
		if (error == 0 && !tt_wire_get_header(bytes, header))
			error = EPROTO;
		if (error == 0 && header->kind == TT_WIRE_NEWS)
			error = take_news(c, header, deadline);
	} while (error == 0 && header->kind == TT_WIRE_NEWS);
	return error != 0 || header->kind == TT_WIRE_ANSWER ? error : EPROTO;
}

static void note_answer(struct client_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->base.answered = true;
	pthread_mutex_unlock(&s->lock);
}

/* Send a request and read the header of its answer, which has a value for a get alone; 0 or an errno
 * value. */
static int request(struct client_store *s, struct connection *c, struct tt_wire_header *header,
		   const char *key, const void *value, uint64_t deadline)
{
	struct attendance *a = c->attendance;
	const bool gets = header->kind == TT_WIRE_GET;
	uint8_t bytes[TT_WIRE_HEADER];
	struct iovec iov[] = {
		{ a ? a->unsaid : NULL, a ? a->unsaid_length : 0 },
		{ bytes, sizeof(bytes) },
		{ (void *)(uintptr_t)key, strlen(key) },
		{ (void *)(uintptr_t)value, header->value_length },
	};

	header->key_length = (uint8_t)strlen(key);
	tt_wire_put_header(header, bytes);
	int error = tt_store_send(&c->socket, iov, 4, deadline);
	if (a)
		a->unsaid_length = 0;
	if (error == 0)
		error = receive_header(c, header, deadline);
	if (error == 0 && header->value_length > 0 && !gets)
		error = EPROTO;
	if (error == 0)
		note_answer(s);
	return error;
}

/* The host also refuses more than TT_STORE_TOTAL_MAX. */
static tutti_result_t fail_full(tutti_store_t store, const char *what, const char *key)
{
	return tt_fail(
		TUTTI_ERR_NO_MEMORY, STORE,
		"%s \"%s\": the host of the store %s has no memory left for keys and values, of which it "
		"takes 1 GiB at most; raise the limit of its process (ulimit -v, its control group)",
		what, key, store->address);
}

static uint64_t until(const struct client_store *s, uint64_t timeout_ns)
{
	return tt_now() + (timeout_ns ? timeout_ns : s->timeout_ns);
}

static tutti_result_t client_set(tutti_store_t store, const char *key, const void *value,
				 size_t length, uint64_t timeout_ns)
{
	struct client_store *s = client_of(store);
	struct tt_wire_header header = { .kind = TT_WIRE_SET, .value_length = (uint32_t)length };
	const uint64_t deadline = until(s, timeout_ns);
	struct connection *c = NULL;
	const tutti_result_t result = take(s, deadline, &c);

	if (result != TUTTI_OK)
		return result;
	const int error = request(s, c, &header, key, value, deadline);
	if (error != 0) {
		lose(s, c, error);
		return fail_talk(s, "set", key, error);
	}
	put_back(s, c);
	if (header.status != TT_WIRE_DONE)
		return fail_full(store, "set", key);
	return TUTTI_OK;
}

/* Read a value that is larger than the caller's buffer, to leave the connection clean. */
static int discard(const struct tt_connection *socket, size_t length, uint64_t deadline)
{
	char scratch[4096];

	while (length > 0) {
		const size_t part = length < sizeof(scratch) ? length : sizeof(scratch);
		const int error = tt_store_receive(socket, scratch, part, deadline);

		if (error != 0)
			return error;
		length -= part;
	}
	return 0;
}

static int receive_value(const struct tt_connection *socket, const struct tt_wire_header *header,
			 void *value, size_t capacity, uint8_t word[TT_WIRE_WORD_MAX],
			 uint64_t deadline)
{
	if (header->status == TT_WIRE_ENDED)
		return tt_store_receive(socket, word, header->value_length, deadline);
	return header->value_length <= capacity
		       ? tt_store_receive(socket, value, header->value_length, deadline)
		       : discard(socket, header->value_length, deadline);
}

/* What is below `key`, or that itself, will not come, and somebody said why. */
static tutti_result_t fail_ended(struct client_store *s, const char *key, const uint8_t *word,
				 size_t length)
{
	char error_text[TT_WIRE_WORD_MAX];
	tutti_result_t result;

	if (!tt_wire_get_word(word, length, &result, error_text))
		return fail_talk(s, "get", key, EPROTO);
	return tt_store_fail_ended(result, error_text);
}

static uint32_t milliseconds(uint64_t ns)
{
	const uint64_t ms = (ns + 999999) / 1000000;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static tutti_result_t client_get(tutti_store_t store, const char *key, void *value, size_t *length,
				 uint64_t timeout_ns, uint64_t answer_ns)
{
	struct client_store *s = client_of(store);
	struct tt_wire_header header = { .kind = TT_WIRE_GET,
					 .timeout_ms = milliseconds(timeout_ns) };
	const uint64_t deadline = tt_now() + timeout_ns + answer_ns;
	const size_t capacity = *length;
	uint8_t word[TT_WIRE_WORD_MAX];
	struct connection *c = NULL;
	const tutti_result_t result = take(s, deadline, &c);

	if (result != TUTTI_OK)
		return result;
	int error = request(s, c, &header, key, NULL, deadline);
	if (error == 0)
		error = receive_value(&c->socket, &header, value, capacity, word, deadline);
	if (error != 0) {
		lose(s, c, error);
		return fail_talk(s, "get", key, error);
	}
	put_back(s, c);
	if (header.status == TT_WIRE_MISSING)
		return TUTTI_IN_PROGRESS;
	if (header.status == TT_WIRE_ENDED)
		return fail_ended(s, key, word, header.value_length);
	if (header.status == TT_WIRE_FULL)
		return fail_full(store, "get", key);
	*length = header.value_length;
	return *length <= capacity ? TUTTI_OK
				   : tt_store_fail_capacity(store, key, capacity, *length);
}

/* A host that cannot be told soon is most likely gone, and those who wait see that themselves. */
static void client_end(tutti_store_t store, const char *prefix, tutti_result_t result,
		       const char *error_text)
{
	struct client_store *s = client_of(store);
	uint8_t word[TT_WIRE_WORD_MAX];
	const uint32_t length = tt_wire_put_word(result, error_text, word);
	struct tt_wire_header header = { .kind = TT_WIRE_END, .value_length = length };
	const uint64_t deadline = tt_now() + END_NS;
	struct connection *c = NULL;

	if (loss_of(s, true) || take(s, deadline, &c) != TUTTI_OK)
		return;
	const int error = request(s, c, &header, prefix, word, deadline);
	if (error != 0) {
		lose(s, c, error);
		return;
	}
	if (c->attendance && strcmp(c->attendance->prefix, prefix) == 0)
		note_end(c->attendance, word, length);
	put_back(s, c);
}

/* ---------------------------------------------------------------- what a thread attends */

static void put(struct attendance *a, const void *bytes, size_t length)
{
	memcpy(a->unsaid + a->unsaid_length, bytes, length);
	a->unsaid_length += length;
}

static struct attendance *make_attendance(const struct tt_attendance *from)
{
	struct attendance *a = calloc(1, sizeof(*a));
	uint8_t word[TT_WIRE_WORD_MAX], bytes[TT_WIRE_HEADER];
	const char *prefix = from->prefix;
	const struct tt_wire_header header = {
		.kind = TT_WIRE_ATTEND,
		.key_length = (uint8_t)strlen(prefix),
		.value_length = tt_wire_put_will(from->result, from->error_text, from->who, word),
		.member = (uint32_t)(from->member + 1)
	};

	if (!a)
		return NULL;
	a->thread = pthread_self();
	memcpy(a->prefix, prefix, strlen(prefix) + 1);
	tt_wire_put_header(&header, bytes);
	put(a, bytes, sizeof(bytes));
	put(a, prefix, strlen(prefix));
	put(a, word, header.value_length);
	return a;
}

/* Without a connection or memory the next call fails, too. */
static void client_attend(tutti_store_t store, const struct tt_attendance *attendance)
{
	struct client_store *s = client_of(store);
	struct attendance *a = make_attendance(attendance);
	struct connection *c = NULL;

	if (!a || take(s, until(s, attendance->timeout_ns), &c) != TUTTI_OK) {
		free(a);
		return;
	}
	free(c->attendance);
	c->attendance = a;
	put_back(s, c);
}

static void client_leave(tutti_store_t store)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_LEAVE };
	struct client_store *s = client_of(store);
	struct connection *c = take_idle(s, is_own);
	uint8_t bytes[TT_WIRE_HEADER];
	struct iovec iov = { bytes, sizeof(bytes) };

	if (!c)
		return;
	tt_wire_put_header(&header, bytes);
	/* also where the host was told of nothing but what the thread attended before */
	const int error = tt_store_send(&c->socket, &iov, 1, tt_now() + END_NS);
	if (error != 0) {
		lose(s, c, error);
		return;
	}
	free(c->attendance);
	c->attendance = NULL;
	put_back(s, c);
}

/* What is known counts, also when the connection ends behind it; and who closes in order has no
 * news any more. */
static tutti_result_t client_poll(tutti_store_t store)
{
	struct client_store *s = client_of(store);
	struct connection *c = take_idle(s, is_own);
	tutti_result_t result = TUTTI_OK;

	if (!c) {
		const int lost = loss_of(s, false);

		return lost ? fail_talk(s, "attend", store->address, lost) : TUTTI_OK;
	}
	const int error = c->closed ? 0 : read_news(c);
	const struct attendance *a = c->attendance;
	if (a->word_length > 0)
		result = fail_ended(s, a->prefix, a->word, a->word_length);
	else if (error != 0 && !c->closed)
		result = fail_talk(s, "attend", a->prefix, error);
	if (result == TUTTI_OK || a->word_length > 0)
		put_back(s, c);
	else
		lose(s, c, error);
	return result;
}

static void client_close(tutti_store_t store)
{
	struct client_store *s = client_of(store);

	while (s->idle) {
		struct connection *c = s->idle;

		s->idle = c->next;
		connection_close(c);
	}
	tt_store_server_stop(s->server, s->base.close_by);
	tt_tls_close(s->tls);
	pthread_mutex_destroy(&s->lock);
	tt_key_wipe(&s->key);
	free(s);
}

/* The thread of the server was changing what it keeps when the fork came, as a thread with the
 * lock was: that memory stays. */
static void client_forget(tutti_store_t store)
{
	struct client_store *s = client_of(store);

	if (pthread_mutex_trylock(&s->lock) != 0)
		return;
	while (s->idle) {
		struct connection *c = s->idle;

		s->idle = c->next;
		free(c->attendance);
		free(c);
	}
	tt_key_wipe(&s->key);
	free(s);
}

static const struct tt_store_ops client_ops = {
	.set = client_set,
	.get = client_get,
	.end = client_end,
	.attend = client_attend,
	.leave = client_leave,
	.poll = client_poll,
	.close = client_close,
	.forget = client_forget,
};

static tutti_result_t start_serving(struct client_store *s, const char *address, uint64_t deadline)
{
	int fd;
	const tutti_result_t result = tt_store_listen(
		address, s->key.set, deadline, s->base.address, sizeof(s->base.address), &fd);

	return result == TUTTI_OK ? tt_store_server_start(fd, &s->key, s->tls, &s->server) : result;
}

tutti_result_t tt_store_client_open(const char *address, const struct tt_key *key, int rank,
				    bool serve, uint64_t timeout_ns, tutti_store_t *store)
{
	struct client_store *s = calloc(1, sizeof(*s));
	struct connection *first = NULL;
	tutti_result_t result = TUTTI_OK;

	if (!s)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "open the store %s: no memory", address);
	s->base.ops = &client_ops;
	memcpy(s->base.address, address, strlen(address) + 1);
	s->timeout_ns = timeout_ns;
	s->rank = rank;
	if (key)
		s->key = *key;
	pthread_mutex_init(&s->lock, NULL);
	if (s->key.encrypt)
		result = tt_tls_open(&s->key, "connections to the store", &s->tls);
	if (result == TUTTI_OK && serve)
		result = start_serving(s, address, tt_now() + timeout_ns);
	s->base.hosts = s->server != NULL;
	if (result == TUTTI_OK)
		result = connection_make(s, tt_now() + timeout_ns, &first);
	if (result != TUTTI_OK) {
		client_close(&s->base);
		return result;
	}
	put_back(s, first);
	*store = &s->base;
	return TUTTI_OK;
}
