/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection with the host of a store, which has no key, by somebody who is no client of
 * tutti's. */
#ifndef TEST_STORE_RAW_H
#define TEST_STORE_RAW_H

#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "store_wire.h"
#include "test_raw.h"

static inline int port_of(tutti_store_t store)
{
	return atoi(strrchr(tutti_store_address(store), ':') + 1);
}

static inline void raw_put_hello(bool keyed, uint8_t hello[TT_HELLO_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 9, 9 };
	const struct tt_hello says = { .from = -1, .keyed = keyed };

	tt_hello_write(&tt_store_protocol, &says, nonce, hello);
}

/* As far as the host's answer. */
static inline void raw_hello(int fd)
{
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];

	raw_put_hello(false, hello);
	raw_send(fd, hello, sizeof(hello));
	raw_receive(fd, answer, sizeof(answer));
	assert_int_equal(tt_answer_read(&tt_store_protocol, NULL, hello, answer),
			 TT_VERDICT_ACCEPTED);
}

static inline void raw_confirm(int fd)
{
	static const uint8_t confirm[TT_CONFIRM_BYTES];

	raw_send(fd, confirm, sizeof(confirm));
}

static inline void raw_greet(int fd)
{
	raw_hello(fd);
	raw_confirm(fd);
}

static inline int raw_client(int port)
{
	const int fd = raw_connect(port);

	raw_greet(fd);
	return fd;
}

#endif
