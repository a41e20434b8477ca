/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory. Before each block is its owner's mark; blocks without it are the C library's own. */
#include "calls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

extern char __executable_start[];

void *__real_malloc(size_t size);
void __real_free(void *pointer);

#define MARK 0x74757474692d626cu

struct block {
	struct block *next, *prev;
	void *base; /* what the C library gave */
	size_t size;
	const void *caller;
	bool of_task;
	uint64_t mark;
};
#define HEAD ((sizeof(struct block) + 15) / 16 * 16)

static struct {
	struct block first; /* of a ring */
	size_t unfreed;
	uint64_t fail_one_in;
	unsigned refused[PROCESSES_MAX]; /* to each process */
} memory = { .first = { &memory.first, &memory.first } };

static bool refuses(void)
{
	if (!machine_inside() || !random_one_in(machine_random(), memory.fail_one_in))
		return false;
	machine_trace("no memory");
	memory.refused[machine_process()]++;
	errno = ENOMEM;
	return true;
}

static void *allocate(size_t alignment, size_t size, const void *caller)
{
	const size_t before =
		alignment > HEAD ? alignment : (HEAD + alignment - 1) / alignment * alignment;
	char *base;

	if (refuses() || size > SIZE_MAX / 2 || !(base = __real_malloc(before + alignment + size)))
		return NULL;
	char *at = (char *)(((uintptr_t)base + before + alignment - 1) / alignment * alignment);
	struct block *block = (struct block *)(at - HEAD);
	*block = (struct block){ .next = memory.first.next,
				 .prev = &memory.first,
				 .base = base,
				 .size = size,
				 .caller = caller,
				 .of_task = machine_inside(),
				 .mark = MARK };
	memory.first.next->prev = block;
	memory.first.next = block;
	memory.unfreed += block->of_task;
	return at;
}

/* What the C library gave by itself has other bytes before it, which no sanitizer lets us see. */
__attribute__((no_sanitize_address)) static struct block *block_of(void *pointer)
{
	struct block *block = (struct block *)((char *)pointer - HEAD);

	return block->mark == MARK ? block : NULL;
}

static void release(struct block *block)
{
	block->next->prev = block->prev;
	block->prev->next = block->next;
	memory.unfreed -= block->of_task;
	block->mark = 0;
	__real_free(block->base);
}

void *__wrap_malloc(size_t size)
{
	return allocate(16, size, __builtin_return_address(0));
}

void *__wrap_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *pointer = allocate(16, bytes, __builtin_return_address(0));

	if (pointer)
		memset(pointer, 0, bytes);
	return pointer;
}

void *__wrap_realloc(void *pointer, size_t size)
{
	void *grown = allocate(16, size, __builtin_return_address(0));

	if (!grown || !pointer)
		return grown;
	struct block *block = block_of(pointer);

	assert(block); /* the library grows what it has allocated itself */
	memcpy(grown, pointer, block->size < size ? block->size : size);
	release(block);
	return grown;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return allocate(alignment < 16 ? 16 : alignment, size, __builtin_return_address(0));
}

void __wrap_free(void *pointer)
{
	struct block *block = pointer ? block_of(pointer) : NULL;

	if (block)
		release(block);
	else
		__real_free(pointer);
}

void calls_fail_memory(uint64_t one_in)
{
	memory.fail_one_in = one_in;
}

unsigned calls_refused(void)
{
	return memory.refused[machine_process()];
}

size_t calls_unfreed(void)
{
	for (const struct block *block = memory.first.next;
	     block != &memory.first && memory.unfreed; block = block->next)
		if (block->of_task)
			machine_trace("not freed: %zu bytes, allocated at %#zx of the program",
				      block->size,
				      (size_t)((const char *)block->caller - __executable_start));
	return memory.unfreed;
}

void *calls_allocate(size_t size)
{
	void *memory_of_ours = __real_malloc(size ? size : 1);

	if (!memory_of_ours) {
		perror("simulate");
		exit(2);
	}
	return memory_of_ours;
}

void calls_release(void *pointer)
{
	__real_free(pointer);
}
