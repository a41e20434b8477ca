/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what accept4() says where no descriptor is free: that none is, before it looks whether
 * anybody waits. And how many descriptors those who wait may have. */
#include "accept.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "fork.h"
#include "log.h"

static bool somebody_waits(int listening)
{
	struct pollfd queue = { listening, POLLIN, 0 };

	return poll(&queue, 1, 0) == 1;
}

int tt_accept(int listening, struct sockaddr_storage *from)
{
	socklen_t length = sizeof(*from);

	memset(from, 0, sizeof(*from));
	const int fd = TT_FD(
		accept4(listening, (struct sockaddr *)from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (fd < 0 && tt_errno_is_shortage(errno) && !somebody_waits(listening))
		errno = EAGAIN;
	return fd;
}

/* Descriptors are given from the lowest on. */
int tt_accept_most(int fd, int most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || (rlim_t)fd < limit.rlim_cur / 2)
		return most;
	const int few = (int)(limit.rlim_cur - (rlim_t)fd) / 4;
	return few < 1 ? 1 : few < most ? few : most;
}
