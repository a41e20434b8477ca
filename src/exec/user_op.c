/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the operations that users make: a table per communicator, numbered in the order of
 * making. */
#include "user_op.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "names.h"
#include "op.h"
#include "plan_cache.h"

static tutti_result_t add(tutti_comm_t comm, const struct tt_user_op *made, tutti_op_t *op)
{
	int place = 0;

	tt_comm_lock(comm);
	if (!comm->user_ops) /* plans point into the table, so it does not move */
		comm->user_ops = calloc(TT_USER_OPS_MAX, sizeof(*comm->user_ops));
	while (comm->user_ops && place < comm->nuser_ops && comm->user_ops[place].used)
		place++;
	const bool fits = comm->user_ops && place < TT_USER_OPS_MAX;
	if (fits) {
		comm->user_ops[place] = *made;
		if (place == comm->nuser_ops)
			comm->nuser_ops++;
		*op = TUTTI_OP_COUNT + place;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!fits)
		return tt_fail(
			TUTTI_ERR_NO_MEMORY, EXEC,
			"no space for another operation: a communicator keeps %d at most; destroy some",
			TT_USER_OPS_MAX);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_op_create(tutti_comm_t comm, tutti_reduce_fn_t function,
					 int commutative, void *context, tutti_op_t *op)
{
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_op_create");
	if (!function || !op)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_op_create: %s is NULL",
			       function ? "op" : "function");
	const struct tt_user_op made = { .used = true,
					 .commutative = commutative != 0,
					 .function = function,
					 .calls = &comm->op_calls,
					 .context = context };

	atomic_store_explicit(&tt_callbacks_exist, true, memory_order_relaxed);
	return add(comm, &made, op);
}

TUTTI_API tutti_result_t tutti_op_create_premul_sum(tutti_comm_t comm, const void *scalar,
						    tutti_dtype_t dtype, tutti_op_t *op)
{
	struct tt_user_op made = { .used = true, .commutative = true, .dtype = dtype };

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_op_create_premul_sum");
	if (!scalar || !op)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_op_create_premul_sum: %s is NULL",
			       scalar ? "op" : "scalar");
	if (tutti_dtype_size(dtype) == 0)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_op_create_premul_sum: dtype %d is no type; expected 0 to %d",
			       (int)dtype, TUTTI_DTYPE_COUNT - 1);
	memcpy(made.scalar, scalar, tutti_dtype_size(dtype));
	return add(comm, &made, op);
}

/* Lock held. */
static bool is_pending(const struct tutti_comm *comm, tutti_op_t op)
{
	for (const struct tt_op *at = comm->first; at; at = at->next)
		if (tt_op_is_collective(at) && at->plan->call.op == op)
			return true;
	return false;
}

/* Of a call that was checked. */
static void count_holders(struct tutti_comm *comm, tutti_op_t op, int more)
{
	if (op < TUTTI_OP_COUNT)
		return;
	tt_comm_lock(comm);
	comm->user_ops[op - TUTTI_OP_COUNT].held += (unsigned)more;
	pthread_mutex_unlock(&comm->lock);
}

void tt_user_op_hold(struct tutti_comm *comm, tutti_op_t op)
{
	count_holders(comm, op, 1);
}

void tt_user_op_let_go(struct tutti_comm *comm, tutti_op_t op)
{
	count_holders(comm, op, -1);
}

TUTTI_API tutti_result_t tutti_op_destroy(tutti_comm_t comm, tutti_op_t op)
{
	const int place = op - TUTTI_OP_COUNT;

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_op_destroy");
	tt_comm_lock(comm);
	const bool known = place >= 0 && place < comm->nuser_ops && comm->user_ops[place].used;
	const bool held = known && comm->user_ops[place].held > 0,
		   pending = known && is_pending(comm, op);
	if (known && !held && !pending) {
		tt_plans_forget_op(comm, op);
		comm->user_ops[place].used = false;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!known)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_op_destroy: op %d was not made on this communicator, or is destroyed already",
			op);
	if (held)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_op_destroy: a call in a group that is open uses op %d: destroy it after tutti_group_end()",
			op);
	if (pending)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_op_destroy: a request that is pending uses op %d: destroy it after tutti_wait()",
			op);
	return TUTTI_OK;
}
