/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks of a case's own. Nothing in them has a name outside, and all vanishes with the
 * processes. */
#ifndef TT_NETWORK_H
#define TT_NETWORK_H

#include <stdbool.h>

#include "stage.h"

/* Why hosts and cables cannot be had here; NULL: they can. */
const char *network_refused(void);
/* In the parent of a case: a network with nothing but a loopback, where that is allowed, so that
 * what is left in it is this case's. False: it is the machine's. With `cables`, a bridge to plug
 * them into. */
bool network_own(bool cables);
/* In a rank: go to its host, which is a network namespace with one cable to the bridge. The
 * first rank of a host makes it. Returns when all are there; false after a word on stderr. */
bool network_enter(const struct scene *s, int rank);
/* Pull this host's cable out, at the far end: nothing here is told. */
void network_unplug(void);

#endif
