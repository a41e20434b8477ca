/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with an option of a command line. For the programs alone. */
#ifndef TT_OPTION_H
#define TT_OPTION_H

#include <getopt.h>

#include "nearest.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_OPTION_WHY 256 /* bytes */

/* The error message for `result`, '?' or ':', of getopt_long(), whose short options begin with ":"
 * or "+:": for example "unknown option --rank-s (did you mean --ranks?)". */
const char *tt_option_why(int result, char **argv, const struct option *known,
			  char text[TT_OPTION_WHY]);

/* Which option gave the member of the config that `*error`, of tutti_config_check(), begins with;
 * `*error` then goes on behind that. NULL: none did. */
const char *tt_option_of_config(const char **error);

#ifdef __cplusplus
}
#endif

#endif
