/* SPDX-License-Identifier: BSD-3-Clause */
/* A device writes into dma-bufs that it was shown, and registrations of them are found again
 * until their owner ends them. Where devices do not register dma-bufs, such as soft-RoCE's, a
 * file in memory plays one for all claims but those of a real one: its pages are shown to the
 * device under an address at which nothing is mapped, as memory of a GPU is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "dmabuf.h"
#include "log.h"
#include "test_dmabuf.h"
#include "test_rdma_loop.h"
#include "test_rdma_port.h"

#define PAGE  4096u
#define BYTES (8 * PAGE)
#define FROM  (2 * PAGE) /* the range: this offset, … */
#define RANGE (4 * PAGE) /* … this long */

static struct rdma_port port;
static struct loop loop;
static struct rdma_registration *source;
static uint8_t *bytes; /* what it covers: a page */

/* ---- the file that plays a dma-buf */

static struct rdma_verbs played;
static const struct rdma_verbs *real;
static int file;
static uint8_t *address;

static struct ibv_mr *register_file(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t at,
				    int fd, int access)
{
	void *pages = mmap((void *)(uintptr_t)at, length, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED_NOREPLACE, fd, (off_t)offset);
	struct ibv_mr *mr;

	assert_ptr_equal(pages, (void *)(uintptr_t)at);
	mr = real->reg_mr(pd, pages, length, access);
	munmap(pages, length);
	return mr;
}

static void play(void)
{
	real = loop.adapter->verbs;
	played = *real;
	played.reg_dmabuf_mr = register_file;
	loop.adapter->verbs = &played;
}

/* Addresses that nobody has. */
static uint8_t *find_addresses(void)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	munmap(at, BYTES);
	return at;
}

static int begin_really(void **state)
{
	loop_begin(&loop, &port);
	assert_int_equal(tutti_mem_alloc(PAGE, (void **)&bytes), TUTTI_OK);
	source = tt_rdma_registration_get(loop.adapter, bytes, PAGE);
	assert_non_null(source);
	memset(bytes, 0x5a, PAGE);
	address = find_addresses();
	return 0;
}

static int begin(void **state)
{
	begin_really(state);
	play();
	file = memfd_create("played", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, BYTES), 0);
	return 0;
}

static int end_really(void **state)
{
	tt_rdma_registration_put(source);
	tutti_mem_free(bytes);
	loop_end(&loop);
	return 0;
}

static int end(void **state)
{
	close(file);
	return end_really(state);
}

static struct rdma_registration *make(void)
{
	const struct rdma_dmabuf range = {
		.fd = file, .offset = FROM, .pointer = address, .bytes = RANGE
	};
	struct rdma_registration *r;

	assert_int_equal(tt_rdma_dmabuf_register(loop.adapter, &range, &r), TUTTI_OK);
	assert_int_equal(tt_rdma_registrations(), 2); /* with the source */
	return r;
}

/* ---- claims */

static void what_is_written_arrives_at_its_place(void **state)
{
	struct rdma_registration *r = make();
	uint8_t found[BYTES], expected[BYTES] = { 0 };

	loop_write(&loop, (uintptr_t)address + PAGE, r, bytes, source, PAGE);
	memset(expected + FROM + PAGE, 0x5a, PAGE);
	assert_int_equal(pread(file, found, BYTES, 0), BYTES);
	assert_memory_equal(found, expected, BYTES);
	tt_rdma_registration_put(r);
}

static void it_is_found_by_any_address_in_it(void **state)
{
	struct rdma_registration *r = make();

	assert_ptr_equal(tt_rdma_dmabuf_find(loop.adapter, address, RANGE), r);
	assert_ptr_equal(tt_rdma_dmabuf_find(loop.adapter, address + RANGE - 1, 1), r);
	assert_null(tt_rdma_dmabuf_find(loop.adapter, address, RANGE + 1));
	assert_null(tt_rdma_dmabuf_find(loop.adapter, address - 1, 2));
	assert_null(tt_rdma_dmabuf_find(&(struct rdma_adapter){ .name = "another" }, address, 1));
	for (int i = 0; i < 3; i++)
		tt_rdma_registration_put(r);
	/* though nobody used it */
	assert_ptr_equal(tt_rdma_dmabuf_find(loop.adapter, address, 1), r);
	tt_rdma_registration_put(r);
}

/* Where addresses of both can be the same, as there are devices whose memory has numbers of its
 * own. */
static void it_is_not_taken_for_memory_of_the_program(void **state)
{
	struct rdma_registration *r = make(), *other;
	uint8_t *memory = mmap(address, RANGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_equal(memory, address);
	other = tt_rdma_registration_get(loop.adapter, memory, RANGE);
	assert_ptr_not_equal(other, r);
	if (other) { /* the kernel tells what becomes of it */
		loop_write(&loop, (uintptr_t)memory, other, bytes, source, PAGE);
		assert_memory_equal(memory, bytes, PAGE);
		tt_rdma_registration_put(other);
	}
	tt_rdma_registration_put(r);
	munmap(memory, RANGE);
	assert_ptr_equal(tt_rdma_dmabuf_find(loop.adapter, address, RANGE), r);
	tt_rdma_registration_put(r);
}

static void its_owner_ends_it(void **state)
{
	struct rdma_registration *r = make();

	tt_rdma_registration_put(r);
	tt_rdma_dmabuf_gone(address + RANGE, PAGE); /* of others */
	assert_int_equal(tt_rdma_registrations(), 2);
	tt_rdma_dmabuf_gone(address + PAGE, 1);
	assert_int_equal(tt_rdma_registrations(), 1);
	assert_null(tt_rdma_dmabuf_find(loop.adapter, address, 1));

	r = make();
	tt_rdma_dmabuf_gone(address, RANGE);
	assert_null(tt_rdma_dmabuf_find(loop.adapter, address, 1));
	loop_write(&loop, (uintptr_t)address, r, bytes, source, PAGE); /* who has it may go on */
	tt_rdma_registration_put(r);
	assert_int_equal(tt_rdma_registrations(), 1);
}

/* What nobody uses ends with its adapter: loop_end() looks. */
static void it_ends_with_its_adapter(void **state)
{
	tt_rdma_registration_put(make());
}

/* ---- and really */

/* False, and said: this device cannot. */
static bool can(void)
{
	char why[RDMA_WHY_MAX];

	if (tt_rdma_dmabuf_works(loop.adapter, why))
		return true;
	print_message("skipped: %s registers no dma-bufs: %s\n", loop.adapter->name, why);
	return false;
}

static void expect_none(const struct rdma_dmabuf *range)
{
	struct rdma_registration *r;

	assert_int_equal(tt_rdma_dmabuf_register(loop.adapter, range, &r), TUTTI_ERR_UNSUPPORTED);
	assert_non_null(strstr(tt_thread_error(), "registers no dma-bufs: "));
	assert_int_equal(tt_rdma_registrations(), 1);
}

static void a_real_one_is_written_to(void **state)
{
	const int fd = dmabuf_make(BYTES);
	const struct rdma_dmabuf range = {
		.fd = fd, .offset = FROM, .pointer = address, .bytes = RANGE
	};
	const uint8_t nothing[BYTES] = { 0 };
	struct rdma_registration *r;
	uint8_t *pages;

	if (fd < 0) {
		print_message(
			"skipped: nobody here makes dma-bufs: /dev/udmabuf is not there, nor a card of the driver vgem\n");
		skip();
	}
	pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	dmabuf_look(fd, true);
	assert_memory_equal(pages, nothing, BYTES);
	dmabuf_look(fd, false);
	if (!can()) {
		expect_none(&range);
		munmap(pages, BYTES);
		close(fd);
		skip();
	}
	assert_int_equal(tt_rdma_dmabuf_register(loop.adapter, &range, &r), TUTTI_OK);
	loop_write(&loop, (uintptr_t)address + PAGE, r, bytes, source, PAGE);
	dmabuf_look(fd, true);
	assert_memory_equal(pages + FROM + PAGE, bytes, PAGE);
	dmabuf_look(fd, false);
	close(fd);
	munmap(pages, BYTES);
	/* the registration holds it */
	loop_write(&loop, (uintptr_t)address, r, bytes, source, PAGE);
	tt_rdma_registration_put(r);
}

static void what_is_none_is_refused(void **state)
{
	const int other = memfd_create("none", MFD_CLOEXEC);
	struct rdma_dmabuf range = { .fd = other, .pointer = address, .bytes = PAGE };
	struct rdma_registration *r;

	if (!can()) {
		expect_none(&range);
		close(other);
		skip();
	}
	assert_int_equal(ftruncate(other, PAGE), 0);
	assert_int_equal(tt_rdma_dmabuf_register(loop.adapter, &range, &r), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "expected a dma-buf"));
	close(other);
	assert_int_equal(tt_rdma_dmabuf_register(loop.adapter, &range, &r), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "is not open"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_arrives_at_its_place, begin, end),
		cmocka_unit_test_setup_teardown(it_is_found_by_any_address_in_it, begin, end),
		cmocka_unit_test_setup_teardown(it_is_not_taken_for_memory_of_the_program, begin,
						end),
		cmocka_unit_test_setup_teardown(its_owner_ends_it, begin, end),
		cmocka_unit_test_setup_teardown(it_ends_with_its_adapter, begin, end),
		cmocka_unit_test_setup_teardown(a_real_one_is_written_to, begin_really, end_really),
		cmocka_unit_test_setup_teardown(what_is_none_is_refused, begin_really, end_really),
	};
	const int none = find_port(&port);

	return none ? none : cmocka_run_group_tests(tests, NULL, NULL);
}
