/* SPDX-License-Identifier: BSD-3-Clause */
/* What every rank tells of itself before links exist, and how all get everyone's through a
 * store. */
#ifndef TT_RECORDS_H
#define TT_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous.h"
#include "tutti/tutti.h"

#define TT_RECORD_MAX 4088 /* bytes that a rank tells of itself */
#define TT_EXCHANGED_MAX                                                                           \
	(TT_RECORD_MAX + 8) /* that it may contribute: that, and what stands before it in a
			     * report */

struct tt_records {
	uint8_t *bytes;
	size_t *offset, *length; /* [size]: where in them each rank's record is */
};

/* Bruck's all-gather (IEEE TPDS 8(11), 1997) through a store's set and get: log2(size) steps for
 * every rank of the rendezvous. */
tutti_result_t tt_exchange_by_store(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				    const void *mine, size_t length, uint64_t deadline,
				    struct tt_records *out);
/* Where records lie one after another, of which each of `size` ranks has told the length
 * (records->length); `mine` is the length that this one, `rank`, told itself. Gives their
 * offsets, and how many bytes they have in all. */
tutti_result_t tt_records_arrange(struct tt_records *records, int size, int rank, size_t mine,
				  size_t *bytes);
/* Records of `count` ranks one after another, each with its length in front; at most
 * tt_records_room() bytes, of which it gives how many. */
size_t tt_records_capacity(int count);
size_t tt_records_pack(const struct tt_records *records, int count, void *out);
/* The reverse; `bytes` come from another rank. */
tutti_result_t tt_records_unpack(const void *bytes, size_t length, int count,
				 struct tt_records *out);
void tt_records_free(struct tt_records *records); /* zeroed is fine */

#endif
