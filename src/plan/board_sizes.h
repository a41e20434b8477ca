/* SPDX-License-Identifier: BSD-3-Clause */
/* What the board has room for, which plans keep to. */
#ifndef TT_BOARD_SIZES_H
#define TT_BOARD_SIZES_H

#define TT_BOARD_SLOTS 32u /* operations that a root may be ahead of its readers */
#define TT_EAGER_SLOTS                                                                             \
	8u /* the same of operations whose payload is longer than the hot lines: they are to stay
	    * in the cache */
#define TT_HOT_LINE    32u  /* bytes of payload that share a line with the progress word */
#define TT_HOT_PAYLOAD 256u /* in the lines next to it */
#define TT_EAGER_BYTES (32u * 1024)
#define TT_ROUNDS      3u /* of a shared schedule, at most */
#define TT_STAGES                                                                                  \
	(TT_ROUNDS + 1) /* one is written while others are in each round of those before */
#define TT_STAGE_BYTES (1u << 20)
#define TT_STAGE_SPAN                                                                              \
	(2u * TT_STAGE_BYTES) /* inputs, and the results exposed in turn; what is used gets pages */
#define TT_STEP_BITS 24

#endif
