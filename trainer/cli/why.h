/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something failed: one error message of a thread, as errno is one number, written by whoever found the
 * failure, printed by main. A function of the trainer that can fail is a bool: true, all went well. */
#ifndef TRAIN_WHY_H
#define TRAIN_WHY_H

#include <stdbool.h>

#include "tutti/tutti.h"

struct why {
	tutti_result_t result;
	char text[768];
};

/* Of the last function that returned false. */
extern _Thread_local struct why why;

/* Keep the error message, and give false back: return why_set(TUTTI_ERR_SYSTEM, "…", …); The message may
 * have why.text in it. */
bool why_set(tutti_result_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of what is wrong with an option, a file, or what another rank says. */
#define why_invalid(...) why_set(TUTTI_ERR_INVALID, __VA_ARGS__)
/* There is no memory for `what`. */
bool why_no_memory(const char *what);

#endif
