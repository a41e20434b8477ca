/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what accept4() says where no descriptor is free: that none is, before it looks whether
 * anybody waits. */
#include "accept.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

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
