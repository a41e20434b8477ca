/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which launcher started this process: the first that shows; but tutti-run loses to one that it
 * has started itself. */
#include "launchers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Slurm also sets its rank in batch scripts, where nobody else runs: only a step (srun) is a launch. */
const struct tt_launcher tt_launchers[TT_LAUNCHERS] = {
	[TT_TUTTI_RUN] = { .name = "tutti-run",
			   .signs = { "TUTTI_RANK", "TUTTI_SIZE" },
			   .own = "TUTTI_RESTART",
			   .rank = "TUTTI_RANK",
			   .size = "TUTTI_SIZE",
			   .local_rank = "TUTTI_LOCAL_RANK",
			   .local_size = "TUTTI_LOCAL_SIZE" },
	[TT_KUBERNETES] = { .name = "Kubernetes",
			    .signs = { "TUTTI_SIZE" },
			    .rank = "JOB_COMPLETION_INDEX",
			    .size = "TUTTI_SIZE",
			    .local_rank = "TUTTI_LOCAL_RANK",
			    .local_size = "TUTTI_LOCAL_SIZE" },
	[TT_TORCHRUN] = { .name = "torchrun",
			  .signs = { "RANK", "WORLD_SIZE" },
			  .own = "TORCHELASTIC_RUN_ID",
			  .rank = "RANK",
			  .size = "WORLD_SIZE",
			  .local_rank = "LOCAL_RANK",
			  .local_size = "LOCAL_WORLD_SIZE" },
	[TT_OPEN_MPI] = { .name = "Open MPI",
			  .signs = { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
			  .own = "OMPI_COMM_WORLD_RANK",
			  .rank = "OMPI_COMM_WORLD_RANK",
			  .size = "OMPI_COMM_WORLD_SIZE",
			  .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
			  .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE" },
	[TT_HYDRA] = { .name = "Hydra",
		       .signs = { "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
		       .own = "MPI_LOCALRANKID",
		       .rank = "PMI_RANK",
		       .size = "PMI_SIZE",
		       .local_rank = "MPI_LOCALRANKID",
		       .local_size = "MPI_LOCALNRANKS" },
	[TT_SLURM] = { .name = "Slurm",
		       .signs = { "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS" },
		       .own = "SLURM_STEP_ID",
		       .rank = "SLURM_PROCID",
		       .size = "SLURM_STEP_NUM_TASKS",
		       .size_too = "SLURM_NTASKS",
		       .local_rank = "SLURM_LOCALID" },
	[TT_PMI] = { .name = "PMI",
		     .signs = { "PMI_RANK", "PMI_SIZE" },
		     .own = "PMI_RANK",
		     .rank = "PMI_RANK",
		     .size = "PMI_SIZE" },
	[TT_PMIX] = { .name = "PMIx",
		      .signs = { "PMIX_RANK", "PMIX_NAMESPACE" },
		      .own = "PMIX_RANK",
		      .rank = "PMIX_RANK" },
};

static const char *environment(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* The launcher that a rank of tutti-run has started. NULL: there is none. */
static const struct tt_launcher *find_inner(void)
{
	for (int i = 0; environment(tt_launchers[TT_TUTTI_RUN].own) && i < TT_LAUNCHERS; i++)
		if (i != TT_TUTTI_RUN && environment(tt_launchers[i].own))
			return &tt_launchers[i];
	return NULL;
}

/* The processes of such a launcher have that rank's variables, too: by these each would be that rank. A
 * TUTTI_STORE that tutti-run does not serve was given to them. */
static bool is_outer(const char *name)
{
	return strncmp(name, "TUTTI_", strlen("TUTTI_")) == 0 && find_inner() &&
	       (strcmp(name, "TUTTI_STORE") != 0 || environment("TUTTI_STORE_SERVED"));
}

const char *tt_launcher_variable(const char *name)
{
	const char *value = environment(name);

	return value && !is_outer(name) ? value : NULL;
}

const char *tt_launcher_size(const struct tt_launcher *launcher)
{
	return tt_launcher_variable(launcher->size) || !tt_launcher_variable(launcher->size_too)
		       ? launcher->size
		       : launcher->size_too;
}

const char *tt_launcher_sign(const struct tt_launcher *launcher, const char **value)
{
	for (int i = 0; i < 2; i++) {
		*value = tt_launcher_variable(launcher->signs[i]);
		if (*value)
			return launcher->signs[i];
	}
	return NULL;
}

const struct tt_launcher *tt_launcher_find(void)
{
	const struct tt_launcher *const inner = find_inner();
	const bool pod = !environment(tt_launchers[TT_TUTTI_RUN].rank) &&
			 environment(tt_launchers[TT_KUBERNETES].rank);
	const char *value;

	for (int i = pod ? TT_KUBERNETES : TT_TUTTI_RUN; !inner && i < TT_LAUNCHERS; i++)
		if (tt_launcher_sign(&tt_launchers[i], &value))
			return &tt_launchers[i];
	return inner;
}
