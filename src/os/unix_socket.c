/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the names of sockets, and how descriptors travel beside a message (SCM_RIGHTS). */
#include "unix_socket.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "clock.h"
#include "fork.h"

#define FULL_NS 100000 /* before a message is sent again for which there was no space */

int tt_unix_socket(void)
{
	return TT_FD(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

socklen_t tt_unix_name(const char *purpose, uint64_t number, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	const int length = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1,
				    "tutti-%s-%016" PRIx64, purpose, number);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
}

int tt_unix_listen(const char *purpose, int backlog, uint64_t *number)
{
	struct sockaddr_un name;
	const int fd = tt_unix_socket();

	if (fd >= 0 && getrandom(number, sizeof(*number), 0) == sizeof(*number) &&
	    bind(fd, (struct sockaddr *)&name, tt_unix_name(purpose, *number, &name)) == 0 &&
	    listen(fd, backlog) == 0)
		return fd;
	tt_fd_close(fd);
	return -1;
}

/* ---- messages */

union rights {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(TT_UNIX_DESCRIPTORS * sizeof(int))];
};

static_assert(sizeof(union rights) == CMSG_LEN(TT_UNIX_DESCRIPTORS * sizeof(int)),
	      "the kernel, which fills what room there is, finds none for more");

/* Where too many bytes or descriptors are on their way, those sent before are taken soon. */
static bool may_send_again(uint64_t deadline)
{
	if (errno == EINTR)
		return true;
	if ((errno != EAGAIN && errno != ETOOMANYREFS) || tt_now() >= deadline)
		return false;
	nanosleep(&(struct timespec){ .tv_nsec = FULL_NS }, NULL);
	return true;
}

ssize_t tt_unix_send(int socket, const void *bytes, size_t length,
		     const struct tt_unix_descriptors *fds, uint64_t deadline)
{
	const size_t n = fds->n * sizeof(int);
	union rights rights = { .header = { .cmsg_len = CMSG_LEN(n),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)bytes, length };
	const struct msghdr out = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = rights.bytes,
				    .msg_controllen = n ? CMSG_SPACE(n) : 0 };
	ssize_t sent;

	memcpy(CMSG_DATA(&rights.header), fds->fd, n);
	do
		sent = sendmsg(socket, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && may_send_again(deadline));
	return sent;
}

/* A process that closes before it has read everything resets the connection; its last message comes
 * behind that. */
static ssize_t receive_message(int socket, struct msghdr *in)
{
	bool reset = false;
	ssize_t bytes;

	while ((bytes = recvmsg(socket, in, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 &&
	       (errno == EINTR || (errno == ECONNRESET && !reset)))
		reset |= errno == ECONNRESET;
	return bytes;
}

/* The set of descriptors is held. 0, or an error: not all that were sent are there. */
static int take_descriptors(struct msghdr *in, struct tt_unix_descriptors *out)
{
	const struct cmsghdr *rights = CMSG_FIRSTHDR(in);
	int error = in->msg_flags & MSG_CTRUNC ? EMFILE : 0;

	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
		out->n = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (out->n > 0)
		memcpy(out->fd, CMSG_DATA(rights), out->n * sizeof(int));
	for (size_t i = 0; i < out->n; i++) {
		out->fd[i] = tt_fd_add(out->fd[i]);
		if (out->fd[i] < 0)
			error = errno;
	}
	return error;
}

ssize_t tt_unix_receive(int socket, void *bytes, size_t capacity, struct tt_unix_descriptors *fds)
{
	union rights rights;
	struct iovec iov = { bytes, capacity };
	struct msghdr in = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = rights.bytes,
			     .msg_controllen = sizeof(rights) };

	fds->n = 0;
	tt_fd_hold();
	const ssize_t received = receive_message(socket, &in);
	const int error = received < 0 ? errno : take_descriptors(&in, fds);
	tt_fd_let_go();
	if (error || received == 0) /* an empty message may have brought some */
		tt_unix_descriptors_close(fds);
	errno = error;
	return error ? -1 : received;
}

void tt_unix_descriptors_close(struct tt_unix_descriptors *fds)
{
	while (fds->n > 0)
		tt_fd_close(fds->fd[--fds->n]);
}
