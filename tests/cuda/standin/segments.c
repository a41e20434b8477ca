/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the virtual memory API: allocations, ranges of addresses into which they are mapped, and the
 * descriptors by which other processes have them. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define NAME	    "standin-segment-%d" /* of the memory file: whose GPU, as the machine numbers it */

struct allocation {
	struct made made;
	cuda_allocation handle;
	unsigned handles, mappings; /* that keep it */
	size_t bytes;
	int fd;
	cuda_device device;	 /* as this process numbers it, or would */
	struct multicast *table; /* of a multicast object; NULL: it is memory */
	bool exports, imported;	 /* another process's memory, of which this one takes none */
};

struct range {
	struct made made;
	char *base, *real;
	size_t bytes;
};

/* ---- allocations */

static struct allocation *find(cuda_allocation handle)
{
	struct allocation *a = next_made(ALLOCATIONS, NULL);

	while (a && (a->handle != handle || a->handles == 0))
		a = next_made(ALLOCATIONS, a);
	return a;
}

static void drop_if_unused(struct allocation *a)
{
	if (a->handles || a->mappings)
		return;
	multicast_unmap(a->table);
	close(a->fd);
	unmake(a);
}

size_t segments_used(cuda_device device)
{
	size_t bytes = 0;

	for (const struct allocation *a = NULL; (a = next_made(ALLOCATIONS, a));)
		bytes += a->device == device && !a->imported ? a->bytes : 0;
	return bytes;
}

struct allocation *segments_add(int fd, size_t bytes, cuda_device device, bool exports,
				struct multicast *table, cuda_allocation *handle)
{
	static cuda_allocation last;
	struct allocation *const a = make(ALLOCATIONS, sizeof(*a), NULL);

	a->handle = *handle = ++last;
	a->handles = 1;
	a->bytes = bytes;
	a->fd = fd;
	a->device = device;
	a->table = table;
	a->exports = exports;
	return a;
}

struct multicast *segments_multicast(cuda_allocation handle)
{
	const struct allocation *const a = find(handle);

	return a ? a->table : NULL;
}

struct multicast *segments_table(const struct memory *memory)
{
	return memory->kind == MEMORY_MAPPED ? memory->allocation->table : NULL;
}

int segments_descriptor(const struct memory *memory)
{
	return memory->allocation->fd;
}

static bool is_wanted(const struct CUmemAllocationProp_st *wanted)
{
	return wanted && wanted->type == CUDA_ALLOCATION_PINNED &&
	       wanted->location.type == CUDA_LOCATION_DEVICE && standin_has(wanted->location.id) &&
	       (wanted->requestedHandleTypes & ~(unsigned)CUDA_HANDLE_DESCRIPTOR) == 0;
}

CALL(cuMemCreate, (handle, bytes, wanted, flags), cuda_allocation *handle, size_t bytes,
     const struct CUmemAllocationProp_st *wanted, unsigned long long flags)
{
	char name[32];

	if (!handle || !bytes || bytes % GRANULARITY || !is_wanted(wanted) || flags)
		return CUDA_INVALID_VALUE;
	if (!memory_fits(wanted->location.id, bytes))
		return CUDA_OUT_OF_MEMORY;
	snprintf(name, sizeof(name), NAME, standin_first() + wanted->location.id);
	const int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return CUDA_OUT_OF_MEMORY;
	segments_add(fd, bytes, wanted->location.id, wanted->requestedHandleTypes != 0, NULL,
		     handle);
	return 0;
}

CALL(cuMemGetAllocationGranularity, (bytes, wanted, option), size_t *bytes,
     const struct CUmemAllocationProp_st *wanted, unsigned option)
{
	if (!bytes || !is_wanted(wanted) || option > 1)
		return CUDA_INVALID_VALUE;
	*bytes = GRANULARITY;
	return 0;
}

CALL(cuMemRelease, (handle), cuda_allocation handle)
{
	struct allocation *const a = find(handle);

	if (!a)
		return CUDA_INVALID_VALUE;
	a->handles--;
	drop_if_unused(a);
	return 0;
}

CALL(cuMemRetainAllocationHandle, (handle, inside), cuda_allocation *handle, void *inside)
{
	struct memory *const memory = memory_at(ADDRESS_OF(inside));

	if (!handle || !memory || memory->kind != MEMORY_MAPPED)
		return CUDA_INVALID_VALUE;
	memory->allocation->handles++;
	*handle = memory->allocation->handle;
	return 0;
}

CALL(cuMemGetAllocationPropertiesFromHandle, (out, handle), struct CUmemAllocationProp_st *out,
     cuda_allocation handle)
{
	const struct allocation *const a = find(handle);

	if (!out || !a)
		return CUDA_INVALID_VALUE;
	*out = (struct CUmemAllocationProp_st){ .type = CUDA_ALLOCATION_PINNED,
						.requestedHandleTypes =
							a->exports ? CUDA_HANDLE_DESCRIPTOR : 0,
						.location = { CUDA_LOCATION_DEVICE, a->device } };
	return 0;
}

/* ---- descriptors */

CALL(cuMemExportToShareableHandle, (out, handle, type, flags), void *out, cuda_allocation handle,
     unsigned type, unsigned long long flags)
{
	const struct allocation *const a = find(handle);

	if (!out || !a || !a->exports || type != CUDA_HANDLE_DESCRIPTOR || flags)
		return CUDA_INVALID_VALUE;
	*(int *)out = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
	return *(int *)out < 0 ? UNKNOWN : 0;
}

/* Opened anew by its name it would be another file: what came is duplicated. */
CALL(cuMemImportFromShareableHandle, (handle, descriptor, type), cuda_allocation *handle,
     void *descriptor, unsigned type)
{
	const int fd = (int)(intptr_t)descriptor;
	char path[64], name[64];
	struct stat stat;
	int device;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const ssize_t length = readlink(path, name, sizeof(name) - 1);
	name[length < 0 ? 0 : length] = '\0';
	const bool multicast = strncmp(name, "/memfd:standin-multicast", 24) == 0;
	if (!handle || type != CUDA_HANDLE_DESCRIPTOR ||
	    (!multicast && sscanf(name, "/memfd:" NAME, &device) != 1) || fstat(fd, &stat) < 0)
		return CUDA_INVALID_VALUE;
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct multicast *const table = multicast && own >= 0 ? multicast_map(own) : NULL;
	if (own < 0 || (multicast && !table))
		return UNKNOWN;
	segments_add(own, multicast ? multicast_bytes(table) : (size_t)stat.st_size,
		     multicast ? -1 : device - standin_first(), true, table, handle)
		->imported = true;
	return 0;
}

/* ---- ranges */

CALL(cuMemAddressReserve, (out, bytes, alignment, wanted, flags), cuda_address *out, size_t bytes,
     size_t alignment, cuda_address wanted, unsigned long long flags)
{
	struct range *range;

	(void)wanted; /* a hint */
	if (!out || !bytes || bytes % GRANULARITY || (alignment & (alignment - 1)) || flags)
		return CUDA_INVALID_VALUE;
	char *const real = memory_reserve(bytes), *const base = real && standin_is_apart()
									? memory_reserve(bytes)
									: real;
	if (!base)
		return CUDA_OUT_OF_MEMORY;
	range = make(RANGES, sizeof(*range), NULL);
	range->base = base;
	range->real = real;
	range->bytes = bytes;
	*out = ADDRESS_OF(base);
	return 0;
}

/* The one that has them all. */
static struct range *find_range(cuda_address at, size_t bytes)
{
	struct range *range = next_made(RANGES, NULL);

	while (range &&
	       (at < ADDRESS_OF(range->base) || at - ADDRESS_OF(range->base) > range->bytes ||
		bytes > range->bytes - (at - ADDRESS_OF(range->base))))
		range = next_made(RANGES, range);
	return range;
}

static bool is_mapped(cuda_address at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += GRANULARITY)
		if (memory_at(at + i))
			return true;
	return false;
}

CALL(cuMemAddressFree, (at, bytes), cuda_address at, size_t bytes)
{
	struct range *const range = find_range(at, bytes);

	if (!range || ADDRESS_OF(range->base) != at || range->bytes != bytes ||
	    is_mapped(at, bytes))
		return CUDA_INVALID_VALUE;
	munmap(range->base, bytes);
	if (range->real != range->base)
		munmap(range->real, bytes);
	unmake(range);
	return 0;
}

CALL(cuMemMap, (at, bytes, offset, handle, flags), cuda_address at, size_t bytes, size_t offset,
     cuda_allocation handle, unsigned long long flags)
{
	struct allocation *const a = find(handle);
	const struct range *const range = find_range(at, bytes);

	if (!a || !range || !bytes || at % GRANULARITY != ADDRESS_OF(range->base) % GRANULARITY ||
	    bytes % GRANULARITY || bytes > a->bytes || offset || flags || is_mapped(at, bytes))
		return CUDA_INVALID_VALUE;
	char *const real = range->real + (at - ADDRESS_OF(range->base));

	/* all mappings start with no accessibility; those of multicast objects have none but for
	 * multimem instructions */
	if (!a->table && mmap(real, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, a->fd, 0) != real)
		return CUDA_OUT_OF_MEMORY;
	memory_map(a->device, (char *)(uintptr_t)at, real, bytes, a);
	a->mappings++;
	return 0;
}

/* Are these whole mappings, one behind the other? */
static bool are_whole(cuda_address at, size_t bytes)
{
	for (size_t i = 0, length; i < bytes; i += length) {
		const struct memory *const memory = memory_at(at + i);

		if (!memory || memory->kind != MEMORY_MAPPED ||
		    ADDRESS_OF(memory->base) != at + i || memory->bytes > bytes - i)
			return false;
		length = memory->bytes;
	}
	return bytes > 0;
}

CALL(cuMemUnmap, (at, bytes), cuda_address at, size_t bytes)
{
	if (!are_whole(at, bytes))
		return CUDA_INVALID_VALUE;
	for (size_t i = 0, length; i < bytes; i += length) {
		struct memory *const memory = memory_at(at + i);

		length = memory->bytes;
		mmap(memory->real, length, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		memory->allocation->mappings--;
		drop_if_unused(memory->allocation);
		memory_forget(memory);
	}
	return 0;
}

static cuda_result set_access(const struct memory *memory, const struct CUmemAccessDesc_st *access)
{
	const int device = access->location.id;

	if (access->location.type != CUDA_LOCATION_DEVICE ||
	    access->flags != CUDA_ACCESS_READ_WRITE)
		return CUDA_INVALID_VALUE;
	if (!standin_has(device) ||
	    (!memory->allocation->table && device != memory->device &&
	     !standin_reaches(standin_first() + device, standin_first() + memory->device)))
		return INVALID_DEVICE;
	if (memory->allocation->table)
		return 0;
	return mprotect(memory->real, memory->bytes, PROT_READ | PROT_WRITE) ? UNKNOWN : 0;
}

CALL(cuMemSetAccess, (at, bytes, access, n), cuda_address at, size_t bytes,
     const struct CUmemAccessDesc_st *access, size_t n)
{
	cuda_result error = access && n && are_whole(at, bytes) ? 0 : CUDA_INVALID_VALUE;

	for (size_t i = 0; i < bytes && !error; i += memory_at(at + i)->bytes)
		for (size_t k = 0; k < n && !error; k++)
			error = set_access(memory_at(at + i), &access[k]);
	return error;
}
