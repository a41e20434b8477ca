/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other when a wait gets long and there is no board. Lock held for all. */
#ifndef TT_NOTES_H
#define TT_NOTES_H

#include "card.h"
#include "comm.h"

/* Keep the card of a collective that this rank starts. */
void tt_notes_remember(struct tutti_comm *comm, const struct tt_card *card);
/* A card of `rank` has come by another way. */
void tt_notes_heard(struct tutti_comm *comm, int rank, uint64_t seq);
/* This rank's card of an earlier operation if `theirs` is of it and differs, otherwise `mine`. */
const struct tt_card *tt_notes_counterpart(const struct tutti_comm *comm,
					   const struct tt_card *mine,
					   const struct tt_card *theirs);
/* Take in what neighbours told, and tell them of the operation that waits for long, by its card
 * (NULL: none does). */
void tt_notes_exchange(struct tutti_comm *comm, const struct tt_card *stalled, uint64_t now);

#endif
