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

static inline void raw_hello(int fd)
{
	static const uint8_t nonce[TT_NONCE_BYTES];
	uint8_t hello[TT_WIRE_HELLO];

	tt_wire_put_hello(false, -1, nonce, hello);
	raw_send(fd, hello, sizeof(hello));
}

static inline void raw_hear_hello(int fd)
{
	uint8_t hello[TT_WIRE_HELLO];

	raw_receive(fd, hello, sizeof(hello));
	assert_null(tt_wire_hello_fault(false, hello, sizeof(hello)));
}

static inline void raw_greet(int fd)
{
	raw_hello(fd);
	raw_hear_hello(fd);
}

static inline int raw_client(int port)
{
	const int fd = raw_connect(port);

	raw_greet(fd);
	return fd;
}

#endif
