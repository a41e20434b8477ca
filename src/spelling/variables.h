/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of all environment variables TUTTI_… that the library and its programs read.
 * docs/reference/environment.md describes them; a test compares the two lists. Part of the
 * library and of the programs. */
#ifndef TT_VARIABLES_H
#define TT_VARIABLES_H

#include <stdbool.h>

#include "nearest.h"

/* An entry NAME=VALUE of the environment. */
struct tt_variable {
	const char *name; /* does not end at `length` */
	int length;
	char hint[TT_NEAREST_HINT]; /* " (did you mean NAME?)", or "" */
};

/* Does the entry set a variable TUTTI_… that is not in the list? Then *out describes it. */
bool tt_variable_unknown(const char *entry, struct tt_variable *out);

#endif
