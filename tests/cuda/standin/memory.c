/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the memory of GPUs, pinned and managed memory, and what is said of pointers. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIRTY_BYTES ((size_t)1 << 20) /* that memory begins with: nobody may count on zeros */

struct memory *memory_at(cuda_address address)
{
	struct memory *memory = next_made(MEMORIES, NULL);

	while (memory && !memory_holds(memory, address, 1))
		memory = next_made(MEMORIES, memory);
	return memory;
}

bool memory_holds(const struct memory *memory, cuda_address address, size_t bytes)
{
	const cuda_address base = ADDRESS_OF(memory->base);

	if (address < base || address - base > memory->bytes)
		return false;
	const size_t here = memory->bytes - (address - base);
	if (bytes <= here || here == 0 || memory->kind != MEMORY_MAPPED)
		return bytes <= here;
	/* what is mapped behind it is one with it to whoever uses it */
	const struct memory *const next = memory_at(base + memory->bytes);
	return next && next->kind == MEMORY_MAPPED &&
	       memory_holds(next, base + memory->bytes, bytes - here);
}

static char *map(size_t bytes, int fd)
{
	char *const base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);

	return base == MAP_FAILED ? NULL : base;
}

char *memory_reserve(size_t bytes)
{
	char *const base =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

/* What is mapped already. */
static struct memory *add(enum memory_kind kind, struct CUctx_st *context, char *base, char *real,
			  size_t bytes)
{
	struct memory *const memory = make(MEMORIES, sizeof(*memory), context);

	memory->kind = kind;
	memory->device = context ? context->device : 0;
	memory->base = base;
	memory->real = real;
	memory->bytes = bytes;
	memory->fd = -1;
	return memory;
}

/* Of the file `fd`, or with -1 of none. NULL: there is no memory for that. */
struct memory *memory_new(enum memory_kind kind, struct CUctx_st *context, size_t bytes, int fd)
{
	char *const real = map(bytes, fd);
	const bool apart = (kind == MEMORY_DEVICE || kind == MEMORY_OPENED) && standin_is_apart();
	char *const base = apart ? memory_reserve(bytes) : real;

	return real && base ? add(kind, context, base, real, bytes) : NULL;
}

/* Where a stream finds what is at `address`; of memory that is not apart that is the same. */
void *memory_real(const void *address)
{
	const struct memory *const memory = memory_at(ADDRESS_OF(address));

	/* a multicast address has no place of its own */
	return memory && !segments_table(memory)
		       ? memory->real + ((const char *)address - memory->base)
		       : (void *)address;
}

/* How often, for tests. */
static unsigned tolds;

API unsigned standin_tolds(int to, int from)
{
	return __atomic_load_n(&tolds, __ATOMIC_RELAXED);
}

/* For kernels, which are told addresses while they run. */
void *standin_told(const void *address)
{
	pthread_mutex_lock(&standin_lock);
	if (!memory_at(ADDRESS_OF(address))) /* as a GPU would */
		abort();
	void *const real = memory_real(address);
	pthread_mutex_unlock(&standin_lock);
	__atomic_fetch_add(&tolds, 1, __ATOMIC_RELAXED);
	return real;
}

/* For cublas.c, which does the work of streams, too. */
API void *standin_real(const void *address)
{
	const cuda_result error = standin_enter(__func__);
	void *const real = error ? NULL : memory_real(address);

	standin_leave(error);
	return real;
}

void memory_forget(void *memory_as_void)
{
	struct memory *const memory = memory_as_void;

	if (memory->kind != MEMORY_REGISTERED && memory->kind != MEMORY_MAPPED)
		munmap(memory->base, memory->bytes);
	if (memory->real != memory->base && memory->kind != MEMORY_MAPPED)
		munmap(memory->real, memory->bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	unmake(memory);
}

static size_t used(cuda_device device)
{
	size_t bytes = segments_used(device);

	for (const struct memory *memory = NULL; (memory = next_made(MEMORIES, memory));)
		if (memory->device == device &&
		    (memory->kind == MEMORY_DEVICE || memory->kind == MEMORY_MANAGED))
			bytes += memory->bytes;
	return bytes;
}

bool memory_fits(cuda_device device, size_t bytes)
{
	const size_t all = standin_memory_bytes();

	return bytes <= all && used(device) <= all - bytes;
}

static cuda_result make_memory(enum memory_kind kind, size_t bytes, cuda_address *out)
{
	struct CUctx_st *const context = context_here();
	int fd = -1;

	if (kind != MEMORY_PINNED && !memory_fits(context->device, bytes))
		return CUDA_OUT_OF_MEMORY;
	if (kind == MEMORY_PINNED) /* as the driver may */
		stream_drain(context, NULL);
	if (kind == MEMORY_DEVICE) {
		fd = memfd_create("standin", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			return CUDA_OUT_OF_MEMORY;
	}
	struct memory *const memory = memory_new(kind, context, bytes, fd);
	if (!memory)
		return CUDA_OUT_OF_MEMORY;
	memory->fd = fd;
	memset(memory->real, 0xa5, bytes < DIRTY_BYTES ? bytes : DIRTY_BYTES);
	if (kind == MEMORY_PINNED)
		madvise(memory->base, bytes, MADV_DONTFORK); /* no child is promised it */
	*out = ADDRESS_OF(memory->base);
	return 0;
}

CALL_OUTSIDE(cuMemAlloc_v2, (memory, bytes), cuda_address *memory, size_t bytes)
{
	return memory && bytes ? make_memory(MEMORY_DEVICE, bytes, memory) : CUDA_INVALID_VALUE;
}

CALL_OUTSIDE(cuMemAllocManaged, (memory, bytes, flags), cuda_address *memory, size_t bytes,
	     unsigned flags)
{
	return memory && bytes && (flags == 1 || flags == 2)
		       ? make_memory(MEMORY_MANAGED, bytes, memory)
		       : CUDA_INVALID_VALUE;
}

CALL_OUTSIDE(cuMemHostAlloc, (memory, bytes, flags), void **memory, size_t bytes, unsigned flags)
{
	cuda_address address;
	const cuda_result error = memory && bytes && flags < 8
					  ? make_memory(MEMORY_PINNED, bytes, &address)
					  : CUDA_INVALID_VALUE;

	if (!error)
		*memory = (void *)(uintptr_t)address;
	return error;
}

void memory_map(cuda_device device, char *base, char *real, size_t bytes,
		struct allocation *allocation)
{
	struct memory *const memory = add(MEMORY_MAPPED, NULL, base, real, bytes);

	memory->device = device;
	memory->allocation = allocation;
}

/* Memory of the program's own, which stays where it is. */
CALL_OUTSIDE(cuMemHostRegister_v2, (memory, bytes, flags), void *memory, size_t bytes,
	     unsigned flags)
{
	if (!memory || !bytes || flags >= 8)
		return CUDA_INVALID_VALUE;
	if (memory_at(ADDRESS_OF(memory)))
		return ALREADY_REGISTERED;
	stream_drain(context_here(), NULL); /* as the driver may */
	add(MEMORY_REGISTERED, context_here(), memory, memory, bytes);
	return 0;
}

CALL(cuMemHostUnregister, (memory), void *memory)
{
	struct memory *const found = memory_at(ADDRESS_OF(memory));
	cuda_result error;

	if (!found || found->kind != MEMORY_REGISTERED || found->base != memory)
		return NOT_REGISTERED;
	error = capture_forbids();
	if (error)
		return error;
	stream_drain(found->made.context, NULL);
	memory_forget(found);
	return 0;
}

/* As with the driver, all that the GPU was given before is done first: it may use the memory. */
static cuda_result give_back(cuda_address address, bool pinned)
{
	struct memory *memory = memory_at(address);

	if (!memory || address != ADDRESS_OF(memory->base) || memory->kind == MEMORY_OPENED ||
	    memory->kind == MEMORY_REGISTERED || memory->kind == MEMORY_MAPPED ||
	    (memory->kind == MEMORY_PINNED) != pinned)
		return CUDA_INVALID_VALUE;
	stream_drain(memory->made.context, NULL);
	memory = memory_at(address);
	if (!memory) /* somebody else's call was faster */
		return CUDA_INVALID_VALUE;
	memory_forget(memory);
	return 0;
}

CALL_OUTSIDE(cuMemFree_v2, (memory), cuda_address memory)
{
	return give_back(memory, false);
}

CALL_OUTSIDE(cuMemFreeHost, (memory), void *memory)
{
	return give_back(ADDRESS_OF(memory), true);
}

CALL_HERE(cuMemGetAddressRange_v2, (base, bytes, inside), cuda_address *base, size_t *bytes,
	  cuda_address inside)
{
	const struct memory *const memory = memory_at(inside);

	if (!memory)
		return NOT_FOUND;
	if (base)
		*base = ADDRESS_OF(memory->base);
	if (bytes)
		*bytes = memory->bytes;
	return 0;
}

bool memory_is_of_host(const struct memory *memory)
{
	return memory->kind == MEMORY_PINNED || memory->kind == MEMORY_REGISTERED;
}

/* `memory` NULL: it is of nobody, which is no error where several attributes are asked for at
 * once. */
static cuda_result attribute_of(const struct memory *memory, unsigned attribute, void *value)
{
	switch (attribute) {
	case CUDA_POINTER_MEMORY_TYPE:
		*(unsigned *)value = !memory			 ? 0
				     : memory_is_of_host(memory) ? CUDA_MEMORY_HOST
								 : CUDA_MEMORY_DEVICE;
		return 0;
	case CUDA_POINTER_IS_MANAGED:
		*(unsigned *)value = memory && memory->kind == MEMORY_MANAGED;
		return 0;
	case CUDA_POINTER_IS_IPC_CAPABLE:
		*(unsigned *)value = memory && memory->kind == MEMORY_DEVICE;
		return 0;
	case CUDA_POINTER_DEVICE: *(int *)value = memory ? memory->device : -2; return 0;
	default: return CUDA_INVALID_VALUE;
	}
}

CALL(cuPointerGetAttributes, (n, attributes, values, pointer), unsigned n, unsigned *attributes,
     void **values, cuda_address pointer)
{
	cuda_result error = n && attributes && values ? 0 : CUDA_INVALID_VALUE;

	for (unsigned i = 0; i < n && !error; i++)
		error = values[i] ? attribute_of(memory_at(pointer), attributes[i], values[i])
				  : CUDA_INVALID_VALUE;
	return error;
}
