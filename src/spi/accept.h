/* SPDX-License-Identifier: BSD-3-Clause */
/* Accepting connections at a listening socket. */
#ifndef TT_SPI_ACCEPT_H
#define TT_SPI_ACCEPT_H

#include <sys/socket.h>

/* The next connection: a non-blocking socket, noted in fork.h, and its peer's address in `from`.
 * -1 with errno. EAGAIN if nobody waits: a shortage of descriptors or memory is an error only when
 * it keeps somebody out. `listening` does not block. */
int tt_accept(int listening, struct sockaddr_storage *from);

/* How many connections may wait here that have said nothing of the job, when `fd` has come: `most`,
 * but few where half of the process's descriptors are in use. Anybody may connect, and what the
 * process itself needs is to be left. */
int tt_accept_most(int fd, int most);

#endif
