/* SPDX-License-Identifier: BSD-3-Clause */
/* How a communicator that grows and its newcomers find each other in a store, which has nothing
 * but set and get.
 *
 *   PREFIX/seat/N         a newcomer's ticket, a random number: the last that was put there, until …
 *   PREFIX/taken/N        … the communicator's clerk, its rank 0, invites one: whose ticket it is has the seat
 *   PREFIX/answer/TICKET  the report of whom was invited
 *   PREFIX/ID/beat        counts while the clerk of the communicator that is to be works on it
 *   PREFIX/ID/news        it is complete, with so many bytes of records in parts, or will never be
 *   PREFIX/ID/part/N
 *
 * A newcomer puts its ticket on the first seat that is not taken; if another's is invited there,
 * it goes on to the next. So several get distinct seats with the clerk as the only judge,
 * whether they come before it or after; a ticket whose owner has died is overwritten by the next
 * newcomer, or invited in vain and passed over. Seats are used once. */
#ifndef TT_SEATS_H
#define TT_SEATS_H

#include "exchange.h"
#include "key.h"
#include "report.h"
#include "tutti/tutti.h"

struct tt_seats {
	tutti_store_t store;
	bool opened; /* here */
	char prefix[96];
	uint32_t next; /* the first that may be free */
};

struct tt_invitation {
	uint64_t ticket;
	uint64_t id; /* of the new communicator */
	int32_t rank, size;
};

/* `store` NULL: the launcher's, by TUTTI_STORE, for this job. */
tutti_result_t tt_seats_open(tutti_store_t store, const struct tt_key *key, uint64_t deadline,
			     const char *call, struct tt_seats *out);
void tt_seats_close(struct tt_seats *seats);

/* A newcomer's part. TUTTI_ERR_TIMEOUT: not invited by the deadline. */
tutti_result_t tt_seats_apply(struct tt_seats *seats, uint64_t deadline, struct tt_invitation *out);
tutti_result_t tt_seats_answer(struct tt_seats *seats, const struct tt_invitation *invitation,
			       const struct tt_report *report);
/* Was another invited in its place, as no answer came? True as well if the store does not say. */
bool tt_seats_is_passed_over(struct tt_seats *seats, const struct tt_invitation *invitation);
/* TUTTI_IN_PROGRESS: nothing came of it, apply again. */
tutti_result_t tt_seats_await(struct tt_seats *seats, const struct tt_invitation *invitation,
			      struct tt_records *out);

/* The clerk's part. TUTTI_IN_PROGRESS: nobody has come to the next seat within `wait_ns`; else
 * whoever did is invited as `invitation` says, which gets its ticket, and the seat is taken. */
tutti_result_t tt_seats_invite(struct tt_seats *seats, struct tt_invitation *invitation,
			       uint64_t wait_ns);
/* The answer to it; TUTTI_IN_PROGRESS: not yet. */
tutti_result_t tt_seats_hear(struct tt_seats *seats, const struct tt_invitation *invitation,
			     uint64_t wait_ns, struct tt_report *out);
/* Its answer counts no more, if it still comes: another will be invited with the same rank. */
tutti_result_t tt_seats_pass_over(struct tt_seats *seats, const struct tt_invitation *invitation);
tutti_result_t tt_seats_beat(struct tt_seats *seats, uint64_t id, uint64_t count);
/* It is complete: what tt_records_pack() made for everybody. */
tutti_result_t tt_seats_settle(struct tt_seats *seats, uint64_t id, const uint8_t *records,
			       size_t length);
/* It will not be, as the thread's error message says. */
void tt_seats_dissolve(struct tt_seats *seats, uint64_t id);

#endif
