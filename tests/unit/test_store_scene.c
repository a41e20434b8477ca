/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_store_scene.h"

#include <poll.h>

/* Before the 10 s have passed after which a host drops strangers, whatever they say, and closes. */
#define SOON_MS 8000

const char *job_key;
bool job_encrypts;

tutti_result_t open_with(const char *address, int serve, const char *key, tutti_store_t *store)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;

	config.serve = serve;
	config.timeout_s = PATIENCE_S;
	config.key = key;
	config.encrypt = job_encrypts;
	return tutti_store_open_with(address, &config, store);
}

tutti_store_t new_host(void)
{
	tutti_store_t host;

	assert_ok(open_with("tcp://127.0.0.1:0", 1, job_key, &host));
	return host;
}

tutti_store_t new_client(tutti_store_t host)
{
	tutti_store_t client;

	assert_ok(open_with(tutti_store_address(host), 0, job_key, &client));
	return client;
}

int open_host(void **state)
{
	*state = new_host();
	return 0;
}

void check_serves(tutti_store_t host)
{
	tutti_store_t client = new_client(host);
	char value[3];
	size_t length = sizeof(value);

	assert_ok(tutti_store_set(client, "good", "yes", 3));
	assert_ok(tutti_store_get(client, "good", value, &length, PATIENCE_S));
	assert_memory_equal(value, "yes", 3);
	tutti_store_close(client);
}

int close_host(void **state)
{
	check_serves(*state);

	const uint64_t start = tt_now();

	tutti_store_close(*state);
	assert_true(tt_now() - start < SOON_MS * 1000000ull);
	return 0;
}

static void *wait_for_key(void *argument)
{
	struct waiter *w = argument;
	size_t length = sizeof(w->value);

	w->result = tutti_store_get(w->store, w->key, &w->value, &length, PATIENCE_S);
	snprintf(w->error, sizeof(w->error), "%s", tt_thread_error());
	return NULL;
}

void waiter_begin(struct waiter *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_key, w), 0);
}

void waiter_end(struct waiter *w)
{
	assert_int_equal(pthread_join(w->thread, NULL), 0);
}

int listen_as_host(int port, int backlog, char address[64])
{
	const int fd = raw_listen(&port, backlog);

	snprintf(address, 64, "tcp://127.0.0.1:%d", port);
	return fd;
}

static void *be_impostor(void *argument)
{
	struct impostor *m = argument;
	const int fd = accept(m->listening, NULL, NULL);
	ssize_t n;

	do
		n = send(fd, m->says, m->length, MSG_NOSIGNAL);
	while (m->goes_on && n > 0);
	while ((n = recv(fd, m->heard + m->heard_bytes, sizeof(m->heard) - m->heard_bytes, 0)) >
	       0) {
		m->heard_bytes += (size_t)n;
		if (m->length > 0)
			shutdown(fd, SHUT_WR);
	}
	close(fd);
	return NULL;
}

void impostor_begin(struct impostor *m)
{
	m->listening = listen_as_host(0, 1, m->address);
	assert_int_equal(pthread_create(&m->thread, NULL, be_impostor, m), 0);
}

void impostor_end(struct impostor *m)
{
	pthread_join(m->thread, NULL);
	close(m->listening);
}

int port_of(tutti_store_t store)
{
	return atoi(strrchr(tutti_store_address(store), ':') + 1);
}

void raw_put_hello(bool keyed, uint8_t hello[TT_HELLO_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 9, 9 };
	const struct tt_hello says = { .from = -1, .keyed = keyed };

	tt_hello_write(&tt_store_protocol, &says, nonce, hello);
}

void raw_hello(int fd)
{
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];

	raw_put_hello(false, hello);
	raw_send(fd, hello, sizeof(hello));
	raw_receive(fd, answer, sizeof(answer));
	assert_int_equal(tt_answer_read(&tt_store_protocol, NULL, hello, answer),
			 TT_VERDICT_ACCEPTED);
}

void raw_confirm(int fd)
{
	static const uint8_t confirm[TT_CONFIRM_BYTES];

	raw_send(fd, confirm, sizeof(confirm));
}

void raw_greet(int fd)
{
	raw_hello(fd);
	raw_confirm(fd);
}

int raw_client(tutti_store_t host)
{
	const int fd = raw_connect(port_of(host));

	raw_greet(fd);
	return fd;
}

static size_t put(uint8_t *at, const struct tt_wire_header *header, const char *key,
		  const void *value)
{
	tt_wire_put_header(header, at);
	memcpy(at + TT_WIRE_HEADER, key, header->key_length);
	memcpy(at + TT_WIRE_HEADER + header->key_length, value, header->value_length);
	return TT_WIRE_HEADER + header->key_length + header->value_length;
}

size_t put_message(uint8_t *at, enum tt_wire_kind kind, const char *key, const void *value,
		   size_t length)
{
	const struct tt_wire_header header = { .kind = (uint8_t)kind,
					       .key_length = (uint8_t)strlen(key),
					       .value_length = (uint32_t)length };

	return put(at, &header, key, value);
}

void raw_get(int fd, const char *key, uint32_t timeout_ms)
{
	const struct tt_wire_header header = { .kind = TT_WIRE_GET,
					       .key_length = (uint8_t)strlen(key),
					       .timeout_ms = timeout_ms };
	uint8_t bytes[TT_WIRE_HEADER + TT_STORE_KEY_MAX];

	/* in one piece: the host may close in between otherwise */
	raw_send(fd, bytes, put(bytes, &header, key, ""));
}

void expect_answer(int fd, enum tt_wire_status status)
{
	struct tt_wire_header header;
	uint8_t bytes[TT_WIRE_HEADER];

	raw_receive(fd, bytes, sizeof(bytes));
	assert_true(tt_wire_get_header(bytes, &header));
	assert_int_equal(header.kind, TT_WIRE_ANSWER);
	assert_int_equal(header.status, status);
}

size_t expect_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t said = 0;
	char byte;

	for (;;) {
		assert_int_equal(poll(&p, 1, SOON_MS), 1);
		if (recv(fd, &byte, 1, 0) <= 0)
			return said;
		said++;
	}
}

size_t expect_closed(int fd)
{
	const size_t said = expect_end(fd);

	close(fd);
	return said;
}
