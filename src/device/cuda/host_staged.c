/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how operations that go by the host whole are cut into chunks: each has the same elements
 * of all blocks. */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "log.h"
#include "names.h"
#include "proxy.h"

/* The results of all chunks up to `number`, but for those of the last `ahead`, whose slots are not
 * wanted yet. */
static tutti_result_t fetch_all_but(struct tt_cuda_op *op, uint64_t ahead, uint64_t *next,
				    uint64_t number)
{
	tutti_result_t result = TUTTI_OK;

	for (; *next + ahead <= number && !result; ++*next)
		result = tt_cuda_fetch_chunk(op, *next);
	return result;
}

/* ---- collectives */

/* Of `count` elements those of [from, from + n): how many? */
static size_t of_part(size_t count, size_t from, size_t n)
{
	return count <= from ? 0 : count - from < n ? count - from : n;
}

/* Elements [from, from + n) of each block of a side, as far as it has them, packed from `*at` on. */
static size_t list_runs(const struct tt_call *call, const struct tt_layout *layout,
			const void *buffer, size_t from, size_t n, struct tt_cuda_run *runs,
			size_t *at)
{
	const size_t element = tutti_dtype_size(call->dtype),
		     blocks = layout->kind == TT_LAYOUT_NONE  ? 0
			      : layout->kind == TT_LAYOUT_OWN ? 1
							      : layout->blocks;
	size_t packed = 0, count = 0;

	for (size_t i = 0; i < blocks; i++) {
		const size_t block = layout->kind == TT_LAYOUT_OWN ? (size_t)layout->own : i;
		const size_t elements =
			layout->counts ? of_part(layout->counts[block], from, n) : n;
		const size_t begin = from + (layout->kind != TT_LAYOUT_TABLE ? i * layout->count
					     : layout->displs		     ? layout->displs[block]
									     : packed);

		packed += layout->counts ? layout->counts[block] : 0;
		if (elements == 0)
			continue;
		runs[count++] = (struct tt_cuda_run){ cuda_at(buffer) + begin * element, *at,
						      elements * element };
		*at += elements * element;
	}
	*at = tt_cuda_aligned(*at);
	return count;
}

/* Elements [from, from + n) of it. `runs`: room for two of each rank, and behind them for the length of
 * its block. */
static tutti_result_t put_part(struct tt_cuda_op *op, const struct tt_op_header *whole, size_t from,
			       size_t n, struct tt_cuda_run *runs, uint64_t *number)
{
	const size_t *counts =
		op->call->send_counts ? op->call->send_counts : op->call->recv_counts;
	const struct tutti_comm *comm = op->cuda->comm;
	size_t *const lengths = (size_t *)&runs[2 * comm->size];
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
	for (int rank = 0; rank < comm->size && counts; rank++)
		lengths[rank] = of_part(counts[rank], from, n);
	if (call.send_counts)
		call.send_counts = lengths;
	if (call.recv_counts)
		call.recv_counts = lengths;
	chunk.ninputs = list_runs(op->call, &send, op->call->send, from, n, runs, &at);
	call.send = (const void *)0;
	call.recv = (void *)at;
	chunk.nresults =
		list_runs(op->call, &recv, op->call->recv, from, n, runs + comm->size, &at);
	if (call.collective == TT_EXSCAN && comm->rank == 0) /* it gets nothing */
		chunk.nresults = 0;
	return tt_cuda_put_chunk(op, &chunk, number);
}

static tutti_result_t put_parts(struct tt_cuda_op *op, struct tt_cuda_run *runs)
{
	const struct tt_call *call = op->call;
	const struct tutti_comm *comm = op->cuda->comm;
	const struct tt_op_header whole = tt_op_header_of_call(comm, call);
	/* the same on all ranks, whatever blocks each has */
	const size_t blocks = tt_collective_of_vector(call->collective) ? 1 : (size_t)comm->size;
	const size_t each = TT_CUDA_CHUNK_BYTES / tutti_dtype_size(call->dtype) / blocks + 1,
		     count = tt_cuda_longest_block(comm, call);
	uint64_t next = tt_cuda_next_chunk(op->cuda), number = 0;
	size_t from = 0;
	tutti_result_t result;

	do {
		const size_t n = count - from < each ? count - from : each;

		result = put_part(op, &whole, from, n, runs, &number);
		if (!result)
			result = fetch_all_but(op, TT_CUDA_CHUNKS_AHEAD, &next, number);
		from += n;
	} while (!result && from < count);
	return result ? result : fetch_all_but(op, 0, &next, number);
}

tutti_result_t tt_cuda_collective_host_staged(struct tt_cuda_op *op)
{
	const size_t ranks = (size_t)op->cuda->comm->size;
	struct tt_cuda_run *runs = malloc(ranks * (2 * sizeof(*runs) + sizeof(size_t)));
	const tutti_result_t result =
		runs ? put_parts(op, runs)
		     : tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for a chunk of it",
			       tt_call_name(op->call));

	free(runs);
	return result;
}

/* ---- messages */

#define MESSAGES_AT_ONCE 16 /* of a pair and direction in a turn */

/* What a turn has of the messages to a peer, or from it. */
struct share {
	size_t bytes;
	int messages;
	bool closed; /* one is not whole in it: none may overtake that */
};

/* Room for one chunk of each message. */
struct turn {
	struct tt_call *calls;
	struct tt_cuda_run *inputs, *results;
	struct share *shares; /* of sends by peer, then of receives */
};

/* Of a chunk, for the messages of a pair in one direction. */
static size_t share_bytes(const struct tutti_comm *comm)
{
	return tt_cuda_chunk_room(comm) / (2 * (size_t)comm->size) / TT_CUDA_CHUNK_LINE *
	       TT_CUDA_CHUNK_LINE;
}

/* Messages of a pair keep their order, and both ends find the same ones for a turn, whatever else
 * each has: a turn ends when its messages have, so one that is in it here and in a later one there
 * would have two ranks wait for each other. The first that is not done always has a part. */
static bool takes_part(struct share *share, size_t most, const struct tt_cuda_message *message,
		       size_t bytes, size_t left)
{
	const size_t room = tt_cuda_aligned(bytes);
	const bool done = message->chunks > 0 && left == 0,
		   fits = share->messages == 0 ||
			  (!share->closed && share->messages < MESSAGES_AT_ONCE &&
			   share->bytes + room <= most);

	if (done)
		return false;
	share->closed |= !fits || left > bytes;
	if (!fits)
		return false;
	share->bytes += room;
	share->messages++;
	return true;
}

/* The next pieces, which go together. */
static tutti_result_t put_turn(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n,
			       struct turn *turn, uint64_t *number, bool *more)
{
	const struct tutti_comm *comm = op->cuda->comm;
	const size_t most = share_bytes(comm), peers = (size_t)comm->size,
		     piece = most < TT_CUDA_ROOM_BYTES ? most : TT_CUDA_ROOM_BYTES;
	struct tt_cuda_chunk chunk = { .comm = op->cuda->proxy->comm,
				       .calls = turn->calls,
				       .inputs = turn->inputs,
				       .results = turn->results };
	size_t at = 0;

	*more = false;
	memset(turn->shares, 0, 2 * peers * sizeof(*turn->shares));
	for (size_t i = 0; i < n; i++) {
		struct tt_cuda_message *message = &messages[i];
		const size_t left = message->bytes - message->done,
			     bytes = left < piece ? left : piece;
		const struct tt_cuda_run run = { message->buffer + message->done, at, bytes };

		struct share *share =
			&turn->shares[(message->sending ? 0 : peers) + (size_t)message->peer];

		if (!takes_part(share, most, message, bytes, left)) {
			*more |= message->chunks == 0 || left > 0;
			continue;
		}
		message->chunks++;
		turn->calls[chunk.ncalls] =
			tt_call_of(TT_SEND_RECV, (const void *)run.at, (void *)run.at,
				   bytes / tutti_dtype_size(message->call->dtype),
				   message->call->dtype, TT_NO_OP, message->peer);
		turn->calls[chunk.ncalls++].sending = message->sending;
		*(message->sending ? &turn->inputs[chunk.ninputs++]
				   : &turn->results[chunk.nresults++]) = run;
		message->done += bytes;
		at += tt_cuda_aligned(bytes);
		*more |= message->done < message->bytes;
	}
	return tt_cuda_put_chunk(op, &chunk, number);
}

tutti_result_t tt_cuda_messages_host_staged(struct tt_cuda_op *op, struct tt_cuda_message *messages,
					    size_t n)
{
	const size_t peers = (size_t)op->cuda->comm->size;
	struct turn turn = { malloc(n * sizeof(*turn.calls)), malloc(n * sizeof(*turn.inputs)),
			     malloc(n * sizeof(*turn.results)),
			     malloc(2 * peers * sizeof(*turn.shares)) };
	uint64_t next = tt_cuda_next_chunk(op->cuda), number = 0;
	tutti_result_t result = TUTTI_OK;

	if (n > 0 && (!turn.calls || !turn.inputs || !turn.results || !turn.shares))
		result = tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for %zu messages", n);
	for (bool more = n > 0; more && !result;) {
		result = put_turn(op, messages, n, &turn, &number, &more);
		if (!result)
			result = fetch_all_but(op, TT_CUDA_CHUNKS_AHEAD, &next, number);
	}
	free(turn.calls);
	free(turn.inputs);
	free(turn.results);
	free(turn.shares);
	return result ? result : fetch_all_but(op, 0, &next, number);
}
