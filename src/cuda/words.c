/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what goes onto streams: waits for words of other ranks, and kernels, of which the last of a round gives word (kernels.h). */
#include <stddef.h>
#include <string.h>

#include "bound.h"
#include "module.h"

#define THREADS_FEW  128 /* of a block where there is little to do: fewer start sooner */
#define FEW_BYTES    2048
#define BLOCK_BYTES  (32u * 1024) /* that one block moves before more of them are worth it */
#define BLOCKS_EACH  4u		  /* at most on each multiprocessor */

/* ---- waits */

static union CUstreamBatchMemOpParams_union wait_for(const struct tt_cuda *cuda, cuda_address word, uint64_t value)
{
	union CUstreamBatchMemOpParams_union op = { .pad = { 0 } };

	op.waitValue.operation = CUDA_MEM_OP_WAIT_64;
	op.waitValue.address = word;
	op.waitValue.value64 = value;
	op.waitValue.flags = CUDA_WAIT_EQUAL | (cuda->flushes ? CUDA_WAIT_FLUSH : 0);
	return op;
}

static union CUstreamBatchMemOpParams_union say(uint64_t *word, uint64_t value)
{
	union CUstreamBatchMemOpParams_union op = { .pad = { 0 } };

	op.writeValue.operation = CUDA_MEM_OP_WRITE_64;
	op.writeValue.address = (cuda_address)(uintptr_t)word;
	op.writeValue.value64 = value;
	return op;
}

/* Whom the stream waits for, for the watch. */
static union CUstreamBatchMemOpParams_union say_waiting(const struct tt_cuda *cuda, uint64_t waiting)
{
	return say(&cuda->report->waiting, waiting);
}

cuda_result tt_cuda_say_crossed(struct tt_cuda_op *op, bool crossed)
{
	union CUstreamBatchMemOpParams_union word = say(&op->cuda->report->crossed, crossed);

	return op->cuda->driver->stream_mem_ops(op->stream, 1, &word, 0);
}

cuda_result tt_cuda_await_sync(struct tt_cuda_op *op, int sync)
{
	union CUstreamBatchMemOpParams_union ops[1 + TT_CUDA_RANKS / TT_CUDA_WORD];
	const struct tt_cuda *cuda = op->cuda;
	const cuda_address posted = (cuda_address)(uintptr_t)tt_cuda_control_of(cuda, cuda->comm->rank)->posted[sync];
	unsigned n = 0;

	if (sync == TT_CUDA_LAST) /* of the others the kernel before says it */
		ops[n++] = say_waiting(cuda, TT_CUDA_AWAITS_LAST);
	for (int rank = 0; rank < cuda->comm->size; rank += TT_CUDA_WORD) {
		uint64_t all = 0;

		for (int i = 0; i < TT_CUDA_WORD && rank + i < cuda->comm->size; i++)
			all |= 1ull << 8 * i;
		ops[n++] = wait_for(cuda, posted + (cuda_address)rank, all);
	}
	return cuda->driver->stream_mem_ops(op->stream, n, ops, 0);
}

cuda_result tt_cuda_await_word(struct tt_cuda_op *op, size_t offset, uint64_t waiting)
{
	const struct tt_cuda *cuda = op->cuda;
	union CUstreamBatchMemOpParams_union ops[2] = { say_waiting(cuda, waiting), wait_for(cuda, cuda->peer[cuda->comm->rank].memory + offset, 1) };

	return cuda->driver->stream_mem_ops(op->stream, 2, ops, 0);
}

cuda_result tt_cuda_await_end(struct tt_cuda_op *op)
{
	union CUstreamBatchMemOpParams_union nobody = say_waiting(op->cuda, TT_CUDA_AWAITS_NOBODY);
	const cuda_result error = tt_cuda_await_sync(op, TT_CUDA_LAST);

	return error ? error : op->cuda->driver->stream_mem_ops(op->stream, 1, &nobody, 0);
}

/* ---- kernels */

static unsigned blocks_for(const struct tt_cuda *cuda, uint64_t bytes, unsigned jobs)
{
	const uint64_t wanted = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
	const uint64_t most = (uint64_t)cuda->multiprocessors * BLOCKS_EACH / jobs;

	if (wanted <= 1 || most <= 1)
		return 1;
	return (unsigned)(wanted < most ? wanted : most);
}

static cuda_result launch(struct tt_cuda_op *op, struct tt_cuda_sync *sync)
{
	const struct tt_cuda *cuda = op->cuda;
	const unsigned jobs = op->function == cuda->module->copy && op->part.nsrc > 1 ? op->part.nsrc : 1;
	const unsigned threads = op->work <= FEW_BYTES ? THREADS_FEW : TT_CUDA_THREADS;
	void *parameters[] = { &op->part, sync };

	sync->place = (const struct tt_cuda_place *)(uintptr_t)(cuda->peer[cuda->comm->rank].memory + cuda->parts.place);
	sync->signature = op->signature;
	memcpy(sync->card, &op->card, sizeof(op->card));
	const cuda_result error = cuda->driver->launch(op->function, blocks_for(cuda, op->work, jobs), jobs, 1, threads, 1, 1, 0, op->stream, parameters, NULL);

	op->pending = false;
	op->work = 0;
	op->part.nsrc = op->part.ndst = 0;
	return error;
}

/* Launch what is pending, as another kernel has to come after it in the same round. */
static cuda_result flush(struct tt_cuda_op *op)
{
	struct tt_cuda_sync silent = { .kind = TT_CUDA_SILENT, .clear = -1, .post = -1, .check = op->checks };

	return op->pending ? launch(op, &silent) : 0;
}

static bool overlap(cuda_address a, size_t a_bytes, const void *b, uint64_t b_bytes)
{
	const cuda_address other = (cuda_address)(uintptr_t)b;

	return a < other + b_bytes && other < a + a_bytes;
}

/* Can the copy be a job beside those that are pending? */
static bool joins(const struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes)
{
	const struct tt_cuda_part *part = &op->part;

	if (op->function != op->cuda->module->copy || part->nsrc == TT_CUDA_RANKS)
		return false;
	for (uint32_t i = 0; i < part->nsrc; i++)
		if (overlap(dst, bytes, part->dst[i], part->bytes[i]) || overlap(dst, bytes, part->src[i], part->bytes[i]) ||
		    overlap(src, bytes, part->dst[i], part->bytes[i]))
			return false;
	return true;
}

cuda_result tt_cuda_copy(struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes)
{
	struct tt_cuda_part *part = &op->part;

	if (bytes == 0 || dst == src)
		return 0;
	if (op->cuda->relay) /* there are no kernels */
		return op->cuda->driver->mem_copy(dst, src, bytes, op->stream);
	if (op->pending && !joins(op, dst, src, bytes)) {
		const cuda_result error = flush(op);

		if (error)
			return error;
	}
	op->pending = true;
	op->function = op->cuda->module->copy;
	part->dst[part->nsrc] = (void *)(uintptr_t)dst;
	part->src[part->nsrc] = (const void *)(uintptr_t)src;
	part->bytes[part->nsrc++] = bytes;
	if (bytes > op->work)
		op->work = bytes;
	return 0;
}

cuda_result tt_cuda_combine(struct tt_cuda_op *op, struct CUfunc_st *function, const struct tt_cuda_part *part)
{
	const cuda_result error = flush(op);

	if (error || part->bytes[0] == 0)
		return error;
	op->pending = true;
	op->function = function;
	op->part = *part;
	op->work = part->bytes[0];
	return 0;
}

cuda_result tt_cuda_give_word(struct tt_cuda_op *op, struct tt_cuda_sync sync)
{
	if (!op->pending)
		op->function = op->cuda->module->copy; /* of nothing */
	return launch(op, &sync);
}

cuda_result tt_cuda_end_round(struct tt_cuda_op *op, int round, int rounds)
{
	const bool first = round == 0, last = round == rounds - 1;
	const struct tt_cuda_sync sync = { .kind = TT_CUDA_COLLECTIVE,
					   .clear = first ? TT_CUDA_LAST : round - 1,
					   .post = last ? TT_CUDA_LAST : round,
					   .check = op->checks,
					   .introduces = first };
	const cuda_result error = tt_cuda_give_word(op, sync);

	op->checks = true; /* what peers gave with word of the first round */
	return error || last ? error : tt_cuda_await_sync(op, round);
}
