/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a communicator tell of themselves before links exist: the records of several
 * of them, and the bundle that they travel in.
 *
 * Ranks of one host say nearly the same, so a bundle has of a record the bytes by which it differs
 * from an earlier one. One proof, of the rank that made the bundle, is for all of it: that rank has
 * checked what it packs. */
#ifndef TT_RECORDS_H
#define TT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"
#include "tutti/tutti.h"

#define TT_RECORD_MAX 4088 /* bytes that a rank tells of itself */
#define TT_EXCHANGED_MAX                                                                           \
	(TT_RECORD_MAX + 8) /* that it may contribute: that, and what stands before it in a
			     * report */

struct tt_records {
	uint8_t *bytes;
	size_t *offset, *length; /* [size]: where in them each rank's record is */
	size_t used;		 /* bytes, by tt_records_arrange() or tt_records_add(), … */
	int count;		 /* … which has put so many there */
	bool proven;		 /* by a bundle; otherwise each is to be, by its own proof */
};

/* Where records lie one after another, of which each of `size` ranks has told the length
 * (records->length); `mine` is the length that this one, `rank`, told itself. */
tutti_result_t tt_records_arrange(struct tt_records *records, int size, int rank, size_t mine);
/* Room for records of `count` ranks, `bytes` in all, which are the caller's to fill in. */
tutti_result_t tt_records_make(int count, size_t bytes, struct tt_records *out);
/* The next one, for which there is room. */
void tt_records_add(struct tt_records *records, const void *record, size_t length);
void tt_records_free(struct tt_records *records); /* zeroed is fine */

/* A bundle of the records of `count` ranks from `maker->rank` on, which makes it; `records` has
 * them from place 0 on, and what of them it has not made itself is checked. */
struct tt_bundle {
	uint8_t *bytes; /* of malloc() */
	size_t length;
};
tutti_result_t tt_bundle_pack(const struct tt_record_from *maker, int count,
			      const struct tt_records *records, struct tt_bundle *out);
/* The reverse; `bytes` come from another rank, `maker->rank`, and `reader` is this one, for error
 * messages. On success the proof is good; what the records say is still to be read. */
tutti_result_t tt_bundle_unpack(const struct tt_record_from *maker, int count, const uint8_t *bytes,
				size_t length, int reader, struct tt_records *out);
/* The most that a bundle of `count` records has. */
size_t tt_bundle_capacity(int count);
/* Under a key of a store, and from there (TUTTI_IN_PROGRESS: it is not there within `timeout_ns`). What
 * is got, which rank `from` has set, has the length of a bundle of `count` records at most; it is still to
 * be unpacked. */
tutti_result_t tt_bundle_set(tutti_store_t store, const char *key, const struct tt_bundle *bundle,
			     uint64_t timeout_ns);
tutti_result_t tt_bundle_get(tutti_store_t store, const char *key, int from, int count,
			     uint64_t timeout_ns, struct tt_bundle *out);

#endif
