/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of callers' memory are kept, and never for longer than the memory is what it was:
 * by the running kernel, which tells of changes, with a libibverbs that a test makes up. What is
 * not registered is said. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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
#include "monitor.h"
#include "negative.h"
#include "registration.h"
#include "test_shortage.h"
#include "test_warnings.h"
#include "transport.h"

#include "../refuse_calls.h"

#define NEW_DESCRIPTOR 0xaa00 /* USERFAULTFD_IOC_NEW, which older headers lack */

#define SKIP	77
#define PAGE	4096u
#define BYTES	(16 * PAGE)
#define LIMIT_S 60 /* for what comes at once, on a machine that is busy */
#define CHUNKS	64
#define ROUNDS	300
#define THREADS 3

/* ---- a device, and threads, of which there are so many to be had */

static size_t registered, lockable = SIZE_MAX, longest = SIZE_MAX; /* bytes */
static int regions_wanted;
static pthread_mutex_t of_device = PTHREAD_MUTEX_INITIALIZER;

static int forks_are_harmless(void)
{
	return VERBS_FORK_UNNEEDED;
}

static struct ibv_mr *register_bytes(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	struct ibv_mr *mr = NULL;

	pthread_mutex_lock(&of_device);
	regions_wanted++;
	if (bytes <= longest && registered + bytes <= lockable) {
		mr = calloc(1, sizeof(*mr));
		mr->length = bytes;
		registered += bytes;
	}
	pthread_mutex_unlock(&of_device);
	errno = bytes > longest ? EFAULT : ENOMEM;
	return mr;
}

static int deregister(struct ibv_mr *mr)
{
	pthread_mutex_lock(&of_device);
	registered -= mr->length;
	pthread_mutex_unlock(&of_device);
	free(mr);
	return 0;
}

static const struct rdma_verbs verbs = { .is_fork_initialized = forks_are_harmless,
					 .reg_mr = register_bytes,
					 .dereg_mr = deregister };
static struct rdma_adapter adapter = { .verbs = &verbs, .name = "made_up0" };

static int threads_left = 1000000, threads_wanted;

/* In the place of the C library's. */
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
		   void *(*body)(void *), void *restrict argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *const theirs = dlsym(RTLD_NEXT, "pthread_create");

	threads_wanted++;
	if (threads_left == 0)
		return EAGAIN;
	threads_left--;
	memcpy(&create, &theirs, sizeof(create));
	return create(thread, attributes, body, argument);
}

static int begin(void **state)
{
	tt_rdma_registrations_open(&adapter);
	return 0;
}

static int end(void **state)
{
	tt_rdma_registrations_close(&adapter);
	assert_int_equal(tt_rdma_registrations(), 0);
	assert_int_equal(registered, 0);
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
		r = tt_rdma_registration_get(&adapter, pointer, bytes);
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

/* ---- what is kept, and for how long */

TEST_WITH(it_is_kept, begin, end)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct rdma_registration *r = get(memory, BYTES), *again;

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
		const int wanted = regions_wanted;

		after = get(memory, PAGE);
		assert_true(regions_wanted > wanted);
		if (used) {
			assert_false(before->valid);
			assert_ptr_not_equal(before, after);
			tt_rdma_registration_put(before);
		}
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

static void replace_a_page(uint8_t *memory)
{
	map(memory, PAGE, MAP_FIXED);
}

static void discard_a_page(uint8_t *memory)
{
	assert_int_equal(madvise(memory, PAGE, MADV_DONTNEED), 0);
}

static void let_the_last_page_go(uint8_t *memory)
{
	assert_int_equal(madvise(memory + BYTES - PAGE, PAGE, MADV_FREE), 0);
}

static void move_and_map(uint8_t *memory)
{
	uint8_t *elsewhere = map(NULL, 2 * BYTES, 0);

	assert_ptr_equal(mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere),
			 elsewhere);
	map(memory, BYTES, MAP_FIXED_NOREPLACE);
	get_and_put(elsewhere, BYTES);
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
	static void (*const ways[])(uint8_t *) = { unmap_and_map,  replace_a_page,
						   discard_a_page, let_the_last_page_go,
						   move_and_map,   move_another_there };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		change(ways[i]);
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

/* ---- what is not registered */

/* At level info. */
static void listen_to(const char *words)
{
	tt_log_read("info");
	listen_for(TUTTI_LOG_INFO, words);
}

static void expect_told(int times)
{
	leave_warnings();
	tt_log_read(getenv("TUTTI_LOG"));
	assert_int_equal(warnings, times);
}

/* And not a second time either. It is unmapped. */
static void expect_none(void *memory, size_t bytes, const char *says, int times)
{
	assert_ptr_not_equal(memory, MAP_FAILED);
	listen_to(says);
	for (int i = 0; i < 3; i++)
		assert_null(tt_rdma_registration_get(&adapter, memory, bytes));
	assert_null(tt_rdma_registration_get(&adapter, (const uint8_t *)memory + bytes - 1, 1));
	expect_told(times);
	munmap(memory, bytes);
	tt_rdma_negative_forget(&adapter); /* what comes next may be at the same place */
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
	expect_none(huge, bytes, "is of hugetlbfs (MAP_HUGETLB), and devices are shown", 1);
}

TEST_WITH(what_cannot_be_watched_is_not_registered, begin, end)
{
	const int file = memfd_create("anon_hugepages", MFD_CLOEXEC), /* which it has none of */
		program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
		  both = PROT_READ | PROT_WRITE;
	uint8_t *hole = map(NULL, BYTES, 0);

	munmap(hole, BYTES);
	assert_int_equal(ftruncate(file, BYTES), 0);
	expect_none(mmap(NULL, BYTES, both, MAP_SHARED, file, 0), BYTES,
		    "is shared with other mappings (MAP_SHARED, shmat), and devices are shown", 1);
	/* that is said once for all */
	expect_none(mmap(NULL, BYTES, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0), BYTES, "is shared",
		    0);
	expect_none(mmap(NULL, PAGE, both, MAP_PRIVATE, program, 0), PAGE,
		    "is mapped from a file, and devices are shown", 1);
	expect_none(mmap(NULL, PAGE, both, MAP_PRIVATE, file, 0), PAGE, "is mapped", 0);
	expect_none(mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), BYTES,
		    "cannot be written, and devices are shown", 1);
	expect_none(hole, BYTES, "is not mapped as a whole, and devices are shown", 1);
	expect_none_of_huge_pages();
	assert_null(tt_rdma_registration_get(&adapter, hole, 0));
	expect(0);
	close(file);
	close(program);
}

TEST_WITH(what_lies_beside_it_does_no_harm, begin, end)
{
	uint8_t *memory = map(NULL, 4 * PAGE, 0);
	struct rdma_registration *r;

	/* a hole */
	munmap(memory + PAGE, PAGE);
	assert_null(tt_rdma_registration_get(&adapter, memory, 3 * PAGE));
	get_and_put(memory, PAGE);
	get_and_put(memory + 2 * PAGE, PAGE);
	expect(2);
	/* registered memory that cannot be had together with it, as when it is unmapped in this
	 * moment */
	longest = PAGE;
	r = tt_rdma_registration_get(&adapter, memory + 3 * PAGE, PAGE);
	assert_non_null(r);
	tt_rdma_registration_put(r);
	longest = SIZE_MAX;
	munmap(memory, 4 * PAGE);
	expect(0);
}

/* The list of mappings takes a descriptor. */
TEST_WITH(memory_that_cannot_be_looked_up_is_said_to_be_unknown, begin, end)
{
	uint8_t *memory = map(NULL, PAGE, 0);
	const struct rdma_registration r = { .adapter = &adapter,
					     .begin = (uintptr_t)memory,
					     .bytes = PAGE,
					     .of = RDMA_OF_PROGRAM };
	struct shortage shortage;

	listen_to(
		"are copied on their way: what memory this is cannot be known, as /proc/self/maps "
		"cannot be opened (Too many open files");
	shortage_begin(&shortage);
	for (int i = 0; i < 2; i++)
		tt_rdma_refuse(&r, &(struct rdma_reason){ RDMA_NOT_NOW });
	shortage_end(&shortage);
	expect_told(1);
	munmap(memory, PAGE);
}

/* As by libibverbs before rdma-core 35. */
TEST(what_children_would_lack_is_not_registered)
{
	static const struct rdma_verbs old_verbs;
	struct rdma_adapter old = { .verbs = &old_verbs, .name = "old0" };
	uint8_t *memory = map(NULL, PAGE, 0);

	listen_to("long messages by old0 are copied");
	for (int i = 0; i < 2; i++) {
		tt_rdma_registrations_open(&old);
		assert_null(tt_rdma_registration_get(&old, memory, PAGE));
		tt_rdma_registrations_close(&old);
	}
	expect_told(1);
	munmap(memory, PAGE);
}

/* No descriptor for the kernel's word, then one, but none for the bell. It is no denial, and
 * passes. */
static int be_short_of_descriptors(uint8_t *memory)
{
	struct shortage shortage;
	int begun = 0;

	listen_for_warnings();
	shortage_begin(&shortage);
	begun += tt_rdma_monitor_begin();
	begun += tt_rdma_monitor_begin();
	shortage_free_one(&shortage);
	begun += tt_rdma_monitor_begin();
	shortage_end(&shortage);
	if (begun)
		return 1;
	if (warnings != 1 ||
	    !strstr(last_warning,
		    "no descriptor can be had for now (Too many open files); raise the limit (ulimit -n)"))
		return 2;
	if (!tt_rdma_monitor_begin())
		return 3;
	tt_rdma_monitor_end();
	return warnings == 1 ? 0 : 4;
}

TEST(a_want_of_descriptors_is_no_denial_and_passes)
{
	in_child(be_short_of_descriptors, NULL);
}

/* The one that listens to the kernel, and none that buries. */
TEST_WITH(a_want_of_threads_is_said_once_and_they_are_tried_after_a_while, begin, end)
{
	const uint64_t until = tt_now() + LIMIT_S * 1000000000ull, before = tt_now();
	void *memory = map(NULL, PAGE, 0);

	listen_for_warnings();
	regions_wanted = threads_wanted = 0;
	threads_left = 1;
	for (int i = 0; i < 10; i++)
		assert_null(tt_rdma_registration_get(&adapter, memory, PAGE));
	assert_int_equal(warnings, 1);
	if (tt_now() - before < 1000000000u) /* not on a machine that stood still meanwhile */
		assert_int_equal(threads_wanted, 2);
	while (threads_wanted == 2 && tt_now() < until)
		assert_null(tt_rdma_registration_get(&adapter, memory, PAGE));
	assert_int_equal(threads_wanted, 3);
	assert_int_equal(regions_wanted, 0);
	threads_left = 1000000;
	get_and_put(memory, PAGE);
	assert_int_equal(regions_wanted, 1);
	leave_warnings();
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(
		last_warning,
		"no thread can be had for now (Resource temporarily unavailable); raise the limit (ulimit -u)"));
	munmap(memory, PAGE);
}

/* For good, with /dev/userfaultfd, as by Docker. */
static bool deny_userfaultfd(void)
{
	const struct refused_call calls[] = { { SYS_userfaultfd, 0 },
					      { SYS_ioctl, NEW_DESCRIPTOR } };

	return refuse_calls(EPERM, calls, 2);
}

/* As under Docker: the heap's memory, which needs no word of the kernel's, and no other. */
static int be_denied(uint8_t *memory)
{
	uint8_t *of_heap;

	if (!deny_userfaultfd())
		return 1;
	tt_rdma_registrations_open(&adapter);
	listen_for_warnings();
	for (int i = 0; i < 3; i++)
		if (tt_rdma_registration_get(&adapter, memory, BYTES))
			return 2;
	if (warnings != 1 ||
	    !strstr(last_warning, "userfaultfd(2) is denied (Operation not permitted)") ||
	    !strstr(last_warning, "tutti_mem_alloc()"))
		return 3;
	if (tutti_mem_alloc(BYTES, (void **)&of_heap) != TUTTI_OK)
		return 4;
	struct rdma_registration *r = tt_rdma_registration_get(&adapter, of_heap, BYTES);

	if (!r || tt_rdma_registrations() != 1)
		return 5;
	tt_rdma_registration_put(r);
	tutti_mem_free(of_heap);
	tt_rdma_registrations_close(&adapter);
	return tt_rdma_registrations() == 0 && warnings == 1 ? 0 : 6;
}

TEST(where_the_kernel_tells_nothing_only_the_heaps_memory_is)
{
	uint8_t *memory = map(NULL, BYTES, 0);

	in_child(be_denied, memory);
	munmap(memory, BYTES);
}

/* ---- the heap, children, limits */

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
	tt_rdma_registration_put(other);
	get_and_put(next, BYTES);
	expect(2);
	tutti_mem_free(next);
	assert_int_equal(tt_rdma_registrations(), 1); /* at once */
	assert_true(r->valid);
	tt_heap_revoke(memory, PAGE); /* from peers, as if it was freed */
	assert_false(r->valid);
	other = get(memory, PAGE);
	assert_ptr_not_equal(other, r);
	tt_rdma_registration_put(r);
	tutti_mem_free(memory);
	assert_false(other->valid);
	tt_rdma_registration_put(other);
	assert_int_equal(tt_rdma_registrations(), 0);
}

/* What a child does to its copy is nobody else's business, and it can register for itself. */
static int be_child(uint8_t *memory)
{
	if (tt_rdma_registrations() != 0 || memory[0] != 7)
		return 1;
	memset(memory, 8, PAGE);
	munmap(memory, BYTES);
	tt_rdma_registrations_open(&adapter);
	uint8_t *mine = map(NULL, BYTES, 0);
	struct rdma_registration *r = tt_rdma_registration_get(&adapter, mine, BYTES);

	if (!r || tt_rdma_registrations() != 1)
		return 2;
	munmap(mine, BYTES);
	if (tt_rdma_registrations() != 1 || r->valid) /* in this order: once it was told */
		return 3;
	tt_rdma_registration_put(r);
	tt_rdma_registrations_close(&adapter);
	return tt_rdma_registrations() == 0 ? 0 : 4;
}

TEST_WITH(children_have_nothing_of_it, begin, end)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct rdma_registration *r = get(memory, BYTES);

	memset(memory, 7, BYTES);
	in_child(be_child, memory);
	assert_true(r->valid);
	tt_rdma_registration_put(r);
	munmap(memory, BYTES);
	expect(0);
}

TEST_WITH(where_memory_is_short_the_unused_goes, begin, end)
{
	const size_t bytes = 400 << 10;
	uint8_t *memory = map(NULL, 4 << 20, 0);
	struct rlimit before, low;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	low = before;
	low.rlim_cur = lockable = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	/* more than there is */
	listen_to("cannot be locked for made_up0");
	assert_null(tt_rdma_registration_get(&adapter, memory, 2 << 20));
	expect_told(1);
	get_and_put(memory, bytes);
	struct rdma_registration *first = get(memory + (1 << 20), bytes);

	assert_int_equal(tt_rdma_registrations(), 2);
	/* instead of the one that nobody uses */
	struct rdma_registration *second = get(memory + (2 << 20), bytes);

	assert_int_equal(tt_rdma_registrations(), 2);
	assert_null(tt_rdma_registration_get(&adapter, memory, bytes)); /* nothing that could go */
	tt_rdma_registration_put(first);
	tt_rdma_registration_put(second);
	lockable = SIZE_MAX;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
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
	for (int i = 0; i < ROUNDS; i++) {
		const size_t bytes = (size_t)(i % 7 + 1) * 100000;
		uint8_t *memory = malloc(bytes);

		for (int k = 0; k < 3; k++) {
			struct rdma_registration *r =
				tt_rdma_registration_get(&adapter, memory, bytes);

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

/* ---- those who watch */

struct seen {
	struct rdma_watch watch;
	int gone;
};

static void note(struct rdma_watch *watch)
{
	((struct seen *)watch)->gone++;
}

static void watch(struct seen *seen, const uint8_t *memory, size_t bytes)
{
	*seen = (struct seen){ .watch = { .begin = (uintptr_t)memory,
					  .end = (uintptr_t)memory + bytes,
					  .gone = note } };
	tt_rdma_monitor_lock();
	assert_true(tt_rdma_monitor_watch(&seen->watch));
	tt_rdma_monitor_unlock();
}

static void unwatch(struct seen *seen)
{
	tt_rdma_monitor_lock();
	tt_rdma_monitor_unwatch(&seen->watch);
	tt_rdma_monitor_unlock();
}

/* Once nothing is on its way. */
static int gone(const struct seen *seen)
{
	bool settled = false;
	int count = 0;

	while (!settled) {
		tt_rdma_monitor_lock();
		settled = tt_rdma_monitor_is_settled();
		count = seen->gone;
		tt_rdma_monitor_unlock();
	}
	return count;
}

static int begin_to_listen(void **state)
{
	return tt_rdma_monitor_begin() ? 0 : 1;
}

static int end_listening(void **state)
{
	tt_rdma_monitor_end();
	return 0;
}

/* And those who stop take nothing from others. */
TEST_WITH(all_who_watch_a_page_are_told, begin_to_listen, end_listening)
{
	uint8_t *memory = map(NULL, BYTES, 0);
	struct seen whole, stops, front, middle;

	watch(&whole, memory, BYTES);
	watch(&stops, memory, BYTES);
	watch(&front, memory, PAGE);
	watch(&middle, memory + PAGE, 2 * PAGE);
	unwatch(&stops);
	madvise(memory, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&whole), 1);
	assert_int_equal(gone(&front), 1);
	madvise(memory + 3 * PAGE, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&middle), 0);
	madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&middle), 1);
	munmap(memory, BYTES);
	assert_int_equal(gone(&whole), 1); /* once */
	assert_int_equal(gone(&front), 1);
	assert_int_equal(gone(&stops), 0);
}

/* Registered once, pages would have a thread wait for word of them for ever. */
static bool is_registered(const uint8_t *memory)
{
	char line[256];
	unsigned long from, to, at = (unsigned long)memory;
	bool inside = false, is_so = false;
	FILE *maps = fopen("/proc/self/smaps", "re");

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= at && at < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			is_so = strstr(line, " uw") != NULL;
	}
	fclose(maps);
	return is_so;
}

static void *unmap_a_page(void *memory)
{
	munmap(memory, PAGE);
	return NULL;
}

TEST_WITH(nothing_stays_registered, begin_to_listen, end_listening)
{
	uint8_t *memory = map(NULL, BYTES, 0), *elsewhere;
	const int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	pthread_t thread;
	struct seen seen;

	watch(&seen, memory, BYTES);
	assert_true(is_registered(memory + PAGE));
	munmap(memory + PAGE, PAGE);
	assert_int_equal(gone(&seen), 1);
	assert_false(is_registered(memory));
	assert_false(is_registered(memory + 2 * PAGE));
	munmap(memory, BYTES);

	/* other memory lies between by the time that it is let go: a file's, which the kernel
	 * would not register */
	memory = map(NULL, BYTES, 0);
	watch(&seen, memory, BYTES);
	tt_rdma_monitor_lock();
	assert_int_equal(pthread_create(&thread, NULL, unmap_a_page, memory + PAGE), 0);
	while (mmap(memory + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, program,
		    0) != memory + PAGE)
		;
	tt_rdma_monitor_unwatch(&seen.watch);
	tt_rdma_monitor_unlock();
	pthread_join(thread, NULL);
	assert_false(is_registered(memory));
	assert_false(is_registered(memory + 2 * PAGE));
	munmap(memory, BYTES);
	memory = map(NULL, BYTES, 0);

	/* what moves takes it along, and what is new behind it has it */
	watch(&seen, memory, BYTES);
	elsewhere = mmap(NULL, 4 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory = mremap(memory, BYTES, 4 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
	assert_ptr_equal(memory, elsewhere);
	assert_int_equal(gone(&seen), 1);
	assert_false(is_registered(memory));
	assert_false(is_registered(memory + 2 * BYTES));
	munmap(memory, 4 * BYTES);
	close(program);
}

int main(void)
{
	if (!tt_rdma_monitor_begin()) {
		printf("userfaultfd(2) is denied here, or lacks what is needed\n");
		return SKIP;
	}
	tt_rdma_monitor_end();
	return run_claims(NULL, NULL);
}
