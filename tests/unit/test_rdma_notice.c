/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever watches pages hears of all that happens to them, and nobody else's: by the running
 * kernel. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "monitor.h"
#include "test_rdma_denied.h"
#include "test_shortage.h"
#include "test_warnings.h"

#define SKIP   77
#define PAGE   4096u
#define BYTES  (16 * PAGE)
#define ROUNDS 2000

struct seen {
	struct rdma_watch watch;
	int gone;
};

static void note(struct rdma_watch *watch)
{
	((struct seen *)watch)->gone++;
}

static uint8_t *map(void *at, int flags)
{
	uint8_t *memory =
		mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
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

static int begin(void **state)
{
	assert_true(tt_rdma_monitor_begin());
	return 0;
}

static int end(void **state)
{
	tt_rdma_monitor_end();
	return 0;
}

/* ---- claims */

TEST_WITH(it_is_told_when_the_call_returns, begin, end)
{
	uint8_t *memory = map(NULL, 0), *elsewhere;
	struct seen seen;

	watch(&seen, memory, BYTES);
	memset(memory, 1, BYTES);
	assert_int_equal(gone(&seen), 0);
	munmap(memory + PAGE, PAGE);
	assert_int_equal(gone(&seen), 1);
	munmap(memory, BYTES);
	assert_int_equal(gone(&seen), 1); /* once */

	memory = map(NULL, 0);
	watch(&seen, memory, BYTES);
	madvise(memory, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&seen), 1);
	watch(&seen, memory, BYTES);
	madvise(memory + BYTES - PAGE, PAGE, MADV_FREE);
	assert_int_equal(gone(&seen), 1);
	watch(&seen, memory, BYTES);
	map(memory, MAP_FIXED);
	assert_int_equal(gone(&seen), 1);
	watch(&seen, memory, BYTES);
	elsewhere = map(NULL, 0);
	assert_ptr_equal(mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere),
			 elsewhere);
	assert_int_equal(gone(&seen), 1);
	munmap(elsewhere, BYTES);
}

TEST_WITH(all_who_watch_a_page_are_told, begin, end)
{
	uint8_t *memory = map(NULL, 0);
	struct seen whole, front, back;

	watch(&whole, memory, BYTES);
	watch(&front, memory, BYTES / 2);
	watch(&back, memory + BYTES / 2, BYTES / 2);
	madvise(memory, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&whole), 1);
	assert_int_equal(gone(&front), 1);
	assert_int_equal(gone(&back), 0);
	munmap(memory, BYTES);
	assert_int_equal(gone(&back), 1);
	assert_int_equal(gone(&front), 1);
}

/* Those who go on watching do, of pages that another one has let go of. */
TEST_WITH(who_stops_takes_nothing_from_others, begin, end)
{
	uint8_t *memory = map(NULL, 0);
	struct seen whole, middle;

	watch(&whole, memory, BYTES);
	watch(&middle, memory + PAGE, 2 * PAGE);
	unwatch(&whole);
	madvise(memory, PAGE, MADV_DONTNEED);
	madvise(memory + 3 * PAGE, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&middle), 0);
	madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED);
	assert_int_equal(gone(&middle), 1);
	assert_int_equal(gone(&whole), 0);
	munmap(memory, BYTES);
}

/* Registered once, pages would have a thread wait for word of them for ever. */
static bool is_registered(const uint8_t *memory)
{
	char line[256];
	unsigned long from, to, at = (unsigned long)memory;
	bool inside = false, registered = false;
	FILE *maps = fopen("/proc/self/smaps", "re");

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= at && at < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			registered = strstr(line, " uw") != NULL;
	}
	fclose(maps);
	return registered;
}

static void *unmap_a_page(void *memory)
{
	munmap(memory, PAGE);
	return NULL;
}

TEST_WITH(nothing_stays_registered, begin, end)
{
	uint8_t *memory = map(NULL, 0), *elsewhere;
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
	memory = map(NULL, 0);
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
	memory = map(NULL, 0);

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

TEST_WITH(children_are_not_watched, begin, end)
{
	uint8_t *memory = map(NULL, 0);
	struct seen seen;
	int status = -1;

	memset(memory, 3, BYTES);
	watch(&seen, memory, BYTES);
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		struct seen own;
		const bool had = memory[0] == 3 && !is_registered(memory);

		munmap(memory, BYTES); /* nobody is there to be told */
		if (!had || !tt_rdma_monitor_begin())
			_exit(1);
		memory = map(NULL, 0);
		watch(&own, memory, BYTES);
		munmap(memory, BYTES);
		_exit(gone(&own) == 1 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(gone(&seen), 0);
	munmap(memory, BYTES);
	assert_int_equal(gone(&seen), 1);
}

/* ---- threads */

static void *unmap(void *memory)
{
	munmap(memory, BYTES);
	return NULL;
}

/* Addresses are free before the thread that unmapped them returns: who gets them sees that word
 * is on its way, or has come. */
TEST_WITH(who_takes_the_addresses_over_knows, begin, end)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *memory = map(NULL, 0);
		struct seen seen;
		pthread_t thread;

		watch(&seen, memory, BYTES);
		assert_int_equal(pthread_create(&thread, NULL, unmap, memory), 0);
		while (mmap(memory, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != memory)
			;
		tt_rdma_monitor_lock();
		const bool known = seen.gone || !tt_rdma_monitor_is_settled();

		tt_rdma_monitor_unlock();
		assert_true(known);
		assert_int_equal(gone(&seen), 1);
		pthread_join(thread, NULL);
		munmap(memory, BYTES);
	}
}

/* Allocates and frees what is watched, so that it holds the C library's locks while it waits for
 * word to be taken. */
static void *come_and_go(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *memory = malloc((size_t)(i % 7 + 1) * 100000);
		struct seen seen;

		watch(&seen, (void *)(((uintptr_t)memory + PAGE) & ~(uintptr_t)(PAGE - 1)),
		      8 * PAGE);
		memory[0] = 1;
		if (i % 2)
			unwatch(&seen);
		free(memory);
		unwatch(&seen); /* the C library may have kept the pages */
	}
	return NULL;
}

TEST_WITH(threads_wait_for_nobody_for_ever, begin, end)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static int be_denied(void)
{
	if (!deny_userfaultfd())
		return 1;
	listen_for_warnings();
	for (int i = 0; i < 3; i++)
		if (tt_rdma_monitor_begin())
			return 2;
	if (warnings != 1 ||
	    !strstr(last_warning, "userfaultfd(2) is denied (Operation not permitted)"))
		return 3;
	return strstr(last_warning, "tutti_mem_alloc()") ? 0 : 4;
}

TEST(where_it_is_denied_that_is_said_once)
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(be_denied());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* No descriptor for the kernel's word, then one, but none for the bell. It is no denial, and
 * passes. */
static int be_short_of_descriptors(void)
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
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(be_short_of_descriptors());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
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
