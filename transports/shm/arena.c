/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the layout of the arena and its mappings. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "arena_file.h"
#include "file.h"
#include "fork.h"
#include "log.h"

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

size_t shm_told_offset(int members)
{
	return SHM_PAGE + round_up((size_t)members * sizeof(struct shm_member), SHM_PAGE);
}

static size_t rings_offset(int members)
{
	return shm_told_offset(members) + (size_t)members * sizeof(struct shm_told);
}

size_t shm_arena_bytes(int members)
{
	const size_t rings = (size_t)members * (size_t)members * TT_CHANNELS;

	return rings_offset(members) + rings * (SHM_PAGE + SHM_RING_BYTES);
}

size_t shm_ring_offset(const struct shm_arena *arena, int from, int to, int channel)
{
	const size_t index = ((size_t)from * (size_t)arena->members + (size_t)to) * TT_CHANNELS +
			     (size_t)channel;

	return rings_offset(arena->members) + index * (SHM_PAGE + SHM_RING_BYTES);
}

void shm_keep_from_children(void *base, size_t bytes)
{
	/* of a whole mapping of memory this cannot fail */
	madvise(base, bytes, MADV_DONTFORK);
}

/* What all ranks look at, and what this one may tell. A page of a memfd that cannot be had when it
 * is first touched is a SIGBUS: have those now that every rank is certain to touch. */
static tutti_result_t reserve(const struct shm_arena *arena, int me)
{
	const size_t first = shm_told_offset(arena->members);
	int error = tt_file_reserve(arena->fd, 0, first);

	if (!error)
		error = tt_file_reserve(arena->fd,
					(uint64_t)((uint8_t *)shm_told(arena, me) - arena->base),
					sizeof(struct shm_told));
	errno = error == ENOSPC ? ENOMEM : error;
	return error ? tt_fail_errno(SHM, "reserve the first %zu bytes of the arena", first)
		     : TUTTI_OK;
}

tutti_result_t shm_arena_open(struct shm_arena *arena, int fd, int members, int me)
{
	const size_t bytes = shm_arena_bytes(members);

	if (fd < 0) {
		fd = TT_FD(memfd_create("tutti-arena", MFD_CLOEXEC));
		if (fd < 0)
			return tt_fail_errno(SHM, "create a memfd for %d ranks", members);
		if (tt_file_resize(fd, bytes) < 0) {
			const tutti_result_t result =
				tt_fail_errno(SHM, "grow the arena to %zu bytes", bytes);
			tt_fd_close(fd);
			return result;
		}
	}
	fd = shm_file_take(fd);
	if (fd < 0)
		return tt_fail_errno(SHM, "lock the arena's file");
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		const tutti_result_t result = tt_fail_errno(SHM, "map %zu bytes of arena", bytes);
		shm_file_drop(fd);
		return result;
	}
	struct shm_arena opened = { .fd = fd, .members = members, .bytes = bytes, .base = base };
	const tutti_result_t result = reserve(&opened, me);
	if (result) {
		shm_arena_close(&opened);
		return result;
	}
	shm_keep_from_children(base, bytes);
	*arena = opened;
	return TUTTI_OK;
}

void shm_arena_close(struct shm_arena *arena)
{
	if (!arena->base)
		return;
	munmap(arena->base, arena->bytes);
	shm_file_drop(arena->fd);
	arena->base = NULL;
}

uint8_t *shm_ring_map(const struct shm_arena *arena, size_t ring_offset)
{
	const off_t offset = (off_t)(ring_offset + SHM_PAGE);
	uint8_t *data =
		mmap(NULL, 2 * SHM_RING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED)
		return NULL;
	for (int half = 0; half < 2; half++) {
		if (mmap(data + half * (size_t)SHM_RING_BYTES, SHM_RING_BYTES,
			 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, arena->fd,
			 offset) == MAP_FAILED) {
			munmap(data, 2 * SHM_RING_BYTES);
			return NULL;
		}
	}
	shm_keep_from_children(data, 2 * SHM_RING_BYTES);
	return data;
}

void shm_ring_unmap(uint8_t *data)
{
	munmap(data, 2 * SHM_RING_BYTES);
}
