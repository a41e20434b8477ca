/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something failed: one error message, written by whoever found the failure, printed by
 * main. */
#ifndef TRAIN_WHY_H
#define TRAIN_WHY_H

#include "tutti/tutti.h"

struct why {
	char text[768];
};

/* Keep the error message and give `result` back: return why_set(why, TUTTI_ERR_INVALID, "…", …); */
tutti_result_t why_set(struct why *why, tutti_result_t result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* There is no memory for `what`. */
tutti_result_t why_no_memory(struct why *why, const char *what);

#endif
