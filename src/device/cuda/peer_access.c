/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how ranks reach each other's memory: ranks that are threads of one process have the same
 * addresses, other processes open CUDA's IPC handles. */
#include "peer_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "failure.h"
#include "machine.h"
#include "parts.h"
#include "segments.h"

/* The same in all threads of a process, and nowhere else. */
static struct {
	pthread_mutex_t lock;
	uint64_t number;
	struct tt_owner owner;
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

static tutti_result_t number_of_process(uint64_t *out)
{
	pthread_mutex_lock(&process.lock);
	if (!process.number || !tt_owned_here(&process.owner)) {
		process.owner = tt_owner_here();
		if (getrandom(&process.number, sizeof(process.number), 0) != sizeof(process.number))
			process.number = 0;
	}
	*out = process.number;
	pthread_mutex_unlock(&process.lock);
	return *out ? TUTTI_OK : tt_fail_errno(CUDA, "ask the kernel for random bytes");
}

/* ---- memory that ranks of one process have together */

/* A rank may leave while others go on with operations, by mistake: these are to end with an
 * error, and not by a kernel that stores where nothing is any more. Other processes have the
 * memory by a mapping of their own; in the same one whoever leaves last frees it. */
struct held {
	struct held *next;
	cuda_address memory;
	cuda_device device;
	struct CUctx_st *context; /* the primary one, retained as long */
	unsigned holders;
};

static struct {
	pthread_mutex_t lock;
	struct held *first;
} memories = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Lock held. The link to it, or to the end. */
static struct held **find_held(cuda_address memory)
{
	struct held **link = &memories.first;

	while (*link && (*link)->memory != memory)
		link = &(*link)->next;
	return link;
}

tutti_result_t tt_cuda_take_held(const struct tt_cuda *cuda, size_t bytes, cuda_address *memory)
{
	struct held *held = calloc(1, sizeof(*held));
	struct CUctx_st *context;
	cuda_result error =
		held ? tt_cu.primary_retain(&context, cuda->device) : CUDA_OUT_OF_MEMORY;
	const bool retained = !error;

	if (!error)
		error = tt_cu.mem_alloc(memory, bytes);
	if (error) {
		if (retained)
			tt_cu.primary_release(cuda->device);
		free(held);
		tt_cuda_check(error, "take %zu bytes of memory of GPU %d", bytes, cuda->number);
		return error == CUDA_OUT_OF_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM;
	}
	pthread_mutex_lock(&memories.lock);
	*held = (struct held){ memories.first, *memory, cuda->device, context, 1 };
	memories.first = held;
	pthread_mutex_unlock(&memories.lock);
	return TUTTI_OK;
}

/* False: it is no such memory. */
static bool hold(cuda_address memory)
{
	pthread_mutex_lock(&memories.lock);
	struct held *held = *find_held(memory);
	if (held)
		held->holders++;
	pthread_mutex_unlock(&memories.lock);
	return held != NULL;
}

static void free_held(struct held *held)
{
	struct tt_cuda_entered entered;

	if (tt_cuda_enter(held->context, &entered) == 0)
		tt_cu.mem_free(held->memory);
	tt_cuda_leave(&entered);
	tt_cu.primary_release(held->device);
	free(held);
}

void tt_cuda_let_go(cuda_address memory)
{
	pthread_mutex_lock(&memories.lock);
	struct held **link = find_held(memory), *held = *link;
	const bool last = held && --held->holders == 0;
	if (last)
		*link = held->next;
	pthread_mutex_unlock(&memories.lock);
	if (last)
		free_held(held);
}

/* ---- reaching */

bool tt_cuda_same_gpu(const struct tt_cuda_offer *a, const struct tt_cuda_offer *b)
{
	return memcmp(a->gpu, b->gpu, sizeof(a->gpu)) == 0;
}

int tt_cuda_ranks_on_gpu(const struct tutti_comm *comm, const struct tt_cuda_offer *all, int of)
{
	int ranks = 0;

	for (int rank = 0; rank < comm->size; rank++)
		ranks += tt_cuda_same_gpu(&all[rank], &all[of]);
	return ranks;
}

tutti_result_t tt_cuda_name_place(const struct tt_cuda *cuda, struct tt_cuda_offer *offer)
{
	const cuda_result error =
		tt_cu.device_get_uuid((struct CUuuid_st *)offer->gpu, cuda->device);

	if (error)
		return tt_cuda_check(error, "ask which GPU this is");
	offer->number = cuda->number;
	offer->mps = tt_cuda_attribute(CUDA_MPS, cuda->device) == 1;
	return number_of_process(&offer->process);
}

tutti_result_t tt_cuda_offer(const struct tt_cuda *cuda, cuda_address memory, size_t bytes,
			     struct tt_cuda_offer *offer)
{
	cuda_address base;
	size_t length;
	const tutti_result_t result = tt_cuda_name_place(cuda, offer);

	if (result)
		return result;
	cuda_result error = tt_cu.mem_get_range(&base, &length, memory);
	if (error)
		return tt_cuda_check(error, "find the allocation that memory of the GPU is in");
	offer->memory = memory;
	offer->bytes = bytes;
	offer->offset = memory - base;
	/* whoever needs it says so */
	offer->no_handle = tt_cu.ipc_get(&offer->handle, base);
	const tutti_result_t mapped = offer->no_handle
					      ? tt_cuda_offer_segments(cuda, memory, bytes, offer)
					      : TUTTI_ERR_UNSUPPORTED;
	if (mapped != TUTTI_ERR_UNSUPPORTED)
		return mapped;
	if (bytes > length - (memory - base))
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "%zu bytes at %#llx of GPU %d, but its allocation ends after %zu",
			       bytes, memory, cuda->number, (size_t)(length - (memory - base)));
	return TUTTI_OK;
}

static tutti_result_t fail_there(const struct tt_cuda_offer *offer, int rank)
{
	char before[32];

	snprintf(before, sizeof(before), "rank %d: ", rank);
	return tt_fail_reported(CUDA, before, offer->result, offer->text, sizeof(offer->text));
}

tutti_result_t tt_cuda_exchange(struct tutti_comm *comm, enum tt_part part, tutti_result_t result,
				struct tt_cuda_offer *all)
{
	struct tt_cuda_offer *mine = &all[comm->rank];

	mine->result = result;
	if (result)
		tt_failure_text(mine->text, sizeof(mine->text), tt_thread_error(),
				strlen(tt_thread_error()));
	const tutti_result_t met = tt_part_all_gather(comm, part, mine, all, sizeof(*mine));
	if (met)
		return met;
	for (int rank = 0; rank < comm->size; rank++)
		if (all[rank].result && all[rank].result != TUTTI_ERR_PEER_LOST)
			return fail_there(&all[rank], rank);
	/* it comes of another one's failure, if any has come so far as to tell its own */
	for (int rank = 0; rank < comm->size; rank++)
		if (all[rank].result)
			return fail_there(&all[rank], rank);
	return TUTTI_OK;
}

/* Another GPU of the same process: its memory is at the same address, once this GPU may use it. */
static tutti_result_t enable_peer(const struct tt_cuda *cuda, int number)
{
	struct CUctx_st *context;
	cuda_device device;
	int can = 0;
	cuda_result error = tt_cu.device_get(&device, number);

	if (!error)
		error = tt_cu.device_can_access_peer(&can, cuda->device, device);
	if (!error && !can)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"GPU %d cannot reach the memory of GPU %d directly (no peer access, see tutti-info)",
			cuda->number, number);
	if (!error)
		error = tt_cu.primary_retain(&context, device);
	if (error)
		return tt_cuda_check(error, "query a peer's GPU");
	error = tt_cu.context_enable_peer(context, 0);
	tt_cu.primary_release(device); /* its own rank keeps it */
	if (error && error != CUDA_PEER_ACCESS_ALREADY_ENABLED)
		return tt_cuda_check(error, "enable access to a peer's GPU");
	return TUTTI_OK;
}

tutti_result_t tt_cuda_peer_access(const struct tt_cuda *cuda, int rank,
				   const struct tt_cuda_offer *offer, struct tt_cuda_peer *peer)
{
	uint64_t here;
	tutti_result_t result = number_of_process(&here);

	if (result)
		return result;
	if (offer->process == here) {
		result =
			offer->number == cuda->number ? TUTTI_OK : enable_peer(cuda, offer->number);
		peer->memory = result ? 0 : offer->memory;
		peer->held = !result && hold(offer->memory);
		return result;
	}
	if (offer->no_handle)
		return tt_cuda_check(
			offer->no_handle,
			"make a handle by which other processes reach GPU memory of rank %d (CUDA IPC; memory of cudaMalloc() has one; that of cuMemMap() needs none "
			"if it was made with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; that of cudaMallocAsync() has none)",
			rank);
	const cuda_result error =
		tt_cu.ipc_open(&peer->opened, offer->handle, CUDA_IPC_LAZY_PEER_ACCESS);
	if (error) {
		peer->opened = 0;
		return tt_cuda_check(
			error,
			"reach the GPU memory of rank %d (CUDA IPC; it needs peer access between the GPUs, and of containers the same IPC and process namespaces: "
			"docker run --ipc=host --pid=host)",
			rank);
	}
	peer->memory = peer->opened + offer->offset;
	return TUTTI_OK;
}

void tt_cuda_unreach(const struct tt_cuda *cuda, struct tt_cuda_peer *peer)
{
	tt_cuda_unmap(cuda, &peer->mapping);
	if (peer->opened)
		tt_cu.ipc_close(peer->opened);
	if (peer->held)
		tt_cuda_let_go(peer->memory);
	*peer = (struct tt_cuda_peer){ 0 };
}

/* ---- how fast

 * A rank reads the memory of others on the same GPU, by NVLink or by PCIe, between which there is a
 * factor of ten each. The tuner has to know. It is measured, as each process sees its own GPUs alone and
 * cannot ask the driver what joins them. Only the order of magnitude counts, so that the same machine
 * gives the same plans, and all ranks take the slowest. */

#define TRIED_BYTES    ((size_t)4 << 20)
#define COPIES	       4       /* of which the fastest counts: the first may map what it reads */
#define SAME_GPU       0.5e-12 /* seconds for a byte: 2 TB/s, … */
#define NVLINK	       5e-12   /* … 200 GB/s, … */
#define PCIE	       50e-12  /* … and 20 GB/s */
#define NVLINK_SLOWEST 16e-12  /* 67 µs for a copy and its start: what takes longer is PCIe */

cuda_result tt_cuda_measure_link(const struct tt_cuda *cuda, double *byte_seconds)
{
	const int size = cuda->comm->size, own = cuda->comm->rank;
	uint64_t fastest = UINT64_MAX;
	int next = 1; /* rank on another GPU */

	*byte_seconds = SAME_GPU;
	while (next < size && !cuda->peer[(own + next) % size].elsewhere)
		next++;
	if (next == size)
		return 0;
	/* from the second half of a stage to the first half of this rank's: peers do so, too */
	const cuda_address src = tt_cuda_stage_of(cuda, (own + next) % size) +
				 TT_CUDA_STAGE_BYTES / 2,
			   dst = tt_cuda_stage_of(cuda, own);
	for (int i = 0; i < COPIES; i++) {
		const uint64_t begun = tt_now();
		const cuda_result error = tt_cuda_copy_now(cuda, dst, src, TRIED_BYTES);
		const uint64_t ns = tt_now() - begun;

		if (error)
			return error;
		fastest = ns < fastest ? ns : fastest;
	}
	const double seconds = (double)fastest * 1e-9 / (double)TRIED_BYTES;
	*byte_seconds = seconds < NVLINK_SLOWEST ? NVLINK : PCIE;
	return 0;
}
