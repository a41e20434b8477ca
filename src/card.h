/* SPDX-License-Identifier: BSD-3-Clause */
/* The card: what a rank called, in the first bytes that an operation sends to a peer, and on the board. A
 * different card of a peer is a mismatch. Wire format, little endian. */
#ifndef TT_CARD_H
#define TT_CARD_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport.h"

#define TT_CARD_MAGIC 0x63747474u /* "tttc" */

struct tt_card {
	uint32_t magic;
	int32_t rank; /* the caller */
	uint64_t seq; /* of the operation: collectives count alone, and each direction of a pair's messages */
	uint64_t count;
	uint64_t detail; /* hash of a _v form's counts, or of what a group fused */
	int32_t root;	 /* -1 where there is none */
	int32_t op;	 /* -1 where there is none */
	uint8_t collective;
	uint8_t dtype;
	uint8_t algorithm; /* its number in the registry */
	uint8_t spare[5];
	uint64_t segments;
	uint64_t called; /* of a note: the last collective that its rank has called */
};
static_assert(sizeof(struct tt_card) == 64, "a card is one cache line");

/* Everything but the caller's rank, folded into a word. */
uint64_t tt_card_signature(const struct tt_card *card);
/* A table of counts folded into `hash`, as `detail` has it; NULL changes nothing. */
uint64_t tt_card_hash_counts(uint64_t hash, const size_t *counts, int n);
bool tt_card_equal(const struct tt_card *a, const struct tt_card *b);
/* "all_reduce(float32 × 4096, sum)" */
void tt_card_describe(const struct tt_card *card, char *out, size_t size);
/* The fault of two ranks whose cards differ. */
struct tt_fault tt_card_mismatch(const struct tt_card *mine, const struct tt_card *theirs);

#endif
