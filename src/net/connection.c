/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice between a socket and the TLS stream on it. */
#include <sys/socket.h>

#include "tls.h"

ssize_t tt_connection_send_vector(struct tt_connection c, const struct iovec *iov, int n)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)iov,
					.msg_iovlen = (size_t)n };

	return c.tls ? tt_tls_write(c.tls, iov, n)
		     : sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t tt_connection_send(struct tt_connection c, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)(uintptr_t)bytes, length };

	return c.tls ? tt_tls_write(c.tls, &iov, 1)
		     : send(c.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t tt_connection_receive(struct tt_connection c, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return c.tls ? tt_tls_read(c.tls, &iov, 1) : recv(c.fd, bytes, length, MSG_DONTWAIT);
}
