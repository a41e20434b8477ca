/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions by name, and those that a communicator makes: the type _core.Op. */
#ifndef TP_OPERATIONS_H
#define TP_OPERATIONS_H

#include "arrays.h"
#include "communicator.h"

bool tp_operations_load(void);
PyObject *tp_op_type(void);

/* What `value`, a name, an Op or NULL for "sum", does to the elements of `view`. */
bool tp_op_of(const char *function, const struct tp_comm *comm, PyObject *value,
	      const struct tp_view *view, tutti_op_t *out);

/*
 * The last thing before a call with the operation that tp_op_of() chose: nothing else may fail then.
 * Operations of dates are made by the first call that has them, on all ranks the same.
 */
bool tp_op_ready(struct tp_comm *comm, tutti_op_t *op);

/* Communicator.premul_sum() */
tp_method_t tp_comm_premul_sum;

#endif
