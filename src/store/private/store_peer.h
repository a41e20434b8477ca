/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose process is at the other end of a connection. */
#ifndef TT_STORE_PEER_H
#define TT_STORE_PEER_H

#include <stdbool.h>

/* Is it one of this user's own, on this machine? Asks the kernel; false where that does not say.
 * Of a TCP connection only while the other end is open. */
bool tt_store_peer_is_own(int fd);

#endif
