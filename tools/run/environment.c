/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the variables that a rank finds. Later entries replace earlier ones of the same name, so
 * that --env overrides what is inherited and nothing overrides what makes a process a rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"

enum { RANK_VARIABLES = 10 };

static const char join[] = "TUTTI_JOIN=1";

/* Entry of `env` with the name of `entry`, or the free place at its end. */
static char **place_of(char **env, const char *entry)
{
	const size_t length = strcspn(entry, "=");

	while (*env && (strncmp(*env, entry, length) != 0 || (*env)[length] != '='))
		env++;
	return env;
}

static bool put(char **env, const char *entry)
{
	char **place = place_of(env, entry);
	char *copy = strdup(entry);

	if (!copy)
		return false;
	free(*place);
	*place = copy;
	return true;
}

static bool put_number(char **env, const char *name, int value)
{
	char entry[64];

	snprintf(entry, sizeof(entry), "%s=%d", name, value);
	return put(env, entry);
}

static bool put_rank(char **env, const struct spawn *spawn, const struct seat *seat)
{
	const int size = spawn->options->ranks;
	char entry[256];

	snprintf(entry, sizeof(entry), "TUTTI_STORE=%s", spawn->store);
	return put_number(env, "TUTTI_RANK", seat->rank) && put_number(env, "TUTTI_SIZE", size) &&
	       put_number(env, "TUTTI_LOCAL_RANK", seat->rank) &&
	       put_number(env, "TUTTI_LOCAL_SIZE", size) && put(env, entry) &&
	       put_number(env, "TUTTI_STORE_SERVED", 1) && put(env, spawn->mark) &&
	       put_number(env, "TUTTI_MIN_RANKS", spawn->options->min_ranks) &&
	       put_number(env, "TUTTI_RESTART", seat->restarts) && (!seat->joins || put(env, join));
}

/* Who was started first is no newcomer, also not in a job that a newcomer of another job starts. */
static bool put_inherited(char **env, const char *entry)
{
	return strncmp(entry, join, strlen("TUTTI_JOIN=")) == 0 || put(env, entry);
}

char **environment_of_rank(const struct spawn *spawn, const struct seat *seat)
{
	const struct options *options = spawn->options;
	size_t count = 0;
	bool ok = true;

	while (environ[count])
		count++;
	char **env = calloc(count + (size_t)options->env_count + RANK_VARIABLES + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; ok && i < count; i++)
		ok = put_inherited(env, environ[i]);
	for (int i = 0; ok && i < options->env_count; i++)
		ok = put_inherited(env, options->env[i]);
	if (ok && put_rank(env, spawn, seat))
		return env;
	environment_free(env);
	return NULL;
}

void environment_free(char **env)
{
	for (char **entry = env; env && *entry; entry++)
		free(*entry);
	free(env);
}

const char *environment_value(const struct options *options, const char *name)
{
	const size_t length = strlen(name);

	for (int i = options->env_count; i-- > 0;) /* the last of several counts */
		if (strncmp(options->env[i], name, length) == 0 && options->env[i][length] == '=')
			return options->env[i] + length + 1;
	return getenv(name);
}
