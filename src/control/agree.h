/* SPDX-License-Identifier: BSD-3-Clause */
/* One agreement among ranks of which some may be gone, or go meanwhile: who is there, and what
 * each of them said.
 *
 * Nothing in here moves bytes, sleeps or looks at a clock: the caller hands in messages, deaths
 * and the time, and sends what it is told to. agree.c says why the outcome is the same on all. */
#ifndef TT_AGREE_H
#define TT_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#define TT_AGREE_SAID_MAX 4096 /* bytes that a rank may say */

enum tt_agree_state {
	TT_AGREE_OPEN,
	TT_AGREE_DECIDED,
	TT_AGREE_LEFT_OUT, /* the others decided that this rank is not there */
	TT_AGREE_UNTOLD,   /* they decided, and nobody is left who could tell this rank what */
	TT_AGREE_NO_MEMORY
};

/* What messages begin with; `length` bytes follow. Same build on all ranks, so plain bytes. */
struct tt_agree_head {
	uint32_t magic, kind, instance, length;
	uint64_t ballot, other;
};

struct tt_agree_config {
	int rank, size;
	uint32_t instance;  /* agreements of the same ranks are numbered */
	const bool *among;  /* [size]: who is asked, this rank too; the same on all of them */
	uint64_t coming_ns; /* for the others to come; at least answer_ns */
	uint64_t answer_ns; /* for one that has come to answer */
	const void *said;   /* what this rank says */
	size_t length;
	/* Take a message for a rank; it arrives behind those sent to it before, unless one of
	 * the two is gone. */
	void (*send)(void *context, int to, const struct tt_agree_head *head, const void *body);
	void *context;
};

struct tt_agree;

tutti_result_t tt_agree_open(const struct tt_agree_config *config, uint64_t now,
			     struct tt_agree **out);
void tt_agree_close(struct tt_agree *agree); /* NULL is fine */

/* The most bytes that may follow a head; and whether it is one of an agreement of `size` ranks
 * at all. */
size_t tt_agree_body_max(int size);
bool tt_agree_is_head(const struct tt_agree_head *head, int size);

/* A message came. False: it makes no sense, and nobody who runs this code sent it. */
bool tt_agree_receive(struct tt_agree *agree, int from, const struct tt_agree_head *head,
		      const void *body, uint64_t now);
/* The rank takes no further part: it died, left the communicator, or cannot go on. */
void tt_agree_lost(struct tt_agree *agree, int rank);
/* Has the rank said what was decided? What follows in its stream is for the next agreement. */
bool tt_agree_has_told(const struct tt_agree *agree, int rank);
/* All that had arrived by `now` was heard: go on, or pass over who is late. */
void tt_agree_step(struct tt_agree *agree, uint64_t now);
/* The same for a rank that decides nothing by itself any more: a decision that was heard of counts. */
void tt_agree_settle(struct tt_agree *agree);

enum tt_agree_state tt_agree_state(const struct tt_agree *agree);

/* Once decided: who was there, in order of rank, and what each said. */
struct tt_agreed {
	int rank;
	const uint8_t *said; /* valid until the agreement is closed */
	size_t length;
};
int tt_agree_count(const struct tt_agree *agree);
struct tt_agreed tt_agree_member(const struct tt_agree *agree, int place);
/* Was the rank passed over although it was not known to be gone? */
bool tt_agree_was_late(const struct tt_agree *agree, int rank);

#endif
