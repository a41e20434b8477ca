/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that move and combine, and what they combine by. */
#ifndef TT_WHAT_H
#define TT_WHAT_H

#include <tutti/tutti.h>

enum what {
	BROADCAST,
	REDUCE,
	ALL_REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	REDUCE_SCATTER_V,
	ALL_GATHER_V,
	GATHER_V,
	SCATTER_V,
	ALL_TO_ALL_V,
	SCAN,
	EXSCAN,
	BARRIER,
	MESSAGE, /* a send of one rank and a receive of another, or of the same */
	WHATS
};

/* The operations of a reduction: those of the library, and after them */
enum {
	COMBINE_ADD = TUTTI_OP_COUNT, /* the user's, commutative: bits are added, modulo the size of
					 the element */
	COMBINE_COMPOSE, /* the user's, not commutative: x -> a x + b, both in one element */
	COMBINE_PREMUL,	 /* a pre-multiplied sum */
	COMBINE_KINDS,
	COMBINE_NONE = -1 /* the data is moved only */
};

#endif
