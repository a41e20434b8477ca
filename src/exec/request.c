/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns requests: their end, and the public functions that test and wait for given ones. */
#include "request.h"

#include <stdlib.h>

#include "bell.h"
#include "device_table.h"
#include "group.h"
#include "log.h"
#include "notices.h"
#include "turns.h"

void tt_request_op_done(struct tutti_request *request, tutti_result_t result)
{
	if (!request)
		return;
	if (result && !request->result)
		request->result = result;
	request->pending--;
	if (request->pending > 0)
		return;
	tt_turns_wake(request->comm);
	if (request->bell)
		tt_bell_ring(request->bell);
	if (request->notices)
		tt_notices_due(request);
}

tutti_result_t tt_request_finish(struct tutti_request *request)
{
	struct tt_staged *staged = request->staged;

	if (request->fused)
		tt_fused_finish(request->fused, request->result == TUTTI_OK);
	request->fused = NULL;
	request->staged = NULL;
	return staged ? tt_device->stage_end(request->comm, staged, request->result)
		      : request->result;
}

/* Nobody waited for the results, or nobody can any more. */
static void drop_results(struct tutti_request *request)
{
	if (request->fused)
		tt_fused_finish(request->fused, false);
	tt_device->stage_forget(request->staged);
}

void tt_request_hand_out(struct tutti_request *request)
{
	request->next = request->comm->requests;
	if (request->next)
		request->next->prev = request;
	request->comm->requests = request;
}

static void take_back(struct tutti_request *request)
{
	*(request->prev ? &request->prev->next : &request->comm->requests) = request->next;
	if (request->next)
		request->next->prev = request->prev;
}

void tt_requests_free(struct tutti_comm *comm)
{
	while (comm->requests) {
		struct tutti_request *request = comm->requests;

		take_back(request);
		drop_results(request);
		free(request);
	}
}

/* Lock held; releases it. */
static tutti_result_t take_result(tutti_request_t *request)
{
	struct tutti_request *finished = *request;

	take_back(finished);
	tt_comm_report(finished->comm, finished->result);
	pthread_mutex_unlock(&finished->comm->lock);
	const tutti_result_t result = tt_request_finish(finished);
	free(finished);
	*request = NULL;
	return result;
}

/* Of a request that a parent made before fork(): it ends here, where nothing will ever come of
 * it. The communicator may be gone. */
static tutti_result_t refuse(tutti_request_t *request, const char *call)
{
	const struct tt_owner owner = (*request)->owner;

	drop_results(*request);
	tt_notices_drop(*request);
	free(*request);
	*request = NULL;
	return tt_fail_inherited(&owner, call, "request");
}

TUTTI_API tutti_result_t tutti_test(tutti_request_t *request)
{
	if (!request)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_test: request is NULL");
	if (!*request)
		return TUTTI_OK;
	if (tt_callback_here())
		return tt_fail_callback("tutti_test");
	if (!tt_owned_here(&(*request)->owner))
		return refuse(request, "tutti_test");
	struct tutti_comm *comm = (*request)->comm;

	tt_comm_lock(comm);
	if ((*request)->pending)
		tt_comm_progress(comm);
	if (!(*request)->pending)
		return take_result(request);
	pthread_mutex_unlock(&comm->lock);
	return TUTTI_IN_PROGRESS;
}

TUTTI_API tutti_result_t tutti_wait(tutti_request_t *request)
{
	if (!request)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_wait: request is NULL");
	if (!*request)
		return TUTTI_OK;
	if (tt_callback_here())
		return tt_fail_callback("tutti_wait");
	if (!tt_owned_here(&(*request)->owner))
		return refuse(request, "tutti_wait");
	struct tutti_comm *comm = (*request)->comm;

	tt_comm_lock(comm);
	tt_comm_wait(comm, &(*request)->pending);
	return take_result(request);
}

TUTTI_API tutti_result_t tutti_wait_all(tutti_request_t *requests, size_t count)
{
	tutti_result_t first = TUTTI_OK;

	if (!requests && count > 0)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "tutti_wait_all: requests is NULL, count %zu", count);
	for (size_t i = 0; i < count; i++) {
		const tutti_result_t result = tutti_wait(&requests[i]);

		if (result && !first)
			first = result;
	}
	return first;
}
