/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns handles by which other processes find memory of GPUs: which descriptor of which process
 * it is. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x6e69646e61747363u

struct token {
	uint64_t magic, bytes, inode; /* the inode: descriptors and process numbers are used
				       * again */
	int32_t process, fd, device;  /* the device as the machine numbers it */
};

_Static_assert(sizeof(struct token) <= sizeof(struct CUipcMemHandle_st), "a handle has no room");

/* Of memory inside an allocation: the handle is the allocation's. */
CALL_HERE(cuIpcGetMemHandle, (handle, address), struct CUipcMemHandle_st *handle,
	  cuda_address address)
{
	const struct memory *const memory = memory_at(address);
	struct stat stat;

	if (!handle || !memory || memory->kind != MEMORY_DEVICE)
		return CUDA_INVALID_VALUE;
	if (fstat(memory->fd, &stat) < 0)
		return UNKNOWN;
	const struct token token = { .magic = MAGIC,
				     .bytes = memory->bytes,
				     .inode = stat.st_ino,
				     .process = getpid(),
				     .fd = memory->fd,
				     .device = standin_first() + memory->device };

	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &token, sizeof(token));
	return 0;
}

/* INVALID_HANDLE: it was freed, or its process has ended. */
static cuda_result map(struct CUctx_st *context, const struct token *token, struct memory **out)
{
	char path[64];
	struct stat stat;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", token->process, token->fd);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return INVALID_HANDLE;
	const bool same = fstat(fd, &stat) == 0 && stat.st_ino == token->inode &&
			  (uint64_t)stat.st_size == token->bytes;
	*out = same ? memory_new(MEMORY_OPENED, context, token->bytes, fd) : NULL;
	close(fd);
	return !same ? INVALID_HANDLE : *out ? 0 : MAP_FAILED_THERE;
}

/* `device`: as this process numbers it, or would. */
static cuda_result reach(struct CUctx_st *context, cuda_device device)
{
	if (context->device == device)
		return 0;
	if (!standin_reaches(standin_first() + context->device, standin_first() + device))
		return PEER_UNSUPPORTED;
	if (standin_has(device))
		context->peers[device] = true;
	return 0;
}

static struct memory *opened(const struct CUctx_st *context, const struct CUipcMemHandle_st *handle)
{
	struct memory *memory = next_made(MEMORIES, NULL);

	while (memory && (memory->kind != MEMORY_OPENED || memory->made.context != context ||
			  memcmp(&memory->handle, handle, sizeof(*handle)) != 0))
		memory = next_made(MEMORIES, memory);
	return memory;
}

CALL_OUTSIDE(cuIpcOpenMemHandle_v2, (out, handle, flags), cuda_address *out,
	     struct CUipcMemHandle_st handle, unsigned flags)
{
	struct CUctx_st *const context = context_here();
	struct memory *memory = opened(context, &handle);
	struct token token;

	memcpy(&token, &handle, sizeof(token));
	if (!out || flags != CUDA_IPC_LAZY_PEER_ACCESS || token.magic != MAGIC)
		return CUDA_INVALID_VALUE;
	if (token.process == getpid())
		return CUDA_INVALID_CONTEXT;
	if (!memory) {
		const cuda_device device = token.device - standin_first();
		cuda_result error = reach(context, device);

		if (!error)
			error = map(context, &token, &memory);
		if (error)
			return error;
		memory->device = device;
		memory->handle = handle;
	}
	memory->opened++;
	*out = ADDRESS_OF(memory->base);
	return 0;
}

/* The last close waits for all that the GPU was given before. */
CALL_OUTSIDE(cuIpcCloseMemHandle, (address), cuda_address address)
{
	struct CUctx_st *const context = context_here();
	struct memory *const memory = memory_at(address);

	if (!memory || memory->kind != MEMORY_OPENED || memory->made.context != context ||
	    address != ADDRESS_OF(memory->base))
		return CUDA_INVALID_VALUE;
	if (--memory->opened)
		return 0;
	memory->handle.reserved[0] ^= 1; /* who opens it meanwhile gets a mapping of its own */
	stream_drain(context, NULL);
	memory_forget(memory);
	return 0;
}
