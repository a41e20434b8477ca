/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a rank. */
#ifndef RUN_ENVIRONMENT_H
#define RUN_ENVIRONMENT_H

#include "spawn.h"

/* A NULL-terminated array of "K=V": what tutti-run was given, then --env, then what makes it a
 * rank. Freed by environment_free(); NULL if memory is short. */
char **environment_of_rank(const struct spawn *spawn, const struct seat *seat);
void environment_free(char **env);

/* What the ranks' environment has by that name; NULL: nothing. */
const char *environment_value(const struct options *options, const char *name);

#endif
