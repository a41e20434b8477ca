/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a new communicator come to mean the same rendezvous in a store. */
#ifndef TT_RENDEZVOUS_H
#define TT_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"
#include "launch.h"
#include "tutti/tutti.h"

struct tt_rendezvous {
	int rank, size;
	char group[96];	  /* of ranks that meet again and again */
	uint64_t id;	  /* rank 0's random number: the communicator's; 0: not known yet … */
	uint64_t after;	  /* … and that of the one before in the store */
	char prefix[128]; /* of keys that only this rendezvous uses */
	uint64_t deadline;
	bool again; /* records are exchanged once more */
	bool unfit; /* what this rank failed for is about all, and told in the same words */
	bool moved; /* this rank goes on from one that was not its own */
};

/* For the store's host to answer, which may have much to do, as when many ranks start at once. */
uint64_t tt_rendezvous_patience(const struct tt_rendezvous *rendezvous);

/* Agree with the other ranks of `group`, `size` in all, on a rendezvous in the store. A store
 * may serve any number, one after another, also from other handles and processes, and have what starts
 * that died left there. `out` is zeroed, or has been told by tt_rendezvous_goes_on() to go on. This
 * rank attends it in the store, and is to leave that, one way or the other. */
tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, int size,
			     uint64_t deadline, struct tt_rendezvous *out);

/* The same for the ranks that a launcher started, more than one; opens their store. Fills `key` where
 * the launcher brings one. */
tutti_result_t tt_rendezvous_launched(const struct tt_launch *launch, struct tt_key *key,
				      uint64_t deadline, tutti_store_t *store,
				      struct tt_rendezvous *out);

/* How many ranks from `rank` on it speaks for: the largest power of TT_TREE that divides its
 * number, as far as there are ranks; rank 0 for all. */
#define TT_TREE 16
int tt_rendezvous_span(const struct tt_rendezvous *rendezvous, int rank);
/* What the rank sets in the rendezvous, once it has what those set for which it speaks. */
#define TT_RANK_KEY_MAX 192
void tt_rendezvous_rank_key(const struct tt_rendezvous *rendezvous, int rank,
			    char key[TT_RANK_KEY_MAX]);

/* By rank 0, before it tells anybody: all have come. Who comes from now on is at the next one. */
tutti_result_t tt_rendezvous_met(tutti_store_t store, const struct tt_rendezvous *rendezvous);

/* This rank will not make it to the rendezvous's end, for `result` and the thread's error
 * message: those who wait for it are told. Gives what to return: of what happened to others, or
 * is about a deadline, all return what was said first. */
tutti_result_t tt_rendezvous_give_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
				     tutti_result_t result);

/* The rank has left the rendezvous, which failed with `result`. Was that one of an earlier start, so
 * that this rank is to look for another? */
bool tt_rendezvous_goes_on(tutti_store_t store, struct tt_rendezvous *rendezvous,
			   tutti_result_t result);

/* Close the store of a launched rendezvous that has ended with `result`; NULL is fine. If it
 * failed, who hosts the store goes on serving it until all have come, a second at most: those
 * who come late are told at once, and do not look for a store that is gone until their deadline. */
void tt_rendezvous_close(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			 tutti_result_t result);

#endif
