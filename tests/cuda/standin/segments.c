/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the virtual memory API: allocations, ranges of addresses into which they are mapped, and the
 * descriptors by which other processes have them. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define NAME	    "standin-segment-%d" /* of the memory file: whose GPU, as the machine numbers it */

struct allocation {
	struct allocation *next;
	cuda_allocation handle;
	unsigned handles, mappings; /* that keep it */
	size_t bytes;
	int fd;
	cuda_device device;	 /* as this process numbers it, or would */
	struct multicast *table; /* of a multicast object; NULL: it is memory */
	bool exports, imported;	 /* another process's memory, of which this one takes none */
};

struct range {
	struct range *next;
	char *base, *real;
	size_t bytes;
};

static struct allocation *allocations;
static cuda_allocation last_handle;
static struct range *ranges;

/* ---- allocations */

static struct allocation *find(cuda_allocation handle)
{
	struct allocation *a = allocations;

	while (a && (a->handle != handle || a->handles == 0))
		a = a->next;
	return a;
}

static void drop_unused(void)
{
	for (struct allocation **link = &allocations; *link;) {
		struct allocation *a = *link;

		if (a->handles || a->mappings) {
			link = &a->next;
			continue;
		}
		*link = a->next;
		multicast_unmap(a->table);
		close(a->fd);
		free(a);
	}
}

size_t segments_used(cuda_device device)
{
	size_t bytes = 0;

	for (const struct allocation *a = allocations; a; a = a->next)
		bytes += a->device == device && !a->imported ? a->bytes : 0;
	return bytes;
}

cuda_result segments_add(int fd, size_t bytes, cuda_device device, bool exports,
			 struct multicast *table, cuda_allocation *handle)
{
	struct allocation *a = calloc(1, sizeof(*a));

	if (!a) {
		multicast_unmap(table);
		close(fd);
		return CUDA_OUT_OF_MEMORY;
	}
	*a = (struct allocation){ .next = allocations,
				  .handle = ++last_handle,
				  .handles = 1,
				  .bytes = bytes,
				  .fd = fd,
				  .device = device,
				  .table = table,
				  .exports = exports };
	allocations = a;
	*handle = a->handle;
	return 0;
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
	       wanted->location.type == CUDA_LOCATION_DEVICE && wanted->location.id >= 0 &&
	       wanted->location.id < standin_devices() &&
	       (wanted->requestedHandleTypes & ~(unsigned)CUDA_HANDLE_DESCRIPTOR) == 0;
}

static cuda_result create(size_t bytes, const struct CUmemAllocationProp_st *wanted,
			  cuda_allocation *handle)
{
	char name[32];

	if (bytes > standin_memory_bytes() ||
	    memory_used(wanted->location.id) > standin_memory_bytes() - bytes)
		return CUDA_OUT_OF_MEMORY;
	snprintf(name, sizeof(name), NAME, standin_first() + wanted->location.id);
	const int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_OUT_OF_MEMORY;
	if (ftruncate(fd, (off_t)bytes) < 0) {
		close(fd);
		return CUDA_OUT_OF_MEMORY;
	}
	return segments_add(fd, bytes, wanted->location.id, wanted->requestedHandleTypes != 0, NULL,
			    handle);
}

API cuda_result cuMemCreate(cuda_allocation *handle, size_t bytes,
			    const struct CUmemAllocationProp_st *wanted, unsigned long long flags)
{
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = handle && bytes && bytes % GRANULARITY == 0 && is_wanted(wanted) && !flags
				? create(bytes, wanted, handle)
				: CUDA_INVALID_VALUE;
	return standin_leave(error);
}

API cuda_result cuMemGetAllocationGranularity(size_t *bytes,
					      const struct CUmemAllocationProp_st *wanted,
					      unsigned option)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (!bytes || !is_wanted(wanted) || option > 1))
		error = CUDA_INVALID_VALUE;
	if (!error)
		*bytes = GRANULARITY;
	return standin_leave(error);
}

API cuda_result cuMemRelease(cuda_allocation handle)
{
	cuda_result error = standin_enter(__func__);
	struct allocation *const a = error ? NULL : find(handle);

	if (!error && !a)
		error = CUDA_INVALID_VALUE;
	if (a) {
		a->handles--;
		drop_unused();
	}
	return standin_leave(error);
}

API cuda_result cuMemRetainAllocationHandle(cuda_allocation *handle, void *inside)
{
	cuda_result error = standin_enter(__func__);
	struct memory *const memory = error ? NULL : memory_at(ADDRESS_OF(inside));

	if (!error && (!handle || !memory || memory->kind != MEMORY_MAPPED))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		memory->allocation->handles++;
		*handle = memory->allocation->handle;
	}
	return standin_leave(error);
}

API cuda_result cuMemGetAllocationPropertiesFromHandle(struct CUmemAllocationProp_st *out,
						       cuda_allocation handle)
{
	cuda_result error = standin_enter(__func__);
	const struct allocation *const a = error ? NULL : find(handle);

	if (!error && (!out || !a))
		error = CUDA_INVALID_VALUE;
	if (!error)
		*out = (struct CUmemAllocationProp_st){
			.type = CUDA_ALLOCATION_PINNED,
			.requestedHandleTypes = a->exports ? CUDA_HANDLE_DESCRIPTOR : 0,
			.location = { CUDA_LOCATION_DEVICE, a->device }
		};
	return standin_leave(error);
}

/* ---- descriptors */

API cuda_result cuMemExportToShareableHandle(void *out, cuda_allocation handle, unsigned type,
					     unsigned long long flags)
{
	cuda_result error = standin_enter(__func__);
	const struct allocation *const a = error ? NULL : find(handle);

	if (!error && (!out || !a || !a->exports || type != CUDA_HANDLE_DESCRIPTOR || flags))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		*(int *)out = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
		error = *(int *)out < 0 ? UNKNOWN : 0;
	}
	return standin_leave(error);
}

/* Opened anew by its name it would be another file: what came is duplicated. */
static cuda_result import(int fd, cuda_allocation *handle)
{
	char path[64], name[64];
	struct stat stat;
	int device;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const ssize_t length = readlink(path, name, sizeof(name) - 1);
	name[length < 0 ? 0 : length] = '\0';
	const bool multicast = strncmp(name, "/memfd:standin-multicast", 24) == 0;
	if ((!multicast && sscanf(name, "/memfd:" NAME, &device) != 1) || fstat(fd, &stat) < 0)
		return CUDA_INVALID_VALUE;
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct multicast *const table = multicast && own >= 0 ? multicast_map(own) : NULL;
	if (own < 0 || (multicast && !table))
		return UNKNOWN;
	const cuda_result error =
		segments_add(own, multicast ? multicast_bytes(table) : (size_t)stat.st_size,
			     multicast ? -1 : device - standin_first(), true, table, handle);

	if (!error)
		allocations->imported = true;
	return error;
}

API cuda_result cuMemImportFromShareableHandle(cuda_allocation *handle, void *descriptor,
					       unsigned type)
{
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = handle && type == CUDA_HANDLE_DESCRIPTOR
				? import((int)(intptr_t)descriptor, handle)
				: CUDA_INVALID_VALUE;
	return standin_leave(error);
}

/* ---- ranges */

static char *reserve(size_t bytes)
{
	char *const base =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

static cuda_result make_range(size_t bytes, cuda_address *out)
{
	struct range *const range = calloc(1, sizeof(*range));
	char *const real = range ? reserve(bytes) : NULL;
	char *const base = real && standin_is_apart() ? reserve(bytes) : real;

	if (!base) {
		if (real)
			munmap(real, bytes);
		free(range);
		return CUDA_OUT_OF_MEMORY;
	}
	*range = (struct range){ ranges, base, real, bytes };
	ranges = range;
	*out = ADDRESS_OF(base);
	return 0;
}

API cuda_result cuMemAddressReserve(cuda_address *out, size_t bytes, size_t alignment,
				    cuda_address wanted, unsigned long long flags)
{
	cuda_result error = standin_enter(__func__);

	(void)wanted; /* a hint */
	if (!error)
		error = out && bytes && bytes % GRANULARITY == 0 &&
					(alignment & (alignment - 1)) == 0 && !flags
				? make_range(bytes, out)
				: CUDA_INVALID_VALUE;
	return standin_leave(error);
}

/* The link to the one that has them all, or to the end. */
static struct range **find_range(cuda_address at, size_t bytes)
{
	struct range **link = &ranges;

	while (*link &&
	       (at < ADDRESS_OF((*link)->base) || at - ADDRESS_OF((*link)->base) > (*link)->bytes ||
		bytes > (*link)->bytes - (at - ADDRESS_OF((*link)->base))))
		link = &(*link)->next;
	return link;
}

static bool is_mapped(cuda_address at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += GRANULARITY)
		if (memory_at(at + i))
			return true;
	return false;
}

API cuda_result cuMemAddressFree(cuda_address at, size_t bytes)
{
	cuda_result error = standin_enter(__func__);
	struct range **const link = error ? NULL : find_range(at, bytes), *const range =
										  link ? *link
										       : NULL;

	if (!error && (!range || ADDRESS_OF(range->base) != at || range->bytes != bytes ||
		       is_mapped(at, bytes)))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		*link = range->next;
		munmap(range->base, bytes);
		if (range->real != range->base)
			munmap(range->real, bytes);
		free(range);
	}
	return standin_leave(error);
}

API cuda_result cuMemMap(cuda_address at, size_t bytes, size_t offset, cuda_allocation handle,
			 unsigned long long flags)
{
	cuda_result error = standin_enter(__func__);
	struct allocation *const a = error ? NULL : find(handle);
	const struct range *const range = error ? NULL : *find_range(at, bytes);

	if (!error &&
	    (!a || !range || !bytes || at % GRANULARITY != ADDRESS_OF(range->base) % GRANULARITY ||
	     bytes % GRANULARITY || bytes > a->bytes || offset || flags || is_mapped(at, bytes)))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		char *const real = range->real + (at - ADDRESS_OF(range->base));

		/* all mappings start with no accessibility; those of multicast objects have none but
		 * for multimem instructions */
		error = a->table || mmap(real, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, a->fd,
					 0) == real
				? memory_map(a->device, (char *)(uintptr_t)at, real, bytes, a)
				: CUDA_OUT_OF_MEMORY;
		a->mappings += !error;
	}
	return standin_leave(error);
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

static void unmap(cuda_address at, size_t bytes)
{
	for (size_t i = 0, length; i < bytes; i += length) {
		struct memory *const memory = memory_at(at + i);

		length = memory->bytes;
		mmap(memory->real, length, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		memory->allocation->mappings--;
		memory_forget(memory);
	}
	drop_unused();
}

API cuda_result cuMemUnmap(cuda_address at, size_t bytes)
{
	cuda_result error = standin_enter(__func__);

	if (!error && !are_whole(at, bytes))
		error = CUDA_INVALID_VALUE;
	if (!error)
		unmap(at, bytes);
	return standin_leave(error);
}

static cuda_result set_access(const struct memory *memory, const struct CUmemAccessDesc_st *access)
{
	const int device = access->location.id;

	if (access->location.type != CUDA_LOCATION_DEVICE ||
	    access->flags != CUDA_ACCESS_READ_WRITE)
		return CUDA_INVALID_VALUE;
	if (device < 0 || device >= standin_devices() ||
	    (!memory->allocation->table && device != memory->device &&
	     !standin_reaches(standin_first() + device, standin_first() + memory->device)))
		return INVALID_DEVICE;
	if (memory->allocation->table)
		return 0;
	return mprotect(memory->real, memory->bytes, PROT_READ | PROT_WRITE) ? UNKNOWN : 0;
}

API cuda_result cuMemSetAccess(cuda_address at, size_t bytes,
			       const struct CUmemAccessDesc_st *access, size_t n)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (!access || !n || !are_whole(at, bytes)))
		error = CUDA_INVALID_VALUE;
	for (size_t i = 0; i < bytes && !error; i += memory_at(at + i)->bytes)
		for (size_t k = 0; k < n && !error; k++)
			error = set_access(memory_at(at + i), &access[k]);
	return standin_leave(error);
}
