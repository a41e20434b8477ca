/* SPDX-License-Identifier: BSD-3-Clause */
/* How far the result of a reduction may be from the exact one: docs/algorithms.md, "Error bounds",
 * as a function. */
#ifndef TT_BOUNDS_H
#define TT_BOUNDS_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "what.h"

/* How a reduction is done. */
struct value_way {
	const char *algorithm; /* NULL: any */
	enum what what;
	tutti_dtype_t dtype;
	tutti_op_t op; /* TUTTI_OP_COUNT and above: a pre-multiplied sum */
	int ranks;
	int hosts, most; /* of the hierarchical algorithms: hosts, and ranks of the fullest one */
};

/* Does the algorithm combine all contributions to an element in one step? */
bool value_is_one_fold(const char *algorithm);
/* How often a contribution is combined with others on its way, at most. */
int value_height(const struct value_way *way);
/* How far a result may be from the exact one if nothing overflows. `magnitude` is the sum of the
 * absolute values of the contributions (an average: divided by the number of ranks; a
 * pre-multiplied sum: of the products), or the absolute value of the exact product, which must
 * not underflow on the way either. 0 where the result is exact: integers, minimum, maximum. */
double value_bound(const struct value_way *way, double magnitude);
/* How far one rounding moves a float32 of that magnitude that travels so, in a block whose largest
 * magnitude is `largest` ("Narrow elements"). */
double value_narrowed(tutti_wire_t wire, double magnitude, double largest);

#endif
