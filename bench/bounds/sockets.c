/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bound over TCP: plain sockets over loopback, as many bytes in as few calls as they
 * take. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bound.h"

#define LOOKS 50 /* for more, before a rank sleeps */

static bool connect_pair(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected = false;

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0 &&
	    getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
	    connect(ends[0], (struct sockaddr *)&address, length) == 0) {
		ends[1] = accept(listener, NULL, NULL);
		connected = ends[1] >= 0;
	}
	if (!connected)
		fprintf(stderr, "connect two sockets over loopback: %m\n");
	for (int i = 0; i < 2 && connected; i++)
		setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
	return connected;
}

bool bound_connect(int ranks, struct bound_rank *all)
{
	for (int i = 0; i < ranks; i++)
		for (int j = 0; j < i; j++) {
			int ends[2];

			if (!connect_pair(ends))
				return false;
			all[i].sockets[j] = ends[0];
			all[j].sockets[i] = ends[1];
		}
	return true;
}

/* The other half is in `at` … `arrived`: add it. */
static size_t add_arrived(const struct bound *b, const struct bench_call *call, size_t at,
			  size_t arrived)
{
	const size_t n = (arrived - at) / sizeof(float), first = at / sizeof(float);
	const float *const from[2] = { (const float *)call->send + first,
				       (const float *)(b->arrived + at % BOUND_CHUNK) };

	bound_sum((float *)call->recv + first, NULL, from, 2, n);
	return at + n * sizeof(float);
}

static int failed(const char *what)
{
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	fprintf(stderr, "%s: %m\n", what);
	return -1;
}

int bound_sockets(struct bound *b, const struct bench_call *call)
{
	const int fd = b->ranks[b->backend.rank].sockets[1 - b->backend.rank];
	const size_t bytes = call->count * sizeof(float);
	size_t sent = 0, arrived = 0, added = 0;
	unsigned looks = 0;

	while (sent < bytes || added < bytes) {
		const size_t before = sent + arrived;

		if (sent < bytes) {
			const ssize_t n = send(fd, (const uint8_t *)call->send + sent, bytes - sent,
					       MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n < 0 && failed("send") < 0)
				return -1;
			sent += n > 0 ? (size_t)n : 0;
		}
		if (arrived < bytes) {
			const size_t capacity = BOUND_CHUNK - arrived % BOUND_CHUNK,
				     left = bytes - arrived;
			const ssize_t n = recv(fd, b->arrived + arrived % BOUND_CHUNK,
					       left < capacity ? left : capacity, MSG_DONTWAIT);

			if (n < 0 && failed("recv") < 0)
				return -1;
			arrived += n > 0 ? (size_t)n : 0;
			added = add_arrived(b, call, added, arrived);
		}
		looks = sent + arrived > before ? 0 : looks + 1;
		if (looks >= LOOKS) {
			struct pollfd ready = { fd, (short)(POLLIN | (sent < bytes ? POLLOUT : 0)),
						0 };

			poll(&ready, 1, -1);
		}
	}
	return 0;
}
