/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_SCENE_H
#define TT_SCENE_H

#include "cases.h"

#define WHY_MAX 1024

struct verdict {
	bool failed;
	double told_s; /* from the fault to the last survivor's error, or to its new communicator; -1: no
			* call failed, and none had to */
	char why[WHY_MAX];
};

/* Plays the case in the calling process, which is used up by it: it has a network of its own and
 * adopts what loses its parent. */
void scene_play(const struct fault_case *c, uint64_t seed, struct verdict *out);

#endif
