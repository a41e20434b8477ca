/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations come from the free list, and go back. Inline, as every one of 8 bytes does. */
#ifndef TT_OP_LIFE_H
#define TT_OP_LIFE_H

#include "op.h"
#include "op_record.h"

/* NULL: no memory. */
static inline struct tt_op *tt_op_get(struct tutti_comm *comm)
{
	struct tt_op *op = comm->spare;

	if (__builtin_expect(op != NULL, 1))
		comm->spare = op->next;
	else
		op = tt_op_alloc();
	if (!op)
		return NULL;
	op->comm = comm;
	op->next = op->prev = NULL;
	op->request = NULL;
	op->plan = NULL;
	op->state = TT_OP_WAITING;
	op->started = 0;
	op->ncursors = 0;
	op->granted = false;
	op->wide = NULL;
	return op;
}

static inline void tt_op_put(struct tutti_comm *comm, struct tt_op *op)
{
	op->next = comm->spare;
	comm->spare = op;
}

/* Of one that is not in flight, and has no request. */
static inline void tt_op_end(struct tt_op *op, tutti_result_t result)
{
	op->state = TT_OP_DONE;
	if (op->granted || op->wide)
		tt_op_end_buffers(op, result);
	tt_recorder_done(op, result);
	for (uint32_t i = 0; i < op->ncursors; i++)
		tt_cursor_dequeue(&op->cursors[i]);
	tt_op_put(op->comm, op);
}

#endif
