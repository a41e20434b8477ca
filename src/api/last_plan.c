/* SPDX-License-Identifier: BSD-3-Clause */
/* What the last collective was carried out by. */
#include "comm.h"
#include "log.h"
#include "plan.h"

TUTTI_API tutti_result_t tutti_comm_last_plan(tutti_comm_t comm, tutti_plan_info_t *info)
{
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_last_plan");
	if (!info)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_last_plan: info is NULL");
	if (info->size != sizeof(*info))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"tutti_comm_last_plan: info->size is %zu, expected sizeof(tutti_plan_info_t), %zu",
			info->size, sizeof(*info));
	tt_comm_lock(comm);
	const struct tt_plan *plan = comm->last_plan;
	if (plan) {
		info->algorithm = plan->algorithm->name;
		info->transports = tt_carriers(comm, plan);
		info->segment_bytes = plan->segments > 1 ? plan->slot_bytes : 0;
		info->rounds = plan->sched.nrounds;
		info->wire = plan->wire ? plan->wire : TUTTI_WIRE_FLOAT32;
		if (plan == comm->exchanged_plan) {
			info->algorithm = "direct";
			info->segment_bytes = 0;
			info->rounds = 1;
		}
	}
	pthread_mutex_unlock(&comm->lock);
	if (!plan)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"tutti_comm_last_plan: no collective was called yet, or the last one, on a stream, went between windows, between threads of one process or by the host (tutti/cuda.h)");
	return TUTTI_OK;
}
