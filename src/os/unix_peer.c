/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the question who is at the other end of a unix socket. Names in the abstract namespace
 * belong to whoever takes them first, and each end learns of the other from the kernel alone. */
#include "unix_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fork.h"
#include "printable.h"

#define COMMAND                                                                                    \
	32 /* the kernel's names of processes have 15 bytes, those of its own threads more */

static bool ask(int fd, struct ucred *out)
{
	socklen_t length = sizeof(*out);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &length) == 0 && out->uid != (uid_t)-1;
}

bool tt_unix_peer_trusted(int fd)
{
	struct ucred peer;

	return ask(fd, &peer) && (peer.uid == geteuid() || peer.uid == 0);
}

/* The process chose its name itself; "" where it cannot be read. */
static void read_command(pid_t pid, char out[COMMAND])
{
	char path[40];
	ssize_t length = 0;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	const int fd = TT_FD(open(path, O_RDONLY | O_CLOEXEC));
	if (fd >= 0)
		length = read(fd, out, COMMAND - 1);
	tt_fd_close(fd);
	while (length > 0 && out[length - 1] == '\n')
		length--;
	out[length > 0 ? length : 0] = '\0';
	tt_printable(out);
}

const char *tt_unix_peer_text(int fd, char text[TT_UNIX_PEER_TEXT])
{
	const int saved = errno;
	char command[COMMAND] = "";
	struct ucred peer;

	if (!ask(fd, &peer)) {
		snprintf(text, TT_UNIX_PEER_TEXT, "a process that the kernel does not name");
	} else if (peer.pid == 0) {
		snprintf(text, TT_UNIX_PEER_TEXT, "a process of user %ld in another PID namespace",
			 (long)peer.uid);
	} else {
		read_command(peer.pid, command);
		snprintf(text, TT_UNIX_PEER_TEXT, "process %d%s%s%s of user %ld", (int)peer.pid,
			 *command ? " (" : "", command, *command ? ")" : "", (long)peer.uid);
	}
	errno = saved;
	return text;
}

const char *tt_unix_holder_text(const struct sockaddr *name, socklen_t length,
				char text[TT_UNIX_PEER_TEXT])
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	const int saved = errno;
	bool connected = false;

	snprintf(text, TT_UNIX_PEER_TEXT, "another process");
	for (int i = 0; i < 2 && !connected; i++) {
		const int fd = TT_FD(socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

		connected = fd >= 0 && connect(fd, name, length) == 0;
		if (connected)
			tt_unix_peer_text(fd, text);
		tt_fd_close(fd);
	}
	errno = saved;
	return text;
}
