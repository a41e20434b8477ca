/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of callers' memory are kept, and never for longer than the memory is what it was:
 * by the running kernel, which tells of changes, with a libibverbs that a test makes up. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test_rdma_made_up.h"
#include "memory.h"
#include "monitor.h"
#include "transport.h"

#define SKIP	77
#define CHUNKS	64
#define ROUNDS	300
#define THREADS 3

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
	before = regions();
	assert_true(before <= 7); /* bits of 64 */
	for (int i = 0; i < CHUNKS; i++)
		get_and_put(memory + (size_t)i * PAGE, PAGE);
	assert_int_equal(regions(), before);
	munmap(memory, CHUNKS * PAGE);
	expect(0);
}

/* ---- the heap, children */

TEST_WITH(the_heaps_memory_is_registered_by_allocations, begin, end)
{
	struct rdma_registration *r, *other;
	uint8_t *memory, *next;

	assert_ok(tutti_mem_alloc(BYTES + 1, (void **)&memory));
	assert_ok(tutti_mem_alloc(BYTES, (void **)&next));
	r = get(memory + 3 * PAGE, 10);
	assert_int_equal(r->begin, (uintptr_t)memory);
	assert_int_equal(r->bytes, BYTES + PAGE);
	other = get(memory, BYTES + 1);
	assert_ptr_equal(other, r);
	tt_rdma_registration_put(other);
	get_and_put(next, BYTES);
	expect(2);
	tutti_mem_free(next);
	assert_int_equal(regions(), 1); /* at once */
	assert_true(r->valid);
	tt_heap_revoke(memory, PAGE); /* from peers, as if it was freed */
	assert_false(r->valid);
	other = get(memory, PAGE);
	assert_ptr_not_equal(other, r);
	tt_rdma_registration_put(r);
	tutti_mem_free(memory);
	assert_false(other->valid);
	tt_rdma_registration_put(other);
	assert_int_equal(regions(), 0);
}

/* What a child does to its copy is nobody else's business, and it can register for itself. */
static int be_child(void *argument)
{
	uint8_t *memory = argument;
	const int of_parent = regions();

	if (memory[0] != 7)
		return 1;
	memset(memory, 8, PAGE);
	munmap(memory, BYTES);
	tt_rdma_registrations_open(&adapter);
	uint8_t *mine = map(NULL, BYTES, 0);
	struct rdma_registration *r = tt_rdma_registration_get(&adapter, mine, BYTES);

	if (!r || regions() != of_parent + 1)
		return 2;
	munmap(mine, BYTES);
	tt_rdma_monitor_lock(); /* it was told by now */
	const bool valid = r->valid;
	tt_rdma_monitor_unlock();
	if (regions() != of_parent + 1 || valid)
		return 3;
	tt_rdma_registration_put(r);
	tt_rdma_registrations_close(&adapter);
	return regions() == of_parent ? 0 : 4;
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

int main(void)
{
	if (!tt_rdma_monitor_begin()) {
		printf("userfaultfd(2) is denied here, or lacks what is needed\n");
		return SKIP;
	}
	tt_rdma_monitor_end();
	return run_claims(NULL, NULL);
}
