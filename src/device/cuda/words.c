/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the words by which streams of processes that share a GPU wait for each other. */
#include "words.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "peer_access.h"

#define PAGE 4096

static_assert(sizeof(struct tt_cuda_words) <= PAGE, "words of a page");

/* What a stream waits for, in report.waiting: a number that is another one for each wait, the peer of
 * a message, and one of these or a sync. */
enum { AWAITS_SENT = 2, AWAITS_TAKEN, AWAITS_SYNC };
static_assert(AWAITS_SENT > TT_CUDA_AWAITS_NAMED, "kernels' waits are told apart");

/* ---- the pages */

tutti_result_t tt_cuda_words_make(struct tt_cuda *cuda, struct tt_cuda_offer *offer)
{
	const int own = cuda->comm->rank;
	const int fd = TT_FD(memfd_create("tutti-words", MFD_CLOEXEC));
	struct tt_cuda_words *page =
		fd >= 0 && ftruncate(fd, PAGE) == 0
			? mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
			: MAP_FAILED;

	if (page == MAP_FAILED) {
		const tutti_result_t result =
			tt_fail_errno(CUDA, "make a page of memory for the ranks of a host");

		tt_fd_close(fd);
		return result;
	}
	for (int rank = 0; rank < cuda->comm->size; rank++)
		page->posted[TT_CUDA_LAST][rank] = page->taken[rank] = 1;
	cuda->words[own] = page;
	cuda->words_fd = fd;
	offer->words = tt_process_file(fd);
	offer->pid = (int32_t)getpid();
	return TUTTI_OK;
}

static void *map_file(int fd)
{
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		return MAP_FAILED;
	errno = ESTALE;
	return info.st_size < PAGE ? MAP_FAILED
				   : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* By what the kernel shows of the rank's process. */
static tutti_result_t map_page(int rank, const struct tt_cuda_offer *offer,
			       struct tt_cuda_words **out)
{
	const int fd = tt_process_open(offer->pid, &offer->words);
	void *page = map_file(fd);

	tt_fd_close(fd);
	if (page == MAP_FAILED)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"/proc/%d/fd/%d cannot be mapped (%s), by which this rank would meet rank %d on the GPU that they share; containers need the same process namespace (docker run "
			"--pid=host)",
			(int)offer->pid, (int)offer->words.fd,
			tt_errno_text(errno, (char[TT_ERRNO_MAX]){ 0 }), rank);
	*out = page;
	return TUTTI_OK;
}

tutti_result_t tt_cuda_words_map(struct tt_cuda *cuda, const struct tt_cuda_offer *all)
{
	tutti_result_t result = TUTTI_OK;

	for (int rank = 0; rank < cuda->comm->size && !result; rank++) {
		if (rank != cuda->comm->rank)
			result = map_page(rank, &all[rank], &cuda->words[rank]);
		if (!result)
			result = tt_cuda_check(cuda->driver,
					       cuda->driver->mem_host_register(
						       cuda->words[rank], PAGE,
						       CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
					       "register a page of the host's memory");
		if (!result)
			cuda->words_registered = rank + 1;
	}
	return result;
}

void tt_cuda_words_settle(struct tt_cuda *cuda)
{
	if (cuda->meets)
		tt_cuda_words_free(cuda, true);
	else
		tt_fd_close(cuda->words_fd);
	cuda->words_fd = -1;
}

void tt_cuda_words_free(struct tt_cuda *cuda, bool frees)
{
	for (int rank = 0; rank < cuda->words_registered && frees; rank++)
		cuda->driver->mem_host_unregister(cuda->words[rank]);
	/* streams may still be at pages that are registered */
	for (int rank = 0; rank < TT_CUDA_RANKS; rank++)
		if (cuda->words[rank] && (frees || rank >= cuda->words_registered))
			munmap(cuda->words[rank], PAGE);
	for (int rank = 0; rank < TT_CUDA_RANKS; rank++)
		cuda->words[rank] = NULL;
	tt_fd_close(cuda->words_fd);
	cuda->words_fd = -1;
	cuda->words_registered = 0;
}

/* ---- on streams */

/* Several works, which are put on the stream as one. */
struct batch {
	union CUstreamBatchMemOpParams_union ops[2 + 2 * TT_CUDA_RANKS];
	unsigned n;
};

static void add_store(struct batch *batch, const uint32_t *word, uint32_t value)
{
	union CUstreamBatchMemOpParams_union *op = &batch->ops[batch->n++];

	*op = tt_cuda_write_flag(word, value);
	op->writeValue.operation = CUDA_MEM_OP_WRITE_32;
}

static void add_wait(struct batch *batch, const uint32_t *word)
{
	union CUstreamBatchMemOpParams_union *op = &batch->ops[batch->n++];

	*op = tt_cuda_wait_flag(word, 1, CUDA_WAIT_EQUAL);
	op->waitValue.operation = CUDA_MEM_OP_WAIT_32;
}

/* Whom the stream waits for, for the watchdog; 0: nobody any more. */
static void add_waiting(struct batch *batch, const struct tt_cuda_op *op, int what, int peer)
{
	struct tt_cuda *cuda = op->cuda;
	const uint64_t wait =
		what ? ++cuda->word_waits << 16 | (uint64_t)peer << 8 | (uint64_t)what : 0;

	batch->ops[batch->n++] = tt_cuda_write_flag(&cuda->report->waiting, wait);
}

static cuda_result put(struct tt_cuda_op *op, struct batch *batch)
{
	const cuda_result error = tt_cuda_make_room(op, 1);

	return error ? error
		     : op->cuda->driver->stream_mem_ops(op->stream, batch->n, batch->ops, 0);
}

/* The stream waits for n words, and the watchdog is told for whom. */
static cuda_result put_wait(struct tt_cuda_op *op, int what, int peer, const uint32_t *words, int n)
{
	struct batch batch = { .n = 0 };

	add_waiting(&batch, op, what, peer);
	for (int i = 0; i < n; i++)
		add_wait(&batch, &words[i]);
	add_waiting(&batch, op, 0, 0);
	return put(op, &batch);
}

static struct tt_cuda_words *own_words(const struct tt_cuda *cuda)
{
	return cuda->words[cuda->comm->rank];
}

/* A store is ordered behind what kernels before it have stored, also for others than this GPU. */
cuda_result tt_cuda_words_post(struct tt_cuda_op *op, int sync)
{
	const struct tt_cuda *cuda = op->cuda;
	struct batch batch = { .n = 0 };

	for (int rank = 0; rank < cuda->comm->size; rank++)
		add_store(&batch, &cuda->words[rank]->posted[sync][cuda->comm->rank], 1);
	return put(op, &batch);
}

cuda_result tt_cuda_words_await(struct tt_cuda_op *op, int sync, bool clears)
{
	uint32_t *posted = own_words(op->cuda)->posted[sync];
	const int size = op->cuda->comm->size;

	op->words = posted;
	op->nwords = clears ? (uint32_t)size : 0;
	return put_wait(op, AWAITS_SYNC + sync, 0, posted, size);
}

cuda_result tt_cuda_words_await_chunk(struct tt_cuda_op *op, int peer, bool sending)
{
	struct tt_cuda_words *own = own_words(op->cuda);

	op->words = sending ? &own->taken[peer] : &own->sent[peer];
	op->nwords = 1;
	return put_wait(op, sending ? AWAITS_TAKEN : AWAITS_SENT, peer, op->words, 1);
}

cuda_result tt_cuda_words_post_chunk(struct tt_cuda_op *op, int peer, bool sending)
{
	const struct tt_cuda_words *theirs = op->cuda->words[peer];
	const int own = op->cuda->comm->rank;
	struct batch batch = { .n = 0 };

	add_store(&batch, sending ? &theirs->sent[own] : &theirs->taken[own], 1);
	return put(op, &batch);
}

cuda_result tt_cuda_words_drain(struct tt_cuda_op *op)
{
	const struct tt_cuda_words *own = own_words(op->cuda);
	cuda_result error = 0;

	for (int rank = 0; rank < op->cuda->comm->size && !error; rank++)
		error = put_wait(op, AWAITS_TAKEN, rank, &own->taken[rank], 1);
	return error;
}

/* ---- the host's */

void tt_cuda_words_release(const struct tt_cuda *cuda)
{
	uint32_t *words = (uint32_t *)own_words(cuda);

	for (size_t i = 0; i < sizeof(struct tt_cuda_words) / sizeof(*words); i++)
		__atomic_store_n(&words[i], 1, __ATOMIC_RELEASE);
}

uint64_t tt_cuda_words_missing(const struct tt_cuda *cuda, uint64_t waiting)
{
	const int sync = (int)(waiting & 0xff) - AWAITS_SYNC;
	uint64_t missing = 0;

	if (sync < 0)
		return 1ull << (waiting >> 8 & 0xff);
	for (int rank = 0; rank < cuda->comm->size && sync < TT_CUDA_SYNCS; rank++)
		/* relaxed: whether it has come is all that is asked */
		missing |= __atomic_load_n(&own_words(cuda)->posted[sync][rank], __ATOMIC_RELAXED)
				   ? 0
				   : 1ull << rank;
	return missing;
}
