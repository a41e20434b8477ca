/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that need each other, or exclude each other. */
#ifndef TRAIN_OPTIONS_CHECK_H
#define TRAIN_OPTIONS_CHECK_H

#include "options.h"

/* Fill in what follows from other options, and refuse what does not go together. `given` are the names
 * that stand on the command line, `count` of them. */
tutti_result_t options_check(struct options *options, const char *const *given, size_t count,
			     struct why *why);

#endif
