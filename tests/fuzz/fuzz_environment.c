/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers and users leave in the environment. The input is lines NAME=VALUE; names that
 * tutti does not read are passed over. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "launch.h"
#include "log.h"
#include "settings.h"

static const char *const names[] = {
	"TUTTI_RANK",
	"TUTTI_SIZE",
	"TUTTI_LOCAL_RANK",
	"TUTTI_LOCAL_SIZE",
	"TUTTI_JOB",
	"TUTTI_STORE",
	"TUTTI_STORE_SERVED",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_RANK",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_USE_AGENT_STORE",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_RANK",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMIX_NAMESPACE",
	"MPI_LOCALRANKID",
	"MPI_LOCALNRANKS",
	"PMI_RANK",
	"PMI_SIZE",
	"SLURM_STEP_ID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_LOCALID",
	"SLURM_STEP_NUM_NODES",
	"SLURM_JOB_ID",
	"SLURM_STEP_NODELIST",
	"PMI_FD",
	"JOB_COMPLETION_INDEX",
	"TUTTI_TIMEOUT",
	"TUTTI_TRANSPORT",
	"TUTTI_ALGORITHM",
	"TUTTI_SEGMENT",
	"TUTTI_REPRODUCIBLE",
	"TUTTI_HOST_ID",
	"TUTTI_CUDA_BLOCKS",
	"TUTTI_CUDA_MULTICAST",
	"TUTTI_CUDA_ENGINES",
	"TUTTI_CUDA_EXCHANGE",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void set(char *line)
{
	char *value = strchr(line, '=');

	for (int i = 0; value && i < NAMES; i++)
		if (strlen(names[i]) == (size_t)(value - line) &&
		    strncmp(names[i], line, (size_t)(value - line)) == 0)
			setenv(names[i], value + 1, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(size + 1, 1), *rest = NULL;
	struct tt_settings settings;
	struct tt_launch launch;

	FUZZ_PROMISE(text);
	memcpy(text, data, size);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		set(line);
	for (int keyed = 0; keyed < 2; keyed++)
		if (tt_launch_read(keyed, &launch) == TUTTI_OK)
			FUZZ_PROMISE(launch.rank >= 0 && launch.rank < launch.size &&
				     (launch.size == 1 || launch.kvs || launch.store[0]));
		else
			FUZZ_PROMISE(tt_thread_error()[0]);
	if (tt_settings_read(NULL, &settings) == TUTTI_OK)
		FUZZ_PROMISE(settings.timeout_ns > 0);
	for (int i = 0; i < NAMES; i++)
		unsetenv(names[i]);
	free(text);
	return 0;
}
