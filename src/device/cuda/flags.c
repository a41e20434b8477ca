/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what goes onto streams: waits for flags of other ranks, kernels, of which the last of a
 * round gives a signal (kernels.h), and copies by engines between two GPUs. */
#include <stddef.h>
#include <string.h>

#include "bound.h"
#include "log.h"
#include "module.h"

#define THREADS_FEW  128 /* of a block where there is little to do: fewer start sooner */
#define FEW_BYTES    2048
#define BLOCK_BYTES  (32u * 1024) /* that one block moves before more of them are worth it */
#define WORKS_LAUNCH 4u		  /* a kernel and what comes with it: waits, events */
#define BLOCKS_EACH  4u		  /* at most on each multiprocessor */

/* ---- waits */

static union CUstreamBatchMemOpParams_union wait_for(const struct tt_cuda *cuda, cuda_address flag,
						     uint64_t value)
{
	return tt_cuda_wait_flag(flag, value,
				 CUDA_WAIT_EQUAL | (cuda->flushes ? CUDA_WAIT_FLUSH : 0));
}

static union CUstreamBatchMemOpParams_union say(uint64_t *flag, uint64_t value)
{
	return tt_cuda_write_flag((cuda_address)(uintptr_t)flag, value);
}

/* Whom the stream waits for, for the watchdog. */
static union CUstreamBatchMemOpParams_union format_waiting(const struct tt_cuda *cuda,
							   uint64_t waiting)
{
	return say(&cuda->report->waiting, waiting);
}

tutti_result_t tt_cuda_try_report(const struct tt_cuda *cuda)
{
	union CUstreamBatchMemOpParams_union flag = say(&cuda->report->ended, 1);
	cuda_result error = cuda->driver->stream_mem_ops(cuda->setup, 1, &flag, 0);

	if (!error)
		error = cuda->driver->stream_synchronize(cuda->setup);
	if (error)
		return tt_cuda_fail(cuda->driver, "write to pinned memory by a stream", error);
	if (!__atomic_exchange_n(&cuda->report->ended, 0, __ATOMIC_ACQUIRE))
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"the host does not see what streams of GPU %d write to pinned memory (confidential computing?)",
			cuda->number);
	return TUTTI_OK;
}

static cuda_result say_one(struct tt_cuda_op *op, uint64_t *flag, uint64_t value)
{
	union CUstreamBatchMemOpParams_union one = say(flag, value);

	return op->cuda->driver->stream_mem_ops(op->stream, 1, &one, 0);
}

cuda_result tt_cuda_report_crossed(struct tt_cuda_op *op, bool crossed)
{
	return say_one(op, &op->cuda->report->crossed, crossed);
}

cuda_result tt_cuda_report_timeout(struct tt_cuda_op *op, uint64_t timeout_ns)
{
	return say_one(op, &op->cuda->report->timeout, timeout_ns);
}

cuda_result tt_cuda_report_passed(struct tt_cuda_op *op, uint64_t works)
{
	return say_one(op, &op->cuda->report->passed, works);
}

cuda_result tt_cuda_await_sync(struct tt_cuda_op *op, int sync)
{
	union CUstreamBatchMemOpParams_union ops[1 + TT_CUDA_RANKS / TT_CUDA_FLAG];
	const struct tt_cuda *cuda = op->cuda;
	const cuda_address posted =
		(cuda_address)(uintptr_t)tt_cuda_control_of(cuda, cuda->comm->rank)->posted[sync];
	unsigned n = 0;

	if (sync == TT_CUDA_LAST) /* of the others the kernel before says it */
		ops[n++] = format_waiting(cuda, TT_CUDA_AWAITS_LAST);
	for (int rank = 0; rank < cuda->comm->size; rank += TT_CUDA_FLAG) {
		uint64_t all = 0;

		for (int i = 0; i < TT_CUDA_FLAG && rank + i < cuda->comm->size; i++)
			all |= 1ull << 8 * i;
		ops[n++] = wait_for(cuda, posted + (cuda_address)rank, all);
	}
	return cuda->driver->stream_mem_ops(op->stream, n, ops, 0);
}

cuda_result tt_cuda_await_flag(struct tt_cuda_op *op, size_t offset, uint64_t waiting)
{
	const struct tt_cuda *cuda = op->cuda;
	union CUstreamBatchMemOpParams_union ops[2] = {
		format_waiting(cuda, waiting),
		wait_for(cuda, cuda->peer[cuda->comm->rank].memory + offset, 1)
	};

	return cuda->driver->stream_mem_ops(op->stream, 2, ops, 0);
}

cuda_result tt_cuda_await_end(struct tt_cuda_op *op)
{
	const cuda_result error = tt_cuda_await_sync(op, TT_CUDA_LAST);

	return error ? error : say_one(op, &op->cuda->report->waiting, TT_CUDA_AWAITS_NOBODY);
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

/* Does the kernel add to report.ended (kernels.cu)? */
static bool reports_end(const struct tt_cuda_sync *sync)
{
	return sync->kind == TT_CUDA_SEND || sync->kind == TT_CUDA_RECV ||
	       (sync->kind == TT_CUDA_COLLECTIVE && sync->clear >= 0 &&
		sync->clear != TT_CUDA_LAST);
}

static cuda_result launch(struct tt_cuda_op *op, struct tt_cuda_sync *sync)
{
	const struct tt_cuda *cuda = op->cuda;
	const unsigned jobs =
		op->function == cuda->module->copy && op->part.nsrc > 1 ? op->part.nsrc : 1;
	const unsigned threads = op->work <= FEW_BYTES ? THREADS_FEW : TT_CUDA_THREADS;
	void *parameters[] = { &op->part, sync };

	sync->place =
		(const struct tt_cuda_place *)(uintptr_t)(cuda->peer[cuda->comm->rank].memory +
							  cuda->parts.place);
	sync->signature = op->signature;
	memcpy(sync->header, &op->header, sizeof(op->header));
	cuda_result error = tt_cuda_make_room(op, WORKS_LAUNCH);

	if (!error)
		error = cuda->driver->launch(op->function, blocks_for(cuda, op->work, jobs), jobs,
					     1, threads, 1, 1, 0, op->stream, parameters, NULL);

	op->cuda->waits += reports_end(sync);
	op->pending = false;
	op->work = 0;
	op->part.nsrc = op->part.ndst = 0;
	return error;
}

/* Launch what is pending, as another kernel has to come after it in the same round. */
static cuda_result flush(struct tt_cuda_op *op)
{
	struct tt_cuda_sync silent = {
		.kind = TT_CUDA_SILENT, .clear = -1, .post = -1, .check = op->checks
	};

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
		if (overlap(dst, bytes, part->dst[i], part->bytes[i]) ||
		    overlap(dst, bytes, part->src[i], part->bytes[i]) ||
		    overlap(src, bytes, part->dst[i], part->bytes[i]))
			return false;
	return true;
}

cuda_result tt_cuda_copy(struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes)
{
	struct tt_cuda_part *part = &op->part;

	if (bytes == 0 || dst == src)
		return 0;
	if (op->cuda->proxy) /* there are no kernels */
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

/* On this one a copy between two GPUs waits for all that the process gave to either before, as
 * CUDA's programming guide says: for other ranks' waits, too. */
static bool is_legacy(const struct CUstream_st *stream)
{
	return (uintptr_t)stream <= 1; /* NULL and CU_STREAM_LEGACY */
}

/* Between two GPUs many bytes go by a copy engine, and the multiprocessors are the program's. The
 * copies of a round come one after the other, and behind them the kernel that gives a signal: it
 * begins when they have ended, so its fence comes after all that they have read and written. What
 * is pending and touches none of it may be done by that kernel.
 *
 * Kernels move nothing where peers called something else, or the communicator has ended; an
 * engine does. That harms nobody. It reads of the peer's stage or room what this rank's own call
 * has there, and these are as long on all ranks; it writes this rank's result, which is
 * undefined then. And the memory is there: a rank frees it after the last signal of all
 * operations that it took part in, and so after what was read for them, and keeps it after a
 * fault; what a killed process had is mapped here still, on which kernels that are running at
 * that moment count as well. (Whose peer has left in good order without the operation finds its
 * control gone, too.) Windows are the program's to free after a fault: between them all goes by
 * kernels. */
cuda_result tt_cuda_copy_from(struct tt_cuda_op *op, int from, cuda_address dst, cuda_address src,
			      size_t bytes)
{
	const struct tt_cuda *cuda = op->cuda;
	const size_t least = cuda->comm->settings.engine_bytes;

	if (!cuda->peer[from].elsewhere || least == 0 || bytes < least || is_legacy(op->stream))
		return tt_cuda_copy(op, dst, src, bytes);
	cuda_result error = op->pending && !joins(op, dst, src, bytes) ? flush(op) : 0;

	if (!error)
		error = tt_cuda_make_room(op, 1);
	return error ? error : cuda->driver->mem_copy(dst, src, bytes, op->stream);
}

cuda_result tt_cuda_combine(struct tt_cuda_op *op, struct CUfunc_st *function,
			    const struct tt_cuda_part *part)
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

cuda_result tt_cuda_signal(struct tt_cuda_op *op, struct tt_cuda_sync sync)
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
	const cuda_result error = tt_cuda_signal(op, sync);

	op->checks = true; /* what peers gave with the signal of the first round */
	return error || last ? error : tt_cuda_await_sync(op, round);
}
