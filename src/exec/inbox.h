/* SPDX-License-Identifier: BSD-3-Clause */
/* Which receive takes which message. */
#ifndef TT_INBOX_H
#define TT_INBOX_H

#include "op.h"

/* Find the message of a receive that has none yet, among those that were put aside, or next on a
 * link: then its header is taken, `cursor->connection` is where it comes from, and the payload is
 * to be read; or all of it is there (cursor->at). Like a link's read(): 0: it has not come,
 * negative: an error. `moved` is set if anything was read, also of other messages. */
ssize_t tt_inbox_find(struct tt_cursor *cursor, bool *moved);
/* Has it none because an earlier receive with the same tag waits for the same peer? */
bool tt_inbox_is_behind(const struct tt_cursor *cursor);
/* Free what was put aside and nobody has taken. */
void tt_inboxes_free(struct tutti_comm *comm);

#endif
