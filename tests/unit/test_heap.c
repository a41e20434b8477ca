/* SPDX-License-Identifier: BSD-3-Clause */
/* What of the heap peers may be granted, and how it is taken away from them again. A peer's view
 * is a second mapping of the heap's file, as peers have one. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "memory.h"
#include "tutti/tutti.h"

#define PAGE  4096u
#define BYTES (3 * PAGE + 100)

/* ---- the linker hands mappings to this file: by the name that they have where offsets have 64
 * bits */

static bool out_of_memory;

void *__real_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
	if (out_of_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap64(at, bytes, rights, flags, fd, offset);
}

/* ---- the heap as a peer has it */

static uint8_t *peers_view(void)
{
	static uint8_t *view;

	if (!view)
		view = mmap(NULL, tt_heap_size(), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_NORESERVE, tt_heap_fd(), 0);
	assert_true(view != MAP_FAILED);
	return view;
}

static uint8_t *get(size_t bytes)
{
	void *memory;

	assert_ok(tutti_mem_alloc(bytes, &memory));
	return memory;
}

static uint64_t offset_of(const void *pointer, size_t bytes)
{
	uint64_t offset = UINT64_MAX;

	assert_true(tt_heap_offset(pointer, bytes, &offset));
	return offset;
}

static bool is_all(const uint8_t *memory, size_t n, uint8_t value)
{
	return memory[0] == value && memcmp(memory, memory + 1, n - 1) == 0;
}

static long heap_kib(void)
{
	struct stat info;

	assert_int_equal(fstat(tt_heap_fd(), &info), 0);
	return (long)info.st_blocks / 2;
}

/* ---- */

static void fork_and_wait(tutti_log_level_t level, const char *subsystem, const char *line,
			  void *lines)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	*(int *)lines += waitpid(pid, NULL, 0) == pid;
}

/* In a process whose heap nobody has used. */
static int log_what_forks(void *unused)
{
	const struct rlimit limit = { 1 << 30, 1 << 30 };
	int lines = 0;

	alarm(20);
	tutti_log_set_sink(fork_and_wait, &lines);
	setrlimit(RLIMIT_FSIZE, &limit);
	tt_heap_fd();
	return lines != 1;
}

TEST_OF(a_log_that_forks_holds_up_no_allocation, in_child(log_what_forks, NULL))

/* Nor here. The limit is above what a sanitizer takes. */
static int have_no_room(void *unused)
{
	const struct rlimit limit = { (rlim_t)1 << 46, (rlim_t)1 << 46 };
	void *memory;

	setrlimit(RLIMIT_AS, &limit);
	out_of_memory = true;
	return tutti_mem_alloc(BYTES, &memory) != TUTTI_ERR_NO_MEMORY ||
	       !strstr(tutti_last_error(NULL),
		       ": this process may have 70368744177664 bytes of address space; "
		       "raise the limit (ulimit -v)");
}

TEST_OF(a_heap_without_room_names_the_limit, in_child(have_no_room, NULL))

TEST(whole_pages_are_grantable)
{
	uint8_t *memory = get(BYTES), on_the_stack[2 * PAGE] __attribute__((aligned(4096)));

	assert_true(tt_heap_is_grantable(memory, BYTES)); /* behind it there is nothing */
	assert_true(tt_heap_is_grantable(memory + PAGE, 2 * PAGE));
	assert_true(tt_heap_is_grantable(memory + 3 * PAGE, 100));
	assert_false(tt_heap_is_grantable(memory, BYTES - 4));
	assert_false(tt_heap_is_grantable(memory + 64, 2 * PAGE));
	assert_false(tt_heap_is_grantable(on_the_stack, PAGE));
	tutti_mem_free(memory);
}

TEST(what_is_revoked_is_out_of_the_peers_reach)
{
	uint8_t *memory = get(BYTES), *view = peers_view();
	const uint64_t before = offset_of(memory, BYTES);
	uint64_t after;

	memset(memory, 1, BYTES);
	assert_true(is_all(view + before, BYTES, 1));
	for (int times = 0; times < 3; times++) {
		tt_heap_revoke(memory, BYTES);
		after = offset_of(memory, BYTES);
		assert_int_not_equal(before, after);
		assert_true(is_all(memory, BYTES, 1));	     /* as it was */
		assert_true(is_all(view + after, BYTES, 1)); /* by its new name */
		memset(view + before, 9, BYTES);
		assert_true(is_all(memory, BYTES, 1));
		assert_true(tt_heap_is_grantable(memory, BYTES));
	}
	tutti_mem_free(memory);
	assert_true(is_all(view + after, BYTES, 0)); /* its pages are given back */
}

TEST(a_buffer_that_was_revoked_in_part_is_not_in_one_piece)
{
	uint8_t *memory = get(4 * PAGE);
	uint64_t offset;

	tt_heap_revoke(memory + PAGE, 2 * PAGE);
	assert_false(tt_heap_offset(memory, 4 * PAGE, &offset));
	assert_false(tt_heap_offset(memory + PAGE - 1, 2, &offset));
	assert_true(tt_heap_offset(memory, PAGE, &offset));
	assert_int_equal(offset_of(memory + 2 * PAGE, PAGE),
			 offset_of(memory + PAGE, 2 * PAGE) + PAGE);
	tutti_mem_free(memory);
}

TEST(nobody_gets_what_peers_may_still_write_to)
{
	uint8_t *memory = get(BYTES), *view = peers_view(), *others[8];
	const uint64_t before = offset_of(memory, BYTES);

	tt_heap_revoke(memory, BYTES);
	tutti_mem_free(memory);
	for (int i = 0; i < 8; i++)
		others[i] = get(BYTES);
	memset(view + before, 9, BYTES);
	for (int i = 0; i < 8; i++) {
		assert_true(is_all(others[i], BYTES, 0));
		tutti_mem_free(others[i]);
	}
	tutti_mem_free(memory); /* twice: said to be nobody's, and no harm done */
}

TEST(without_memory_it_stays_as_it_is)
{
	uint8_t *memory = get(BYTES);
	const uint64_t before = offset_of(memory, BYTES);

	memset(memory, 1, BYTES);
	out_of_memory = true;
	tt_heap_revoke(memory, BYTES); /* the log says what that means */
	out_of_memory = false;
	assert_int_equal(offset_of(memory, BYTES), before);
	assert_true(is_all(memory, BYTES, 1));
	tutti_mem_free(memory);
	/* peers may still write there */
	uint8_t *other = get(BYTES);
	assert_int_not_equal(offset_of(other, BYTES), before);
	tutti_mem_free(other);
}

/* Of a block of 64 MiB two pages have been touched. */
TEST(what_nobody_has_touched_is_not_copied)
{
	const size_t bytes = 64u << 20, last = bytes - PAGE;
	uint8_t *memory = get(bytes);

	memory[5] = 5;
	memory[last] = 6;
	tt_heap_revoke(memory, bytes);
	assert_int_equal(memory[5], 5);
	assert_int_equal(memory[last], 6);
	assert_int_equal(memory[bytes / 2], 0);
	assert_true(heap_kib() <= 3 * 2048 + 1024); /* pages may be huge */
	tutti_mem_free(memory);
}

TEST(freed_pages_go_back)
{
	const size_t bytes = 32u << 20, more = 1u << 20;
	const long before = heap_kib();
	uint8_t *memory = get(bytes), *other = get(more);

	memset(memory, 1, bytes);
	memset(other, 1, more);
	assert_true(heap_kib() >= before + 33 * 1024);
	tutti_mem_free(memory);
	assert_true(heap_kib() <= before + 4 * 1024);
	tutti_mem_free(other);
	assert_true(heap_kib() <= before);
}

/* ---- who is told */

static struct {
	const void *pointer;
	size_t bytes;
	int times;
	bool taken; /* its place was still its own */
	uint8_t first;
} told;

static void tell(const void *pointer, size_t bytes)
{
	void *begin;
	size_t length;

	told.pointer = pointer;
	told.bytes = bytes;
	told.times++;
	told.taken = tt_heap_allocation(pointer, bytes, &begin, &length) && begin == pointer;
	told.first = *(const uint8_t *)pointer;
}

TEST(allocations_are_found_by_any_part_of_them)
{
	uint8_t *memory = get(BYTES), *next = get(PAGE), on_the_stack;
	void *begin = NULL;
	size_t length = 0;

	assert_true(tt_heap_allocation(memory + 2 * PAGE, 1, &begin, &length));
	assert_ptr_equal(begin, memory);
	assert_int_equal(length, 4 * PAGE);
	assert_true(tt_heap_allocation(memory, BYTES, &begin, &length));
	assert_false(tt_heap_allocation(memory, 5 * PAGE, &begin, &length));
	assert_false(tt_heap_allocation(&on_the_stack, 1, &begin, &length));
	tutti_mem_free(memory);
	assert_false(tt_heap_allocation(memory, 1, &begin, &length));
	tutti_mem_free(next);
}

TEST(who_asked_is_told_before_memory_is_freed_and_after_it_was_replaced)
{
	static struct tt_heap_watch watch = { .gone = tell };
	uint8_t *memory = get(BYTES);
	const uint64_t before = offset_of(memory, PAGE);

	tt_heap_watch(&watch);
	memset(memory, 5, BYTES);
	tt_heap_revoke(memory, PAGE);
	assert_int_equal(told.times, 1);
	assert_ptr_equal(told.pointer, memory);
	assert_int_equal(told.bytes, PAGE);
	assert_int_not_equal(offset_of(memory, PAGE), before);
	tutti_mem_free(memory);
	assert_int_equal(told.times, 2);
	assert_ptr_equal(told.pointer, memory);
	assert_int_equal(told.bytes, 4 * PAGE);
	assert_true(told.taken);
	assert_int_equal(told.first, 5);
	tutti_mem_free(memory); /* nobody's: nothing is told */
	assert_int_equal(told.times, 2);
}
