/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of callers' memory are kept, and never for longer than the memory is what it
 * was: with a device, which writes to what it was shown. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "log.h"
#include "memory.h"
#include "registration.h"
#include "test_rdma_denied.h"
#include "test_rdma_loop.h"
#include "test_rdma_port.h"
#include "test_warnings.h"
#include "transport.h"

#define PAGE	4096u
#define BYTES	(16 * PAGE)
#define LIMIT_S 60 /* for what comes at once, on a machine that is busy */
#define CHUNKS	64
#define ROUNDS	300
#define THREADS 3

static struct rdma_port port;
static struct rdma_adapter *adapter;
static struct loop loop;

static int begin(void **state)
{
	loop_begin(&loop, &port);
	adapter = loop.adapter;
	return 0;
}

static int end(void **state)
{
	loop_end(&loop);
	return 0;
}

/* ---- shorthands */

static void *map(void *at, size_t bytes, int flags)
{
	void *memory =
		mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* Word of a change may be on its way for a while: there is none then, which is no error. */
static struct rdma_registration *get(const void *pointer, size_t bytes)
{
	const uint64_t until = tt_now() + LIMIT_S * 1000000000ull;
	struct rdma_registration *r = NULL;

	while (!r && tt_now() < until)
		r = tt_rdma_registration_get(adapter, pointer, bytes);
	assert_non_null(r);
	assert_true(r->begin <= (uintptr_t)pointer &&
		    r->begin + r->bytes >= (uintptr_t)pointer + bytes);
	return r;
}

static void get_and_put(const void *pointer, size_t bytes)
{
	tt_rdma_registration_put(get(pointer, bytes));
}

static void in_child(int (*body)(uint8_t *memory), uint8_t *memory)
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's goes on with the tests */
		_exit(body(memory));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Those that the kernel told of are buried by a thread. */
static void expect(int count)
{
	const uint64_t until = tt_now() + LIMIT_S * 1000000000ull;

	while (tt_rdma_registrations() != count && tt_now() < until)
		sched_yield();
	assert_int_equal(tt_rdma_registrations(), count);
}

/* Does the device write to what the process sees? */
static void expect_to_be_seen(uint8_t *memory, const struct rdma_registration *r)
{
	uint8_t *source = map(NULL, PAGE, 0);
	struct rdma_registration *s;

	memset(source, 0x5a, PAGE);
	s = get(source, PAGE);
	memset(memory, 0, PAGE);
	loop_write(&loop, (uintptr_t)memory, r, source, s, PAGE);
	assert_memory_equal(memory, source, PAGE);
	tt_rdma_registration_put(s);
	munmap(source, PAGE);
}

/* ---- claims */

TEST_WITH(it_is_kept, begin, end)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct rdma_registration *r = get(memory, BYTES), *again;

	expect_to_be_seen(memory, r);
	expect(1);
	again = get(memory + 100, PAGE);
	assert_ptr_equal(again, r);
	tt_rdma_registration_put(again);
	tt_rdma_registration_put(r);
	assert_ptr_equal(get(memory, BYTES), r);
	assert_true(r->valid);
	tt_rdma_registration_put(r);
	expect(1);
	munmap(memory, BYTES);
	expect(0);
}

TEST_WITH(it_covers_whole_pages_and_no_more, begin, end)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct rdma_registration *r = get(memory + PAGE + 100, PAGE);

	assert_int_equal(r->begin, (uintptr_t)memory + PAGE);
	assert_int_equal(r->bytes, 2 * PAGE);
	tt_rdma_registration_put(r);
	munmap(memory, PAGE);
	munmap(memory + 3 * PAGE, BYTES - 3 * PAGE);
	expect(1);
	munmap(memory + 2 * PAGE, PAGE);
	expect(0);
	munmap(memory + PAGE, PAGE);
}

/* Changes memory that is registered, in use or not, in the way that is given: what is there
 * afterwards is registered anew. */
static void change(void (*how)(uint8_t *memory))
{
	for (int used = 0; used < 2; used++) {
		uint8_t *memory = map(NULL, BYTES, 0);
		struct rdma_registration *before = get(memory, BYTES), *after;

		memset(memory, 1, BYTES);
		if (!used)
			tt_rdma_registration_put(before);
		how(memory);
		after = get(memory, PAGE);
		if (used) {
			assert_false(before->valid);
			assert_ptr_not_equal(before, after);
		}
		expect_to_be_seen(memory, after);
		if (used)
			tt_rdma_registration_put(before);
		tt_rdma_registration_put(after);
		munmap(memory, BYTES);
		expect(0);
	}
}

static void unmap_and_map(uint8_t *memory)
{
	munmap(memory, BYTES);
	map(memory, BYTES, MAP_FIXED_NOREPLACE);
}

static void map_over(uint8_t *memory)
{
	map(memory, BYTES, MAP_FIXED);
}

static void replace_a_page(uint8_t *memory)
{
	map(memory, PAGE, MAP_FIXED);
}

static void discard(uint8_t *memory)
{
	assert_int_equal(madvise(memory, BYTES, MADV_DONTNEED), 0);
}

static void discard_a_page(uint8_t *memory)
{
	assert_int_equal(madvise(memory, PAGE, MADV_DONTNEED), 0);
}

static void move_and_map(uint8_t *memory)
{
	uint8_t *elsewhere = map(NULL, 2 * BYTES, 0);

	assert_ptr_equal(mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere),
			 elsewhere);
	map(memory, BYTES, MAP_FIXED_NOREPLACE);
	struct rdma_registration *r = get(elsewhere, BYTES);
	expect_to_be_seen(elsewhere, r);
	tt_rdma_registration_put(r);
	munmap(elsewhere, 2 * BYTES);
}

static void move_another_there(uint8_t *memory)
{
	uint8_t *elsewhere = map(NULL, BYTES, 0);

	memset(elsewhere, 2, BYTES);
	get_and_put(elsewhere, BYTES);
	assert_ptr_equal(mremap(elsewhere, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory),
			 memory);
}

TEST_WITH(what_changes_is_registered_anew, begin, end)
{
	change(unmap_and_map);
	change(map_over);
	change(replace_a_page);
	change(discard);
	change(discard_a_page);
	change(move_and_map);
	change(move_another_there);
}

TEST_WITH(free_ends_it, begin, end)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 20); /* or it learns to keep them */
	for (int i = 0; i < 20; i++) {
		void *volatile memory = malloc(4 << 20);

		get_and_put(memory, 4 << 20);
		free(memory);
	}
	expect(0);
}

/* What is sent chunk by chunk is registered in few chunks. */
TEST_WITH(chunks_that_lie_together_become_one, begin, end)
{
	uint8_t *memory = map(NULL, CHUNKS * PAGE, 0);
	int before;

	for (int i = 0; i < CHUNKS; i++)
		get_and_put(memory + (size_t)i * PAGE, PAGE);
	before = tt_rdma_registrations();
	assert_true(before <= 7); /* bits of 64 */
	for (int i = 0; i < CHUNKS; i++)
		get_and_put(memory + (size_t)i * PAGE, PAGE);
	assert_int_equal(tt_rdma_registrations(), before);
	munmap(memory, CHUNKS * PAGE);
	expect(0);
}

/* A neighbour is unmapped in the moment that one registration for both is tried: the chunk
 * itself is still to be had. */
TEST_WITH(a_hole_next_to_it_does_no_harm, begin, end)
{
	uint8_t *memory = map(NULL, 3 * PAGE, 0);

	munmap(memory + PAGE, PAGE);
	assert_null(tt_rdma_registration_get(adapter, memory, 3 * PAGE));
	get_and_put(memory, PAGE);
	get_and_put(memory + 2 * PAGE, PAGE);
	expect(2);
	munmap(memory, 3 * PAGE);
	expect(0);
}

static int told;	 /* how often, at level info or above */
static const char *what; /* expected in a line */

static void note_line(tutti_log_level_t level, const char *subsystem, const char *line,
		      void *context)
{
	if (level <= TUTTI_LOG_INFO && strstr(line, what) && strstr(line, "tutti_mem_alloc()"))
		told++;
}

/* And not a second time either. */
static void expect_none(const void *memory, size_t bytes, const char *says, int times)
{
	told = 0;
	what = says;
	tt_log_read("info");
	tutti_log_set_sink(note_line, NULL);
	for (int i = 0; i < 3; i++)
		assert_null(tt_rdma_registration_get(adapter, memory, bytes));
	assert_null(tt_rdma_registration_get(adapter, (const uint8_t *)memory + bytes - 1, 1));
	tutti_log_set_sink(NULL, NULL);
	tt_log_read(getenv("TUTTI_LOG"));
	assert_int_equal(told, times);
}

static void expect_none_of_huge_pages(void)
{
	const size_t bytes = 2 << 20;
	void *huge = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (huge == MAP_FAILED) {
		print_message(
			"not tried: huge pages, of which there are none (/proc/sys/vm/nr_hugepages)\n");
		return;
	}
	memset(huge, 1, bytes);
	expect_none(huge, bytes, "is of hugetlbfs (MAP_HUGETLB)", 1);
	munmap(huge, bytes);
}

TEST_WITH(what_cannot_be_watched_is_not_registered, begin, end)
{
	const int file = memfd_create("shared", MFD_CLOEXEC),
		  program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint8_t *shared, *alias, *image, *constant, *hole = map(NULL, BYTES, 0);

	assert_int_equal(ftruncate(file, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	image = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, program, 0);
	constant = map(NULL, BYTES, 0);
	mprotect(constant, BYTES, PROT_READ);
	munmap(hole, BYTES);
	expect_none(shared, BYTES, "is shared with other mappings (MAP_SHARED, shmat)", 1);
	expect_none(alias, BYTES, "is shared", 0); /* that is said once for all */
	expect_none(image, PAGE, "is mapped from a file", 1);
	expect_none(constant, BYTES, "cannot be written", 1);
	expect_none(hole, BYTES, "is not mapped as a whole", 1);
	expect_none_of_huge_pages();
	assert_null(tt_rdma_registration_get(adapter, hole, 0));
	expect(0);
	munmap(shared, BYTES);
	munmap(alias, BYTES);
	munmap(image, PAGE);
	munmap(constant, BYTES);
	close(file);
	close(program);
}

/* As under Docker: the heap's memory, which needs no word of the kernel's, and no other. */
static int be_denied(uint8_t *memory)
{
	uint8_t *of_heap;

	if (!deny_userfaultfd() || tt_rdma_adapter_get(port.device, &adapter) != TUTTI_OK)
		return 1;
	listen_for_warnings();
	for (int i = 0; i < 3; i++)
		if (tt_rdma_registration_get(adapter, memory, BYTES))
			return 2;
	if (warnings != 1 || !strstr(last_warning, "userfaultfd(2) is denied"))
		return 3;
	if (tutti_mem_alloc(BYTES, (void **)&of_heap) != TUTTI_OK)
		return 4;
	struct rdma_registration *r = tt_rdma_registration_get(adapter, of_heap, BYTES);

	if (!r || tt_rdma_registrations() != 1)
		return 5;
	tt_rdma_registration_put(r);
	tutti_mem_free(of_heap);
	tt_rdma_adapter_put(adapter);
	return tt_rdma_registrations() == 0 && warnings == 1 ? 0 : 6;
}

TEST(where_the_kernel_tells_nothing_only_the_heaps_memory_is)
{
	uint8_t *memory = map(NULL, BYTES, 0);

	in_child(be_denied, memory);
	munmap(memory, BYTES);
}

TEST_WITH(the_heaps_memory_is_registered_by_allocations, begin, end)
{
	struct rdma_registration *r, *other;
	uint8_t *memory, *next;

	assert_int_equal(tutti_mem_alloc(BYTES + 1, (void **)&memory), TUTTI_OK);
	assert_int_equal(tutti_mem_alloc(BYTES, (void **)&next), TUTTI_OK);
	r = get(memory + 3 * PAGE, 10);
	assert_int_equal(r->begin, (uintptr_t)memory);
	assert_int_equal(r->bytes, BYTES + PAGE);
	other = get(memory, BYTES + 1);
	assert_ptr_equal(other, r);
	expect_to_be_seen(memory, r);
	tt_rdma_registration_put(other);
	get_and_put(next, BYTES);
	expect(2);
	tutti_mem_free(next);
	assert_int_equal(tt_rdma_registrations(), 1); /* at once */
	assert_true(r->valid);
	tutti_mem_free(memory);
	assert_false(r->valid);
	tt_rdma_registration_put(r);
	assert_int_equal(tt_rdma_registrations(), 0);
}

TEST_WITH(what_is_withdrawn_is_registered_anew, begin, end)
{
	struct rdma_registration *before, *after;
	uint8_t *memory;

	assert_int_equal(tutti_mem_alloc(BYTES, (void **)&memory), TUTTI_OK);
	before = get(memory, BYTES);
	tt_heap_revoke(memory, PAGE);
	assert_false(before->valid);
	after = get(memory, PAGE);
	assert_ptr_not_equal(after, before);
	expect_to_be_seen(memory, after);
	tt_rdma_registration_put(before);
	tt_rdma_registration_put(after);
	tutti_mem_free(memory);
	expect(0);
}

/* What a child does to its copy is nobody else's business, and it can register for itself. */
static int be_child(uint8_t *memory)
{
	if (tt_rdma_registrations() != 0 || memory[0] != 7)
		return 1;
	memset(memory, 8, PAGE);
	munmap(memory, BYTES);
	if (tt_rdma_adapter_get(port.device, &adapter) != TUTTI_OK)
		return 2;
	uint8_t *mine = map(NULL, BYTES, 0);
	struct rdma_registration *r = tt_rdma_registration_get(adapter, mine, BYTES);

	if (!r || tt_rdma_registrations() != 1)
		return 3;
	munmap(mine, BYTES);
	if (tt_rdma_registrations() != 1 || r->valid) /* in this order: once it was told */
		return 4;
	tt_rdma_registration_put(r);
	tt_rdma_adapter_put(adapter);
	return tt_rdma_registrations() == 0 ? 0 : 5;
}

TEST_WITH(children_have_nothing_of_it, begin, end)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct rdma_registration *r = get(memory, BYTES);

	memset(memory, 7, BYTES);
	in_child(be_child, memory);
	assert_true(r->valid);
	expect_to_be_seen(memory, r);
	tt_rdma_registration_put(r);
	munmap(memory, BYTES);
	expect(0);
}

/* 1 MiB of locked memory, and no right to more. */
static bool become_poor(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];
	const struct rlimit limit = { 1 << 20, 1 << 20 };

	if (syscall(SYS_capget, &header, sets) < 0)
		return false;
	sets[0].effective &= ~(1u << CAP_IPC_LOCK);
	sets[0].permitted &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &header, sets) == 0 && setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

static int be_poor(uint8_t *memory)
{
	struct rdma_registration *r, *s;

	if (!become_poor() || tt_rdma_adapter_get(port.device, &adapter) != TUTTI_OK)
		return 1;
	if (tt_rdma_registration_get(adapter, memory, 2 << 20)) /* more than there is */
		return 2;
	r = tt_rdma_registration_get(adapter, memory, 400 << 10);
	tt_rdma_registration_put(r);
	s = tt_rdma_registration_get(adapter, memory + (1 << 20), 400 << 10);
	if (!r || !s || tt_rdma_registrations() != 2)
		return 3;
	/* instead of the first */
	r = tt_rdma_registration_get(adapter, memory + (2 << 20), 400 << 10);
	if (!r || tt_rdma_registrations() != 2)
		return 4;
	if (tt_rdma_registration_get(adapter, memory, 400 << 10)) /* nothing that could go */
		return 5;
	tt_rdma_registration_put(r);
	tt_rdma_registration_put(s);
	tt_rdma_adapter_put(adapter);
	return tt_rdma_registrations() == 0 ? 0 : 6;
}

TEST_WITH(where_memory_is_short_the_unused_goes, begin, end)
{
	uint8_t *memory = map(NULL, 4 << 20, 0);

	in_child(be_poor, memory);
	munmap(memory, 4 << 20);
}

/* ---- threads */

/* Another thread's munmap() is not over, but its addresses are already ours. */
static void *unmap(void *memory)
{
	munmap(memory, BYTES);
	return NULL;
}

TEST_WITH(addresses_that_another_thread_gave_up_are_registered_anew, begin, end)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *memory = map(NULL, BYTES, 0);
		struct rdma_registration *before = get(memory, BYTES), *after;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, unmap, memory), 0);
		while (mmap(memory, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != memory)
			;
		after = get(memory, BYTES);
		assert_ptr_not_equal(before, after);
		pthread_join(thread, NULL);
		tt_rdma_registration_put(before);
		tt_rdma_registration_put(after);
		munmap(memory, BYTES);
	}
	expect(0);
}

/* Uses memory of its own again and again, which comes and goes by way of the C library, so that
 * all wait for all. */
static void *come_and_go(void *argument)
{
	struct rdma_adapter *of = adapter;

	for (int i = 0; i < ROUNDS; i++) {
		const size_t bytes = (size_t)(i % 7 + 1) * 100000;
		uint8_t *memory = malloc(bytes);

		for (int k = 0; k < 3; k++) {
			struct rdma_registration *r = tt_rdma_registration_get(of, memory, bytes);

			memory[k] = 1;
			if (r)
				tt_rdma_registration_put(r);
		}
		free(memory);
	}
	return NULL;
}

TEST_WITH(threads_come_and_go, begin, end)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *memory = map(NULL, BYTES, 0);

		get_and_put(memory, BYTES);
		munmap(memory, BYTES);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	const int none = find_port(&port);

	return none ? none : run_claims(NULL, NULL);
}
