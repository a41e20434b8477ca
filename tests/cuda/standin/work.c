/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what streams do: copies, stores, and waits for words; module.c gives them kernels, and
 * event.c records. */
#include "standin.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define YIELDS 16 /* before a wait sleeps between looks */

static unsigned copies[DEVICES_MAX][DEVICES_MAX]; /* from one GPU's memory to another's, or its
						   * own */

struct work *work_new(enum work_kind kind)
{
	struct work *const work = calloc(1, sizeof(*work));

	if (!work)
		abort();
	work->kind = kind;
	return work;
}

struct work *work_of_record(enum work_kind kind, struct record *record)
{
	struct work *const work = work_new(kind);

	work->record = record_keep(record);
	return work;
}

void work_free(struct work *work)
{
	if (work->kind == WORK_COPY)
		free(work->copy.staged);
	if (work->kind == WORK_RECORD || work->kind == WORK_WAIT)
		record_drop(work->record);
	free(work);
}

void work_list_add(struct work_list *list, struct work *work)
{
	if (list->last)
		list->last->next = work;
	else
		list->first = work;
	list->last = work;
	list->count += !work->follows;
}

struct work *work_list_take(struct work_list *list)
{
	struct work *const work = list->first;

	list->first = work->next;
	if (!list->first)
		list->last = NULL;
	work->next = NULL;
	list->count -= !work->follows;
	return work;
}

void work_list_free(struct work_list *list)
{
	while (list->first)
		work_free(work_list_take(list));
}

/* A wait may be for another process, so nothing wakes it: the word is looked at, in the end less
 * and less often. Many streams that look often would leave no core to those whom they wait for. */
static void pause_for(unsigned tries)
{
	const unsigned sleeps = tries < YIELDS ? 0 : (tries - YIELDS) / 4;
	const struct timespec some = { .tv_nsec = 50000l << (sleeps < 6 ? sleeps : 6) };

	if (tries < YIELDS)
		sched_yield();
	else
		nanosleep(&some, NULL);
}

bool work_is_wait(unsigned operation)
{
	return operation == CUDA_MEM_OP_WAIT_64;
}

/* A wait in a context that breaks has an end. */
static void do_mem_op(const union CUstreamBatchMemOpParams_union *op,
		      const struct CUctx_st *context)
{
	uint64_t *const word =
		(uint64_t *)(uintptr_t)op->waitValue.address; /* of writeValue, too */
	const uint64_t value = op->waitValue.value64;

	if (!work_is_wait(op->operation)) {
		__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
		return;
	}
	for (unsigned tries = 0; (int64_t)(__atomic_load_n(word, __ATOMIC_SEQ_CST) - value) < 0 &&
				 !__atomic_load_n(&context->broken, __ATOMIC_RELAXED);)
		pause_for(tries++);
}

static void find_program(struct tt_cuda_program *program)
{
	for (uint32_t phase = 0; phase < program->phases; phase++) {
		struct tt_cuda_part *const part = &program->part[phase];

		for (int i = 0; i < TT_CUDA_RANKS; i++) {
			part->piece[i].src = memory_real(part->piece[i].src);
			part->piece[i].dst = memory_real(part->piece[i].dst);
		}
	}
}

static void find_post(struct tt_cuda_post *post)
{
	for (uint32_t i = 0; i < post->letters; i++)
		post->letter[i].buffer = memory_real(post->letter[i].buffer);
}

/* Both begin with who executes them. */
static void find_of_library(const struct standin_kernel *kernel, void *arguments,
			    struct tt_cuda_place *place)
{
	struct tt_cuda_sync *const sync = arguments;

	if (kernel->library == STANDIN_POST)
		find_post(arguments);
	else
		find_program(arguments);
	sync->own = memory_real(sync->own);
	sync->report = memory_real(sync->report);
	if (!sync->place)
		return;
	*place = *(const struct tt_cuda_place *)memory_real(sync->place);
	sync->place = place;
	for (int i = 0; i < TT_CUDA_RANKS; i++) {
		place->control[i] = memory_real(place->control[i]);
		place->lines[i] = memory_real(place->lines[i]);
		place->rooms[i] = memory_real(place->rooms[i]);
	}
}

static void find_kernel(struct work *work)
{
	const struct standin_kernel *kernel = &work->launch.kernel;
	char *const arguments = work->launch.arguments;
	size_t at = 0;

	if (kernel->library != STANDIN_NO_LIBRARY) {
		find_of_library(kernel, arguments, &work->launch.place);
		return;
	}
	for (unsigned i = 0; i < kernel->count; i++) {
		if (kernel->pointer[i]) {
			void **const pointer = (void *)(arguments + at);

			*pointer = memory_real(*pointer);
		}
		at = standin_argument_end(at, kernel->bytes[i]);
	}
}

static void count_copy(const void *dst, const void *src)
{
	const struct memory *const to = memory_at(ADDRESS_OF(dst)), *const from = memory_at(
									    ADDRESS_OF(src));
	const int first = standin_first();

	if (to && from && !memory_is_of_host(to) && !memory_is_of_host(from))
		copies[first + to->device][first + from->device]++;
}

/* For tests: how many this process's streams have made, of GPUs as the machine numbers them. */
API unsigned standin_copies(int to, int from)
{
	const cuda_result error = standin_enter(__func__);
	const unsigned n = copies[to][from];

	standin_leave(error);
	return n;
}

/* Addresses as the stream finds them. */
void work_find(struct work *work)
{
	switch (work->kind) {
	case WORK_COPY:
		count_copy(work->copy.dst, work->copy.src);
		work->copy.dst = memory_real(work->copy.dst);
		work->copy.src = memory_real(work->copy.src);
		break;
	case WORK_SET: work->set.dst = memory_real(work->set.dst); break;
	case WORK_MEM_OP:
		work->op.waitValue.address =
			ADDRESS_OF(memory_real((void *)(uintptr_t)work->op.waitValue.address));
		break;
	case WORK_KERNEL: find_kernel(work); break;
	case WORK_HOST:
	case WORK_RECORD:
	case WORK_WAIT: break;
	}
}

/* The first byte that the last phase writes which writes any; of what is longer than one byte the
 * second, which of a short float is more than its rounding. */
static unsigned char *written(const struct tt_cuda_program *program)
{
	for (uint32_t phase = program->phases; phase > 0; phase--) {
		const struct tt_cuda_part *const part = &program->part[phase - 1];
		const bool exchanged = part->kind == TT_CUDA_EXCHANGE;

		for (int r = 0; r < TT_CUDA_RANKS; r++) {
			const uint64_t bytes = exchanged		    ? part->piece[r].in
					       : part->kind == TT_CUDA_COPY ? part->piece[r].bytes
									    : part->piece[0].bytes;
			unsigned char *const dst = part->piece[r].dst;
			const bool own = (uintptr_t)dst >> TT_CUDA_OWNER_BIT == 0;

			if (part->kind != TT_CUDA_NOTHING && bytes > 0 && dst && own)
				return dst + (bytes > 1);
		}
	}
	return NULL;
}

/* An addition, as what a second kernel spoils must not be right again. */
static void do_kernel(const struct work *work)
{
	const struct tt_cuda_program *const program = (const void *)work->launch.arguments;
	unsigned char *const spoilt = work->launch.spoils ? written(program) : NULL;

	standin_kernel_run(&work->launch.kernel, work->launch.grid, work->launch.block,
			   work->launch.arguments);
	if (spoilt)
		++*spoilt;
}

void work_do(struct work *work, const struct CUctx_st *context)
{
	switch (work->kind) {
	case WORK_COPY: memmove(work->copy.dst, work->copy.src, work->copy.bytes); break;
	case WORK_SET: memset(work->set.dst, work->set.byte, work->set.bytes); break;
	case WORK_MEM_OP: do_mem_op(&work->op, context); break;
	case WORK_KERNEL: do_kernel(work); break;
	case WORK_HOST: work->host.function(work->host.data); break;
	case WORK_RECORD:
	case WORK_WAIT: break;
	}
}

/* Memory that only the host knows: its copies are the caller's again, or complete, when the call
 * returns. */
static bool pageable(const void *pointer)
{
	return !memory_at(ADDRESS_OF(pointer));
}

static bool in_one(cuda_address address, size_t bytes)
{
	const struct memory *const memory = memory_at(address);

	return !memory || memory_holds(memory, address, bytes);
}

static bool is_garbled(const struct CUctx_st *context, const void *src)
{
	const struct memory *const memory =
		getenv("STANDIN_GARBLES") ? memory_at((cuda_address)(uintptr_t)src) : NULL;

	return memory && (memory->kind == MEMORY_DEVICE || memory->kind == MEMORY_OPENED) &&
	       memory->device != context->device;
}

CALL_AFTER(stream_usable_here(handle), cuMemcpyAsync, (dst_address, src_address, bytes, handle),
	   cuda_address dst_address, cuda_address src_address, size_t bytes,
	   struct CUstream_st *handle)
{
	void *const dst = (void *)(uintptr_t)dst_address;
	const void *const src = (const void *)(uintptr_t)src_address;
	struct CUstream_st *const stream = stream_of(handle);

	if (!bytes)
		return 0;
	if (!dst || !src || !in_one(dst_address, bytes) || !in_one(src_address, bytes))
		return CUDA_INVALID_VALUE;
	const struct CUctx_st *const context = stream->made.context;
	const bool waits = pageable(dst) && !stream->capture, garbled = is_garbled(context, src);
	struct work *const work = work_new(WORK_COPY);

	work->copy.dst = dst;
	work->copy.src = src;
	work->copy.bytes = bytes;
	if (garbled || (pageable(src) && !stream->capture)) {
		work->copy.staged = malloc(bytes);
		if (!work->copy.staged)
			abort();
		work->copy.src = garbled ? memset(work->copy.staged, 0xa5, bytes)
					 : memcpy(work->copy.staged, src, bytes);
	}
	const cuda_result error = stream_append(stream, work);
	if (error || !waits)
		return error;
	stream_drain(context, stream);
	return context->broken;
}

CALL_AFTER(stream_usable_here(handle), cuMemsetD8Async, (dst, byte, bytes, handle),
	   cuda_address dst, unsigned char byte, size_t bytes, struct CUstream_st *handle)
{
	if (!bytes)
		return 0;
	if (!memory_at(dst) || !in_one(dst, bytes))
		return CUDA_INVALID_VALUE;
	struct work *const work = work_new(WORK_SET);

	work->set.dst = (void *)(uintptr_t)dst;
	work->set.byte = byte;
	work->set.bytes = bytes;
	return stream_append(stream_of(handle), work);
}

/* A function of the host, which may call nothing of CUDA's. */
CALL_AFTER(function ? stream_usable(handle) : CUDA_INVALID_VALUE, cuLaunchHostFunc,
	   (handle, function, data), struct CUstream_st *handle, void (*function)(void *),
	   void *data)
{
	struct work *const work = work_new(WORK_HOST);

	work->host.function = function;
	work->host.data = data;
	return stream_append(stream_of(handle), work);
}

static bool is_mem_op(const union CUstreamBatchMemOpParams_union *op)
{
	const cuda_address word = op->waitValue.address;

	if (!work_is_wait(op->operation) && op->operation != CUDA_MEM_OP_WRITE_64)
		return false;
	if (word % 8 || !memory_at(word) || !in_one(word, 8))
		return false;
	return op->waitValue.flags == CUDA_WAIT_AT_LEAST;
}

CALL_AFTER(stream_usable_here(handle), cuStreamBatchMemOp_v2, (handle, n, ops, flags),
	   struct CUstream_st *handle, unsigned n, union CUstreamBatchMemOpParams_union *ops,
	   unsigned flags)
{
	cuda_result error = 0;

	if (!n || n > 255 || !ops || flags)
		return CUDA_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if (!is_mem_op(&ops[i]))
			return CUDA_INVALID_VALUE;
	for (unsigned i = 0; i < n && !error; i++) {
		struct work *const work = work_new(WORK_MEM_OP);

		work->op = ops[i];
		work->follows = i > 0;
		error = stream_append(stream_of(handle), work);
	}
	return error;
}
