/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about the launcher whose environment this process has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launchers.h"
#include "printable.h"
#include "sections.h"
#include "variables.h"

/* What TUTTI_… variables are set: each changes what the library does. */
static void put_settings(json_t *section)
{
	json_t *settings = json_object();

	for (char **entry = environ; *entry; entry++) {
		const char *equals = strchr(*entry, '=');

		if (!equals || strncmp(*entry, "TUTTI_", 6) != 0)
			continue;
		char *key = strndup(*entry, (size_t)(equals - *entry));
		if (key)
			/* whoever has the key can join the job: reports are passed on */
			value_text(settings, tt_printable(key),
				   strcmp(key, "TUTTI_KEY") == 0 ? "(set)" : equals + 1);
		free(key);
	}
	json_object_set_new(section, "settings", settings);
}

/* Those that tutti does not read: probably misspelt. */
static void hint_at_unknown(json_t *section)
{
	char names[384] = "";
	size_t used = 0;
	struct tt_variable unknown;

	for (char **entry = environ; *entry && used < sizeof(names); entry++)
		if (tt_variable_unknown(*entry, &unknown))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.*s%s",
						 used ? ", " : "", unknown.length, unknown.name,
						 unknown.hint);
	if (used)
		value_hint(
			section, "settings",
			"tutti does not read %s: correct or unset it (docs/reference/environment.md)",
			names);
}

static bool on_one_host(const struct tt_launcher *launcher)
{
	const char *local = tt_launcher_variable(launcher->local_size),
		   *size = tt_launcher_variable(tt_launcher_size(launcher));

	return local && size && strcmp(local, size) == 0;
}

static void check(json_t *section, const struct tt_launcher *launcher)
{
	const char *name = launcher->name;
	const bool torchrun = launcher == &tt_launchers[TT_TORCHRUN];
	const char *size = tt_launcher_size(launcher), *other = size ? size : launcher->signs[1];

	if (!tt_launcher_variable(launcher->rank) || !tt_launcher_variable(other))
		value_hint(section, "name",
			   "the environment of %s is incomplete: %s and %s are both needed to join "
			   "a job",
			   name, launcher->rank, other);
	else if (tt_launcher_variable("TUTTI_STORE"))
		return;
	else if (torchrun &&
		 !(tt_launcher_variable("MASTER_ADDR") && tt_launcher_variable("MASTER_PORT")))
		value_hint(section, "store",
			   "ranks cannot meet: set MASTER_ADDR and MASTER_PORT, or TUTTI_STORE");
	else if (!torchrun && !on_one_host(launcher) && !tt_launcher_variable("PMIX_NAMESPACE") &&
		 !tt_launcher_variable("PMI_FD"))
		value_hint(
			section, "store",
			launcher == &tt_launchers[TT_SLURM]
				? "ranks on several hosts meet by libpmi, if it is installed: otherwise start "
				  "them by srun --mpi=pmi2"
				: "ranks on several hosts cannot meet: set TUTTI_STORE to the same address for "
				  "all of them, such as tcp://HOST:PORT");
}

json_t *section_launcher(void)
{
	json_t *section = value_section();
	const struct tt_launcher *launcher = tt_launcher_find();

	value_text(section, "name", launcher ? launcher->name : "none");
	value_text(section, "rank", launcher ? tt_launcher_variable(launcher->rank) : NULL);
	value_text(section, "size",
		   launcher ? tt_launcher_variable(tt_launcher_size(launcher)) : NULL);
	value_text(section, "store", tt_launcher_variable("TUTTI_STORE"));
	put_settings(section);
	hint_at_unknown(section);
	if (launcher)
		check(section, launcher);
	return section;
}
