/* SPDX-License-Identifier: BSD-3-Clause */
/* How far the ranks of a communicator are in agreeing on its fault. */
#ifndef TT_AGREEMENT_H
#define TT_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct tt_agreement {
	bool done;	 /* the fault is that of all ranks … */
	bool told;	 /* … and callers are told of it, from then on */
	uint64_t at;	 /* when it will be */
	uint64_t looked; /* whether it is */
	uint64_t ns;	 /* how long ranks take to agree; 0: the first fault is that of all */
	bool again;	 /* this rank did not look for long, and has begun anew to wait */
};

#endif
