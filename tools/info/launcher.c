/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about the launcher whose environment this process has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sections.h"
#include "value.h"
#include "variables.h"

/* in the order in which tutti_init() looks for them, after those that tutti-run's ranks have started */
static const struct launcher {
	const char *name;
	const char *signs[2];	 /* either of them: it started this process */
	const char *own;	 /* set by it, and not handed on by tutti-run */
	const char *rank, *size; /* no size: it is asked for it */
	const char *local_size;	 /* NULL: it does not tell */
} launchers[] = {
	{ "tutti-run",
	  { "TUTTI_RANK", "TUTTI_SIZE" },
	  "TUTTI_RESTART",
	  "TUTTI_RANK",
	  "TUTTI_SIZE",
	  "TUTTI_LOCAL_SIZE" }, /* or an Indexed Job of Kubernetes: rank_of() */
	{ "torchrun",
	  { "RANK", "WORLD_SIZE" },
	  "TORCHELASTIC_RUN_ID",
	  "RANK",
	  "WORLD_SIZE",
	  "LOCAL_WORLD_SIZE" },
	{ "Open MPI",
	  { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
	  "OMPI_COMM_WORLD_RANK",
	  "OMPI_COMM_WORLD_RANK",
	  "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ "Hydra",
	  { "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
	  "MPI_LOCALRANKID",
	  "PMI_RANK",
	  "PMI_SIZE",
	  "MPI_LOCALNRANKS" },
	{ "Slurm",
	  { "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS" },
	  "SLURM_STEP_ID",
	  "SLURM_PROCID",
	  "SLURM_STEP_NUM_TASKS",
	  NULL },
	{ "PMI", { "PMI_RANK", "PMI_SIZE" }, "PMI_RANK", "PMI_RANK", "PMI_SIZE", NULL },
	{ "PMIx", { "PMIX_RANK", "PMIX_NAMESPACE" }, "PMIX_RANK", "PMIX_RANK", NULL, NULL },
};

/* An empty variable is as good as none. */
static const char *variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

static const struct launcher *find(void)
{
	const size_t n = sizeof(launchers) / sizeof(launchers[0]);

	for (size_t i = 1; variable(launchers[0].own) && i < n; i++)
		if (variable(launchers[i].own))
			return &launchers[i];
	for (size_t i = 0; i < n; i++)
		if (variable(launchers[i].signs[0]) || variable(launchers[i].signs[1]))
			return &launchers[i];
	return NULL;
}

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
			value_text(settings, key,
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

static const char *rank_of(const struct launcher *launcher)
{
	const char *rank = variable(launcher->rank);

	return rank || launcher != launchers ? rank : variable("JOB_COMPLETION_INDEX");
}

static bool on_one_host(const struct launcher *launcher)
{
	const char *local = variable(launcher->local_size), *size = variable(launcher->size);

	return local && size && strcmp(local, size) == 0;
}

static void check(json_t *section, const struct launcher *launcher)
{
	const char *name = launcher->name;
	const bool torchrun = strcmp(name, "torchrun") == 0;

	const char *other = launcher->size ? launcher->size : launcher->signs[1];

	if (!rank_of(launcher) || !variable(other))
		value_hint(section, "name",
			   "the environment of %s is incomplete: %s and %s are both needed to join "
			   "a job",
			   name, launcher->rank, other);
	else if (variable("TUTTI_STORE"))
		return;
	else if (torchrun && !(variable("MASTER_ADDR") && variable("MASTER_PORT")))
		value_hint(section, "store",
			   "ranks cannot meet: set MASTER_ADDR and MASTER_PORT, or TUTTI_STORE");
	else if (!torchrun && !on_one_host(launcher) && !variable("PMIX_NAMESPACE") &&
		 !variable("PMI_FD"))
		value_hint(
			section, "store",
			strcmp(name, "Slurm") == 0
				? "ranks on several hosts meet by libpmi, if it is installed: otherwise start "
				  "them by srun --mpi=pmi2"
				: "ranks on several hosts cannot meet: set TUTTI_STORE to the same address for "
				  "all of them, such as tcp://HOST:PORT");
}

json_t *section_launcher(void)
{
	json_t *section = value_section();
	const struct launcher *launcher = find();

	value_text(section, "name", launcher ? launcher->name : "none");
	value_text(section, "rank", launcher ? rank_of(launcher) : NULL);
	value_text(section, "size", launcher ? variable(launcher->size) : NULL);
	value_text(section, "store", variable("TUTTI_STORE"));
	put_settings(section);
	hint_at_unknown(section);
	if (launcher)
		check(section, launcher);
	return section;
}
