/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose fault it is that an operation has not ended. */
#ifndef TT_BLAME_H
#define TT_BLAME_H

#include "op.h"
#include "transport.h"

static inline uint64_t tt_op_timeout_ns(const struct tt_op *op)
{
	return op->timeout_ns ? op->timeout_ns : op->comm->settings.timeout_ns;
}

/* The fault of a missed deadline, or of one that is still to be missed at `now`. */
struct tt_fault tt_blame(const struct tt_op *op, uint64_t now);

#endif
