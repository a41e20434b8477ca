/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from a call to its stream: is it sound, which way is it done, and in which order. */
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "call.h"
#include "hierarchy.h"
#include "log.h"
#include "names.h"
#include "plan_cache.h"
#include "recorder.h"

/* ---- checks */

static tutti_result_t check_buffer(const struct tt_cuda *cuda, const struct tt_call *call,
				   const char *which, const void *buffer, size_t bytes)
{
	enum tt_cuda_memory kind;
	int device;

	if (bytes == 0)
		return TUTTI_OK;
	const tutti_result_t result = tt_cuda_pointer(buffer, &kind, &device);
	if (result)
		return result;
	if (kind == TT_CUDA_HOST)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"%s: %s (%p) is memory of the host, expected memory of GPU %d or managed memory: the function without cuda_ takes both",
			tt_call_name(call), which, buffer, cuda->number);
	if (kind == TT_CUDA_DEVICE && device != cuda->number)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"%s: %s (%p) is memory of GPU %d, expected memory of GPU %d, to which the communicator is bound",
			tt_call_name(call), which, buffer, device, cuda->number);
	if ((uintptr_t)buffer % tutti_dtype_size(call->dtype))
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "%s: %s (%p) is not aligned to %zu bytes, as GPUs need it for %s",
			       tt_call_name(call), which, buffer, tutti_dtype_size(call->dtype),
			       tutti_dtype_name(call->dtype));
	return TUTTI_OK;
}

static tutti_result_t is_captured(const struct tt_cuda *cuda, struct CUstream_st *stream,
				  bool *captured)
{
	unsigned status = CUDA_CAPTURE_NONE;
	const cuda_result error = tt_cu.stream_is_capturing(stream, &status);

	*captured = status == CUDA_CAPTURE_ACTIVE;
	if (status == CUDA_CAPTURE_INVALIDATED ||
	    (error >= CUDA_CAPTURE_UNSUPPORTED && error <= CUDA_CAPTURE_CAPTURED_EVENT))
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"the stream's capture has failed (or it is the default stream, while another one is captured): nothing can be put there");
	return tt_cuda_check(error, "ask whether the stream is captured");
}

/* Is the call sound, as far as CUDA is not to be asked? Lock held. */
static tutti_result_t check_call(const struct tutti_comm *comm, const struct tt_call *call)
{
	const tutti_result_t result = tt_call_check(comm, call);

	if (!result && call->op >= TUTTI_OP_COUNT &&
	    comm->user_ops[call->op - TUTTI_OP_COUNT].function)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"%s: operations of tutti_op_create() run on the host only: the function without cuda_ takes memory of GPUs, too",
			tt_call_name(call));
	return result;
}

/* The lock is not held: CUDA may keep a thread waiting here, too, and whoever is to end that
 * needs it. */
static tutti_result_t check_on_gpu(const struct tt_cuda *cuda, const struct tt_call *call)
{
	struct tt_cuda_entered entered;
	size_t send_bytes, recv_bytes;
	bool captured; /* either way is fine */
	tutti_result_t result = tt_cuda_enter_for(cuda, tt_call_name(call), call->stream, &entered);

	if (result)
		return result;
	result = is_captured(cuda, call->stream, &captured);
	tt_call_spans(cuda->comm, call, &send_bytes, &recv_bytes);
	if (!result)
		result = check_buffer(cuda, call, "send", call->send, send_bytes);
	if (!result)
		result = check_buffer(cuda, call, "recv", call->recv, recv_bytes);
	tt_cuda_leave(&entered);
	return result;
}

/* ---- the calls that are messages between pairs of ranks */

static bool is_of_pairs(enum tt_collective collective)
{
	return collective == TT_SEND_RECV || tt_collective_knows_own_counts(collective);
}

static size_t place_of(const size_t *counts, const size_t *displs, int rank)
{
	size_t at = 0;

	if (displs)
		return displs[rank];
	for (int before = 0; before < rank; before++)
		at += counts[before];
	return at;
}

/* The message to or from `peer` that is part of the call on one side; false: there is none. */
static bool message_of(const struct tt_call *call, bool sending, int peer,
		       struct tt_cuda_message *message)
{
	const size_t element = tutti_dtype_size(call->dtype);
	const size_t *counts = sending ? call->send_counts : call->recv_counts,
		     *displs = sending ? call->send_displs : call->recv_displs;
	const cuda_address buffer = cuda_at(sending ? call->send : call->recv);
	const bool whole = call->collective == TT_SEND_RECV   ? call->sending == sending
			   : call->collective == TT_GATHER_V  ? sending
			   : call->collective == TT_SCATTER_V ? !sending
							      : false;

	*message = (struct tt_cuda_message){ .call = call, .sending = sending, .peer = peer };
	if (counts) {
		message->buffer = buffer + place_of(counts, displs, peer) * element;
		message->bytes = counts[peer] * element;
		return true;
	}
	message->buffer = buffer;
	message->bytes = call->count * element;
	return whole && peer == call->root;
}

/* A call's messages to and from all peers; what the rank hands to itself is copied. */
static cuda_result collect(struct tt_cuda_op *op, const struct tt_call *call,
			   struct tt_cuda_message *messages, size_t *n)
{
	const struct tutti_comm *comm = op->cuda->comm;
	cuda_result error = 0;

	for (int i = 0; i < comm->size && !error; i++) {
		const int rank = (comm->rank + i) %
				 comm->size; /* not everybody sends to the same one first */
		struct tt_cuda_message to, from;
		const bool sends = message_of(call, true, rank, &to),
			   receives = message_of(call, false, rank, &from);

		if (rank == comm->rank && sends && receives)
			error = tt_cuda_copy(op, from.buffer, to.buffer, to.bytes);
		if (rank == comm->rank)
			continue;
		if (sends)
			messages[(*n)++] = to;
		if (receives)
			messages[(*n)++] = from;
	}
	return error;
}

static bool is_to_self(const struct tutti_comm *comm, const struct tt_call *call, bool sending)
{
	return call->collective == TT_SEND_RECV && call->root == comm->rank &&
	       call->sending == sending;
}

/* Sends and receives of a rank to itself must come in pairs, which a group alone can have. With `op`
 * they do, and are copied. */
static tutti_result_t pair_own(const struct tutti_comm *comm, const struct tt_call *const *calls,
			       size_t n, struct tt_cuda_op *op)
{
	size_t send = 0, recv = 0;

	for (;; send++, recv++) {
		while (send < n && !is_to_self(comm, calls[send], true))
			send++;
		while (recv < n && !is_to_self(comm, calls[recv], false))
			recv++;
		if (send == n && recv == n)
			return TUTTI_OK;
		if (send == n || recv == n)
			return tt_fail(
				TUTTI_ERR_INVALID, CUDA,
				"%s: peer %d is this rank itself: that is possible inside a group only, with a receive for each send",
				tt_call_name(calls[send < n ? send : recv]), comm->rank);
		const struct tt_call *to = calls[send], *from = calls[recv];
		if (to->count != from->count || to->dtype != from->dtype)
			return tt_fail(
				TUTTI_ERR_INVALID, CUDA,
				"rank %d sends %zu %s to itself and receives %zu %s; expected the same",
				comm->rank, to->count, tutti_dtype_name(to->dtype), from->count,
				tutti_dtype_name(from->dtype));
		const cuda_result error =
			op ? tt_cuda_copy(op, cuda_at(from->recv), cuda_at(to->send),
					  to->count * tutti_dtype_size(to->dtype))
			   : 0;
		if (error)
			return tt_cuda_check(error, "%s", tt_call_name(to));
	}
}

/* ---- one operation */

/* The signature is the same every time that a graph is launched: no number is part of it. */
static void sign(struct tt_cuda_op *op)
{
	op->header.seq = 0;
	op->signature = tt_op_header_signature(&op->header);
	op->header.seq = ++op->cuda->calls;
}

tutti_result_t tt_cuda_get_plan(struct tt_cuda_op *op, const struct tt_call *call)
{
	struct tt_cuda *cuda = op->cuda;

	tt_comm_lock(cuda->comm);
	const tutti_result_t result = tt_plan_get(cuda->comm, call, &op->plan);
	cuda->comm->device_plan = op->plan;
	pthread_mutex_unlock(&cuda->comm->lock);
	return result;
}

/* For the flight recorder; and the plan of a collective for tutti_comm_last_plan(), none where it
 * goes another way. */
static void note(struct tt_cuda_op *op, const struct tt_call *const *calls, size_t n,
		 enum tt_flight_way way)
{
	struct tt_cuda *cuda = op->cuda;
	struct tutti_comm *comm = cuda->comm;

	tt_comm_lock(comm);
	if (op->call)
		comm->last_plan = op->direct ? NULL : op->plan;
	if (way == TT_FLIGHT_LINES)
		comm->exchanged_plan = op->plan;
	for (size_t i = 0; i < n; i++)
		cuda->noted = tt_recorder_stream(comm, calls[i], way, op->captured, cuda->number);
	pthread_mutex_unlock(&comm->lock);
}

/* All of it is on its stream: when so many waits have ended, it has. Those of graphs are not counted. */
static void note_waits(const struct tt_cuda *cuda, uint64_t noted, uint64_t waits)
{
	tt_comm_lock(cuda->comm);
	if (!cuda->proxy && cuda->waits > waits)
		tt_recorder_stream_waits(cuda->comm, noted + 1, cuda->noted, cuda->waits);
	pthread_mutex_unlock(&cuda->comm->lock);
}

static tutti_result_t put_collective(struct tt_cuda_op *op, const struct tt_call *call)
{
	op->call = call;
	if (op->cuda->proxy) {
		const bool hierarchy = tt_cuda_fits_hierarchy(op->cuda, call);

		note(op, &call, 1, hierarchy ? TT_FLIGHT_CLIQUES : TT_FLIGHT_BY_HOST);
		return hierarchy ? tt_cuda_hierarchical(op) : tt_cuda_collective_host_staged(op);
	}
	const tutti_result_t result = tt_cuda_get_plan(op, call);

	if (result)
		return result;
	op->header = op->plan->header;
	const bool short_one = tt_cuda_fits_lines(op);
	op->direct = !short_one && tt_cuda_goes_directly(op);
	note(op, &call, 1,
	     short_one	  ? TT_FLIGHT_LINES
	     : op->direct ? TT_FLIGHT_DIRECT
			  : TT_FLIGHT_STAGES);
	sign(op);
	cuda_result error = short_one	 ? tt_cuda_by_lines(op)
			    : op->direct ? tt_cuda_by_direct(op)
					 : tt_cuda_by_stages(op);
	if (!error && op->maybe) {
		op->follows = true;
		error = tt_cuda_by_stages(op);
	}
	return tt_cuda_check(error, "%s", tt_call_name(call));
}

static tutti_result_t put_messages(struct tt_cuda_op *op, const struct tt_call *const *calls,
				   size_t n)
{
	const size_t room = n * 2 * (size_t)op->cuda->comm->size;
	struct tt_cuda_message *messages = malloc(room * sizeof(*messages));
	size_t count = 0;

	if (!messages)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for %zu messages",
			       tt_call_name(calls[0]), room);
	note(op, calls, n, op->cuda->proxy ? TT_FLIGHT_BY_HOST : TT_FLIGHT_ROOMS);
	tutti_result_t result = pair_own(op->cuda->comm, calls, n, op);
	cuda_result error = 0;
	for (size_t i = 0; i < n && !result && !error; i++)
		error = collect(op, calls[i], messages, &count);
	if (!result && !error && !op->cuda->proxy)
		error = tt_cuda_messages(op, messages, count);
	if (error)
		result = tt_cuda_check(error, "%s", tt_call_name(calls[0]));
	if (!result && op->cuda->proxy)
		result = tt_cuda_messages_host_staged(op, messages, count);
	free(messages);
	return result;
}

/* For the watchdog. What waits for the host has the deadline in the host's calls. */
static cuda_result report_timeout(const struct tt_cuda_op *op, uint64_t timeout_ns)
{
	const struct tt_cuda *waits = tt_cuda_who_waits(op->cuda);

	return op->timeout_ns && waits ? tt_cuda_report(op, &waits->report->timeout, timeout_ns)
				       : 0;
}

/* One collective, or all messages of a group, which are sound. */
static tutti_result_t put(struct tt_cuda *cuda, const struct tt_call *const *calls, size_t n)
{
	struct tt_cuda_op op = { .cuda = cuda,
				 .stream = calls[0]->stream,
				 .timeout_ns = calls[0]->timeout_ns };
	struct tt_cuda_entered entered;
	tutti_result_t result =
		tt_cuda_enter_for(cuda, tt_call_name(calls[0]), op.stream, &entered);

	if (result)
		return result;
	tt_cuda_watchdog_putting(cuda, true, false);
	const uint64_t noted = cuda->noted, waits = cuda->waits;
	result = is_captured(cuda, op.stream, &op.captured);
	cuda_result error = 0;
	/* Behind the communicator's last operation, wherever that was. A stream's handle does not tell,
	 * as another may have got it, and one handle means another stream in each thread. What is
	 * captured is ordered by who launches the graph. */
	unsigned long long stream = 0;
	if (!result && !op.captured)
		error = tt_cu.stream_get_id(op.stream, &stream);
	if (!result && !op.captured && !error && stream != cuda->last_stream)
		error = tt_cu.stream_wait_event(op.stream, cuda->last, 0);
	if (!result && !error)
		error = report_timeout(&op, op.timeout_ns);
	if (!result && !error)
		result = is_of_pairs(calls[0]->collective) ? put_messages(&op, calls, n)
							   : put_collective(&op, calls[0]);
	if (!result && !error)
		error = report_timeout(&op, 0);
	if (!result && !error)
		note_waits(cuda, noted, waits);
	if (!result && !error && !op.captured) { /* the last one now */
		error = tt_cu.event_record(cuda->last, op.stream);
		cuda->last_stream = stream;
	}
	if (!result && error)
		result = tt_cuda_check(error, "order operations on streams");
	tt_cuda_leave(&entered);
	if (result) /* what is behind `last` is without it */
		cuda->noted = noted;
	if (op.timeout_ns > cuda->longest_ns)
		cuda->longest_ns = op.timeout_ns;
	/* also where only a part is there, which waits for what will not come */
	tt_cuda_watchdog_putting(cuda, false, op.captured);
	return result;
}

/* ---- calls */

/* First the collectives, then all messages. `messages`: room for the calls. */
static tutti_result_t put_all(struct tt_cuda *cuda, const struct tt_call *const *calls, size_t n,
			      const struct tt_call **messages)
{
	size_t count = 0;
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < n && !result; i++) {
		if (is_of_pairs(calls[i]->collective))
			messages[count++] = calls[i];
		else
			result = put(cuda, &calls[i], 1);
	}
	return result || count == 0 ? result : put(cuda, messages, count);
}

static tutti_result_t one_stream(const struct tt_call *const *calls, size_t n)
{
	const struct tt_call *first = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!is_of_pairs(calls[i]->collective))
			continue;
		if (first && calls[i]->stream != first->stream)
			return tt_fail(
				TUTTI_ERR_INVALID, CUDA,
				"%s: a group's sends and receives (and the _v forms of gather, scatter and all_to_all) are on two streams, "
				"expected one",
				tt_call_name(calls[i]));
		first = calls[i];
	}
	return TUTTI_OK;
}

/* The order's lock held, the communicator's not. */
static tutti_result_t start(struct tt_cuda *cuda, const struct tt_call *const *calls, size_t n)
{
	struct tutti_comm *comm = cuda->comm;
	const struct tt_call *few[4], **messages = few;

	tt_comm_lock(comm);
	tutti_result_t result = tt_comm_state(comm);
	const bool healthy = !result;
	if (!result)
		result = pair_own(comm, calls, n, NULL);
	for (size_t i = 0; i < n && !result; i++)
		result = check_call(comm, calls[i]);
	pthread_mutex_unlock(&comm->lock);
	for (size_t i = 0; i < n && !result; i++)
		result = check_on_gpu(cuda, calls[i]);
	if (!result)
		result = one_stream(calls, n);
	if (!healthy || result == TUTTI_ERR_INVALID ||
	    result == TUTTI_ERR_UNSUPPORTED) /* nothing was put anywhere */
		return result;
	if (n > sizeof(few) / sizeof(few[0]))
		messages = malloc(n * sizeof(*messages));
	if (!result && !messages)
		result =
			tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for a group of %zu calls", n);
	if (!result)
		result = put_all(cuda, calls, n, messages);
	if (messages != few)
		free(messages);
	if (!result)
		return TUTTI_OK;
	/* what was wrong with the arguments is known by now: from here on others may wait */
	result = tt_comm_fail(comm, result == TUTTI_ERR_INVALID ? TUTTI_ERR_SYSTEM : result);
	tt_cuda_watchdog_busy(cuda); /* to let go on what waits for the rest */
	return result;
}

tutti_result_t tt_cuda_start(struct tutti_comm *comm, const struct tt_call *const *calls, size_t n)
{
	struct tt_cuda *cuda = comm->cuda;
	tutti_result_t result = tt_comm_state(comm);

	if (result)
		return result;
	if (!cuda)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"%s: the communicator is not bound to a GPU: call tutti_cuda_bind() first",
			tt_call_name(calls[0]));
	pthread_mutex_unlock(&comm->lock);
	pthread_mutex_lock(&cuda->order);
	result = start(cuda, calls, n);
	pthread_mutex_unlock(&cuda->order);
	tt_comm_lock(comm);
	return result;
}
