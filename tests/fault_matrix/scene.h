/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_SCENE_H
#define TT_SCENE_H

#include "cases.h"

#define WHY_MAX 1024

enum outcome { OUTCOME_NONE, OUTCOME_OK, OUTCOME_FAILED };

/* Plain: made by a child. */
struct verdict {
	enum outcome outcome;
	bool timed; /* something failed, and was told or mended */
	double median,
		most; /* seconds from the fault to a survivor's error, or to its new communicator */
	char why[WHY_MAX];
};

/* Plays the case in the calling process, which is used up by it: it has a network of its own and
 * adopts what loses its parent. */
void scene_play(const struct fault_case *c, uint64_t seed, double slack_s, struct verdict *out);

#endif
