/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator that grows and its newcomers find each other in a store, which has nothing but
 * set and get.
 *
 *   PREFIX/seat/N         a newcomer's token, a random number: the last that was put there, until …
 *   PREFIX/taken/N        … the communicator's coordinator, its rank 0, invites one: whose token it is has the slot
 *   PREFIX/answer/TOKEN   the report of whom was invited
 *   PREFIX/late/TOKEN     … or its invitation is over: it did not report in time
 *   PREFIX/ID/beat        counts while the coordinator of the communicator that is to be works on it
 *   PREFIX/ID/news        it is complete, or will never be
 *   PREFIX/ID/records     of all ranks (tt_bundle_set()), before the news of that
 *
 * A newcomer puts its token on the first slot that is not taken; if another's is invited there,
 * it goes on to the next. So several get distinct slots with the coordinator as the only judge,
 * whether they come before it or after; a token whose owner has died is overwritten by the next
 * newcomer, or invited in vain and passed over. Join slots are used once. */
#ifndef TT_JOIN_SLOTS_H
#define TT_JOIN_SLOTS_H

#include "exchange.h"
#include "key.h"
#include "report.h"
#include "tutti/tutti.h"

struct tt_join_slots {
	tutti_store_t store;
	bool opened; /* here */
	char prefix[96];
	uint32_t next; /* the first that may be free */
};

struct tt_invitation {
	uint64_t token;
	uint64_t id; /* of the new communicator */
	int32_t rank, size;
};

/* `store` NULL: the launcher's, by TUTTI_STORE, for this job. */
tutti_result_t tt_join_slots_open(tutti_store_t store, const struct tt_key *key, uint64_t deadline,
				  const char *call, struct tt_join_slots *out);
void tt_join_slots_close(struct tt_join_slots *slots);

/* A newcomer's part. TUTTI_ERR_TIMEOUT: not invited by the deadline. */
tutti_result_t tt_join_slots_apply(struct tt_join_slots *slots, uint64_t deadline,
				   struct tt_invitation *out);
tutti_result_t tt_join_slots_answer(struct tt_join_slots *slots,
				    const struct tt_invitation *invitation,
				    const struct tt_report *report);
/* Was another invited in its place, as no answer came? True as well if the store does not say. */
bool tt_join_slots_is_passed_over(struct tt_join_slots *slots,
				  const struct tt_invitation *invitation);
/* TUTTI_IN_PROGRESS: nothing came of it, apply again. */
tutti_result_t tt_join_slots_await(struct tt_join_slots *slots,
				   const struct tt_invitation *invitation, const struct tt_key *key,
				   struct tt_records *out);

/* The coordinator's part. TUTTI_IN_PROGRESS: nobody has come to the next slot within `wait_ns`;
 * else whoever did is invited as `invitation` says, which gets its token, and the slot is taken. */
tutti_result_t tt_join_slots_invite(struct tt_join_slots *slots, struct tt_invitation *invitation,
				    uint64_t wait_ns);
/* The answer to it; TUTTI_IN_PROGRESS: not yet. */
tutti_result_t tt_join_slots_receive(struct tt_join_slots *slots,
				     const struct tt_invitation *invitation, uint64_t wait_ns,
				     struct tt_report *out);
/* Its answer counts no more, if it still comes: another will be invited with the same rank. */
tutti_result_t tt_join_slots_pass_over(struct tt_join_slots *slots,
				       const struct tt_invitation *invitation);
tutti_result_t tt_join_slots_beat(struct tt_join_slots *slots, uint64_t id, uint64_t count);
/* It is complete: everybody's records, made by rank 0. */
tutti_result_t tt_join_slots_settle(struct tt_join_slots *slots, uint64_t id,
				    const struct tt_bundle *bundle);
/* It will not be, as the thread's error message says. */
void tt_join_slots_dissolve(struct tt_join_slots *slots, uint64_t id);

#endif
