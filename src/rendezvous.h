/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a new communicator come to mean the same meeting in a store. */
#ifndef TT_RENDEZVOUS_H
#define TT_RENDEZVOUS_H

#include <stdint.h>

#include "launch.h"
#include "tutti/tutti.h"

struct tt_rendezvous {
	uint64_t id;	  /* rank 0's random number: the communicator's */
	char prefix[160]; /* of keys that only this meeting uses */
};

/* Agree with the other ranks of `group` on a meeting in the store. A store may serve any number,
 * one after another, also from other handles and processes: rank 0's n-th meeting is every rank's
 * n-th. */
tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, uint64_t deadline,
			     struct tt_rendezvous *out);

/* The same for the ranks that a launcher started, more than one; opens their store. */
tutti_result_t tt_rendezvous_launched(const struct tt_launch *launch, uint64_t deadline,
				      tutti_store_t *store, struct tt_rendezvous *out);

#endif
