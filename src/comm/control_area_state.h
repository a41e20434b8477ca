/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control area has room for, which plans keep to, and what a rank keeps of it. The
 * struct is part of the communicator and not behind a pointer: an operation of 8 bytes would
 * wait for one load more at each step. */
#ifndef TT_CONTROL_AREA_STATE_H
#define TT_CONTROL_AREA_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_HOT_LINE    32u	    /* bytes of payload that share a line with the progress word */
#define TT_HOT_PAYLOAD 256u	    /* in the lines next to it */
#define TT_EAGER_BYTES (32u * 1024) /* of an eager payload, at most */
#define TT_EAGER_SPAN  (16u * TT_EAGER_BYTES)
#define TT_EAGER_UNITS 64u
#define TT_ROUNDS      3u /* of a shared schedule, at most */
#define TT_STAGES                                                                                  \
	(TT_ROUNDS + 1) /* one is written while others are in each round of those before */
#define TT_STAGE_BYTES (1u << 20)
#define TT_STAGE_SPAN                                                                              \
	(2u * TT_STAGE_BYTES) /* inputs, and the results exposed in turn; what is used gets pages */
#define TT_STEP_BITS 24

struct tt_area_rank;
struct tt_area_slot;
struct tt_endpoint;

struct tt_area {
	struct tt_area_rank *base;  /* [size]; NULL where not all ranks share memory */
	struct tt_area_slot *slots; /* [nslots][size] */
	uint64_t nslots;	    /* a power of two: operations that a root may be ahead of its
				     * readers */
	size_t size;
	uint8_t (*eager)[TT_EAGER_SPAN];	    /* [size] */
	uint64_t units;				    /* that they are used in: a power of two */
	uint8_t (*stage)[TT_STAGES][TT_STAGE_SPAN]; /* [size] */
	struct tt_endpoint *endpoint;
	const _Atomic uint32_t *sleepers, *faults; /* its own, or what is never as it was */
	uint64_t *seen;	     /* [size]: the highest operation known to be posted by each rank */
	uint64_t free_until; /* the slots of operations up to this one may be used */
	bool owes_wake;	     /* something was published whose waiters, if asleep, are still to
				 * be woken */
	uint64_t units_used; /* taken so far, or passed over */
	uint64_t units_free; /* this many may be taken */
	uint64_t unit_op[TT_EAGER_UNITS]; /* the operation that used each last; 0: none */
	uint64_t stages_used;		  /* staging areas taken so far, one per segment of a
					      * staged operation */
	uint64_t stage_last[TT_STAGES];	  /* progress that frees each: every rank must have come to
					 * it */
	uint64_t stage_op[TT_STAGES];	  /* the operation it was used in */
};

#endif
