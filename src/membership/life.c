/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the end of communicators: aborting, what they say of their fault, destroying. */
#include <stdio.h>
#include <string.h>

#include "control_area.h"
#include "consensus.h"
#include "device_table.h"
#include "group.h"
#include "inbox.h"
#include "monitor.h"
#include "next_call.h"
#include "notes.h"
#include "notices.h"
#include "op.h"
#include "op_record.h"
#include "plan_cache.h"
#include "progress.h"
#include "recorder.h"
#include "request.h"
#include "window.h"

/* Others may wait for what is unfinished here; for what this rank has not called, they find out
 * themselves. */
static void take_leave(struct tutti_comm *comm)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = comm->rank };

	if (comm->first && !comm->fault.result) {
		snprintf(
			fault.text, sizeof(fault.text),
			"rank %d left the communicator (tutti_comm_destroy) with requests unfinished",
			comm->rank);
		tt_comm_revoke(comm, &fault);
	}
	if (!comm->fault.result)
		tt_notes_leave(comm);
	tt_comm_agree_now(comm);
	tt_area_leave(comm);
}

/* Nothing is carried out any more: who is to be told of the end of a request is told now, while
 * requests can still be tested. */
static void tell_of_ends(struct tutti_comm *comm)
{
	tt_comm_lock(comm);
	tt_ops_end(comm);
	while (tt_notices_call(comm)) {
	}
	pthread_mutex_unlock(&comm->lock);
}

/* In a child of fork(): descriptors are closed and shared memory is gone. False: a thread that
 * is not here was inside, so that nothing in it can be relied on. */
static bool forget_peers(struct tutti_comm *comm)
{
	if (pthread_mutex_trylock(&comm->lock) != 0)
		return false;
	for (struct tt_op *op = comm->first; op; op = op->next) {
		tt_recorder_forget(op);
		op->request = NULL; /* on the stack of such a thread, or freed by now */
	}
	tt_notices_forget(comm);
	comm->requests = NULL; /* the child may still test them, which ends them */
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->forget(comm->endpoints[i]);
	return true;
}

static void free_all(struct tutti_comm *comm)
{
	tt_group_drop(comm);
	tt_ops_free(comm);
	tt_windows_free(comm);
	tt_inboxes_free(comm);
	tt_requests_free(comm);
	tt_plans_free(comm);
	tt_next_calls_free(comm);
	tt_recorder_close(comm);
	tt_area_free(comm);
	tt_consensus_free(comm);
	tt_notes_free(comm);
	tt_comm_fault_free(comm);
	tt_progress_free(comm);
	tt_comm_free(comm);
}

TUTTI_API void tutti_comm_destroy(tutti_comm_t comm)
{
	if (!comm)
		return;
	if (tt_comm_usable(comm)) {
		char error_text[TT_ERROR_MAX]; /* of why it is destroyed, perhaps */

		snprintf(error_text, sizeof(error_text), "%s", tt_thread_error());
		tt_device->unbind(comm);
		tt_monitor_leave(comm);
		tt_progress_thread_stop(comm);
		take_leave(comm);
		tell_of_ends(comm);
		pthread_mutex_destroy(&comm->lock);
		free_all(comm);
		tt_thread_error_set(error_text);
	} else if (tt_callback_here()) {
		tt_fail_callback("tutti_comm_destroy");
		tt_log(ERROR, COMM, "the communicator is not destroyed: %s", tt_thread_error());
	} else if (forget_peers(comm)) {
		free_all(comm); /* but for the lock and the condition: threads may have waited
				 * for them */
	}
}

TUTTI_API tutti_result_t tutti_comm_abort(tutti_comm_t comm, const char *reason)
{
	struct tt_fault fault = { .result = TUTTI_ERR_ABORTED };

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_abort");
	tt_comm_lock(comm);
	fault.rank = comm->rank;
	snprintf(fault.text, sizeof(fault.text), "rank %d aborted the communicator: %s", comm->rank,
		 reason ? reason : "no reason given");
	tt_comm_revoke(comm, &fault);
	tt_consensus_end(comm);
	tt_comm_progress(comm);
	pthread_mutex_unlock(&comm->lock);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_comm_error(tutti_comm_t comm, int *rank)
{
	if (rank)
		*rank = -1;
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_comm_error");
	tt_comm_lock(comm);
	tt_comm_check(comm, true);
	if (comm->cuda)
		tt_device->learn(comm);
	const tutti_result_t result = tt_comm_report(
		comm, tt_comm_is_settled(comm) ? (tutti_result_t)comm->fault.result : TUTTI_OK);
	if (rank && result)
		*rank = comm->fault.rank;
	pthread_mutex_unlock(&comm->lock);
	return result;
}

TUTTI_API const char *tutti_last_error(tutti_comm_t comm)
{
	static _Thread_local char text[sizeof(comm->fault.text)];

	if (!tt_comm_usable(comm))
		return tt_thread_error();
	tt_comm_lock(comm);
	const bool failed = tt_comm_outcome(comm) != TUTTI_OK;
	if (failed)
		memcpy(text, comm->fault.text, sizeof(text));
	pthread_mutex_unlock(&comm->lock);
	return failed ? text : tt_thread_error();
}
