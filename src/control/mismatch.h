/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault of ranks of a communicator that called different operations. */
#ifndef TT_MISMATCH_H
#define TT_MISMATCH_H

#include "comm.h"

/* `mine` is this rank's header of an operation, `theirs` came from a peer, and they differ. Lock
 * held. */
struct tt_fault tt_mismatch(struct tutti_comm *comm, const struct tt_op_header *mine,
			    const struct tt_op_header *theirs);

#endif
