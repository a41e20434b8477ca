/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what goes onto streams: kernels with their programs (kernels.h), copies by engines between two
 * GPUs, and what the watchdog is told. A round of a schedule is a phase of a program. */
#include <stddef.h>
#include <string.h>

#include "bound.h"
#include "log.h"

#define THREADS_FEW  128 /* of a block where there is little to do: fewer start sooner */
#define FEW_BYTES    2048
#define BLOCK_BYTES  (32u * 1024) /* that one block moves before more of them are worth it */
#define WORKS_LAUNCH 4u		  /* a kernel and what comes with it: waits, events */

/* ---- what the watchdog is told */

cuda_result tt_cuda_report(const struct tt_cuda_op *op, uint64_t *reported, uint64_t value)
{
	union CUstreamBatchMemOpParams_union one = tt_cuda_write_flag(reported, value);

	return tt_cu.stream_mem_ops(op->stream, 1, &one, 0);
}

tutti_result_t tt_cuda_try_report(struct tt_cuda *cuda)
{
	const struct tt_cuda_op op = { .cuda = cuda, .stream = cuda->setup };
	cuda_result error = tt_cuda_report(&op, &cuda->report->ended, 1);

	if (!error)
		error = tt_cu.stream_synchronize(cuda->setup);
	if (error)
		return tt_cuda_check(error, "write to pinned memory by a stream");
	if (!__atomic_exchange_n(&cuda->report->ended, 0, __ATOMIC_ACQUIRE))
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"the host does not see what streams of GPU %d write to pinned memory (confidential computing?)",
			cuda->number);
	return TUTTI_OK;
}

/* ---- kernels */

/* The phase that is being filled. */
static struct tt_cuda_part *phase_of(struct tt_cuda_op *op)
{
	return &op->program.part[op->program.phases];
}

static unsigned blocks_for(const struct tt_cuda *cuda, uint64_t bytes)
{
	const uint64_t wanted = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;

	return wanted <= 1 ? 1 : wanted < cuda->blocks ? (unsigned)wanted : cuda->blocks;
}

static void empty(struct tt_cuda_part *part)
{
	part->kind = TT_CUDA_NOTHING;
	part->nsrc = part->ndst = part->divisor = 0;
	part->awaits = part->checks = part->introduces = part->arrives = 0;
}

/* The next one is to be filled. */
static void end_phase(struct tt_cuda_op *op)
{
	if (++op->program.phases < TT_CUDA_PHASES)
		empty(phase_of(op));
}

/* Who executes it; `ends`: an operation. Of captured ones the host is not told: it does not know how often
 * they are launched, and a kernel's end waits for what was stored there. */
static struct tt_cuda_sync sync_of(const struct tt_cuda_op *op, bool ends)
{
	const struct tt_cuda *cuda = op->cuda;
	struct tt_cuda_shared *shared = tt_cuda_shared_of(cuda, cuda->comm->rank);
	struct tt_cuda_sync sync = {
		.own = &shared->control,
		.report = cuda->report,
		.place = &shared->place,
		.rank = (uint32_t)cuda->comm->rank,
		.ranks = (uint32_t)cuda->comm->size,
		.line_bytes = cuda->line_bytes,
		.calls = op->calls,
		.check = op->checks,
		.ends = ends && !op->captured,
		.looks = op->direct && !op->follows, /* between what the program may free then */
		.tells = op->tells && !op->follows,
		.maybe = op->maybe && !op->follows,
		.follows = op->follows,
		.told = { op->at[0], op->at[1] },
		.signature = op->signature,
	};

	memcpy(sync.header, &op->header, sizeof(op->header));
	return sync;
}

/* `sync`: where what the kernel is given begins. */
static cuda_result launch_kernel(struct tt_cuda_op *op, struct CUfunc_st *function, uint64_t work,
				 struct tt_cuda_sync *sync, bool ends)
{
	const struct tt_cuda *cuda = op->cuda;
	const unsigned threads = work <= FEW_BYTES ? THREADS_FEW : TT_CUDA_THREADS;
	void *parameters[] = { sync };
	const cuda_result error = tt_cuda_make_room(op, WORKS_LAUNCH);

	*sync = sync_of(op, ends);
	op->cuda->waits += sync->ends;
	return error ? error
		     : tt_cu.launch(function, blocks_for(cuda, work), 1, 1, threads, 1, 1, 0,
				    op->stream, parameters, NULL);
}

/* All phases that are there. */
static cuda_result launch(struct tt_cuda_op *op, bool ends)
{
	struct CUfunc_st *function = op->function ? op->function : op->cuda->module.copy;

	const cuda_result error = launch_kernel(op, function, op->work, &op->program.sync, ends);

	op->calls = false;
	op->function = NULL;
	op->work = 0;
	op->program.phases = 0;
	empty(phase_of(op));
	return error;
}

cuda_result tt_cuda_flush(struct tt_cuda_op *op)
{
	if (phase_of(op)->kind || phase_of(op)->awaits || phase_of(op)->checks)
		end_phase(op);
	return op->program.phases ? launch(op, false) : 0;
}

cuda_result tt_cuda_launch_post(struct tt_cuda_op *op, struct tt_cuda_post *post)
{
	uint64_t work = 0;

	for (uint32_t i = 0; i < post->letters; i++) /* at least a block for each */
		work += post->letter[i].bytes < BLOCK_BYTES ? BLOCK_BYTES : post->letter[i].bytes;
	return launch_kernel(op, op->cuda->module.messages, work, &post->sync, true);
}

static bool overlap(cuda_address a, size_t a_bytes, const void *b, uint64_t b_bytes)
{
	const cuda_address other = cuda_at(b);

	return a < other + b_bytes && other < a + a_bytes;
}

/* Can the copy be a job of the phase that is being filled? */
static bool joins(struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes)
{
	const struct tt_cuda_part *part = phase_of(op);

	if ((part->kind && part->kind != TT_CUDA_COPY) || part->nsrc == TT_CUDA_RANKS)
		return false;
	for (uint32_t i = 0; i < part->nsrc; i++)
		if (overlap(dst, bytes, part->piece[i].dst, part->piece[i].bytes) ||
		    overlap(dst, bytes, part->piece[i].src, part->piece[i].bytes) ||
		    overlap(src, bytes, part->piece[i].dst, part->piece[i].bytes))
			return false;
	return true;
}

static void add_work(struct tt_cuda_op *op, uint64_t bytes)
{
	op->work = bytes > op->work ? bytes : op->work;
}

cuda_result tt_cuda_copy(struct tt_cuda_op *op, cuda_address dst, cuda_address src, size_t bytes)
{
	if (bytes == 0 || dst == src)
		return 0;
	if (op->cuda->proxy) /* there are no kernels */
		return tt_cu.mem_copy(dst, src, bytes, op->stream);
	const cuda_result error = joins(op, dst, src, bytes) ? 0 : tt_cuda_flush(op);
	if (error)
		return error;
	struct tt_cuda_part *part = phase_of(op);
	part->kind = TT_CUDA_COPY;
	part->piece[part->nsrc].dst = cuda_pointer(dst);
	part->piece[part->nsrc].src = cuda_pointer(src);
	part->piece[part->nsrc++].bytes = bytes;
	uint64_t all = 0;
	for (uint32_t i = 0; i < part->nsrc; i++)
		all += part->piece[i].bytes;
	add_work(op, all);
	return 0;
}

/* On this one a copy between two GPUs waits for all that the process gave to either before, as
 * CUDA's programming guide says: for other ranks' waits, too. */
static bool is_legacy(const struct CUstream_st *stream)
{
	return (uintptr_t)stream <= 1; /* NULL and CU_STREAM_LEGACY */
}

/* Between two GPUs many bytes go by a copy engine, and the multiprocessors are the program's. The
 * copies of a round come one after the other, behind a kernel that waits for the ranks, if such a
 * wait is due, and before the kernel that gives a signal: it begins when they have ended, so its
 * fence comes after all that they have read and written. What is pending and touches none of it may
 * be done by that kernel.
 *
 * Kernels move nothing where peers called something else, or after the communicator has ended if they
 * wait; an engine does. That harms nobody. It reads of the peer's stage or room what this rank's own call
 * has there, and these are as long on all ranks; it writes this rank's result, which is
 * undefined then. And the memory is there: a rank frees it after the last signal of all
 * operations that it took part in, and so after what was read for them, and keeps it after a
 * fault; what a killed process had is mapped here still, on which kernels that are running at
 * that moment count as well. (Whose peer has left in good order without the operation finds its
 * control gone, too.) Windows are the program's to free after a fault: between them all goes by
 * kernels. So does what may have nothing to do, which an engine does not see. */
cuda_result tt_cuda_copy_from(struct tt_cuda_op *op, int from, cuda_address dst, cuda_address src,
			      size_t bytes)
{
	const struct tt_cuda *cuda = op->cuda;
	const size_t least = cuda->comm->settings.engine_bytes;

	if (!cuda->peer[from].elsewhere || least == 0 || bytes < least || is_legacy(op->stream) ||
	    op->follows)
		return tt_cuda_copy(op, dst, src, bytes);
	const bool waits = op->program.phases > 0 || phase_of(op)->awaits;
	cuda_result error = waits || !joins(op, dst, src, bytes) ? tt_cuda_flush(op) : 0;

	if (!error)
		error = tt_cuda_make_room(op, 1);
	return error ? error : tt_cu.mem_copy(dst, src, bytes, op->stream);
}

cuda_result tt_cuda_add_part(struct tt_cuda_op *op, struct CUfunc_st *function,
			     const struct tt_cuda_part *part)
{
	if (part->piece[0].bytes == 0)
		return 0;
	const bool differs = function && op->function && op->function != function;
	const cuda_result error = phase_of(op)->kind || differs ? tt_cuda_flush(op) : 0;
	if (error)
		return error;
	struct tt_cuda_part *phase = phase_of(op);
	const uint32_t awaits = phase->awaits, checks = phase->checks;

	*phase = *part;
	phase->awaits = awaits;
	phase->checks = checks;
	op->function = function ? function : op->function;
	add_work(op, part->piece[0].bytes);
	return 0;
}

cuda_result tt_cuda_exchange_lines(struct tt_cuda_op *op, struct CUfunc_st *function,
				   const struct tt_cuda_part *part, uint64_t bytes)
{
	*phase_of(op) = *part;
	op->function = function;
	op->work = 8 * bytes; /* as many threads as can be, up to one for each line: they wait */
	op->calls = true;
	end_phase(op);
	return launch(op, true);
}

/* ---- meetings */

void tt_cuda_begin_rounds(struct tt_cuda_op *op)
{
	op->checks = op->follows;
	phase_of(op)->awaits = TT_CUDA_ALL;
}

cuda_result tt_cuda_end_round(struct tt_cuda_op *op, int round, int rounds)
{
	const bool first = round == 0, last = round == rounds - 1;

	phase_of(op)->introduces = first && !op->follows;
	phase_of(op)->arrives = 1;
	op->calls |= first && !op->follows;
	end_phase(op);
	const cuda_result error =
		!last && op->program.phases < TT_CUDA_PHASES ? 0 : launch(op, last);
	op->checks = true; /* what peers told with the first round */
	if (error || last)
		return error;
	phase_of(op)->checks = first;
	phase_of(op)->awaits = TT_CUDA_ALL;
	return 0;
}

cuda_result tt_cuda_await_end(struct tt_cuda_op *op, bool drains)
{
	phase_of(op)->awaits = op->direct ? TT_CUDA_ALL_AT_LAST : TT_CUDA_ALL;
	phase_of(op)->kind = drains ? TT_CUDA_DRAIN : TT_CUDA_NOTHING;
	end_phase(op);
	return launch(op, !drains && !op->maybe);
}
