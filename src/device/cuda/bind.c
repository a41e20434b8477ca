/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a communicator has on its GPU, from tutti_cuda_bind() to the end. */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "failure.h"
#include "group.h"
#include "hierarchy.h"
#include "log.h"
#include "machine.h"
#include "parts.h"
#include "peer_access.h"
#include "proxy.h"

#define DRAIN_MS 1
#define CONNECTIONS                                                                                \
	8 /* between a process and a GPU, where CUDA_DEVICE_MAX_CONNECTIONS does not say */
#define RELEASED_NS 2000000000 /* enough for streams that were let go on to end */

/* ---- this rank's part */

static tutti_result_t choose_device(struct tt_cuda *cuda, int number)
{
	int count = 0;
	cuda_device current;
	cuda_result error = tt_cu.device_get_count(&count);

	if (!error && number == -1)
		number = tt_cu.context_get_device(&current) == 0 ? (int)current
								 : 0; /* as CUDA's runtime has it */
	if (!error && (number < 0 || number >= count))
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_bind: device %d, expected -1 or 0 to %d", number,
			       count - 1);
	if (!error)
		error = tt_cu.device_get(&cuda->device, number);
	cuda->number = number;
	return tt_cuda_check(error, "find the GPU");
}

static tutti_result_t take_memory(struct tt_cuda *cuda)
{
	/* the process's own: at its end the driver may go before the watchdog's thread does; shared, so
	 * that after fork() it is still what the GPU looks at */
	void *report = mmap(NULL, sizeof(*cuda->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (report == MAP_FAILED)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for reports of kernels");
	const cuda_result error = tt_cu.mem_host_register(report, sizeof(*cuda->report),
							  CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
	if (error) {
		munmap(report, sizeof(*cuda->report));
		return tt_cuda_check(error, "register a page of the host's memory");
	}
	cuda->report = report;
	return tt_cuda_take_held(cuda, cuda->bytes, &cuda->peer[cuda->comm->rank].memory);
}

/* Numbers of operations of an earlier communicator may lie there. */
static tutti_result_t clear_memory(struct tt_cuda *cuda)
{
	cuda_result error = tt_cu.mem_set(cuda->peer[cuda->comm->rank].memory, 0,
					  offsetof(struct tt_cuda_shared, stage), cuda->setup);

	if (!error)
		error = tt_cu.stream_synchronize(cuda->setup);
	return tt_cuda_check(error, "write to memory of the GPU");
}

static tutti_result_t make_streams(struct tt_cuda *cuda)
{
	cuda_result error = tt_cu.stream_create(&cuda->setup, CUDA_STREAM_NON_BLOCKING);

	if (!error)
		error = tt_cu.event_create(&cuda->last, CUDA_EVENT_NO_TIMING);
	return tt_cuda_check(error, "make a stream and an event");
}

/* What either way needs. The context is entered as soon as it is there. */
static tutti_result_t prepare(struct tt_cuda *cuda, struct tt_cuda_entered *entered)
{
	tutti_result_t result = tt_cuda_check(tt_cu.primary_retain(&cuda->context, cuda->device),
					      "take the GPU's primary context");

	if (!result && tt_cuda_enter(cuda->context, entered))
		result = tt_fail(TUTTI_ERR_SYSTEM, CUDA, "the context of GPU %d cannot be entered",
				 cuda->number);
	return result ? result : make_streams(cuda);
}

static tutti_result_t prepare_memory(struct tt_cuda *cuda, struct tt_cuda_offer *offer)
{
	tutti_result_t result = tt_cuda_module_load(&cuda->module);

	offer->exchange = (uint32_t)cuda->comm->settings.exchange_bytes;
	if (!result)
		result = take_memory(cuda);
	if (!result)
		result = tt_cuda_try_report(cuda);
	if (!result)
		result = clear_memory(cuda);
	return result ? result
		      : tt_cuda_offer(cuda, cuda->peer[cuda->comm->rank].memory, cuda->bytes,
				      offer);
}

/* ---- together */

/* Where this rank finds everybody, for its kernels. */
static tutti_result_t write_place(struct tt_cuda *cuda)
{
	const struct tutti_comm *comm = cuda->comm;
	struct tt_cuda_place place = { { NULL }, { NULL }, { NULL } };

	for (int rank = 0; rank < comm->size; rank++) {
		struct tt_cuda_shared *shared = tt_cuda_shared_of(cuda, rank);

		place.control[rank] = &shared->control;
		place.lines[rank] = shared->lines;
		place.rooms[rank] = shared->rooms[0];
	}
	return tt_cuda_check(tt_cuda_copy_now(cuda,
					      cuda_at(&tt_cuda_shared_of(cuda, comm->rank)->place),
					      cuda_at(&place), sizeof(place)),
			     "write to memory of the GPU");
}

/* All blocks of kernels that wait for each other have to run at once, one on each multiprocessor. Two
 * grids that filled an H200 to the last one did not: ranks that share a GPU leave half of it. */
static unsigned most_blocks(const struct tt_cuda *cuda, const struct tt_cuda_offer *all)
{
	const int ranks = tt_cuda_ranks_on_gpu(cuda->comm, all, cuda->comm->rank),
		  wanted = cuda->comm->settings.cuda_blocks,
		  room = tt_cuda_attribute(CUDA_MULTIPROCESSORS, cuda->device) /
			 (ranks > 1 ? 2 * ranks : 1);

	return (unsigned)(wanted < room ? wanted : room ? room : 1);
}

/* With one peer, in whole lines: the same on all ranks. */
static uint32_t most_exchanged(const struct tutti_comm *comm, const struct tt_cuda_offer *all)
{
	size_t least = TT_CUDA_LINES_BYTES / sizeof(struct tt_cuda_line) / 2 * TT_LINE_DATA;

	for (int rank = 0; rank < comm->size; rank++)
		least = all[rank].exchange < least ? all[rank].exchange : least;
	return (uint32_t)(least / (size_t)comm->size / TT_LINE_DATA * TT_LINE_DATA);
}

/* All that the ranks offer; and how fast the next one's is. */
static tutti_result_t access_peers(struct tt_cuda *cuda, struct tt_cuda_offer *all)
{
	const int own = cuda->comm->rank;
	tutti_result_t result = TUTTI_OK;

	cuda->one_process = true;
	for (int rank = 0; rank < cuda->comm->size; rank++)
		cuda->one_process &= all[rank].process == all[own].process;
	cuda->one_gpu =
		cuda->one_process && tt_cuda_ranks_on_gpu(cuda->comm, all, own) == cuda->comm->size;
	cuda->blocks = most_blocks(cuda, all);
	cuda->line_bytes = most_exchanged(cuda->comm, all);
	for (int rank = 0; rank < cuda->comm->size && !result; rank++) {
		if (rank == own)
			continue;
		result = tt_cuda_peer_access(cuda, rank, &all[rank], &cuda->peer[rank]);
		cuda->peer[rank].elsewhere = !tt_cuda_same_gpu(&all[rank], &all[own]);
	}
	if (!result)
		result = write_place(cuda);
	return result ? result
		      : tt_cuda_check(tt_cuda_measure_link(cuda, &all[own].byte_seconds),
				      "copy from another rank's GPU");
}

static void unreach_peers(struct tt_cuda *cuda)
{
	for (int rank = 0; rank < cuda->comm->size && rank < TT_CUDA_RANKS; rank++)
		if (rank != cuda->comm->rank)
			tt_cuda_unreach(cuda, &cuda->peer[rank]);
}

static void free_memory(struct tt_cuda *cuda)
{
	cuda_address *own = &cuda->peer[cuda->comm->rank % TT_CUDA_RANKS].memory;

	if (*own)
		tt_cuda_let_go(*own);
	if (cuda->report) {
		tt_cu.mem_host_unregister(cuda->report);
		munmap(cuda->report, sizeof(*cuda->report));
	}
	*own = 0;
	cuda->report = NULL;
	tt_cuda_module_unload(&cuda->module);
}

/* The communicator's context is current. Nothing of it is in use. */
static void free_all(struct tt_cuda *cuda)
{
	unreach_peers(cuda);
	free_memory(cuda);
	if (cuda->last)
		tt_cu.event_destroy(cuda->last);
	if (cuda->setup)
		tt_cu.stream_destroy(cuda->setup);
}

void tt_cuda_free(struct tt_cuda *cuda, bool unused)
{
	struct tt_cuda_entered entered = { false };

	if (!cuda)
		return;
	const bool frees = unused && cuda->context && tt_cuda_enter(cuda->context, &entered) == 0;

	tt_cuda_proxy_stop(cuda);
	tt_cuda_watchdog_end(cuda);
	tt_cuda_proxy_end(cuda, frees);
	tt_cuda_hierarchy_end(cuda, frees);
	tt_cuda_windows_free(cuda, frees);
	if (frees)
		free_all(cuda);
	tt_cuda_leave(&entered);
	if (frees)
		tt_cu.primary_release(cuda->device);
	pthread_mutex_destroy(&cuda->order);
	free(cuda);
}

/* The ranks' GPUs reach each other. All ranks take all exchanges, whatever fails. */
static tutti_result_t bind_by_peer_access(struct tt_cuda *cuda, struct tt_cuda_offer *all)
{
	double slowest = 0; /* by which all ranks choose how to do something */
	tutti_result_t result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND,
						 prepare_memory(cuda, &all[cuda->comm->rank]), all);

	if (!result)
		result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND, access_peers(cuda, all),
					  all);
	for (int rank = 0; rank < cuda->comm->size; rank++)
		slowest = all[rank].byte_seconds > slowest ? all[rank].byte_seconds : slowest;
	if (!result)
		cuda->comm->device_byte_s = slowest;
	return result;
}

static void describe_way(const struct tt_cuda *cuda, const struct tt_cuda_cliques *cliques)
{
	const char *where = cuda->hierarchy ? " between cliques of GPUs" : "";

	if (cuda->comm->rank > 0)
		return;
	if (*cliques->why)
		tt_log(WARN, CUDA, "collectives on streams go through the host's memory%s: %s",
		       where, cliques->why);
	else
		tt_log(INFO, CUDA,
		       "the GPUs of %d ranks form %d peer-to-peer cliques (within which they access each other directly); collectives on streams go through the host's memory%s",
		       cuda->comm->size, cliques->count, where);
}

static tutti_result_t bind_by_proxy(struct tt_cuda *cuda, const struct tt_cuda_cliques *cliques,
				    struct tt_cuda_offer *all)
{
	const tutti_result_t result =
		tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND, tt_cuda_proxy_begin(cuda), all);

	if (result || cliques->count == 0)
		return result;
	if (tt_cuda_hierarchy_begin(cuda, cliques, all) && cuda->comm->rank == 0)
		tt_log(WARN, CUDA,
		       "the GPUs of a clique do not work together, and collectives on streams go through the host's memory altogether: %s",
		       tt_thread_error());
	return tutti_comm_error(cuda->comm, NULL);
}

static bool leaves_the_host(tutti_result_t result)
{
	return result == TUTTI_ERR_UNSUPPORTED || result == TUTTI_ERR_SYSTEM;
}

/* They should reach each other, but do not: the same on all. */
static tutti_result_t give_up_peer_access(struct tt_cuda *cuda, struct tt_cuda_cliques *cliques)
{
	cliques->count = 0;
	tt_failure_text(cliques->why, sizeof(cliques->why), tt_thread_error(),
			strlen(tt_thread_error()));
	unreach_peers(cuda);
	const tutti_result_t result = tt_part_barrier(
		cuda->comm, TT_PART_CUDA_BIND); /* nobody frees what another one has mapped */
	free_memory(cuda);
	return result;
}

/* Processes that share a GPU take turns on it, each for some time: one whose kernels waited would
 * wait until the end of its own. By MPS they run side by side. The same on all ranks. */
static bool take_turns(const struct tt_cuda *cuda, const struct tt_cuda_offer *all,
		       struct tt_cuda_cliques *cliques)
{
	for (int rank = 0; rank < cuda->comm->size; rank++)
		for (int other = 0; other < rank; other++) {
			if (!tt_cuda_same_gpu(&all[rank], &all[other]) ||
			    all[rank].process == all[other].process ||
			    (all[rank].mps && all[other].mps))
				continue;
			snprintf(
				cliques->why, sizeof(cliques->why),
				"ranks %d and %d are processes that share a GPU, and so take turns on it: NVIDIA's MPS lets them run side by side, as threads do "
				"(docs/reference/gpu.md)",
				other, rank);
			return true;
		}
	return false;
}

/* All ranks have what they need for themselves. */
static tutti_result_t bind_together(struct tt_cuda *cuda, struct tt_cuda_offer *all)
{
	struct tt_cuda_cliques cliques = { .count = 0 };
	tutti_result_t result = TUTTI_OK;

	if (!take_turns(cuda, all, &cliques))
		result = tt_cuda_find_cliques(cuda, all, &cliques);
	if (!result && cliques.count == 1)
		result = bind_by_peer_access(cuda, all);
	if (leaves_the_host(result))
		result = give_up_peer_access(cuda, &cliques);
	if (!result && cliques.count != 1) {
		result = bind_by_proxy(cuda, &cliques, all);
		if (!result)
			describe_way(cuda, &cliques);
	}
	free(cliques.of);
	return result;
}

/* Threads that share a GPU: what waits on one's stream may stand in front of what another one is
 * to do, if all their streams have fewer connections to the GPU than that. */
static void check_connections(const struct tt_cuda *cuda, const struct tt_cuda_offer *all)
{
	const struct tt_cuda_offer *mine = &all[cuda->comm->rank];
	const char *set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	const int connections = set ? atoi(set) : CONNECTIONS;
	/* a rank's at least: the program's, and the library's, which has another one for a clique */
	const int streams = cuda->hierarchy ? 3 : 2;
	int threads = 0, first = -1;

	for (int rank = 0; rank < cuda->comm->size; rank++) {
		if (all[rank].process != mine->process || all[rank].number != mine->number)
			continue;
		first = first < 0 ? rank : first;
		threads++;
	}
	if (first == cuda->comm->rank && threads > 1 && connections < threads * streams)
		tt_log(WARN, CUDA,
		       "%d ranks are threads that share GPU %d by %d connections, and their streams may wait behind each other for ever: set CUDA_DEVICE_MAX_CONNECTIONS=32 "
		       "before the process starts CUDA (docs/reference/gpu.md)",
		       threads, cuda->number, connections);
}

/* `result`: what failed on this rank before. */
static tutti_result_t bind_all(struct tt_cuda *cuda, tutti_result_t result)
{
	const size_t size = (size_t)cuda->comm->size;
	const bool clique =
		cuda->owner != cuda->comm; /* whose GPUs are known to reach each other */
	struct tt_cuda_offer *all = calloc(size, sizeof(*all));
	struct tt_cuda_entered entered = { false };

	if (!all)
		return tt_comm_fail(cuda->comm,
				    tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
					    "tutti_cuda_bind: no memory for %zu ranks", size));
	if (!result)
		result = tt_cuda_name_place(cuda, &all[cuda->comm->rank]);
	if (!result)
		result = prepare(cuda, &entered);
	result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND, result, all);
	if (!result)
		result = clique ? bind_by_peer_access(cuda, all) : bind_together(cuda, all);
	if (!result && !clique)
		result = tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND,
					  tt_cuda_watchdog_begin(cuda), all);
	if (!result && !clique)
		check_connections(cuda, all);
	tt_cuda_leave(&entered);
	free(all);
	return result;
}

static struct tt_cuda *cuda_new(struct tutti_comm *comm)
{
	struct tt_cuda *cuda = calloc(1, sizeof(*cuda));

	if (!cuda)
		return NULL;
	cuda->comm = cuda->owner = comm;
	for (int rank = 0; rank < TT_CUDA_RANKS; rank++)
		cuda->named[rank] = rank;
	pthread_mutex_init(&cuda->order, NULL);
	cuda->bytes = cuda_whole_blocks(sizeof(struct tt_cuda_shared) +
					(size_t)comm->size * TT_CUDA_ROOM_BYTES);
	return cuda;
}

tutti_result_t tt_cuda_bind_clique(struct tutti_comm *comm, const struct tt_cuda *whole,
				   const int *named, struct tt_cuda **out)
{
	struct tt_cuda *cuda = cuda_new(comm);

	if (!cuda)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA,
						  "no memory for the GPU of a clique"));
	cuda->owner = whole->comm;
	memcpy(cuda->named, named, (size_t)comm->size * sizeof(*named));
	cuda->device = whole->device;
	cuda->number = whole->number;
	const tutti_result_t result = bind_all(cuda, TUTTI_OK);
	if (result)
		tt_cuda_free(cuda, true);
	else
		*out = cuda;
	return result;
}

TUTTI_API tutti_result_t tutti_cuda_bind(tutti_comm_t comm, int device)
{
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_cuda_bind");

	if (refused)
		return refused;
	if (comm->cuda)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "tutti_cuda_bind: the communicator is bound to GPU %d already",
			       comm->cuda->number);
	struct tt_cuda *cuda = cuda_new(comm);
	if (!cuda)
		return tt_comm_fail(
			comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "tutti_cuda_bind: no memory"));
	tutti_result_t result = tt_cuda_driver();
	if (!result)
		result = choose_device(cuda, device);
	if (result != TUTTI_ERR_INVALID)
		result = bind_all(cuda, result);
	if (result) {
		tt_cuda_free(cuda, true);
		return result;
	}
	tt_log(INFO, CUDA, "rank %d: bound to GPU %d", comm->rank, cuda->number);
	tt_comm_lock(comm);
	comm->cuda = cuda;
	pthread_mutex_unlock(&comm->lock);
	return TUTTI_OK;
}

TUTTI_API int tutti_cuda_bound(tutti_comm_t comm)
{
	return tt_comm_usable(comm) && comm->cuda ? comm->cuda->number : -1;
}

/* ---- the end */

/* Until all that is before it on the setup stream has ended; false: not in so long. */
static bool finish_setup(const struct tt_cuda *cuda, uint64_t patience_ns)
{
	uint64_t deadline = tt_now() + patience_ns;
	cuda_result error;

	while ((error = tt_cu.stream_query(cuda->setup)) == CUDA_NOT_READY && tt_now() < deadline) {
		const uint64_t asleep = tt_now();

		poll(NULL, 0, DRAIN_MS);
		deadline += tt_uncounted(asleep, tt_now(), TT_LOOK_NS);
	}
	return error == 0;
}

/* The setup stream waits until all that this rank put on streams has ended, and peers have read
 * what it left for them. False: that did not come by the deadline, or the communicator has
 * failed, and somebody may still be at the memory. */
static bool drain(struct tt_cuda *cuda)
{
	struct tutti_comm *comm = cuda->comm;
	struct tt_cuda_op op = { .cuda = tt_cuda_who_waits(cuda), .stream = cuda->setup };
	struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT, .rank = comm->rank };
	cuda_result error = tt_cu.stream_wait_event(cuda->setup, cuda->last, 0);

	tt_cuda_watchdog_putting(cuda, false, true); /* who is lost now is noticed */
	if (!error && op.cuda)
		error = tt_cuda_await_end(&op, true);
	const uint64_t patience = cuda->longest_ns > comm->settings.timeout_ns
					  ? cuda->longest_ns
					  : comm->settings.timeout_ns;
	/* the watchdog gives up before */
	const bool ended = !error && finish_setup(cuda, 2 * patience);
	tt_comm_lock(comm);
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d destroyed the communicator with operations on streams that did not end",
		 comm->rank);
	if (!ended)
		tt_comm_revoke(comm, &fault);
	const bool healthy = !comm->fault.result;
	pthread_mutex_unlock(&comm->lock);
	if (!healthy) /* until the watchdog has let it go on */
		finish_setup(cuda, RELEASED_NS);
	return healthy;
}

void tt_cuda_unbind(struct tutti_comm *comm)
{
	struct tt_cuda *cuda = comm->cuda;
	struct tt_cuda_entered entered;

	if (!cuda)
		return;
	const bool drained = tt_cuda_enter(cuda->context, &entered) == 0 && drain(cuda);
	tt_cuda_leave(&entered);
	if (!drained)
		tt_log(INFO, CUDA,
		       "rank %d: %zu bytes on GPU %d are kept until the process ends, because other ranks may still use them",
		       comm->rank, cuda->bytes, cuda->number);
	comm->cuda = NULL;
	tt_cuda_free(cuda, drained);
}
