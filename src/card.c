/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the hashing and the comparison of cards, and the sentence about cards that differ. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "card.h"
#include "names.h"
#include "registry.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 29);
}

uint64_t tt_card_signature(const struct tt_card *card)
{
	const uint64_t kind = (uint64_t)card->collective | (uint64_t)card->dtype << 8 |
			      (uint64_t)card->algorithm << 16 | (uint64_t)(uint32_t)card->op << 32;
	uint64_t hash = mix(card->seq, card->count);

	hash = mix(hash, kind);
	hash = mix(hash, (uint64_t)(uint32_t)card->root | card->segments << 32);
	return mix(hash, card->detail);
}

uint64_t tt_card_hash_counts(uint64_t hash, const size_t *counts, int n)
{
	for (int i = 0; counts && i < n; i++)
		hash = mix(hash, counts[i]);
	return hash;
}

bool tt_card_equal(const struct tt_card *a, const struct tt_card *b)
{
	return a->magic == b->magic && a->seq == b->seq && a->count == b->count &&
	       a->detail == b->detail && a->root == b->root && a->op == b->op &&
	       a->collective == b->collective && a->dtype == b->dtype &&
	       a->algorithm == b->algorithm && a->segments == b->segments;
}

void tt_card_describe(const struct tt_card *card, char *out, size_t size)
{
	const char *dtype = tutti_dtype_name((tutti_dtype_t)card->dtype);
	size_t used;

	if (card->magic != TT_CARD_MAGIC) {
		snprintf(out, size, "sent bytes that are no operation");
		return;
	}
	if (card->collective == TT_BARRIER) {
		snprintf(out, size, "barrier()");
		return;
	}
	used = (size_t)snprintf(out, size, "%s(%s × %" PRIu64,
				tt_collective_name((enum tt_collective)card->collective),
				dtype ? dtype : "unknown type", card->count);
	if (card->op >= 0 && used < size)
		used += (size_t)snprintf(out + used, size - used, ", %s", tutti_op_name(card->op));
	if (card->op >= TUTTI_OP_COUNT && used < size)
		used += (size_t)snprintf(out + used, size - used, " %d", card->op - TUTTI_OP_COUNT);
	if (card->root >= 0 && used < size)
		used += (size_t)snprintf(out + used, size - used, ", root %d", card->root);
	if (used < size)
		snprintf(out + used, size - used, ")");
}

/* What differs where the descriptions are alike; where they are not, all else follows from that. */
static const char *hidden_difference(const struct tt_card *a, const char *a_call, const struct tt_card *b,
				     const char *b_call)
{
	if (strcmp(a_call, b_call) != 0)
		return "";
	if (a->detail != b->detail)
		return "; their counts or groups differ, or one sum is pre-multiplied";
	if (a->algorithm != b->algorithm || a->segments != b->segments)
		return "; their settings differ (TUTTI_ALGORITHM, TUTTI_SEGMENT, TUTTI_REPRODUCIBLE)";
	return "";
}

struct tt_fault tt_card_mismatch(const struct tt_card *mine, const struct tt_card *theirs)
{
	/* both ends of a link may find out at once: they say the same */
	const bool swap = theirs->rank < mine->rank;
	const struct tt_card *a = swap ? theirs : mine, *b = swap ? mine : theirs;
	const bool message = a->collective == TT_SEND_RECV || b->collective == TT_SEND_RECV;
	struct tt_fault fault = { .result = TUTTI_ERR_MISMATCH,
				  .rank = b->rank,
				  .seq = message ? 0 : a->seq < b->seq ? a->seq : b->seq };
	char a_call[120], b_call[120];

	tt_card_describe(a, a_call, sizeof(a_call));
	tt_card_describe(b, b_call, sizeof(b_call));
	if (a->seq != b->seq)
		snprintf(fault.text, sizeof(fault.text),
			 "rank %d is in its operation %" PRIu64 ", %s, while rank %d is in its operation %" PRIu64
			 ", %s: one of them left out an operation",
			 a->rank, a->seq, a_call, b->rank, b->seq, b_call);
	else
		snprintf(fault.text, sizeof(fault.text), "operation %" PRIu64 ": rank %d called %s, rank %d called %s%s",
			 a->seq, a->rank, a_call, b->rank, b_call, hidden_difference(a, a_call, b, b_call));
	return fault;
}
