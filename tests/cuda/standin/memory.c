/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the memory of GPUs, pinned and managed memory, and what is said of pointers. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* CUpointer_attribute; src/library/cuda_functions.h has the others */
enum {
	POINTER_CONTEXT = 1,
	POINTER_ON_DEVICE = 3,
	POINTER_ON_HOST = 4,
	POINTER_START = 11,
	POINTER_BYTES = 12,
	POINTER_MAPPED = 13
};

#define DIRTY_BYTES ((size_t)1 << 20) /* that memory begins with: nobody may count on zeros */

static struct memory *memories;

struct memory *memory_at(cuda_address address)
{
	for (struct memory *memory = memories; memory; memory = memory->next) {
		if (memory_holds(memory, address, 1))
			return memory;
	}
	return NULL;
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

struct memory *memory_opened(const struct CUctx_st *context, const struct CUipcMemHandle_st *handle)
{
	for (struct memory *memory = memories; memory; memory = memory->next) {
		if (memory->kind == MEMORY_OPENED && memory->context == context &&
		    memcmp(&memory->handle, handle, sizeof(*handle)) == 0)
			return memory;
	}
	return NULL;
}

static char *map(size_t bytes, int fd)
{
	char *const base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);

	return base == MAP_FAILED ? NULL : base;
}

/* An address that whoever is not a stream cannot read. */
static char *map_apart(size_t bytes)
{
	char *const base =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

/* Of the file `fd`, or with -1 of none. NULL: there is no memory for that. */
struct memory *memory_new(enum memory_kind kind, struct CUctx_st *context, size_t bytes, int fd)
{
	struct memory *const memory = calloc(1, sizeof(*memory));
	char *const real = memory ? map(bytes, fd) : NULL;
	const bool apart =
		real && (kind == MEMORY_DEVICE || kind == MEMORY_OPENED) && standin_is_apart();
	char *const base = apart ? map_apart(bytes) : real;

	if (!base) {
		if (real)
			munmap(real, bytes);
		free(memory);
		return NULL;
	}
	*memory = (struct memory){ .next = memories,
				   .kind = kind,
				   .context = context,
				   .device = context->device,
				   .base = base,
				   .real = real,
				   .bytes = bytes,
				   .fd = -1 };
	memories = memory;
	return memory;
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

/* For cublas.c, which does the work of streams, too. */
API void *standin_real(const void *address)
{
	const cuda_result error = standin_enter(__func__);
	void *const real = error ? NULL : memory_real(address);

	standin_leave(error);
	return real;
}

void memory_forget(struct memory *memory)
{
	struct memory **at = &memories;

	while (*at != memory)
		at = &(*at)->next;
	*at = memory->next;
	if (memory->kind != MEMORY_REGISTERED && memory->kind != MEMORY_MAPPED)
		munmap(memory->base, memory->bytes);
	if (memory->real != memory->base && memory->kind != MEMORY_MAPPED)
		munmap(memory->real, memory->bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory);
}

void memory_end_context(const struct CUctx_st *context)
{
	for (struct memory *memory = memories, *next; memory; memory = next) {
		next = memory->next;
		if (memory->context == context)
			memory_forget(memory);
	}
}

size_t memory_used(cuda_device device)
{
	size_t bytes = segments_used(device);

	for (const struct memory *memory = memories; memory; memory = memory->next) {
		if (memory->device == device &&
		    (memory->kind == MEMORY_DEVICE || memory->kind == MEMORY_MANAGED))
			bytes += memory->bytes;
	}
	return bytes;
}

static int new_file(size_t bytes)
{
	const int fd = memfd_create("standin", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) == 0)
		return fd;
	close(fd);
	return -1;
}

static cuda_result make_in(struct CUctx_st *context, enum memory_kind kind, size_t bytes,
			   char **out)
{
	const int fd = kind == MEMORY_DEVICE ? new_file(bytes) : -1;
	struct memory *const memory =
		fd < 0 && kind == MEMORY_DEVICE ? NULL : memory_new(kind, context, bytes, fd);

	if (!memory) {
		if (fd >= 0)
			close(fd);
		return CUDA_OUT_OF_MEMORY;
	}
	memory->fd = fd;
	memset(memory->real, 0xa5, bytes < DIRTY_BYTES ? bytes : DIRTY_BYTES);
	if (kind == MEMORY_PINNED)
		madvise(memory->base, bytes, MADV_DONTFORK); /* no child is promised it */
	*out = memory->base;
	return 0;
}

static cuda_result make(enum memory_kind kind, size_t bytes, char **out)
{
	struct CUctx_st *context;
	cuda_result error = context_current(&context);

	if (!error)
		error = capture_forbids();
	if (error)
		return error;
	if (kind != MEMORY_PINNED &&
	    (bytes > standin_memory_bytes() ||
	     memory_used(context->device) > standin_memory_bytes() - bytes))
		return CUDA_OUT_OF_MEMORY;
	if (kind == MEMORY_PINNED) /* as the driver may */
		stream_drain(context, NULL);
	return make_in(context, kind, bytes, out);
}

API cuda_result cuMemAlloc_v2(cuda_address *memory, size_t bytes)
{
	cuda_result error = standin_enter(__func__);
	char *base = NULL;

	if (!error)
		error = memory && bytes ? make(MEMORY_DEVICE, bytes, &base) : CUDA_INVALID_VALUE;
	if (!error)
		*memory = ADDRESS_OF(base);
	return standin_leave(error);
}

API cuda_result cuMemAllocManaged(cuda_address *memory, size_t bytes, unsigned flags)
{
	cuda_result error = standin_enter(__func__);
	char *base = NULL;

	if (!error)
		error = memory && bytes && (flags == 1 || flags == 2)
				? make(MEMORY_MANAGED, bytes, &base)
				: CUDA_INVALID_VALUE;
	if (!error)
		*memory = ADDRESS_OF(base);
	return standin_leave(error);
}

API cuda_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	cuda_result error = standin_enter(__func__);
	char *base = NULL;

	if (!error)
		error = memory && bytes && flags < 8 ? make(MEMORY_PINNED, bytes, &base)
						     : CUDA_INVALID_VALUE;
	if (!error)
		*memory = base;
	return standin_leave(error);
}

/* What is mapped already. */
static cuda_result add(struct memory entry)
{
	struct memory *const memory = calloc(1, sizeof(*memory));

	if (!memory)
		return CUDA_OUT_OF_MEMORY;
	entry.next = memories;
	entry.fd = -1;
	*memory = entry;
	memories = memory;
	return 0;
}

cuda_result memory_map(cuda_device device, char *base, char *real, size_t bytes,
		       struct allocation *allocation)
{
	return add((struct memory){ .kind = MEMORY_MAPPED,
				    .device = device,
				    .base = base,
				    .real = real,
				    .bytes = bytes,
				    .allocation = allocation });
}

/* Memory of the program's own, which stays where it is. */
API cuda_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error)
		error = memory && bytes && flags < 8 ? capture_forbids() : CUDA_INVALID_VALUE;
	if (!error && memory_at(ADDRESS_OF(memory)))
		error = ALREADY_REGISTERED;
	if (!error)
		stream_drain(context, NULL); /* as the driver may */
	if (!error)
		error = add((struct memory){ .kind = MEMORY_REGISTERED,
					     .context = context,
					     .device = context->device,
					     .base = memory,
					     .real = memory,
					     .bytes = bytes });
	return standin_leave(error);
}

API cuda_result cuMemHostUnregister(void *memory)
{
	cuda_result error = standin_enter(__func__);
	struct memory *const found = error ? NULL : memory_at(ADDRESS_OF(memory));

	if (!error)
		error = !found || found->kind != MEMORY_REGISTERED || found->base != memory
				? NOT_REGISTERED
				: capture_forbids();
	if (!error)
		stream_drain(found->context, NULL);
	if (!error)
		memory_forget(found);
	return standin_leave(error);
}

/* As with the driver, all that the GPU was given before is done first: it may use the memory. */
static cuda_result give_back(cuda_address address, bool pinned)
{
	struct CUctx_st *current;
	cuda_result error = context_current(&current);
	struct memory *memory = memory_at(address);

	if (!error)
		error = capture_forbids();
	if (error)
		return error;
	if (!memory || address != ADDRESS_OF(memory->base) || memory->kind == MEMORY_OPENED ||
	    memory->kind == MEMORY_REGISTERED || memory->kind == MEMORY_MAPPED ||
	    (memory->kind == MEMORY_PINNED) != pinned)
		return CUDA_INVALID_VALUE;
	stream_drain(memory->context, NULL);
	memory = memory_at(address);
	if (!memory) /* somebody else's call was faster */
		return CUDA_INVALID_VALUE;
	memory_forget(memory);
	return 0;
}

API cuda_result cuMemFree_v2(cuda_address memory)
{
	const cuda_result error = standin_enter(__func__);

	return standin_leave(error ? error : give_back(memory, false));
}

API cuda_result cuMemFreeHost(void *memory)
{
	const cuda_result error = standin_enter(__func__);

	return standin_leave(error ? error : give_back(ADDRESS_OF(memory), true));
}

API cuda_result cuMemGetAddressRange_v2(cuda_address *base, size_t *bytes, cuda_address inside)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);
	const struct memory *const memory = error ? NULL : memory_at(inside);

	if (!error)
		error = context_current(&context);
	if (!error && !memory)
		error = NOT_FOUND;
	if (!error && base)
		*base = ADDRESS_OF(memory->base);
	if (!error && bytes)
		*bytes = memory->bytes;
	return standin_leave(error);
}

API cuda_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct CUctx_st *context;
	cuda_result error = standin_enter(__func__);

	if (!error)
		error = context_current(&context);
	if (!error && (!free_bytes || !total))
		error = CUDA_INVALID_VALUE;
	if (!error) {
		*total = standin_memory_bytes();
		*free_bytes = *total - memory_used(context->device);
	}
	return standin_leave(error);
}

bool memory_is_of_host(const struct memory *memory)
{
	return memory->kind == MEMORY_PINNED || memory->kind == MEMORY_REGISTERED;
}

/* `memory` NULL: it is of nobody, which is no error where several attributes are asked for at
 * once. */
static cuda_result attribute_of(const struct memory *memory, cuda_address address,
				unsigned attribute, void *value)
{
	switch (attribute) {
	case POINTER_CONTEXT:
		*(struct CUctx_st **)value = memory ? memory->context : NULL;
		return 0;
	case CUDA_POINTER_MEMORY_TYPE:
		*(unsigned *)value = !memory			 ? 0
				     : memory_is_of_host(memory) ? CUDA_MEMORY_HOST
								 : CUDA_MEMORY_DEVICE;
		return 0;
	case POINTER_ON_DEVICE: *(cuda_address *)value = memory ? address : 0; return 0;
	case POINTER_ON_HOST: {
		const bool on_host =
			memory && (memory_is_of_host(memory) || memory->kind == MEMORY_MANAGED);

		*(void **)value = on_host ? (void *)(uintptr_t)address : NULL;
		return 0;
	}
	case CUDA_POINTER_IS_MANAGED:
		*(unsigned *)value = memory && memory->kind == MEMORY_MANAGED;
		return 0;
	case CUDA_POINTER_DEVICE: *(int *)value = memory ? memory->device : -2; return 0;
	case POINTER_START:
		*(cuda_address *)value = memory ? ADDRESS_OF(memory->base) : 0;
		return 0;
	case POINTER_BYTES: *(size_t *)value = memory ? memory->bytes : 0; return 0;
	case POINTER_MAPPED: *(unsigned char *)value = memory != NULL; return 0;
	default: return CUDA_INVALID_VALUE;
	}
}

API cuda_result cuPointerGetAttributes(unsigned n, unsigned *attributes, void **values,
				       cuda_address pointer)
{
	cuda_result error = standin_enter(__func__);

	if (!error && (!n || !attributes || !values))
		error = CUDA_INVALID_VALUE;
	for (unsigned i = 0; i < n && !error; i++)
		error = values[i] ? attribute_of(memory_at(pointer), pointer, attributes[i],
						 values[i])
				  : CUDA_INVALID_VALUE;
	return standin_leave(error);
}
