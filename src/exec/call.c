/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from a call to an operation in flight. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "device_table.h"
#include "group.h"
#include "log.h"
#include "narrow.h"
#include "next_call.h"
#include "notes.h"
#include "op_life.h"
#include "plan_cache.h"

static tutti_result_t reserve_input(struct tt_op *op, const struct tt_call *call, size_t bytes)
{
	if (bytes <= op->input_capacity)
		return TUTTI_OK;
	free(op->input);
	op->input = aligned_alloc(64, (bytes + 63) / 64 * 64);
	op->input_capacity = op->input ? bytes : 0;
	return op->input ? TUTTI_OK
			 : tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
				   "%s: no memory for a copy of %zu bytes of input",
				   tt_call_name(call), bytes);
}

/* The operation reads a copy of the input where the schedule cannot read the input itself:
 * scaled by this rank's scalar, or about to be overwritten (all_to_all in place). */
static tutti_result_t copy_input(struct tt_op *op, const struct tt_call *call, size_t blocks)
{
	const struct tt_user_op *user = op->plan->user_op;
	const size_t elements = call->count * blocks, bytes = elements * op->element;

	if (bytes == 0)
		return TUTTI_OK;
	const tutti_result_t result = reserve_input(op, call, bytes);
	if (result)
		return result;
	if (user)
		op->comm->kernels->scale[call->dtype](op->input, call->send, elements,
						      user->scalar);
	else
		memcpy(op->input, call->send, bytes);
	op->send = op->input;
	return TUTTI_OK;
}

/* In place in the narrow copy; tt_op_retire() widens what comes of it. */
static tutti_result_t narrow_input(struct tt_op *op, const struct tt_call *call)
{
	const tutti_wire_t wire = op->plan->wire;
	const tutti_result_t result = reserve_input(op, call, tutti_wire_bytes(wire, call->count));

	if (result)
		return result;
	op->comm->kernels->narrow[wire].pack(op->input, call->send, call->count);
	op->send = op->recv = op->input;
	op->wide = call->recv;
	return TUTTI_OK;
}

static size_t sum_of(const size_t *counts, int n)
{
	size_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

static tutti_result_t prepare_input(struct tt_op *op, const struct tt_call *call)
{
	const struct tt_user_op *user = op->plan->user_op;
	const size_t size = (size_t)op->comm->size;

	if (op->plan->wire)
		return narrow_input(op, call);
	if (user && !user->function) {
		if (call->collective == TT_REDUCE_SCATTER_V) {
			struct tt_call packed = *call;

			packed.count = sum_of(call->send_counts, op->comm->size);
			return copy_input(op, &packed, 1);
		}
		return copy_input(op, call, call->collective == TT_REDUCE_SCATTER ? size : 1);
	}
	if (call->collective == TT_ALL_TO_ALL && call->send == call->recv)
		return copy_input(op, call, size);
	return TUTTI_OK;
}

/* Most messages are: then nobody needs to look closer. */
static bool is_plainly_sound(const struct tutti_comm *comm, const struct tt_call *call)
{
	return !call->tagged && (unsigned)call->dtype < TUTTI_DTYPE_COUNT &&
	       (unsigned)call->root < (unsigned)comm->size && call->count < PTRDIFF_MAX / 16 &&
	       (call->sending ? call->send : call->recv);
}

static tutti_result_t start_message(struct tutti_comm *comm, const struct tt_call *call,
				    struct tt_op *op)
{
	tutti_result_t result = is_plainly_sound(comm, call) ? TUTTI_OK : tt_call_check(comm, call);

	if (result)
		return result;
	if (call->root == TUTTI_ANY_PEER && comm->size == 1)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: this rank is alone: no other can send to it",
			       tt_call_name(call));
	if (call->root == comm->rank)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"%s: peer %d is this rank itself; that is possible inside a group only",
			tt_call_name(call), call->root);
	uint64_t *seq = call->root < 0 ? NULL : &comm->p2p_seq[call->sending][call->root];

	op->kind = TT_OP_MESSAGE;
	op->element = tutti_dtype_size(call->dtype);
	op->length = call->count * op->element;
	op->message = call->message;
	op->header = (struct tt_op_header){ .magic = TT_OP_HEADER_MAGIC,
					    .rank = comm->rank,
					    .seq = seq ? *seq : 0,
					    .count = call->count,
					    .detail = (uint64_t)call->tag,
					    .root = -1,
					    .op = -1,
					    .own = call->element,
					    .collective = TT_SEND_RECV,
					    .dtype = (uint8_t)call->dtype };
	result = tt_message_begin(op, call->root, call->sending);
	if (result)
		return result;
	if (seq)
		++*seq;
	op->state = TT_OP_RUNNING;
	return TUTTI_OK;
}

static tutti_result_t start_collective(struct tutti_comm *comm, const struct tt_call *call,
				       struct tt_op *op)
{
	tutti_result_t result = tt_plan_get(comm, call, &op->plan);

	if (result)
		return result;
	op->kind = op->plan->algorithm->shared ? TT_OP_SHARED : TT_OP_LINKS;
	op->element = op->plan->element;
	result = prepare_input(op, call);
	if (result)
		return result;
	op->header = op->plan->header;
	op->header.seq = comm->next_seq++;
	/* ranks that differed before and could not find out then differ from here on */
	op->signature = comm->history = op->plan->signature + comm->history * 0x9e3779b97f4a7c15ull;
	if (!comm->control_area.base)
		tt_notes_remember(comm, &op->header);
	comm->last_plan = op->plan;
	return TUTTI_OK;
}

static bool can_be_narrow(const struct tt_call *call)
{
	return call->collective == TT_ALL_REDUCE && call->dtype == TUTTI_FLOAT32 &&
	       (call->op == TUTTI_SUM || call->op == TUTTI_AVG) && call->part == TT_PART_NONE &&
	       !call->told;
}

/* What its elements shall travel as; 0: themselves. `said` is of this call alone. */
static tutti_result_t wire_of(const struct tutti_comm *comm, const struct tt_call *call,
			      const struct tt_next_call *said, tutti_wire_t *wire)
{
	const tutti_wire_t own = said ? said->wire : call->wire;

	*wire = own ? own : comm->settings.wire;
	if (said && tt_narrow_is(said->wire) && !can_be_narrow(call))
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"%s: tutti_next_call() said that its elements travel as %s: expected "
			"tutti_all_reduce() of float32, by TUTTI_SUM or TUTTI_AVG",
			tt_call_name(call), tutti_wire_name(said->wire));
	/* what the cost model decides is not the same everywhere */
	const bool varies = comm->settings.reproducible && *wire & TUTTI_WIRE_IF_FASTER;
	if (varies || !tt_narrow_is(*wire) || !can_be_narrow(call) || comm->size == 1 ||
	    call->count == 0)
		*wire = 0;
	return TUTTI_OK;
}

TT_INLINE tutti_result_t start_any(struct tutti_comm *comm, const struct tt_call *call,
				   const struct tt_next_call *said, struct tt_op *op)
{
	struct tt_call special;
	tutti_wire_t wire;

	if (__builtin_expect(
		    said || call->wire || call->element || tt_narrow_is(comm->settings.wire), 0)) {
		const tutti_result_t result = wire_of(comm, call, said, &wire);

		if (result)
			return result;
		special = *call;
		special.wire = wire;
		special.element = said ? said->element : call->element;
		if (call->part == TT_PART_NONE && !call->told)
			special.detail = special.element;
		call = &special;
	}
	if (__builtin_expect(call->one_sided != NULL, 0))
		return comm->one_sided->start(op, call->one_sided);
	return call->collective == TT_SEND_RECV ? start_message(comm, call, op)
						: start_collective(comm, call, op);
}

static void tell_caller(struct tt_op *op, const char *caller)
{
	if (caller)
		tt_recorder_called_at(op, caller);
}

/* An operation that is not in flight yet; NULL: an error as of tt_call_start(). */
TT_INLINE struct tt_op *make_op(struct tutti_comm *comm, const struct tt_call *call, bool blocks,
				tutti_result_t *result)
{
	struct tt_op *op = tt_op_get(comm);
	struct tt_next_call *said = NULL;

	if (!op) {
		*result = tt_comm_give_up(comm, TUTTI_ERR_NO_MEMORY);
		return NULL;
	}
	op->send = call->send;
	op->recv = call->recv;
	op->timeout_ns = call->timeout_ns;
	if (__builtin_expect(comm->next_calls != NULL, 0) && !call->of_group)
		said = tt_next_call_take(comm);
	if (said)
		op->timeout_ns = said->timeout_ns;
	*result = start_any(comm, call, said, op);
	if (*result) {
		tt_next_call_free(said);
		tt_op_put(comm, op);
		*result = tt_comm_give_up(comm, *result);
		return NULL;
	}
	tt_recorder_post(op, blocks);
	if (__builtin_expect(said || call->caller, 0)) {
		tell_caller(op, said ? said->caller : call->caller);
		tt_next_call_free(said);
	}
	return op;
}

static void put_in_flight(struct tt_op *op, struct tutti_request *request)
{
	op->request = request;
	request->pending++;
	tt_op_queue(op->comm, op);
}

tutti_result_t tt_call_start(struct tutti_comm *comm, const struct tt_call *call,
			     struct tutti_request *request)
{
	tutti_result_t result;
	struct tt_op *op = make_op(comm, call, false, &result);

	if (op)
		put_in_flight(op, request);
	return result;
}

static __attribute__((noinline)) tutti_result_t wait_for(struct tutti_comm *comm, struct tt_op *op)
{
	struct tutti_request request = { .comm = comm };

	put_in_flight(op, &request);
	tt_comm_wait(comm, &request.pending);
	return tt_comm_report(comm, request.result);
}

TT_INLINE tutti_result_t submit_blocking(struct tutti_comm *comm, const struct tt_call *call)
{
	tt_comm_lock(comm);
	tutti_result_t result = tt_comm_state(comm);
	struct tt_op *op = result ? NULL : make_op(comm, call, true, &result);

	if (op && !tt_progress_at_once(op))
		result = wait_for(comm, op);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

/* The request has what the call has staged, if anything; here it is ended where the call fails. */
static tutti_result_t submit_request(struct tutti_comm *comm, const struct tt_call *call,
				     struct tt_staged *staged, tutti_request_t *request)
{
	struct tutti_request *started = calloc(1, sizeof(*started));

	if (!started)
		return tt_device->stage_end(
			comm, staged,
			tt_comm_fail(comm,
				     tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
					     "%s: no memory for a request", tt_call_name(call))));
	started->comm = comm;
	started->owner = comm->owner;
	started->staged = staged;
	tt_comm_lock(comm);
	tutti_result_t result = tt_comm_state(comm);
	if (!result)
		result = tt_call_start(comm, call, started);
	if (!result) {
		tt_request_hand_out(started);
		tt_comm_progress(comm);
		if (started->pending)
			tt_progress_thread_want(comm);
	}
	pthread_mutex_unlock(&comm->lock);
	if (result) {
		tt_device->stage_end(comm, staged, result);
		free(started);
	} else {
		*request = started;
	}
	return result;
}

/* The same for a call whose buffers may be on GPUs. */
static tutti_result_t submit_staged(struct tutti_comm *comm, const struct tt_call *call,
				    tutti_request_t *request)
{
	struct tt_staged *staged = NULL;
	struct tt_call host = *call;
	const tutti_result_t result = tt_device->stage(comm, &host, &staged);

	if (result)
		return tt_comm_fail(comm, result);
	if (request)
		return submit_request(comm, &host, staged, request);
	return tt_device->stage_end(comm, staged, submit_blocking(comm, &host));
}

tutti_result_t tt_call_submit(struct tutti_comm *comm, const struct tt_call *call,
			      tutti_request_t *request)
{
	tutti_result_t result;

	if (request)
		*request = NULL;
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, tt_call_name(call));
	if (__builtin_expect(atomic_load_explicit(&tt_groups_open, memory_order_relaxed) > 0, 0) &&
	    tt_group_keep(comm, call, request, &result))
		return result;
	if (!call->host_buffers && tt_device_may_have_buffers())
		return submit_staged(comm, call, request);
	return request ? submit_request(comm, call, NULL, request) : submit_blocking(comm, call);
}
