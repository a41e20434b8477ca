/* SPDX-License-Identifier: BSD-3-Clause */
/* What a case has left behind: nothing, if all is well. */
#ifndef TT_LEFTOVERS_H
#define TT_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>

/* What a process holds that destroying a communicator must give back. */
struct holdings {
	int descriptors, mappings, threads;
};

struct holdings holdings_now(void);
/* False, and what there is more than before. */
bool holdings_equal(const struct holdings *before, char *out, size_t size);
/* In the parent of a case, before anything else: /dev/shm becomes one of its own and empty,
 * where that is allowed. */
bool own_files(void);
/* In the parent of a case, all ranks having ended: processes; sockets, if the network is the
 * case's own; files in /dev/shm, if it is. False, and what there is. */
bool nothing_is_left(bool own_network, bool own_shm, char *out, size_t size);

#endif
