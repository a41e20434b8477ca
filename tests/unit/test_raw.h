/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to a port of this machine by somebody who is no part of tutti. */
#ifndef TEST_RAW_H
#define TEST_RAW_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

static inline int raw_socket(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static inline void raw_call(int fd, int port)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
}

static inline int raw_connect(int port)
{
	const int fd = raw_socket();

	raw_call(fd, port);
	return fd;
}

/* One of the port, 0: of any, which it is told; nobody is let in before it listens. */
static inline int raw_bind(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)*port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	const int fd = raw_socket(), yes = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static inline int raw_listen(int *port, int backlog)
{
	const int fd = raw_bind(port);

	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static inline void raw_send(int fd, const void *data, size_t length)
{
	assert_int_equal(send(fd, data, length, MSG_NOSIGNAL), (ssize_t)length);
}

static inline void raw_receive(int fd, void *data, size_t length)
{
	assert_int_equal(recv(fd, data, length, MSG_WAITALL), (ssize_t)length);
}

#endif
