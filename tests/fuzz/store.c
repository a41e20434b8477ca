/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores: their address, their host, whose clients say anything, and their client, whose host says
 * anything. */
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "log.h"
#include "store.h"
#include "store_address.h"
#include "store_clients.h"
#include "store_pending.h"
#include "store_wire.h"

/* ---- an address, as a user or a launcher gives it: names are not looked up */

FUZZ(store_address)
{
	char *text = fuzz_text(data, size);
	struct tt_store_address address;

	if (tt_store_address_parse(text, &address) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0]);
	} else if (address.local) {
		FUZZ_PROMISE(address.name_length <= sizeof(address.name));
	} else {
		const char *host = NULL;
		size_t hosts = 0;

		FUZZ_PROMISE(strlen(address.port) < sizeof(address.port));
		while ((host = tt_store_next_host(&address, host)) != NULL) {
			FUZZ_PROMISE(host + strlen(host) + 1 < address.host + sizeof(address.host));
			hosts++;
		}
		FUZZ_PROMISE(hosts >= 1);
	}
	free(text);
}

/* ---- what a client reads: header of an answer, word of an ending */

FUZZ(store_wire)
{
	uint8_t fixed[TT_WIRE_HEADER], again[TT_WIRE_HEADER];
	char error_text[TT_WIRE_WORD_MAX];
	struct tt_wire_header header;
	tutti_result_t result;

	fuzz_take(&(struct fuzz_in){ data, size }, fixed, sizeof(fixed));
	if (tt_wire_get_header(fixed, &header)) {
		FUZZ_PROMISE(header.value_length <= TT_STORE_VALUE_MAX);
		tt_wire_put_header(&header, again);
		FUZZ_PROMISE(memcmp(again, fixed, sizeof(again)) == 0);
	}
	if (tt_wire_get_word(data, size, &result, error_text)) {
		FUZZ_PROMISE(result < 0);
		FUZZ_PROMISE(memchr(error_text, '\0', sizeof(error_text)));
	}
}

/* ---- the host, with three clients that say anything. The input: a byte that says whether the job
 * has a key, of which no input can bring a proof, and encrypts; then pieces client:1 length:1
 * bytes, each of which arrives by itself; a length of 0 hangs up */

enum { CLIENTS = 3, EVENTS = 8 };
enum { KEYED = 1, ENCRYPTED = 2 };

static void serve(struct tt_store_clients *clients)
{
	struct epoll_event events[EVENTS];
	int n;

	while ((n = epoll_wait(clients->epoll, events, EVENTS, 0)) > 0) {
		for (int i = 0; i < n; i++)
			tt_store_client_event(clients, events[i].data.ptr, events[i].events);
		tt_store_clients_bury(clients);
	}
}

static void connect_all(struct tt_store_clients *clients, int ours[CLIENTS])
{
	const struct sockaddr_storage from = { .ss_family = clients->admission.terms.tls
								    ? AF_INET
								    : AF_UNIX };

	for (int i = 0; i < CLIENTS; i++) {
		int ends[2];

		FUZZ_PROMISE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
					ends) == 0);
		ours[i] = ends[0];
		tt_store_clients_add(clients, ends[1], &from);
	}
}

/* What is there for us to read, perhaps the end. */
static void drain(int fd)
{
	uint8_t bytes[4096];

	while (read(fd, bytes, sizeof(bytes)) > 0)
		continue;
}

FUZZ(store)
{
	struct fuzz_in in = { data, size };
	struct fuzz_piece piece;
	struct tt_store_clients clients = { .epoll = epoll_create1(EPOLL_CLOEXEC),
					    .next_deadline = TT_STORE_NEVER };
	struct tt_tls *with = NULL;
	uint8_t what;
	int ours[CLIENTS];

	fuzz_take(&in, &what, 1);
	const struct tt_key key = { .set = what & KEYED,
				    .encrypt = what & KEYED && what & ENCRYPTED };
	FUZZ_PROMISE(clients.epoll >= 0);
	if (key.encrypt) {
		static struct tt_tls *tls; /* of all inputs: it takes long to make */

		FUZZ_PROMISE(tls ||
			     tt_tls_open(&key, "connections to the store", &tls) == TUTTI_OK);
		with = tls;
	}
	clients.admission = tt_store_pending_listener(&key, with);
	connect_all(&clients, ours);
	while (fuzz_next(&in, &piece)) {
		const int client = ours[piece.who % CLIENTS];

		if (piece.said == 0)
			shutdown(client, SHUT_WR);
		else if (send(client, piece.bytes, piece.length, MSG_NOSIGNAL) < 0)
			break;
		serve(&clients);
		drain(client);
	}
	tt_store_clients_expire(&clients, TT_STORE_NEVER - 1);
	tt_store_clients_bury(&clients);
	tt_store_clients_finish(&clients);
	for (int i = 0; i < CLIENTS; i++)
		close(ours[i]);
	close(clients.epoll);
}

/* ---- a client whose host says anything. The input: what:1 bytes; each connection is answered
 * with all of them, behind the answer of a host without a key unless they are to stand for it, and
 * then ends */

enum { ANSWER = 2 }; /* the input has the answer */
enum { ROOM = 64 };

static struct {
	int fd;
	char address[128];
	pthread_mutex_t lock; /* of the rest */
	const uint8_t *bytes;
	size_t length;
	uint8_t what;
} host = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void say(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	ssize_t n = 1;

	for (; length > 0 && n > 0; at += n, length -= (size_t)n) {
		n = send(fd, at, length, MSG_NOSIGNAL);
		if (n <= 0)
			return;
	}
}

static void *be_host(void *unused)
{
	static const uint8_t nonce[TT_NONCE_BYTES], zeros[TT_ANSWER_BYTES];
	const struct tt_hello from = { .from = 2 };
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];

	tt_hello_write(&tt_store_protocol, &from, nonce, hello);
	tt_answer_write(&tt_store_protocol, NULL, hello, 0, TT_VERDICT_ACCEPTED, nonce, answer);
	for (;;) {
		const int fd = accept4(host.fd, NULL, NULL, SOCK_CLOEXEC);

		FUZZ_PROMISE(fd >= 0);
		pthread_mutex_lock(&host.lock);
		if (!(host.what & ANSWER))
			say(fd, answer, sizeof(answer));
		say(fd, host.bytes, host.length);
		/* who waits for an answer that never comes tries again, and again */
		if (host.what & (ANSWER | KEYED))
			say(fd, zeros, sizeof(zeros));
		pthread_mutex_unlock(&host.lock);
		shutdown(fd, SHUT_WR);
		drain(fd);
		close(fd);
	}
	return NULL;
}

static void begin_host(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	pthread_t thread;

	if (host.address[0])
		return;
	/* abstract: nothing is left of it */
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "tutti-fuzz-%ld", (long)getpid());
	snprintf(host.address, sizeof(host.address), "unix:%s", name.sun_path + 1);
	host.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FUZZ_PROMISE(host.fd >= 0);
	FUZZ_PROMISE(bind(host.fd, (struct sockaddr *)&name,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				      strlen(name.sun_path + 1))) == 0);
	FUZZ_PROMISE(listen(host.fd, 16) == 0 && pthread_create(&thread, NULL, be_host, NULL) == 0);
}

static void have_host_say(uint8_t what, const uint8_t *bytes, size_t length)
{
	pthread_mutex_lock(&host.lock);
	host.what = what;
	host.bytes = bytes;
	host.length = length;
	pthread_mutex_unlock(&host.lock);
}

static void ask(tutti_store_t store, uint64_t timeout_ns)
{
	uint8_t *value = malloc(ROOM);
	size_t length = ROOM;

	FUZZ_PROMISE(value);
	const tutti_result_t result =
		store->ops->get(store, "key", value, &length, timeout_ns, TT_STORE_ANSWER_NS);
	if (result == TUTTI_OK)
		FUZZ_PROMISE(length <= ROOM);
	else if (result < 0)
		FUZZ_PROMISE(tt_thread_error()[0]);
	else
		FUZZ_PROMISE(result == TUTTI_IN_PROGRESS);
	free(value);
}

static void poll_once(tutti_store_t store)
{
	const tutti_result_t result = store->ops->poll(store);

	FUZZ_PROMISE(result <= 0);
	if (result)
		FUZZ_PROMISE(tt_thread_error()[0]);
}

FUZZ(store_client)
{
	const struct tt_key key = { .set = size > 0 && (data[0] & KEYED), .bytes = { 1, 2, 3 } };
	tutti_store_t store;

	if (size == 0)
		return;
	begin_host();
	have_host_say(data[0], data + 1, size - 1);
	const tutti_result_t result =
		tt_store_client_open(host.address, &key, 2, false, 1000000000, &store);
	if (result == TUTTI_OK) {
		FUZZ_PROMISE(!key.set);
		ask(store, 0);
		store->ops->attend(store, &(struct tt_attendance){ "group/1", 2, "one",
								   TUTTI_ERR_PEER_LOST, "lost" });
		ask(store, 1000000);
		if (store->ops->set(store, "key", "value", 5, 0) < 0)
			FUZZ_PROMISE(tt_thread_error()[0]);
		ask(store, 0);
		poll_once(store);
		store->ops->end(store, "prefix", TUTTI_ERR_PEER_LOST, "because");
		poll_once(store);
		store->ops->leave(store);
		store->ops->close(store);
	} else {
		FUZZ_PROMISE(tt_thread_error()[0]);
	}
	have_host_say(data[0], NULL, 0); /* a connection may still be answered */
}
