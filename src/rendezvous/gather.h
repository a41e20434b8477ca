/* SPDX-License-Identifier: BSD-3-Clause */
/* How all ranks get everyone's record through a store: up a tree of the ranks, and down from its
 * root at once. A rank sets one key, and waits for those of the ranks below it and for the root's. */
#ifndef TT_GATHER_H
#define TT_GATHER_H

#include "records.h"
#include "rendezvous.h"

/* `mine` is this rank's record. Fails with `rendezvous->unfit` where what another rank gave is no
 * record, or of another key. */
tutti_result_t tt_gather(tutti_store_t store, struct tt_rendezvous *rendezvous,
			 const struct tt_key *key, const void *mine, size_t length,
			 uint64_t deadline, struct tt_records *out);

/* The two halves of it, for tests that are all ranks in turn: up, where `*all` is what only rank 0
 * has then; and down. */
tutti_result_t tt_gather_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
			    const struct tt_key *key, const void *mine, size_t length,
			    uint64_t deadline, struct tt_records *all);
tutti_result_t tt_gather_down(tutti_store_t store, struct tt_rendezvous *rendezvous,
			      const struct tt_key *key, uint64_t deadline, struct tt_records *all);

#endif
