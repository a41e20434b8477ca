/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of tutti_mem_alloc() that peers write to: what several windows have in common. */
#ifndef TT_WINDOW_EXPOSURE_H
#define TT_WINDOW_EXPOSURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The whole allocation: pages that have nothing else in them can be taken away from peers that are
 * late. */
struct tt_exposure {
	struct tt_exposure *next;
	void *begin;
	size_t bytes;
	int windows;	   /* that are in it, of any communicator */
	bool owed;	   /* when the last of them ends, peers may be late */
	_Atomic bool gone; /* its pages are not those that peers know any more; relaxed: found out
			    * by the next call, whenever */
};

/* One more window has `bytes` at `memory`. NULL: that is not memory of tutti_mem_alloc(), or there is
 * none for this. */
struct tt_exposure *tt_exposure_begin(void *memory, size_t bytes);
/* A window has ended; `late`: peers that do not know yet may still write. With the last window the
 * memory is taken away from them: it keeps its addresses and contents. */
void tt_exposure_end(struct tt_exposure *exposure, bool late);

#endif
