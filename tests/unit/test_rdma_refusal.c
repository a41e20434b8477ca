/* SPDX-License-Identifier: BSD-3-Clause */
/* What devices are not shown, and what is said of it, as far as no device takes part. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests.h"
#include "log.h"
#include "mappings.h"
#include "monitor.h"
#include "registration.h"
#include "negative.h"
#include "test_shortage.h"
#include "test_warnings.h"

#define PAGE 4096u

/* As of libibverbs before rdma-core 35. */
static const struct rdma_verbs old_verbs;
static struct rdma_adapter old = { .verbs = &old_verbs, .name = "old0" };

static int told;

static void note_line(tutti_log_level_t level, const char *subsystem, const char *line,
		      void *context)
{
	if (level == TUTTI_LOG_INFO && strstr(line, "long messages by old0 are copied"))
		told++;
}

TEST(what_children_would_lack_is_not_registered)
{
	static uint8_t memory[PAGE];

	tt_log_read("info");
	tutti_log_set_sink(note_line, NULL);
	for (int i = 0; i < 2; i++) {
		tt_rdma_registrations_open(&old);
		assert_null(tt_rdma_registration_get(&old, memory, sizeof(memory)));
		tt_rdma_registrations_close(&old);
	}
	tutti_log_set_sink(NULL, NULL);
	assert_int_equal(told, 1);
}

static bool note_kind(const struct rdma_mapping *mapping, void *context)
{
	*(enum rdma_memory *)context = mapping->kind;
	return false;
}

static void expect_kind(void *memory, enum rdma_memory expected)
{
	enum rdma_memory kind = RDMA_UNMAPPED;

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_true(
		tt_rdma_mappings((uintptr_t)memory, (uintptr_t)memory + PAGE, note_kind, &kind));
	assert_int_equal(kind, expected);
	munmap(memory, PAGE);
}

TEST(memory_is_known_by_its_kind)
{
	const int file = memfd_create("anon_hugepages", MFD_CLOEXEC), both = PROT_READ | PROT_WRITE;
	void *gap = mmap(NULL, PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(ftruncate(file, PAGE), 0);
	expect_kind(gap, RDMA_PLAIN);
	expect_kind(gap, RDMA_UNMAPPED);
	expect_kind(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), RDMA_CONSTANT);
	expect_kind(mmap(NULL, PAGE, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0), RDMA_SHARED);
	expect_kind(mmap(NULL, PAGE, both, MAP_SHARED, file, 0), RDMA_SHARED);
	expect_kind(mmap(NULL, PAGE, both, MAP_PRIVATE, file, 0), RDMA_OF_FILE);
	close(file);
}

/* The list of mappings takes a descriptor. */
static int unknown, unmapped;

static void note_unknown(tutti_log_level_t level, const char *subsystem, const char *line,
			 void *context)
{
	unknown += level == TUTTI_LOG_INFO &&
		   strstr(line, "/proc/self/maps cannot be opened (Too many open files");
	unmapped += strstr(line, "is not mapped as a whole") != NULL;
}

TEST(memory_that_cannot_be_looked_up_is_not_called_unmapped)
{
	static uint8_t memory[2 * PAGE];
	const uintptr_t begin = ((uintptr_t)memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	const struct rdma_registration r = {
		.adapter = &old, .begin = begin, .bytes = PAGE, .of = RDMA_OF_PROGRAM
	};
	struct shortage shortage;

	tt_log_read("info");
	tutti_log_set_sink(note_unknown, NULL);
	shortage_begin(&shortage);
	for (int i = 0; i < 2; i++)
		tt_rdma_refuse(&r, &(struct rdma_reason){ RDMA_NOT_NOW });
	shortage_end(&shortage);
	tutti_log_set_sink(NULL, NULL);
	tt_rdma_negative_forget(&old);
	assert_int_equal(unmapped, 0);
	assert_int_equal(unknown, 1);
}

/* ---- threads, of which there are so many to be had */

static int threads_left = 1000, threads_wanted, regions_wanted;

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

static int forks_are_harmless(void)
{
	return VERBS_FORK_UNNEEDED;
}

static struct ibv_mr *register_nothing(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	regions_wanted++;
	errno = EINVAL;
	return NULL;
}

static const struct rdma_verbs new_verbs = { .is_fork_initialized = forks_are_harmless,
					     .reg_mr = register_nothing };
static struct rdma_adapter new = { .verbs = &new_verbs, .name = "new0" };

static void get_none(void *memory)
{
	assert_null(tt_rdma_registration_get(&new, memory, PAGE));
}

/* The one that listens to the kernel, and none that buries. */
TEST(a_want_of_threads_is_said_once_and_they_are_tried_after_a_while)
{
	const uint64_t until = tt_now() + 60000000000u;
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	if (!tt_rdma_monitor_begin())
		skip(); /* userfaultfd(2) is denied here */
	tt_rdma_monitor_end();
	tt_rdma_registrations_open(&new);
	listen_for_warnings();
	threads_wanted = 0;
	threads_left = 1;
	const uint64_t before = tt_now();
	for (int i = 0; i < 10; i++)
		get_none(memory);
	assert_int_equal(warnings, 1);
	if (tt_now() - before < 1000000000u) /* not on a machine that stood still meanwhile */
		assert_int_equal(threads_wanted, 2);
	while (threads_wanted == 2 && tt_now() < until)
		get_none(memory);
	assert_int_equal(threads_wanted, 3);
	assert_int_equal(regions_wanted, 0);
	threads_left = 1000;
	while (regions_wanted == 0 && tt_now() < until)
		get_none(memory);
	assert_int_equal(regions_wanted, 1);
	leave_warnings();
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(
		last_warning,
		"no thread can be had for now (Resource temporarily unavailable); raise the limit (ulimit -u)"));
	tt_rdma_registrations_close(&new);
	munmap(memory, PAGE);
}
