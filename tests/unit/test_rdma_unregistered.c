/* SPDX-License-Identifier: BSD-3-Clause */
/* What is not registered is said, once: memory that cannot be watched, and the want of descriptors, threads,
 * memory and rights. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test_rdma_made_up.h"
#include "log.h"
#include "memory.h"
#include "monitor.h"
#include "negative.h"
#include "test_shortage.h"
#include "test_warnings.h"

#include "../refuse_calls.h"

#define NEW_DESCRIPTOR 0xaa00 /* USERFAULTFD_IOC_NEW, which older headers lack */

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
static int be_short_of_descriptors(void *unused)
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

TEST_OF(a_want_of_descriptors_is_no_denial_and_passes, in_child(be_short_of_descriptors, NULL))

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
	assert_says(
		last_warning,
		"no thread can be had for now (Resource temporarily unavailable); raise the limit (ulimit -u)");
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
static int be_denied(void *memory)
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

	if (!r || regions() != 1)
		return 5;
	tt_rdma_registration_put(r);
	tutti_mem_free(of_heap);
	tt_rdma_registrations_close(&adapter);
	return regions() == 0 && warnings == 1 ? 0 : 6;
}

TEST(where_the_kernel_tells_nothing_only_the_heaps_memory_is)
{
	uint8_t *memory = map(NULL, BYTES, 0);

	in_child(be_denied, memory);
	munmap(memory, BYTES);
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

	assert_int_equal(regions(), 2);
	/* instead of the one that nobody uses */
	struct rdma_registration *second = get(memory + (2 << 20), bytes);

	assert_int_equal(regions(), 2);
	assert_null(tt_rdma_registration_get(&adapter, memory, bytes)); /* nothing that could go */
	tt_rdma_registration_put(first);
	tt_rdma_registration_put(second);
	lockable = SIZE_MAX;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	munmap(memory, 4 << 20);
}
