/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how operations that go by the host whole are cut into chunks: each has the same elements
 * of all blocks. */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "log.h"
#include "names.h"
#include "proxy.h"

/* A chunk was put: what was put so long before that its slot is wanted next is fetched. */
static tutti_result_t keep_ahead(struct tt_cuda_op *op, uint64_t *next, uint64_t number)
{
	return number >= *next + TT_CUDA_CHUNKS_AHEAD
		       ? tt_cuda_fetch_chunks(op, next, number - TT_CUDA_CHUNKS_AHEAD)
		       : TUTTI_OK;
}

/* ---- collectives */

/* The blocks that a rank has on one side. */
static size_t blocks_of(const struct tutti_comm *comm, const struct tt_layout *layout)
{
	if (layout->kind == TT_LAYOUT_NONE)
		return 0;
	return layout->kind == TT_LAYOUT_BLOCKS || layout->kind == TT_LAYOUT_TABLE
		       ? (size_t)comm->size
		       : 1;
}

/* Elements [from, from + n) of each block of a side, packed from `*at` on; of a _v form, all. */
static size_t list_runs(const struct tutti_comm *comm, const struct tt_call *call,
			const struct tt_layout *layout, const void *buffer, size_t from, size_t n,
			struct tt_cuda_run *runs, size_t *at)
{
	const size_t element = tutti_dtype_size(call->dtype), blocks = blocks_of(comm, layout);
	size_t packed = 0, count = 0;

	for (size_t i = 0; i < blocks; i++) {
		const size_t block = layout->kind == TT_LAYOUT_OWN ? (size_t)layout->own : i;
		const size_t elements = layout->counts ? layout->counts[block] : n;
		const size_t begin = layout->kind != TT_LAYOUT_TABLE ? i * layout->count + from
				     : layout->displs		     ? layout->displs[block]
								     : packed;

		packed += elements;
		if (elements == 0)
			continue;
		runs[count++] =
			(struct tt_cuda_run){ (cuda_address)(uintptr_t)buffer + begin * element,
					      *at, elements * element };
		*at += elements * element;
	}
	*at = tt_cuda_aligned(*at);
	return count;
}

/* Elements [from, from + n) of it. `runs`: room for two of each rank. */
static tutti_result_t put_part(struct tt_cuda_op *op, const struct tt_op_header *whole, size_t from,
			       size_t n, struct tt_cuda_run *runs, uint64_t *number)
{
	const struct tutti_comm *comm = op->cuda->comm;
	const struct tt_layout send = tt_layout_of(comm, op->call, 1, true),
			       recv = tt_layout_of(comm, op->call, 1, false);
	struct tt_call call = *op->call;
	struct tt_cuda_chunk chunk = { .comm = op->cuda->proxy->comm,
				       .whole = whole,
				       .calls = &call,
				       .ncalls = 1,
				       .inputs = runs,
				       .results = runs + comm->size };
	size_t at = 0;

	call.on_gpu = false;
	call.count = n;
	call.send_displs = call.recv_displs = NULL;
	chunk.ninputs = list_runs(comm, op->call, &send, op->call->send, from, n, runs, &at);
	call.send = (const void *)(uintptr_t)0;
	call.recv = (void *)(uintptr_t)at;
	chunk.nresults =
		list_runs(comm, op->call, &recv, op->call->recv, from, n, runs + comm->size, &at);
	if (call.collective == TT_EXSCAN && comm->rank == 0) /* it gets nothing */
		chunk.nresults = 0;
	chunk.bytes = at;
	return tt_cuda_put_chunk(op, &chunk, number);
}

tutti_result_t tt_cuda_collective_host_staged(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	const struct tutti_comm *comm = op->cuda->comm;
	const struct tt_op_header whole = tt_op_header_of_call(comm, call);
	const bool of_v = call->send_counts || call->recv_counts;
	/* the same on all ranks, whatever blocks each has */
	const size_t blocks = tt_collective_of_vector(call->collective) ? 1 : (size_t)comm->size;
	const size_t each = of_v ? call->count
				 : TT_CUDA_CHUNK_BYTES / tutti_dtype_size(call->dtype) / blocks + 1;
	struct tt_cuda_run *runs = malloc(2 * (size_t)comm->size * sizeof(*runs));
	uint64_t next = tt_cuda_next_chunk(op->cuda), number = 0;
	size_t from = 0;
	tutti_result_t result;

	if (!runs)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for a chunk of it",
			       tt_call_name(call));
	do {
		const size_t n = of_v || call->count - from < each ? call->count - from : each;

		result = put_part(op, &whole, from, n, runs, &number);
		if (!result)
			result = keep_ahead(op, &next, number);
		from += n;
	} while (!result && from < call->count && !of_v);
	free(runs);
	return result ? result : tt_cuda_fetch_chunks(op, &next, number);
}

/* ---- messages */

/* Room for one chunk of each message. */
struct turn {
	struct tt_call *calls;
	struct tt_cuda_run *inputs, *results;
};

/* The next chunks of all messages that are not done, which go together. */
static tutti_result_t put_turn(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n,
			       const struct turn *turn, uint64_t *number, bool *more)
{
	struct tt_cuda_chunk chunk = { .comm = op->cuda->proxy->comm,
				       .calls = turn->calls,
				       .inputs = turn->inputs,
				       .results = turn->results };

	*more = false;
	for (size_t i = 0; i < n; i++) {
		struct tt_cuda_message *message = &messages[i];
		const size_t left = message->bytes - message->done,
			     bytes = left < TT_CUDA_ROOM_BYTES ? left : TT_CUDA_ROOM_BYTES;
		const struct tt_cuda_run run = { message->buffer + message->done, chunk.bytes,
						 bytes };

		if (message->chunks++ && left == 0)
			continue;
		turn->calls[chunk.ncalls++] =
			(struct tt_call){ .collective = TT_SEND_RECV,
					  .sending = message->sending,
					  .dtype = message->call->dtype,
					  .op = -1,
					  .root = message->peer,
					  .send = (const void *)(uintptr_t)run.at,
					  .recv = (void *)(uintptr_t)run.at,
					  .count = bytes / tutti_dtype_size(message->call->dtype) };
		*(message->sending ? &turn->inputs[chunk.ninputs++]
				   : &turn->results[chunk.nresults++]) = run;
		message->done += bytes;
		chunk.bytes += tt_cuda_aligned(bytes);
		*more |= message->done < message->bytes;
	}
	return tt_cuda_put_chunk(op, &chunk, number);
}

tutti_result_t tt_cuda_messages_host_staged(struct tt_cuda_op *op, struct tt_cuda_message *messages,
					    size_t n)
{
	struct turn turn = { malloc(n * sizeof(*turn.calls)), malloc(n * sizeof(*turn.inputs)),
			     malloc(n * sizeof(*turn.results)) };
	uint64_t next = tt_cuda_next_chunk(op->cuda), number = 0;
	tutti_result_t result = TUTTI_OK;

	if (n > 0 && (!turn.calls || !turn.inputs || !turn.results))
		result = tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for %zu messages", n);
	for (bool more = n > 0; more && !result;) {
		result = put_turn(op, messages, n, &turn, &number, &more);
		if (!result)
			result = keep_ahead(op, &next, number);
	}
	free(turn.calls);
	free(turn.inputs);
	free(turn.results);
	return result ? result : tt_cuda_fetch_chunks(op, &next, number);
}
