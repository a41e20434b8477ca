/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores as their tests have them: a host and its clients, threads that wait for keys, and
 * connections by somebody who is no client of tutti's. */
#ifndef TEST_STORE_SCENE_H
#define TEST_STORE_SCENE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "log.h"
#include "store.h"
#include "store_wire.h"
#include "test_raw.h"
#include "transport.h"

/* far beyond what anything here takes */
#define PATIENCE_S  20.0
#define PATIENCE_MS 20000
#define KEY	    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* ---- hosts and clients */

/* Of the fixture's host and its clients; NULL: none. */
extern const char *job_key;
extern bool job_encrypts;

tutti_result_t open_with(const char *address, int serve, const char *key, tutti_store_t *store);
/* On a port of the loopback interface. */
tutti_store_t new_host(void);
tutti_store_t new_client(tutti_store_t host);

void check_serves(tutti_store_t host);

/* The fixture: *state is a host. At the end it still serves, and closing has not to wait for those
 * whom the test left in a bad state. */
int open_host(void **state);
int close_host(void **state);

/* ---- a thread that waits for a key */

struct waiter {
	tutti_store_t store;
	const char *key;
	pthread_t thread;
	tutti_result_t result;
	int value;
	char error[TT_ERROR_MAX];
};

void waiter_begin(struct waiter *w);
void waiter_end(struct waiter *w);

/* ---- raw connections with a host */

/* A socket that listens on `port` of the loopback interface, 0: on any; its address as that of a
 * store in `address`. */
int listen_as_host(int port, int backlog, char address[64]);

/* In place of a host: a thread that says something to whoever calls first, whatever it hears. */
struct impostor {
	const void *says;
	size_t length;
	bool goes_on; /* it says so again and again */
	char address[64];
	int listening;
	pthread_t thread;
	uint8_t heard[256];
	size_t heard_bytes;
};

void impostor_begin(struct impostor *m);
/* The caller has left it. */
void impostor_end(struct impostor *m);

int port_of(tutti_store_t store);
void raw_put_hello(bool keyed, uint8_t hello[TT_HELLO_BYTES]);
/* As far as the answer of a host without a key, and what follows it. */
void raw_hello(int fd);
void raw_confirm(int fd);
void raw_greet(int fd);
int raw_client(tutti_store_t host);

/* A message as it travels; returns its length. */
size_t put_message(uint8_t *at, enum tt_wire_kind kind, const char *key, const void *value,
		   size_t length);
void raw_get(int fd, const char *key, uint32_t timeout_ms);
void expect_answer(int fd, enum tt_wire_status status);

/* The other end closes soon, in order or not; returns how many bytes it said before. */
size_t expect_end(int fd);
size_t expect_closed(int fd);

#endif
