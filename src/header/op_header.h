/* SPDX-License-Identifier: BSD-3-Clause */
/* The header: what a rank called, in the first bytes that an operation sends to a peer, and on the
 * control area. A different header of a peer is a mismatch. Wire format, little endian. */
#ifndef TT_OP_HEADER_H
#define TT_OP_HEADER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "counts.h"
#include "transport.h"

#define TT_OP_HEADER_MAGIC 0x63747474u /* "tttc" */

/* The public function that an operation is a part of, where that is not the collective itself. */
enum tt_part {
	TT_PART_NONE,
	TT_PART_GROUP, /* calls of a group that travel as one */
	TT_PART_SPLIT,
	TT_PART_GROW,
	TT_PART_CUDA_BIND,
	TT_PART_CUDA_REGISTER,
	TT_PART_CUDA_DEREGISTER,
	TT_PART_DUP,
	TT_PART_WINDOW_CREATE,
	TT_PART_WINDOW_DESTROY,
	TT_PART_COUNT
};

#define TT_PART_BITS 8 /* of `detail`, which is the part; the others say of which object it is */

/* What a user's operation was declared as. */
enum tt_declared {
	TT_DECLARED_NOT,
	TT_DECLARED_COMMUTATIVE,
	TT_DECLARED_ORDERED,
	TT_DECLARED_PREMUL
};

struct tt_op_header {
	uint32_t magic;
	int32_t rank; /* the caller */
	uint64_t seq; /* of the operation: collectives count alone, and each direction of a
		       * pair's messages */
	/* Of a vector, of each block, or of a message. Of a table that all ranks give alike, the
	 * sum (counts.h). Where a rank knows its own counts alone: 0, and on a link the pair's. */
	uint64_t count;
	/* The digest of such a table; of a message its tag; or what else tells calls of a plan apart, such
	 * as the name of its elements. */
	uint64_t detail;
	int32_t root;	  /* -1 where there is none */
	int16_t op;	  /* -1 where there is none */
	uint8_t part;	  /* enum tt_part */
	uint8_t declared; /* enum tt_declared */
	uint8_t collective;
	uint8_t dtype;	   /* tt_narrow_dtype() */
	uint8_t algorithm; /* its number in the registry */
	/* From here on for the error message alone, not compared, but for segments. Of windows on
	 * GPUs: which, folded into a byte, and into `detail`; 0: none. */
	uint8_t windows;
	uint32_t segments;
	uint64_t own;	 /* the moment of a table (counts.h), or this rank's own elements where it
		       * knows its own counts alone; of a message, compared, the name of its elements */
	uint64_t called; /* of a note: the last collective that its rank has called */
};
static_assert(sizeof(struct tt_op_header) == 64, "a header is one cache line");

/* Of a send or a receive? */
bool tt_op_header_is_message(const struct tt_op_header *header);

/* Everything but the caller's rank, and what is for the error message alone, folded into a word. */
uint64_t tt_op_header_signature(const struct tt_op_header *header);
bool tt_op_header_equal(const struct tt_op_header *a, const struct tt_op_header *b);
/* "tutti_comm_split"; NULL for TT_PART_NONE, TT_PART_GROUP and what is none. */
const char *tt_part_name(enum tt_part part);
#define TT_CALL_BYTES 160 /* enough for tt_op_header_describe() */
/* "all_reduce(float32 × 4096, sum)", "tutti_comm_split" */
void tt_op_header_describe(const struct tt_op_header *header, char *out, size_t size);
/* The fault of two ranks whose headers differ. `counts`: the table of counts that `mine` stands
 * for, NULL: there is none, or it is no longer known. */
struct tt_fault tt_op_header_mismatch(const struct tt_op_header *mine,
				      const struct tt_op_header *theirs,
				      const struct tt_counts *counts);
/* The same of a receiver (`mine`) and a sender whose headers differ in the count of their pair
 * alone. */
struct tt_fault tt_op_header_mismatch_of_pair(const struct tt_op_header *mine,
					      const struct tt_op_header *theirs);

#endif
