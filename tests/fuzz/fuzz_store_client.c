/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of a store whose host says anything. The input: what:1 bytes; each connection is
 * answered with all of them, behind the answer of a host without a key unless they are to stand for
 * it, and then ends. */
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "log.h"
#include "store.h"
#include "store_wire.h"

enum { KEYED = 1, ANSWER = 2 }; /* the job has a key; the input has the answer */
enum { HOSTS_BYTES = TT_ANSWER_BYTES, ROOM = 64 };

static struct {
	int fd;
	char address[64];
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

static void *serve(void *unused)
{
	static const uint8_t nonce[TT_NONCE_BYTES], zeros[HOSTS_BYTES];
	const struct tt_hello from = { .from = 2 };
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES], heard[4096];

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
		while (recv(fd, heard, sizeof(heard), 0) > 0)
			continue;
		close(fd);
	}
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	pthread_t thread;

	/* abstract: nothing is left of it */
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "tutti-fuzz-%ld", (long)getpid());
	snprintf(host.address, sizeof(host.address), "unix:%s", name.sun_path + 1);
	host.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FUZZ_PROMISE(host.fd >= 0);
	FUZZ_PROMISE(bind(host.fd, (struct sockaddr *)&name,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				      strlen(name.sun_path + 1))) == 0);
	FUZZ_PROMISE(listen(host.fd, 16) == 0 && pthread_create(&thread, NULL, serve, NULL) == 0);
	return 0;
}

static void ask(tutti_store_t store, uint64_t timeout_ns)
{
	uint8_t *value = malloc(ROOM);
	size_t length = ROOM;

	FUZZ_PROMISE(value);
	const tutti_result_t result = store->ops->get(store, "key", value, &length, timeout_ns);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tt_key key = { .set = size > 0 && (data[0] & KEYED), .bytes = { 1, 2, 3 } };
	tutti_store_t store;

	if (size == 0)
		return 0;
	pthread_mutex_lock(&host.lock);
	host.what = data[0];
	host.bytes = data + 1;
	host.length = size - 1;
	pthread_mutex_unlock(&host.lock);
	const tutti_result_t result =
		tt_store_client_open(host.address, &key, 2, false, 1000000000, &store);
	if (result == TUTTI_OK) {
		FUZZ_PROMISE(!key.set);
		ask(store, 0);
		store->ops->attend(store, &(struct tt_attendance){ "group/1", 2, "one",
								   TUTTI_ERR_PEER_LOST, "lost" });
		ask(store, 1000000);
		if (store->ops->set(store, "key", "value", 5) < 0)
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
	pthread_mutex_lock(&host.lock); /* a connection may still be answered */
	host.length = 0;
	pthread_mutex_unlock(&host.lock);
	return 0;
}
