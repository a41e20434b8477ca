/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what becomes of a communicator when a call of this rank's cannot be made. */
#include "progress.h"

tutti_result_t tt_comm_give_up(struct tutti_comm *comm, tutti_result_t result)
{
	if (result == TUTTI_ERR_INVALID)
		return result;
	tt_comm_revoke_for(comm, result);
	result = tt_comm_report(comm, tt_comm_agreed_error(comm));
	tt_comm_progress(comm); /* what is in flight ends now */
	return result;
}

tutti_result_t tt_comm_fail(struct tutti_comm *comm, tutti_result_t result)
{
	tt_comm_lock(comm);
	result = tt_comm_give_up(comm, result);
	pthread_mutex_unlock(&comm->lock);
	return result;
}
