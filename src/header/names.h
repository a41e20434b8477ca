/* SPDX-License-Identifier: BSD-3-Clause */
/* What the runtime calls its collectives in headers, plans and messages. */
#ifndef TT_NAMES_H
#define TT_NAMES_H

#include "schedule.h"

#define TT_USER_OPS_MAX 256 /* of a communicator, numbered from TUTTI_OP_COUNT on */

const char *tt_collective_name(enum tt_collective collective);
bool tt_collective_reduces(enum tt_collective collective);
bool tt_collective_rooted(enum tt_collective collective);
/* Is its data one vector on every rank (and not a block per rank)? */
bool tt_collective_of_vector(enum tt_collective collective);
/* Does a rank know the counts of its own blocks alone? Nothing may then be derived from them
 * that others must derive too. */
bool tt_collective_knows_own_counts(enum tt_collective collective);
/* Does it take a table of counts that all ranks give alike? */
bool tt_collective_has_table(enum tt_collective collective);

#endif
