/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers of connections between ranks share: the stranger's socket, and the rank's way of
 * reading a link. */
#ifndef TT_FUZZ_TCP_H
#define TT_FUZZ_TCP_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "transport.h"

/* A stranger's end of a connection. A piece must not wait for the one before to be acknowledged;
 * and no port is kept after the close, or they would run out. */
static inline void fuzz_tcp_prepare(int fd)
{
	const struct linger at_once = { 1, 0 };
	const int on = 1;

	FUZZ_PROMISE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	FUZZ_PROMISE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
}

/* What a link brings is a stream of bytes, of any number. */
static inline void fuzz_tcp_read(struct tt_link *link)
{
	const void *there;
	const ssize_t n = link->ops->peek(link, 16, 64, &there);

	FUZZ_PROMISE(n <= 64);
	if (n > 0)
		link->ops->release(link, (size_t)n);
}

#endif
