/* SPDX-License-Identifier: BSD-3-Clause */
/* Letting in those who wait at a listening socket. */
#ifndef TT_SPI_ACCEPT_H
#define TT_SPI_ACCEPT_H

#include <sys/socket.h>

/* The next of them: a socket that does not block, noted in fork.h, and in `from` whose. -1 with
 * errno: EAGAIN where nobody waits, so that a want of descriptors or memory is one only where it
 * keeps somebody out. `listening` does not block. */
int tt_accept(int listening, struct sockaddr_storage *from);

#endif
