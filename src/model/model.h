/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine takes for the steps that collectives are made of: measured once, kept in a
 * file, read by every process after that. The tuner chooses by these figures. */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include "tutti/tutti.h"

/* Seconds, and seconds per byte. */
struct tt_model {
	double line;	 /* from a store on one core to a load on another that sees it */
	double handover; /* from one thread to another on the same core, by sched_yield() */
	double copy;	 /* per byte that another core has just written */
	double reduce;	 /* per byte of a float32 sum of two vectors in the cache */
	double message;	 /* TCP over loopback: a short send and its receive, both calls together */
	double stream;	 /* TCP over loopback, per byte, both calls together */
};

/* Those of an ordinary machine, for where none can be measured. */
extern const struct tt_model tt_model_builtin;

/* This machine's figures. Settled when first asked, by TUTTI_MODEL
 * (docs/reference/environment.md): read from its file or the cache, or measured now, which takes
 * some 5 ms, and written there. `source` (or NULL) is the file, "measured" or "builtin". Any
 * thread. TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM: the file that TUTTI_MODEL names is none of these. */
tutti_result_t tt_model_get(struct tt_model *model, const char **source);

#endif
