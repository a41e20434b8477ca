/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a communicator, revoked or not, agree on something over its control channel
 * (agree.h). */
#ifndef TT_CONSENSUS_H
#define TT_CONSENSUS_H

#include "agree.h"
#include "comm.h"

/* Agree with those of `among` ([size], this rank too, the same on all of them) on who of them is
 * there and what they say. Blocks; `coming_ns` after this rank's call, those who have not come
 * are late. A rank that has come is late once it has answered nothing for the deadline of the
 * communicator. TUTTI_OK: *out is decided, to be closed by the caller, and this rank is one of
 * its members. TUTTI_ERR_TIMEOUT: the others go on without this rank, for good. Another error is
 * this rank's own; where it came before a word was said, it may try again. Not under the lock. */
tutti_result_t tt_consensus_agree(struct tutti_comm *comm, const bool *among, uint64_t coming_ns,
				  const void *said, size_t length, struct tt_agree **out);
/* This rank failed between two agreements that belong together: the others go on without it, and
 * it agrees with them no more. Takes the lock. */
void tt_consensus_quit(struct tutti_comm *comm);
/* Is one of `among` known to be gone? Takes the lock. */
bool tt_consensus_misses(struct tutti_comm *comm, const bool *among);
/* A note that may be of a consensus transport, whether this rank takes part or not. Lock held. */
void tt_consensus_note(struct tutti_comm *comm, const void *note);
void tt_consensus_free(struct tutti_comm *comm);

#endif
