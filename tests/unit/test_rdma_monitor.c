/* SPDX-License-Identifier: BSD-3-Clause */
/* Who watches memory is told of its changes, and leaves nothing registered with the kernel. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_rdma_made_up.h"
#include "monitor.h"

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
