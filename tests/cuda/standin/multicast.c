/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns multicast objects: what is bound to each is written into a table, in a file that all who import it
 * map; whoever loads or stores by a multicast address finds there whose memory that is. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOUND_MOST 256
#define UNIT	   ((size_t)2 << 20)

struct multicast {
	uint32_t devices, added; /* how many there are to be, and are */
	uint64_t bytes;
	struct bound {
		int32_t used, process, fd; /* whose descriptor the memory is */
		uint64_t at, bytes;
	} bound[BOUND_MOST];
};

/* Where this process has mapped what is bound. */
struct found {
	struct found *next;
	struct bound what;
	ino_t inode;
	char *memory;
};
static struct found *founds;

struct multicast *multicast_map(int fd)
{
	struct multicast *const table =
		mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return table == MAP_FAILED ? NULL : table;
}

void multicast_unmap(struct multicast *table)
{
	if (table)
		munmap(table, sizeof(*table));
}

size_t multicast_bytes(const struct multicast *table)
{
	return table->bytes;
}

static bool is_wanted(const struct CUmulticastObjectProp_st *wanted)
{
	return wanted && wanted->numDevices > 0 && wanted->size && wanted->size % UNIT == 0 &&
	       !wanted->flags;
}

CALL(cuMulticastCreate, (handle, wanted), cuda_allocation *handle,
     const struct CUmulticastObjectProp_st *wanted)
{
	if (!handle || !is_wanted(wanted))
		return CUDA_INVALID_VALUE;
	const int fd = memfd_create("standin-multicast", MFD_CLOEXEC);
	struct multicast *const table =
		fd >= 0 && ftruncate(fd, sizeof(*table)) == 0 ? multicast_map(fd) : NULL;
	if (!table)
		return CUDA_OUT_OF_MEMORY;
	table->devices = wanted->numDevices;
	table->bytes = wanted->size;
	segments_add(fd, wanted->size, -1, wanted->handleTypes != 0, table, handle);
	return 0;
}

CALL(cuMulticastGetGranularity, (bytes, wanted, option), size_t *bytes,
     const struct CUmulticastObjectProp_st *wanted, unsigned option)
{
	if (!bytes || !is_wanted(wanted) || option > 1)
		return CUDA_INVALID_VALUE;
	*bytes = UNIT;
	return 0;
}

CALL(cuMulticastAddDevice, (handle, device), cuda_allocation handle, cuda_device device)
{
	struct multicast *const table = segments_multicast(handle);

	if (!table || !standin_has(device) || table->added == table->devices)
		return CUDA_INVALID_VALUE;
	__atomic_fetch_add(&table->added, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* Other processes add devices and bind memory, too. */
static cuda_result bind(struct multicast *table, size_t at, const struct memory *memory)
{
	for (int i = 0; i < BOUND_MOST; i++) {
		struct bound *const bound = &table->bound[i];
		int32_t none = 0;

		if (!__atomic_compare_exchange_n(&bound->used, &none, 1, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		bound->process = getpid();
		bound->fd = segments_descriptor(memory);
		bound->at = at;
		bound->bytes = memory->bytes;
		__atomic_store_n(&bound->used, 2, __ATOMIC_SEQ_CST);
		return 0;
	}
	return CUDA_OUT_OF_MEMORY;
}

/* Before all devices are there the driver would wait. */
CALL(cuMulticastBindAddr, (handle, at, address, bytes, flags), cuda_allocation handle, size_t at,
     cuda_address address, size_t bytes, unsigned long long flags)
{
	struct multicast *const table = segments_multicast(handle);
	const struct memory *const memory = memory_at(address);

	if (!table || !memory || memory->kind != MEMORY_MAPPED || flags ||
	    ADDRESS_OF(memory->base) != address || memory->bytes != bytes || at % UNIT ||
	    bytes > table->bytes - at)
		return CUDA_INVALID_VALUE;
	return __atomic_load_n(&table->added, __ATOMIC_SEQ_CST) < table->devices
		       ? ILLEGAL_STATE
		       : bind(table, at, memory);
}

CALL(cuMulticastUnbind, (handle, device, at, bytes), cuda_allocation handle, cuda_device device,
     size_t at, size_t bytes)
{
	struct multicast *const table = segments_multicast(handle);

	for (int i = 0; i < BOUND_MOST && table; i++)
		if (table->bound[i].used == 2 && table->bound[i].process == getpid() &&
		    table->bound[i].at >= at && table->bound[i].at - at < bytes)
			__atomic_store_n(&table->bound[i].used, 0, __ATOMIC_SEQ_CST);
	return table ? 0 : CUDA_INVALID_VALUE;
}

/* ---- loads and stores */

static char *find(const struct bound *bound)
{
	char path[64];
	struct stat stat;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", bound->process, bound->fd);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &stat) < 0)
		return NULL;
	for (struct found *found = founds; found; found = found->next)
		if (found->inode == stat.st_ino) {
			close(fd);
			return found->memory;
		}
	struct found *const found = malloc(sizeof(*found));
	*found = (struct found){ founds, *bound, stat.st_ino,
				 mmap(NULL, bound->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				      0) };
	close(fd);
	founds = found;
	return found->memory;
}

/* Loads and stores by this process, for tests. */
static unsigned multimems;

API unsigned standin_multimems(int to, int from)
{
	return __atomic_load_n(&multimems, __ATOMIC_RELAXED);
}

/* Of each rank, in order of its binding. */
unsigned standin_multicast(const void *address, void **out)
{
	unsigned n = 0;

	pthread_mutex_lock(&standin_lock);
	const struct memory *const memory = memory_at(ADDRESS_OF(address));
	const size_t at = memory ? (size_t)((const char *)address - memory->base) : 0;
	const struct multicast *const table = memory ? segments_table(memory) : NULL;
	for (int i = 0; table && i < BOUND_MOST; i++) {
		const struct bound *const bound = &table->bound[i];
		char *const real =
			bound->used == 2 && at >= bound->at && at - bound->at < bound->bytes
				? find(bound)
				: NULL;

		if (real)
			out[n++] = real + (at - bound->at);
	}
	pthread_mutex_unlock(&standin_lock);
	if (n == 0) /* as a GPU would */
		abort();
	__atomic_fetch_add(&multimems, 1, __ATOMIC_RELAXED);
	return n;
}
