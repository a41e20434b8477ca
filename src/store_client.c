/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a store that is reached through sockets: the idle connections, and the server if this
 * process hosts it.
 *
 * A call takes an idle connection, or makes one, and puts it back in the end: threads that wait for
 * keys do not hold up those that set them. A connection on which anything went wrong is closed, so
 * that a late answer is never taken for another's. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "store.h"
#include "store_connect.h"
#include "store_server.h"
#include "store_wire.h"
#include "transport.h"

#define GRACE_NS 2000000000ull /* for the host to answer, beyond the time it was asked to wait */
#define END_NS	 1000000000ull /* to tell it that a rank gives up */

struct connection {
	struct connection *next;
	struct tt_store_socket socket;
};

struct client_store {
	struct tutti_store base;
	struct tt_store_server *server; /* NULL: another process hosts it */
	uint64_t timeout_ns;		/* of opening and of set */
	struct tt_key key;
	struct tt_tls *tls; /* NULL: connections are plain */
	pthread_mutex_t lock;		/* of idle */
	struct connection *idle;
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
	const tutti_result_t result = tt_store_connect(s->base.address, &s->key, s->tls, deadline, &c->socket);
	if (result != TUTTI_OK) {
		free(c);
		return result;
	}
	*out = c;
	return TUTTI_OK;
}

static tutti_result_t take(struct client_store *s, uint64_t deadline, struct connection **out)
{
	pthread_mutex_lock(&s->lock);
	struct connection *c = s->idle;
	if (c)
		s->idle = c->next;
	pthread_mutex_unlock(&s->lock);
	if (!c)
		return connection_make(s, deadline, out);
	*out = c;
	return TUTTI_OK;
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
	if (error == ECONNRESET)
		return tt_fail(
			TUTTI_ERR_PEER_LOST, STORE,
			"%s \"%s\": the host of the store %s has closed the connection or ended",
			verb, key, s->base.address);
	errno = error;
	return tt_fail_errno(STORE, "%s \"%s\" in the store %s", verb, key, s->base.address);
}

/* Send a request and read the header of its answer; 0 or an errno value. */
static int request(const struct tt_store_socket *socket, struct tt_wire_header *header, const char *key, const void *value,
		   uint64_t deadline)
{
	uint8_t bytes[TT_WIRE_HEADER];
	struct iovec iov[] = {
		{ bytes, sizeof(bytes) },
		{ (void *)(uintptr_t)key, strlen(key) },
		{ (void *)(uintptr_t)value, header->value_length },
	};

	header->key_length = (uint8_t)strlen(key);
	tt_wire_put_header(header, bytes);
	int error = tt_store_send(socket, iov, 3, deadline);
	if (error == 0)
		error = tt_store_receive(socket, bytes, sizeof(bytes), deadline);
	if (error != 0)
		return error;
	return tt_wire_get_header(bytes, header) && header->kind == TT_WIRE_ANSWER ? 0 : EPROTO;
}

static tutti_result_t client_set(tutti_store_t store, const char *key, const void *value,
				 size_t length)
{
	struct client_store *s = client_of(store);
	struct tt_wire_header header = { .kind = TT_WIRE_SET, .value_length = (uint32_t)length };
	const uint64_t deadline = tt_now() + s->timeout_ns;
	struct connection *c = NULL;
	const tutti_result_t result = take(s, deadline, &c);

	if (result != TUTTI_OK)
		return result;
	const int error = request(&c->socket, &header, key, value, deadline);
	if (error != 0) {
		connection_close(c);
		return fail_talk(s, "set", key, error);
	}
	put_back(s, c);
	if (header.status != TT_WIRE_DONE)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE,
			       "set \"%s\": the host of the store %s has no memory for %zu bytes",
			       key, store->address, length);
	return TUTTI_OK;
}

/* Read a value that is larger than the caller's buffer, to leave the connection clean. */
static int discard(const struct tt_store_socket *socket, size_t length, uint64_t deadline)
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

static int receive_value(const struct tt_store_socket *socket, const struct tt_wire_header *header, void *value, size_t room,
			 uint8_t word[TT_WIRE_WORD_MAX], uint64_t deadline)
{
	if (header->status == TT_WIRE_ENDED)
		return tt_store_receive(socket, word, header->value_length, deadline);
	return header->value_length <= room
		       ? tt_store_receive(socket, value, header->value_length, deadline)
		       : discard(socket, header->value_length, deadline);
}

/* The key will not come, and somebody said why. */
static tutti_result_t fail_ended(struct client_store *s, const char *key, const uint8_t *word,
				 size_t length)
{
	char sentence[TT_WIRE_WORD_MAX];
	tutti_result_t result;

	if (!tt_wire_get_word(word, length, &result, sentence))
		return fail_talk(s, "get", key, EPROTO);
	return tt_fail(result, STORE, "%s", sentence);
}

static uint32_t milliseconds(uint64_t ns)
{
	const uint64_t ms = (ns + 999999) / 1000000;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static tutti_result_t client_get(tutti_store_t store, const char *key, void *value, size_t *length,
				 uint64_t timeout_ns)
{
	struct client_store *s = client_of(store);
	struct tt_wire_header header = { .kind = TT_WIRE_GET,
					 .timeout_ms = milliseconds(timeout_ns) };
	const uint64_t deadline = tt_now() + timeout_ns + GRACE_NS;
	const size_t room = *length;
	uint8_t word[TT_WIRE_WORD_MAX];
	struct connection *c = NULL;
	const tutti_result_t result = take(s, deadline, &c);

	if (result != TUTTI_OK)
		return result;
	int error = request(&c->socket, &header, key, NULL, deadline);
	if (error == 0)
		error = receive_value(&c->socket, &header, value, room, word, deadline);
	if (error != 0) {
		connection_close(c);
		return fail_talk(s, "get", key, error);
	}
	put_back(s, c);
	if (header.status == TT_WIRE_MISSING)
		return TUTTI_IN_PROGRESS;
	if (header.status == TT_WIRE_ENDED)
		return fail_ended(s, key, word, header.value_length);
	if (header.status == TT_WIRE_FULL)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE,
			       "get \"%s\": the host of the store %s has no memory left", key,
			       store->address);
	*length = header.value_length;
	return *length <= room ? TUTTI_OK : tt_store_fail_room(store, key, room, *length);
}

/* A host that cannot be told soon is most likely gone, and those who wait see that themselves. */
static void client_end(tutti_store_t store, const char *prefix, tutti_result_t result,
		       const char *sentence)
{
	struct client_store *s = client_of(store);
	uint8_t word[TT_WIRE_WORD_MAX];
	struct tt_wire_header header = { .kind = TT_WIRE_END,
					 .value_length = tt_wire_put_word(result, sentence, word) };
	const uint64_t deadline = tt_now() + END_NS;
	struct connection *c = NULL;

	if (take(s, deadline, &c) != TUTTI_OK)
		return;
	if (request(&c->socket, &header, prefix, word, deadline) == 0)
		put_back(s, c);
	else
		connection_close(c);
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

/* The thread of the server was changing what it keeps when the fork came, as a thread with the lock was: that memory
 * stays. */
static void client_forget(tutti_store_t store)
{
	struct client_store *s = client_of(store);

	if (pthread_mutex_trylock(&s->lock) != 0)
		return;
	while (s->idle) {
		struct connection *c = s->idle;

		s->idle = c->next;
		free(c);
	}
	free(s);
}

static const struct tt_store_ops client_ops = {
	.set = client_set,
	.get = client_get,
	.end = client_end,
	.close = client_close,
	.forget = client_forget,
};

static tutti_result_t start_serving(struct client_store *s, const char *address)
{
	int fd;
	const tutti_result_t result =
		tt_store_listen(address, s->key.set, s->base.address, sizeof(s->base.address), &fd);

	return result == TUTTI_OK ? tt_store_server_start(fd, &s->key, s->tls, &s->server) : result;
}

tutti_result_t tt_store_client_open(const char *address, const struct tt_key *key, bool serve,
				    uint64_t timeout_ns, tutti_store_t *store)
{
	struct client_store *s = calloc(1, sizeof(*s));
	struct connection *first = NULL;
	tutti_result_t result = TUTTI_OK;

	if (!s)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "open the store %s: no memory", address);
	s->base.ops = &client_ops;
	memcpy(s->base.address, address, strlen(address) + 1);
	s->timeout_ns = timeout_ns;
	if (key)
		s->key = *key;
	pthread_mutex_init(&s->lock, NULL);
	if (s->key.encrypt)
		result = tt_tls_open(&s->key, "connections to the store", &s->tls);
	if (result == TUTTI_OK && serve)
		result = start_serving(s, address);
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
