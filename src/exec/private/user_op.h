/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that users make, as far as others must know of them. */
#ifndef TT_USER_OP_H
#define TT_USER_OP_H

#include "comm.h"

/* A call that is kept in a group uses `op`, whatever it is: the operation stays until the call lets
 * it go. The call was checked. Takes the lock. */
void tt_user_op_hold(struct tutti_comm *comm, tutti_op_t op);
void tt_user_op_let_go(struct tutti_comm *comm, tutti_op_t op);

#endif
