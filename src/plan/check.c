/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the checking of arguments: what was found, what was expected. */
#include <stdio.h>
#include <stdint.h>

#include "check.h"
#include "log.h"
#include "names.h"

const char *tt_call_name(const struct tt_call *call)
{
	static _Thread_local char name[40];
	const char *part = tt_part_name(call->part);
	const char *what = call->collective != TT_SEND_RECV ? tt_collective_name(call->collective)
			   : call->sending		    ? "send"
							    : "recv";

	if (part)
		return part;
	if (call->name)
		return call->name;
	snprintf(name, sizeof(name), "tutti_%s%s%s", call->on_gpu ? "cuda_" : "", what,
		 call->tagged ? "_tagged" : "");
	return name;
}

static tutti_result_t check_op(const struct tutti_comm *comm, const struct tt_call *call)
{
	const int user = call->op - TUTTI_OP_COUNT;

	if (call->op < 0 || user >= comm->nuser_ops || (user >= 0 && !comm->user_ops[user].used))
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"%s: op %d is no operation; expected TUTTI_SUM (%d) to TUTTI_BXOR (%d) or one made "
			"on this communicator",
			tt_call_name(call), call->op, TUTTI_SUM, TUTTI_BXOR);
	if (user >= 0 && !comm->user_ops[user].function &&
	    comm->user_ops[user].dtype != call->dtype)
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: the pre-multiplied sum was made for %s, called with %s",
			       tt_call_name(call), tutti_dtype_name(comm->user_ops[user].dtype),
			       tutti_dtype_name(call->dtype));
	if (user < 0 && !comm->kernels->reduce[call->op][call->dtype])
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: %s is not defined for %s; the bitwise operations take integers",
			       tt_call_name(call), tutti_op_name(call->op),
			       tutti_dtype_name(call->dtype));
	if (call->op == TUTTI_AVG && (call->collective == TT_SCAN || call->collective == TT_EXSCAN))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: avg is not defined for prefix reductions", tt_call_name(call));
	return TUTTI_OK;
}

/* Bytes of `blocks` blocks of `count`, or SIZE_MAX. */
static size_t total_bytes(size_t count, size_t blocks, size_t element)
{
	size_t elements, bytes;

	if (__builtin_mul_overflow(count, blocks, &elements) ||
	    __builtin_mul_overflow(elements, element, &bytes) || bytes > PTRDIFF_MAX)
		return SIZE_MAX;
	return bytes;
}

static tutti_result_t fail_overflow(const struct tutti_comm *comm, const struct tt_call *call)
{
	return tt_fail(TUTTI_ERR_INVALID, EXEC,
		       "%s: count %zu of %s for %d ranks overflows the address space",
		       tt_call_name(call), call->count, tutti_dtype_name(call->dtype), comm->size);
}

static tutti_result_t check_table(const struct tutti_comm *comm, const struct tt_call *call,
				  const char *which, const size_t *counts, const size_t *displs,
				  size_t *bytes)
{
	const size_t element = tutti_dtype_size(call->dtype);
	size_t end = 0;

	for (int rank = 0; rank < comm->size; rank++) {
		size_t stop;

		if (__builtin_add_overflow(displs ? displs[rank] : end, counts[rank], &stop) ||
		    total_bytes(stop, 1, element) == SIZE_MAX)
			return tt_fail(
				TUTTI_ERR_INVALID, EXEC,
				"%s: %s block of rank %d: %zu elements of %s overflow the address space",
				tt_call_name(call), which, rank, counts[rank],
				tutti_dtype_name(call->dtype));
		if (counts[rank] > 0 && stop * element > *bytes)
			*bytes = stop * element;
		if (!displs)
			end = stop;
	}
	return TUTTI_OK;
}

/* The bytes that this rank's buffer of one side spans. */
static tutti_result_t span(const struct tutti_comm *comm, const struct tt_call *call, bool sending,
			   size_t *bytes)
{
	const enum tt_collective c = call->collective;
	const bool at_root = comm->rank == call->root;
	const size_t element = tutti_dtype_size(call->dtype);
	const size_t *counts = sending ? call->send_counts : call->recv_counts;
	const uint32_t whole = sending ? TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_SCATTER)
				       : TT_BIT(TT_ALL_GATHER) | TT_BIT(TT_GATHER);
	const uint32_t root_only =
		sending ? TT_BIT(TT_BROADCAST) | TT_BIT(TT_SCATTER) | TT_BIT(TT_SCATTER_V)
			: TT_BIT(TT_REDUCE) | TT_BIT(TT_GATHER) | TT_BIT(TT_GATHER_V);
	const bool one_block =
		(c == TT_ALL_GATHER_V && sending) || (c == TT_REDUCE_SCATTER_V && !sending);

	*bytes = 0;
	if ((root_only & TT_BIT(c)) && !at_root)
		return TUTTI_OK;
	if (one_block) {
		*bytes = total_bytes((sending ? call->recv_counts : call->send_counts)[comm->rank],
				     1, element);
		return TUTTI_OK;
	}
	if (counts)
		return check_table(comm, call, sending ? "send" : "recv", counts,
				   sending ? call->send_displs : call->recv_displs, bytes);
	*bytes = total_bytes(call->count,
			     (whole | TT_BIT(TT_ALL_TO_ALL)) & TT_BIT(c) ? (size_t)comm->size : 1,
			     element);
	return *bytes == SIZE_MAX ? fail_overflow(comm, call) : TUTTI_OK;
}

static tutti_result_t message_span(const struct tutti_comm *comm, const struct tt_call *call,
				   size_t *send_bytes, size_t *recv_bytes)
{
	const size_t bytes = total_bytes(call->count, 1, tutti_dtype_size(call->dtype));

	*send_bytes = call->sending ? bytes : 0;
	*recv_bytes = call->sending ? 0 : bytes;
	return bytes == SIZE_MAX ? fail_overflow(comm, call) : TUTTI_OK;
}

tutti_result_t tt_call_spans(const struct tutti_comm *comm, const struct tt_call *call,
			     size_t *send_bytes, size_t *recv_bytes)
{
	if (call->collective == TT_SEND_RECV)
		return message_span(comm, call, send_bytes, recv_bytes);
	const tutti_result_t result = span(comm, call, true, send_bytes);

	return result ? result : span(comm, call, false, recv_bytes);
}

tutti_result_t tt_call_check_buffers(const struct tt_call *call, size_t send_bytes,
				     size_t recv_bytes)
{
	/* pointers first: they are rarely NULL, so no more is looked at */
	if ((!call->send && send_bytes > 0) || (!call->recv && recv_bytes > 0))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: %s is NULL, expected a buffer of %zu bytes", tt_call_name(call),
			       send_bytes > 0 && !call->send ? "send" : "recv",
			       send_bytes > 0 && !call->send ? send_bytes : recv_bytes);
	if (call->collective == TT_ALL_TO_ALL_V && call->send == call->recv && send_bytes &&
	    recv_bytes)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_all_to_all_v: send and recv are the same memory; it cannot work in place");
	return TUTTI_OK;
}

static bool misses_counts(const struct tutti_comm *comm, const struct tt_call *call)
{
	switch (call->collective) {
	case TT_REDUCE_SCATTER_V: return !call->send_counts;
	case TT_ALL_GATHER_V: return !call->recv_counts;
	case TT_GATHER_V: return comm->rank == call->root && !call->recv_counts;
	case TT_SCATTER_V: return comm->rank == call->root && !call->send_counts;
	case TT_ALL_TO_ALL_V: return !call->send_counts || !call->recv_counts;
	default: return false;
	}
}

/* What a rank sends itself meets no header of another rank that could differ. */
static tutti_result_t check_own_block(const struct tutti_comm *comm, const struct tt_call *call)
{
	const size_t sent = call->send_counts ? call->send_counts[comm->rank] : call->count,
		     received = call->recv_counts ? call->recv_counts[comm->rank] : call->count;

	if (!tt_collective_knows_own_counts(call->collective) || sent == received)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, EXEC,
		       "%s: this rank sends itself %zu elements and receives %zu from itself, "
		       "expected as many",
		       tt_call_name(call), sent, received);
}

/* Of a message with a tag. */
static tutti_result_t check_tagged(const struct tt_call *call)
{
	if (call->tag < 0)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: tag %d, expected 0 or more",
			       tt_call_name(call), call->tag);
	if (call->message && call->message->size != sizeof(*call->message))
		return tt_fail(TUTTI_ERR_INVALID, EXEC,
			       "%s: message->size is %zu, expected sizeof(tutti_message_t), %zu",
			       tt_call_name(call), call->message->size, sizeof(*call->message));
	return TUTTI_OK;
}

static bool may_be_any(const struct tt_call *call)
{
	return call->tagged && !call->sending && call->root == TUTTI_ANY_PEER;
}

tutti_result_t tt_call_check(const struct tutti_comm *comm, const struct tt_call *call)
{
	const bool peer_to_peer = call->collective == TT_SEND_RECV;

	if ((unsigned)call->dtype >= TUTTI_DTYPE_COUNT)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: dtype %d is no type; expected 0 to %d",
			       tt_call_name(call), (int)call->dtype, TUTTI_DTYPE_COUNT - 1);
	if ((tt_collective_rooted(call->collective) || peer_to_peer) && !may_be_any(call) &&
	    (call->root < 0 || call->root >= comm->size))
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: %s %d, expected 0 to %d%s",
			       tt_call_name(call), peer_to_peer ? "peer" : "root", call->root,
			       comm->size - 1,
			       call->tagged && !call->sending ? " or TUTTI_ANY_PEER" : "");
	if (call->tagged) {
		const tutti_result_t result = check_tagged(call);

		if (result)
			return result;
	}
	if (misses_counts(comm, call))
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "%s: counts is NULL, expected %d counts",
			       tt_call_name(call), comm->size);
	if (tt_collective_reduces(call->collective)) {
		const tutti_result_t result = check_op(comm, call);

		if (result)
			return result;
	}
	size_t send_bytes, recv_bytes;
	tutti_result_t result = check_own_block(comm, call);
	if (!result)
		result = tt_call_spans(comm, call, &send_bytes, &recv_bytes);

	return result ? result : tt_call_check_buffers(call, send_bytes, recv_bytes);
}
