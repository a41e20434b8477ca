/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that public functions are made of: peers compare, and messages name, the function.
 * Blocking; lock not held. */
#ifndef TT_PARTS_H
#define TT_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "op_header.h"

tutti_result_t tt_part_barrier(struct tutti_comm *comm, enum tt_part part);
/* `which` object the function is about: peers compare that, too. */
tutti_result_t tt_part_barrier_of(struct tutti_comm *comm, enum tt_part part, uint32_t which);
tutti_result_t tt_part_broadcast(struct tutti_comm *comm, enum tt_part part, const void *send,
				 void *recv, size_t bytes, int root);
tutti_result_t tt_part_all_gather(struct tutti_comm *comm, enum tt_part part, const void *send,
				  void *recv, size_t bytes);
/* `bytes`: of each rank. */
tutti_result_t tt_part_all_gather_v(struct tutti_comm *comm, enum tt_part part, const void *send,
				    void *recv, const size_t *bytes);
/* split.c: tutti_comm_split() as a part of `part`. */
tutti_result_t tt_part_split(struct tutti_comm *comm, enum tt_part part, int color, int key,
			     struct tutti_comm **out);

#endif
