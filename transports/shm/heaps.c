/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what ranks map of each other's tutti_mem_alloc(). A rank tells in the arena under which
 * number its process has its heap open, and the others open it there, by /proc/PID/fd, when they
 * first need it: nobody holds a descriptor for each rank. They make sure that it is the file that
 * the rank told of.
 *
 * The kernel allows that as it allows to trace a process (ptrace(2), PTRACE_MODE_READ). Whether it
 * does is tried while the ranks join; where one may not, no rank exports any memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "endpoint.h"
#include "fork.h"
#include "log.h"
#include "memory.h"
#include "process.h"
#include "shm.h"

/* -1 with errno: it cannot be opened. */
static int open_heap(const struct shm_endpoint *ep, int place)
{
	return tt_process_open(ep->peers[ep->local_peers[place].rank].pid,
			       &shm_member(&ep->arena, place)->heap);
}

void shm_heap_tell(struct shm_endpoint *ep)
{
	shm_member(&ep->arena, ep->me)->heap = tt_process_file(tt_heap_fd());
}

static const char *advice_on(int error)
{
	if (error == EACCES || error == EPERM)
		return "ranks of one host need the same user and the right to read each other (ptrace(2))";
	return "a /proc of the ranks' own process namespace is needed there (proc(5))";
}

/* Not of a rank that has died, which is told as that. */
static void warn_of_no_heap(const struct shm_endpoint *ep, int place, int error)
{
	const struct tt_peer *peer = &ep->peers[ep->local_peers[place].rank];

	if (tt_process_is_ending(peer->pid) || tt_process_has_ended(peer->pid))
		return;
	tt_log(WARN, SHM,
	       "rank %d cannot open /proc/%d/fd/%d, the memory of rank %d (%s): long collectives of memory of tutti_mem_alloc() "
	       "are copied through a buffer, and calls on windows of it are messages; %s",
	       ep->config.rank, (int)peer->pid, (int)shm_member(&ep->arena, place)->heap.fd,
	       peer->rank, tt_errno_text(error, (char[TT_ERRNO_MAX]){ 0 }), advice_on(error));
}

void shm_heap_try(struct shm_endpoint *ep, int place)
{
	if (shm_is_here(ep, place) || !shm_member(&ep->arena, place)->heap.exists)
		return;
	const int fd = open_heap(ep, place);
	if (fd < 0) {
		warn_of_no_heap(ep, place, errno);
		atomic_store_explicit(&shm_header(&ep->arena)->apart, 1, memory_order_relaxed);
	}
	tt_fd_close(fd);
}

bool shm_export_memory(struct tt_endpoint *endpoint, const void *pointer, size_t bytes,
		       uint64_t *token)
{
	const struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	return ep->arena.base && shm_member(&ep->arena, ep->me)->heap.exists &&
	       !atomic_load_explicit(&shm_header(&ep->arena)->apart, memory_order_relaxed) &&
	       tt_heap_offset(pointer, bytes, token);
}

/* Heaps have room for all memory of the host, and hundreds of them exceed a process's addresses: of
 * each only so much is mapped, in powers of two, as peers have named. */
#define MAPPED_LEAST ((size_t)1 << 30)

struct shm_heap_map {
	struct shm_heap_map *smaller; /* stays: who imported memory there uses it still */
	size_t bytes;		      /* from the heap's start */
	uint8_t *base;
};

static tutti_result_t map_file(struct shm_local_peer *local_peer, int fd, size_t bytes)
{
	struct shm_heap_map *map = malloc(sizeof(*map));
	void *base =
		map ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
		    : MAP_FAILED;

	if (base == MAP_FAILED) {
		free(map);
		return tt_fail_errno(SHM, "map %zu bytes of the heap of rank %d", bytes,
				     local_peer->rank);
	}
	*map = (struct shm_heap_map){ local_peer->heap, bytes, base };
	local_peer->heap = map;
	shm_keep_from_children(base, bytes);
	return TUTTI_OK;
}

static tutti_result_t check_range(const struct shm_local_peer *local_peer, uint64_t token,
				  size_t bytes, size_t whole)
{
	if (token <= whole && bytes <= whole - token)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_SYSTEM, SHM,
		       "rank %d named %zu bytes at %llu of its heap, expected them within %zu",
		       local_peer->rank, bytes, (unsigned long long)token, whole);
}

static tutti_result_t map_heap(struct shm_endpoint *ep, int place, uint64_t token, size_t bytes)
{
	struct shm_local_peer *local_peer = &ep->local_peers[place];
	struct stat info;
	size_t mapped = MAPPED_LEAST;
	const int fd = open_heap(ep, place);

	if (fd < 0) {
		tt_fail_errno(SHM, "open the heap of rank %d", local_peer->rank);
		if (shm_died(ep, place)) /* which is why, and what all are told */
			shm_report_death(ep, place);
		return TUTTI_ERR_SYSTEM;
	}
	const size_t whole = fstat(fd, &info) < 0 ? 0 : (size_t)info.st_size;
	tutti_result_t result = check_range(local_peer, token, bytes, whole);
	while (!result && mapped < token + bytes)
		mapped *= 2;
	if (!result)
		result = map_file(local_peer, fd, mapped < whole ? mapped : whole);
	tt_fd_close(fd);
	return result;
}

void shm_heap_unmap(struct shm_local_peer *local_peer)
{
	while (local_peer->heap) {
		struct shm_heap_map *map = local_peer->heap;

		local_peer->heap = map->smaller;
		munmap(map->base, map->bytes);
		free(map);
	}
}

static bool is_mapped(const struct shm_heap_map *map, uint64_t token, size_t bytes)
{
	return map && token <= map->bytes && bytes <= map->bytes - token;
}

void *shm_import_memory(struct tt_endpoint *endpoint, int peer, uint64_t token, size_t bytes)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	const int place = ep->local_peer_of[peer];
	struct shm_local_peer *local_peer = &ep->local_peers[place];

	if (shm_is_here(ep, place))
		return check_range(local_peer, token, bytes, tt_heap_size()) ? NULL
									     : tt_heap_at(token);
	if (!is_mapped(local_peer->heap, token, bytes) && map_heap(ep, place, token, bytes))
		return NULL;
	return local_peer->heap->base + token;
}

/* What is revoked leaves this process's own addresses, so a peer that is a thread of it must
 * not be late. */
bool shm_grants_writes(struct tt_endpoint *endpoint, const void *pointer, size_t bytes)
{
	const struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	for (int i = 0; i < ep->arena.members; i++)
		if (i != ep->me && shm_is_here(ep, i))
			return false;
	return tt_heap_is_grantable(pointer, bytes);
}
