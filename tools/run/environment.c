/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the variables that a rank finds: its own, where later ones replace earlier ones of the same
 * name, so that nothing overrides what makes a process a rank; then all others that are inherited. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launchers.h"
#include "spawn.h"

enum { RANK_VARIABLES = 16 };

static const char join[] = "TUTTI_JOIN=1";
static const char served[] = "TUTTI_STORE_SERVED=once";

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
	       put_number(env, "TUTTI_LOCAL_SIZE", size) && put(env, entry) && put(env, served) &&
	       put(env, spawn->mark) &&
	       put_number(env, "TUTTI_MIN_RANKS", spawn->options->min_ranks) &&
	       put_number(env, "TUTTI_RESTART", seat->restarts) && (!seat->joins || put(env, join));
}

/* For programs whose ranks meet by PyTorch's torch.distributed: its variables, as torchrun sets
 * them. An address or a port that the user chose stays. */
static bool put_pytorch(char **env, const struct spawn *spawn, const struct seat *seat)
{
	const struct options *options = spawn->options;
	const int size = options->ranks;

	return put_number(env, "RANK", seat->rank) && put_number(env, "WORLD_SIZE", size) &&
	       put_number(env, "LOCAL_RANK", seat->rank) &&
	       put_number(env, "LOCAL_WORLD_SIZE", size) &&
	       (environment_value(options, "MASTER_ADDR") || put(env, "MASTER_ADDR=127.0.0.1")) &&
	       (environment_value(options, "MASTER_PORT") ||
		put_number(env, "MASTER_PORT", spawn->master_port));
}

/* What another launcher says of the rank that tutti-run is in another job. A rank that was started
 * first is no newcomer, and torchrun's own store is not the one of this job. The library takes the others
 * for those of a launcher that a rank has started (src/launchers/launchers.c). */
static bool is_left_out(const char *entry)
{
	static const char *const others[] = { "TUTTI_JOIN=", "TORCHELASTIC_", "PMIX_NAMESPACE=" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strncmp(entry, others[i], strlen(others[i])) == 0)
			return true;
	for (int i = 0; i < TT_LAUNCHERS; i++) {
		const char *own = tt_launchers[i].own;
		const size_t length = own ? strlen(own) : 0;

		if (own && strncmp(entry, own, length) == 0 && entry[length] == '=')
			return true;
	}
	return false;
}

/* Each is compared with what `env` has already, and not with the others, as there may be very many:
 * they follow behind a gap, which the last of them closes. */
static bool put_inherited(char **env)
{
	char **const gap = place_of(env, "="), **last = gap;
	bool ok = true;

	for (char **entry = environ; ok && *entry; entry++) {
		if (is_left_out(*entry) || *place_of(env, *entry))
			continue;
		last[1] = strdup(*entry);
		ok = last[1] != NULL;
		last += ok;
	}
	if (last > gap) {
		*gap = *last;
		*last = NULL;
	}
	return ok;
}

char **environment_of_rank(const struct spawn *spawn, const struct seat *seat)
{
	const struct options *options = spawn->options;
	size_t count = 0;
	bool ok = true;

	while (environ[count])
		count++;
	char **env = calloc(count + (size_t)options->env_count + RANK_VARIABLES + 2, sizeof(*env));
	if (!env)
		return NULL;
	for (int i = 0; ok && i < options->env_count; i++)
		ok = is_left_out(options->env[i]) || put(env, options->env[i]);
	if (ok && put_rank(env, spawn, seat) && put_pytorch(env, spawn, seat) && put_inherited(env))
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
