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
/* Before the first of agreements that belong together: an end that was asked for before is not one of
 * them. Takes the lock. */
void tt_consensus_begin(struct tutti_comm *comm);
/* This rank waits no longer in the agreement that another thread is at, or in those that belong to
 * it: that fails with TUTTI_ERR_ABORTED, and the others go on without this rank. Lock held. */
void tt_consensus_end(struct tutti_comm *comm);
/* This rank failed between two agreements that belong together: the others go on without it, and
 * it agrees with them no more. Takes the lock. */
void tt_consensus_quit(struct tutti_comm *comm);
/* Agree, once, on whether all ranks of a new communicator are there, which is given up otherwise.
 * As above, but nobody is told whom this rank finds gone: it may be its own connections that have
 * ended, and others would leave all their peers out later. A rank that cannot know what the others
 * decided agrees with them no more in the communicator `before` (NULL: it was in none). */
tutti_result_t tt_consensus_complete(struct tutti_comm *comm, struct tutti_comm *before,
				     struct tt_agree **out);
/* Is one of `among` known to be gone, or this rank to end? Takes the lock. */
bool tt_consensus_misses(struct tutti_comm *comm, const bool *among);
/* A note that may be of a consensus transport, whether this rank takes part or not. Lock held. */
void tt_consensus_note(struct tutti_comm *comm, const void *note);
void tt_consensus_free(struct tutti_comm *comm);

#endif
