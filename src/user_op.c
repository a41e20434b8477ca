/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the operations that users make: a table per communicator, numbered in the order of making. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "plan_cache.h"

#define USER_OPS_MAX 256 /* plans point into the table, so it does not move */

static tutti_result_t add(tutti_comm_t comm, const struct tt_user_op *made, tutti_op_t *op)
{
	int place = 0;

	pthread_mutex_lock(&comm->lock);
	if (!comm->user_ops)
		comm->user_ops = calloc(USER_OPS_MAX, sizeof(*comm->user_ops));
	while (comm->user_ops && place < comm->nuser_ops && comm->user_ops[place].used)
		place++;
	const bool fits = comm->user_ops && place < USER_OPS_MAX;
	if (fits) {
		comm->user_ops[place] = *made;
		if (place == comm->nuser_ops)
			comm->nuser_ops++;
		*op = TUTTI_OP_COUNT + place;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!fits)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
			       "no room for another operation: a communicator keeps %d at most; destroy some",
			       USER_OPS_MAX);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_op_create(tutti_comm_t comm, tutti_reduce_fn_t function,
					 int commutative, void *context, tutti_op_t *op)
{
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_op_create");
	if (!function || !op)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_op_create: %s is NULL", function ? "op" : "function");
	const struct tt_user_op made = { .used = true,
					 .commutative = commutative != 0,
					 .function = function,
					 .context = context };

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
			       "tutti_op_create_premul_sum: dtype %d is no type; expected 0 to %d", (int)dtype,
			       TUTTI_DTYPE_COUNT - 1);
	memcpy(made.scalar, scalar, tutti_dtype_size(dtype));
	return add(comm, &made, op);
}

TUTTI_API tutti_result_t tutti_op_destroy(tutti_comm_t comm, tutti_op_t op)
{
	const int place = op - TUTTI_OP_COUNT;

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_op_destroy");
	pthread_mutex_lock(&comm->lock);
	const bool known = place >= 0 && place < comm->nuser_ops && comm->user_ops[place].used;
	if (known) {
		tt_plans_forget_op(comm, op);
		comm->user_ops[place].used = false;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!known)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_op_destroy: op %d was not made on this communicator, or is destroyed already",
			       op);
	return TUTTI_OK;
}
