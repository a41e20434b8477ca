/* SPDX-License-Identifier: BSD-3-Clause */
/* Which process is at the other end of a unix socket, as the kernel says. */
#ifndef TT_SPI_UNIX_PEER_H
#define TT_SPI_UNIX_PEER_H

#include <stdbool.h>
#include <sys/socket.h>

#define TT_UNIX_PEER_TEXT 96

/* May it take part? Only processes of the same user and of root may. */
bool tt_unix_peer_trusted(int fd);

/* For error messages: "process 4711 (python3) of user 1000", as far as it is known. */
const char *tt_unix_peer_text(int fd, char text[TT_UNIX_PEER_TEXT]);

/* The same for the process that listens at a name that is taken. */
const char *tt_unix_holder_text(const struct sockaddr *name, socklen_t length,
				char text[TT_UNIX_PEER_TEXT]);

#endif
