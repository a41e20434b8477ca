/* SPDX-License-Identifier: BSD-3-Clause */
/* Unix sockets by which processes of a host meet under a number that one has told the others, and
 * messages that keep their bounds, with descriptors beside them. */
#ifndef TT_SPI_UNIX_SOCKET_H
#define TT_SPI_UNIX_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A new one that does not block, noted in fork.h; -1 with errno. */
int tt_unix_socket(void);
/* The name in the abstract namespace, which leaves no file, for what ranks do there and a number.
 * Any number is one. Gives the length. */
socklen_t tt_unix_name(const char *purpose, uint64_t number, struct sockaddr_un *out);
/* Listen under a number that nobody guesses; -1 with errno. */
int tt_unix_listen(const char *purpose, int backlog, uint64_t *number);

#define TT_UNIX_DESCRIPTORS 32 /* of a message, at most; the kernel takes 253 */

struct tt_unix_descriptors {
	size_t n;
	int fd[TT_UNIX_DESCRIPTORS];
};

/* As sendmsg(), but waits until `deadline` for the kernel to have space: it bounds how many
 * descriptors a user has on their way, too, by the limit of open ones. */
ssize_t tt_unix_send(int socket, const void *bytes, size_t length,
		     const struct tt_unix_descriptors *fds, uint64_t deadline);
/* As recvmsg(), without waiting. The descriptors are noted in fork.h and are the caller's; without
 * bytes there are none. EMFILE: more came than the process may have. */
ssize_t tt_unix_receive(int socket, void *bytes, size_t capacity, struct tt_unix_descriptors *fds);
void tt_unix_descriptors_close(struct tt_unix_descriptors *fds);

#endif
