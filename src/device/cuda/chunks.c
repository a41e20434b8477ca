/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what chunks that go by the host are to a stream: copies to pinned memory and from there,
 * and the two flags of the slot that a chunk lies in (proxy.h). While the host works on one, the
 * stream brings the next. */
#include "proxy.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

#define WORKS_FLAGS 4u	 /* of a chunk, beside its copies */
#define SLACK	    4096 /* of a side: for what is rounded up */

static struct tt_cuda_slot *slot_of(struct tt_cuda *cuda, uint64_t number)
{
	return &cuda->proxy->slots[number % TT_CUDA_CHUNKS_SLOTS];
}

uint64_t tt_cuda_next_chunk(const struct tt_cuda *cuda)
{
	return cuda->proxy->numbers + 1;
}

size_t tt_cuda_aligned(size_t bytes)
{
	return (bytes + TT_CUDA_CHUNK_LINE - 1) / TT_CUDA_CHUNK_LINE * TT_CUDA_CHUNK_LINE;
}

/* ---- flags */

static cuda_result report_gone(struct tt_cuda_op *op, uint64_t number)
{
	struct tt_cuda_proxy_flags *flags = op->cuda->proxy->flags;
	const uint64_t slot = number % TT_CUDA_CHUNKS_SLOTS;
	union CUstreamBatchMemOpParams_union writes[] = {
		tt_cuda_write_flag(&flags->slot[slot].done, 0),
		tt_cuda_write_flag(&flags->slot[slot].gone, number)
	};
	const unsigned first =
		op->captured ? 0 : 1; /* another number is greater than all that were there */

	return tt_cu.stream_mem_ops(op->stream, 2 - first, writes + first, 0);
}

static cuda_result await_done(struct tt_cuda_op *op, uint64_t number)
{
	const void *done = &op->cuda->proxy->flags->slot[number % TT_CUDA_CHUNKS_SLOTS].done;
	union CUstreamBatchMemOpParams_union wait = { .pad = { 0 } };

	wait.waitValue.operation = CUDA_MEM_OP_WAIT_64;
	wait.waitValue.address = cuda_at(done);
	wait.waitValue.value64 = number;
	wait.waitValue.flags = CUDA_WAIT_AT_LEAST;
	return tt_cu.stream_mem_ops(op->stream, 1, &wait, 0);
}

/* ---- a chunk as the thread has it */

/* Of a pre-multiplied sum the thread's communicator does the sum alone. The factor is copied:
 * before the stream comes to the chunk, the operation may be destroyed and its number be
 * another's. The number stays part of what is told, as ranks have to agree on it. */
static void scale_first(struct tt_cuda *cuda, struct tt_cuda_job *job,
			const struct tt_cuda_chunk *chunk)
{
	struct tt_call *call = &job->calls[0];

	if (call->op < TUTTI_OP_COUNT)
		return;
	for (size_t i = 0; i < chunk->ninputs; i++)
		job->scaled += chunk->inputs[i].bytes / tutti_dtype_size(call->dtype);
	tt_comm_lock(cuda->comm);
	memcpy(job->scalar, cuda->comm->user_ops[call->op - TUTTI_OP_COUNT].scalar,
	       sizeof(job->scalar));
	pthread_mutex_unlock(&cuda->comm->lock);
	call->op = TUTTI_SUM;
}

/* A table's copy, with room for it at `*room`. NULL stays NULL. */
static const size_t *copy_table(const size_t *table, int size, size_t **room)
{
	const size_t *copy = *room;

	if (!table)
		return NULL;
	*room = (size_t *)memcpy(*room, table, (size_t)size * sizeof(*table)) + size;
	return copy;
}

/* The calls' buffers become places in the chunk's memory; what peers compare, the call of which
 * it is a part. */
static void copy_calls(const struct tt_cuda_op *op, struct tt_cuda_job *job,
		       const struct tt_cuda_chunk *chunk, uint8_t *memory)
{
	const uint64_t timeout_ns = chunk->comm == op->cuda->proxy->across
					    ? tt_cuda_timeout_across(op->timeout_ns)
					    : op->timeout_ns;
	size_t *room = (size_t *)&job->calls[chunk->ncalls];

	if (chunk->whole)
		job->whole = *chunk->whole;
	for (size_t i = 0; i < chunk->ncalls; i++) {
		struct tt_call *call = &job->calls[i];

		*call = chunk->calls[i];
		call->send = memory + (uintptr_t)call->send;
		call->recv = memory + (uintptr_t)call->recv;
		call->host_buffers = true; /* the thread calls nothing of CUDA's, which may keep
					    * others waiting for what it is to do */
		call->timeout_ns = timeout_ns;
		call->send_counts = copy_table(call->send_counts, chunk->comm->size, &room);
		call->recv_counts = copy_table(call->recv_counts, chunk->comm->size, &room);
		if (!chunk->whole)
			continue;
		call->told = &job->whole;
		call->detail = tt_op_header_signature(&job->whole);
	}
}

/* NULL: no memory. */
static struct tt_cuda_job *job_new(struct tt_cuda_op *op, const struct tt_cuda_chunk *chunk,
				   uint8_t *memory)
{
	/* messages, of which there are more than one, have none */
	const size_t tables = 2 * (size_t)chunk->comm->size * sizeof(size_t);
	struct tt_cuda_job *job =
		calloc(1, sizeof(*job) + chunk->ncalls * sizeof(job->calls[0]) + tables);

	if (!job)
		return NULL;
	job->comm = chunk->comm;
	job->ncalls = chunk->ncalls;
	job->recorded = op->captured;
	copy_calls(op, job, chunk, memory);
	scale_first(op->cuda, job, chunk);
	return job;
}

/* ---- to the host, and back */

static cuda_result copy_runs(struct tt_cuda_op *op, const struct tt_cuda_run *runs, size_t n,
			     uint8_t *memory, bool to_host)
{
	cuda_result error = 0;

	for (size_t i = 0; i < n && !error; i++) {
		const cuda_address gpu = runs[i].gpu, pinned = cuda_at(memory + runs[i].at);

		if (runs[i].bytes > 0)
			error = tt_cu.mem_copy(to_host ? pinned : gpu, to_host ? gpu : pinned,
					       runs[i].bytes, op->stream);
	}
	return error;
}

tutti_result_t tt_cuda_put_chunk(struct tt_cuda_op *op, const struct tt_cuda_chunk *chunk,
				 uint64_t *number)
{
	struct tt_cuda_proxy *proxy = op->cuda->proxy;
	struct tt_cuda_slot *slot = slot_of(op->cuda, tt_cuda_next_chunk(op->cuda));
	const cuda_result full =
		tt_cuda_make_room(op, (unsigned)(chunk->ninputs + chunk->nresults) + WORKS_FLAGS);

	if (full)
		return tt_cuda_check(full, "put a chunk on a stream");
	struct tt_cuda_job *job = job_new(op, chunk, slot->memory);
	/* what is there may be of an operation that ended half way */
	struct tt_cuda_run *results =
		realloc(slot->results, (chunk->nresults + 1) * sizeof(*results));

	if (results)
		slot->results = results;
	if (!job || !results || !tt_cuda_proxy_enlist(proxy, job)) {
		free(job);
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
			       "no memory for a chunk of a host-staged operation");
	}
	*number = proxy->numbers;
	slot->nresults = chunk->nresults;
	if (chunk->nresults)
		memcpy(results, chunk->results, chunk->nresults * sizeof(*results));
	cuda_result error = copy_runs(op, chunk->inputs, chunk->ninputs, slot->memory, true);
	if (!error)
		error = report_gone(op, *number);
	return tt_cuda_check(error, "bring input to the host");
}

tutti_result_t tt_cuda_fetch_chunk(struct tt_cuda_op *op, uint64_t number)
{
	struct tt_cuda_slot *slot = slot_of(op->cuda, number);
	cuda_result error = await_done(op, number);

	if (!error)
		error = copy_runs(op, slot->results, slot->nresults, slot->memory, false);
	return tt_cuda_check(error, "bring results to the GPU");
}

size_t tt_cuda_chunk_room(const struct tutti_comm *comm)
{
	return tt_cuda_aligned(
		2 * (TT_CUDA_CHUNK_BYTES + sizeof(uint64_t) * (size_t)comm->size + SLACK));
}
