/* SPDX-License-Identifier: BSD-3-Clause */
/* What devices are not shown, and what is said of it, as far as no device takes part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "mappings.h"
#include "registration.h"

#define PAGE 4096u

/* As of libibverbs before rdma-core 35. */
static const struct rdma_verbs old_verbs;
static struct rdma_adapter old = { .verbs = &old_verbs, .name = "old0" };

static int told;

static void note_line(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	if (level == TUTTI_LOG_INFO && strstr(line, "long messages by old0 are copied"))
		told++;
}

static void what_children_would_lack_is_not_registered(void **state)
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
	assert_true(tt_rdma_mappings((uintptr_t)memory, (uintptr_t)memory + PAGE, note_kind, &kind));
	assert_int_equal(kind, expected);
	munmap(memory, PAGE);
}

static void memory_is_known_by_its_kind(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_children_would_lack_is_not_registered),
		cmocka_unit_test(memory_is_known_by_its_kind),
	};

	return cmocka_run_group_tests_name("rdma_refusal", tests, NULL, NULL);
}
