/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of environment variables. */
#include "variables.h"

#include <string.h>

#define PREFIX	      "TUTTI_"
#define PREFIX_LENGTH (sizeof(PREFIX) - 1)

static const char *const known[] = {
	/* what a user sets */
	"TUTTI_ALGORITHM",
	"TUTTI_CALLERS",
	"TUTTI_CUBLAS_LIBRARY",
	"TUTTI_CUDA_BLOCKS",
	"TUTTI_CUDA_ENGINES",
	"TUTTI_CUDA_EXCHANGE",
	"TUTTI_CUDA_KERNELS",
	"TUTTI_CUDA_LIBRARY",
	"TUTTI_CUDA_MULTICAST",
	"TUTTI_ENCRYPT",
	"TUTTI_HOST_ID",
	"TUTTI_INTERFACE",
	"TUTTI_ISA",
	"TUTTI_KEY",
	"TUTTI_KEY_FILE",
	"TUTTI_LOG",
	"TUTTI_LOOP",
	"TUTTI_MODEL",
	"TUTTI_NCCL_LIBRARY",
	"TUTTI_NVML_LIBRARY",
	"TUTTI_PORT_RANGE",
	"TUTTI_RDMA_DEVICE",
	"TUTTI_RDMA_GID",
	"TUTTI_RDMA_PORT",
	"TUTTI_RDMA_RETRY",
	"TUTTI_RDMA_SL",
	"TUTTI_RDMA_TC",
	"TUTTI_RDMA_TIMEOUT",
	"TUTTI_REPRODUCIBLE",
	"TUTTI_SEGMENT",
	"TUTTI_SILENCE",
	"TUTTI_STORE",
	"TUTTI_STORE_SERVED",
	"TUTTI_TCP_BUFFER",
	"TUTTI_TCP_RAILS",
	"TUTTI_TIMEOUT",
	"TUTTI_TRACE",
	"TUTTI_TRANSPORT",
	"TUTTI_WIRE",
	"TUTTI_BENCH_KERNELS",
	"TUTTI_TRAIN_KERNELS",
	/* what launchers set */
	"TUTTI_JOB",
	"TUTTI_JOIN",
	"TUTTI_LOCAL_RANK",
	"TUTTI_LOCAL_SIZE",
	"TUTTI_MIN_RANKS",
	"TUTTI_RANK",
	"TUTTI_RESTART",
	"TUTTI_SIZE",
	/* what programs set for their own processes */
	"TUTTI_BENCH_TAKER",
	"TUTTI_COMPARE_INSIDE",
};

/* Without the prefix, which alone would make any two names similar. */
static void offer_all(struct tt_nearest *nearest)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		tt_nearest_offer(nearest, known[i] + PREFIX_LENGTH);
}

static bool is_known(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i]) == length && strncmp(known[i], name, length) == 0)
			return true;
	return false;
}

bool tt_variable_unknown(const char *entry, struct tt_variable *out)
{
	const size_t length = strcspn(entry, "=");

	if (strncmp(entry, PREFIX, PREFIX_LENGTH) != 0 || length > 255 || is_known(entry, length))
		return false;
	struct tt_nearest nearest = tt_nearest_to(entry + PREFIX_LENGTH, length - PREFIX_LENGTH);

	offer_all(&nearest);
	if (nearest.name)
		nearest.name -= PREFIX_LENGTH; /* back to the whole name */
	out->name = entry;
	out->length = (int)length;
	tt_nearest_hint(&nearest, out->hint);
	return true;
}
