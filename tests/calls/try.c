/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole call, from its memory to the check. */
#include <stdio.h>

#include "call.h"

static bool fail(tutti_comm_t comm, const struct call *c, tutti_result_t result,
		 char text[CALL_TEXT])
{
	snprintf(text, CALL_TEXT, "%s of %zu: %s: %s", call_name(c->what), c->count,
		 tutti_strerror(result), tutti_last_error(comm));
	return false;
}

static bool make(tutti_comm_t comm, struct call *c, char text[CALL_TEXT])
{
	const tutti_result_t result = call_post(comm, c, NULL);
	tutti_plan_info_t plan = { .size = sizeof(plan) };

	if (result)
		return fail(comm, c, result, text);
	/* one that rounds once; of others the bound may depend on hosts */
	if (!tutti_comm_last_plan(comm, &plan) && value_is_one_fold(plan.algorithm))
		c->way.algorithm = plan.algorithm;
	return call_is_right(c, text);
}

bool call_try(tutti_comm_t comm, struct call *c, char text[CALL_TEXT])
{
	const bool makes = c->op < 0 && call_combines(c->what);
	bool right;

	call_lay_out(c);
	const tutti_result_t result = makes ? call_make_op(comm, c) : TUTTI_OK;
	if (result)
		return fail(comm, c, result, text);
	right = call_take_memory(c);
	if (right) {
		call_fill(c);
		right = make(comm, c, text);
	} else {
		snprintf(text, CALL_TEXT, "no memory for buffers");
	}
	call_finish(c);
	if (makes && tutti_op_destroy(comm, c->op) && right)
		return fail(comm, c, TUTTI_ERR_INVALID, text);
	return right;
}
