/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other when a wait gets long and there is no control area. Lock held for
 * all. */
#ifndef TT_NOTES_H
#define TT_NOTES_H

#include "op_header.h"
#include "comm.h"

/* Memory for it; false: there is none. */
bool tt_notes_open(struct tutti_comm *comm);
void tt_notes_free(struct tutti_comm *comm);
/* Keep the header of a collective that this rank starts. */
void tt_notes_remember(struct tutti_comm *comm, const struct tt_op_header *header);
/* This rank leaves the communicator: its neighbours then know how far it came. */
void tt_notes_leave(struct tutti_comm *comm);
/* A header of `rank` has come by another way. */
void tt_notes_heard(struct tutti_comm *comm, int rank, uint64_t seq);
/* The last collective that `rank` is known to have called. */
uint64_t tt_notes_last_called(const struct tutti_comm *comm, int rank);
/* This rank's header of an earlier operation if `theirs` is of it and differs, otherwise `mine`. */
const struct tt_op_header *tt_notes_counterpart(const struct tutti_comm *comm,
						const struct tt_op_header *mine,
						const struct tt_op_header *theirs);
/* Take in what neighbours told, and tell them of the operation that waits for long, by its header
 * (NULL: none does). `long_since`: its deadline comes nearer, and all are asked who has ended it. */
void tt_notes_exchange(struct tutti_comm *comm, const struct tt_op_header *stalled, bool long_since,
		       uint64_t now);

#endif
