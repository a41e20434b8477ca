/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"

#define BEHIND 32 /* bytes behind each buffer, and before those that peers cannot map */
#define GAP    3  /* elements between blocks */

/* In memory that peers can map, if that is wished and can be had. */
static void take(struct buffer *buffer, bool mapped)
{
	buffer->mapped = mapped;
	buffer->before = mapped ? 0 : BEHIND;
	buffer->after = BEHIND;
	if (buffer_take(buffer))
		return;
	buffer->mapped = false;
	buffer_take(buffer);
}

void operation_prepare(struct operation *op, const struct part *part, int rank, int size,
		       bool grouped, const struct plan *plan)
{
	struct call *call = &op->call;

	op->part = *part;
	call_init(call, part->what, rank, size, part->dtype,
		  part->op == OP_LAST ? COMBINE_COMPOSE : part->op, part->count);
	call->root = part->root % size;
	call->to = part->peer % size;
	call->in_place = part->in_place;
	call->salt = part->salt;
	call->rough = plan->reproducible || part->salt % 4 == 0;
	call->in_order = plan->reproducible;
	op->idle = part->what == MESSAGE && call->root == call->to && !grouped;
	call_set_uneven(call);
	if (part->gaps)
		call_spread(call, GAP, false);
	call_lay_out(call);
	/* there are buffers, too, that do not matter: nobody writes there */
	if (!call->in_place)
		take(&call->recv, plan->mapped);
	take(&call->send, plan->mapped);
	call_fill(call);
}

void operation_unmap(struct operation *op)
{
	if (op->call.send.mapped)
		buffer_finish(&op->call.send);
	if (op->call.recv.mapped)
		buffer_finish(&op->call.recv);
}

tutti_result_t operation_call(struct operation *op, tutti_comm_t comm, tutti_op_t op_last,
			      tutti_request_t *request)
{
	if (op->call.op < 0)
		op->call.op = op_last;
	return op->idle ? TUTTI_OK : call_post(comm, &op->call, request);
}

bool operation_check(struct operation *op, char why[CALL_TEXT])
{
	return op->idle || call_is_right(&op->call, why);
}
