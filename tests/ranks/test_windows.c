/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided calls: what is put, got and added arrives in order, whatever the target does meanwhile;
 * and what becomes of them when a rank is stopped, killed, or gives wrong arguments.
 *
 *   test_windows shm|tcp|tls|rdma|mixed [CLAIMS] */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include <tutti/window.h>

#include "harness.h"

#define RANKS  4
#define LONG   (1u << 20)
#define ROUNDS 6
#define MANY   3000

/* ---- what ranks share with each other, and each keeps */

struct memory {
	bool heap; /* of tutti_mem_alloc() */
	uint8_t *bytes;
};

static tutti_result_t take(struct memory *m, size_t bytes)
{
	if (m->heap)
		return tutti_mem_alloc(bytes, (void **)&m->bytes);
	m->bytes = malloc(bytes);
	return m->bytes ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

static void give_back(struct memory *m)
{
	if (m->heap)
		tutti_mem_free(m->bytes);
	else
		free(m->bytes);
}

static uint8_t pattern(int from, int to, size_t round, size_t i)
{
	return (uint8_t)((size_t)from * 31 + (size_t)to * 7 + round * 13 + i + i / 251);
}

static void fill(uint8_t *out, size_t bytes, int from, int to, size_t round)
{
	for (size_t i = 0; i < bytes; i++)
		out[i] = pattern(from, to, round, i);
}

static int check(tutti_comm_t comm, const uint8_t *found, size_t bytes, int from, int to,
		 size_t round)
{
	for (size_t i = 0; i < bytes; i++)
		CLAIM(found[i] == pattern(from, to, round, i),
		      "round %zu, from rank %d: byte %zu of %zu is %u, expected %u", round, from, i,
		      bytes, found[i], pattern(from, to, round, i));
	return 0;
}

/* Is the way to other ranks' windows what it should be? */
static int check_way(tutti_comm_t comm, tutti_window_t window, const struct memory *m)
{
	const bool mixed = strcmp(transport_chosen, "mixed") == 0; /* every second rank is here */
	const int other = (tutti_comm_rank(comm) + (mixed ? 2 : 1)) % tutti_comm_size(comm);
	const bool direct = m->heap && (mixed || strcmp(transport_chosen, "shm") == 0);

	CLAIM(tutti_window_direct(window, other) == direct, "the window of rank %d is %s", other,
	      direct ? "not direct" : "direct");
	CLAIM(tutti_window_direct(window, tutti_comm_rank(comm)), "a rank's own is not direct");
	return 0;
}

/* ---- puts and signals */

static const size_t lengths[ROUNDS] = { 1, 8, 4096, 4097, 70001, LONG };

/* Each rank puts into a part of everybody's window, and says so; each looks once all have, and says
 * that the parts may be used again. */
static int exchange(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	struct memory memory = { .heap = argument != NULL };
	uint8_t *data = malloc(LONG);
	tutti_window_t window;
	int failed = 0;

	SUCCEEDS(take(&memory, (size_t)size * LONG));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, (size_t)size * LONG, 2, &window));
	failed = check_way(comm, window, &memory);
	for (size_t round = 0; round < ROUNDS && !failed; round++) {
		const size_t bytes = lengths[round];

		for (int to = 0; to < size; to++) {
			fill(data, bytes, rank, to, round);
			SUCCEEDS(tutti_put_signal(window, data, bytes, to, (size_t)rank * LONG, 0,
						  1, NULL));
			memset(data, 0, bytes); /* it may be used again */
		}
		SUCCEEDS(tutti_wait_signal(window, 0, (round + 1) * (size_t)size, NULL, NULL));
		for (int from = 0; from < size && !failed; from++)
			failed = check(comm, memory.bytes + (size_t)from * LONG, bytes, from, rank,
				       round);
		for (int to = 0; to < size; to++)
			SUCCEEDS(tutti_signal(window, to, 1, 1));
		SUCCEEDS(tutti_wait_signal(window, 1, (round + 1) * (size_t)size, NULL, NULL));
	}
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	free(data);
	return failed;
}

/* More short puts than anything here holds; only the last one says so. */
static int many_short(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const int to = (rank + 1) % size, from = (rank + size - 1) % size;
	struct memory memory = { .heap = argument != NULL };
	const size_t each = 24, bytes = MANY * each;
	uint8_t data[24];
	tutti_window_t window;
	int failed = 0;

	SUCCEEDS(take(&memory, bytes));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, bytes, 1, &window));
	for (size_t i = 0; i < MANY; i++) {
		fill(data, each, rank, to, i);
		SUCCEEDS(tutti_put(window, data, each, to, i * each, NULL));
	}
	SUCCEEDS(tutti_flush(window, to, NULL));
	SUCCEEDS(tutti_signal(window, to, 0, 5));
	SUCCEEDS(tutti_wait_signal(window, 0, 5, NULL, NULL));
	for (size_t i = 0; i < MANY && !failed; i++)
		failed = check(comm, memory.bytes + i * each, each, from, rank, i);
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	return failed;
}

/* ---- gets and sums */

/* More at once than a rank answers at once, of all lengths, in both directions, with puts of
 * long payloads between them. */
static int many_at_once(tutti_comm_t comm, void *argument)
{
	enum { AT_ONCE = 200 };
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const int to = (rank + 1) % size, from = (rank + size - 1) % size;
	struct memory memory = { .heap = argument != NULL };
	tutti_request_t gets[AT_ONCE], puts[4];
	uint8_t *got = malloc((size_t)AT_ONCE * 5000), *data = malloc(LONG);
	tutti_window_t window;
	int failed = 0;

	SUCCEEDS(take(&memory, 2 * LONG));
	fill(memory.bytes, LONG, rank, 0, 0);
	fill(data, LONG, rank, to, 1);
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 2 * LONG, 1, &window));
	for (int i = 0; i < AT_ONCE; i++) {
		if (i % 50 == 0)
			SUCCEEDS(tutti_put(window, data, LONG, to, LONG, &puts[i / 50]));
		SUCCEEDS(
			tutti_get(window, got + i * 5000, (size_t)i * 25, to, (size_t)i, &gets[i]));
	}
	SUCCEEDS(tutti_wait_all(gets, AT_ONCE));
	SUCCEEDS(tutti_wait_all(puts, 4));
	for (int i = 0; i < AT_ONCE && !failed; i++)
		for (size_t b = 0; b < (size_t)i * 25 && !failed; b++)
			CLAIM(got[(size_t)i * 5000 + b] == pattern(to, 0, 0, (size_t)i + b),
			      "get %d: byte %zu is %u", i, b, got[(size_t)i * 5000 + b]);
	SUCCEEDS(tutti_flush(window, TUTTI_ANY_PEER, NULL));
	SUCCEEDS(tutti_signal(window, to, 0, 1));
	SUCCEEDS(tutti_wait_signal(window, 0, 1, NULL, NULL));
	failed = failed ? failed : check(comm, memory.bytes + LONG, LONG, from, rank, 1);
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	free(got);
	free(data);
	return failed;
}

/* Each value before is another one's, and none is lost. */
static int sum_up(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	struct memory memory = { .heap = argument != NULL };
	const size_t words = 1 + (size_t)size * MANY / 4;
	tutti_request_t request;
	uint64_t before, *seen;
	tutti_window_t window;

	SUCCEEDS(take(&memory, words * 8));
	memset(memory.bytes, 0, words * 8);
	SUCCEEDS(tutti_window_create(comm, rank == 1 ? memory.bytes : NULL,
				     rank == 1 ? words * 8 : 0, 0, &window));
	for (int i = 0; i < MANY / 4; i++) {
		SUCCEEDS(tutti_fetch_add(window, 1, 0, 1, &before, &request));
		SUCCEEDS(tutti_wait(&request));
		CLAIM(before < words - 1, "found %llu, expected less than %zu",
		      (unsigned long long)before, words - 1);
		SUCCEEDS(tutti_fetch_add(window, 1, 8 + before * 8, 1, NULL, NULL));
	}
	SUCCEEDS(tutti_flush(window, 1, NULL));
	SUCCEEDS(tutti_barrier(comm, NULL));
	seen = (uint64_t *)memory.bytes;
	for (size_t i = 0; i < words && rank == 1; i++)
		CLAIM(seen[i] == (i ? 1 : words - 1), "word %zu is %llu", i,
		      (unsigned long long)seen[i]);
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	return 0;
}

/* ---- a target that computes */

struct scene {
	atomic_int busy, done;
	_Atomic pid_t pid;
	bool heap;
	int calls; /* of rank 0 */
};

static int use_of_one_that_computes(tutti_comm_t comm, tutti_window_t window)
{
	uint8_t *data = malloc(LONG), *back = calloc(1, LONG);
	uint64_t before = 0;

	fill(data, LONG, 0, 1, 3);
	SUCCEEDS(tutti_put(window, data, LONG, 1, 8, NULL));
	SUCCEEDS(tutti_fetch_add(window, 1, 0, 7, &before, NULL));
	CLAIM(before == 35, "found %llu before", (unsigned long long)before);
	SUCCEEDS(tutti_get(window, back, LONG, 1, 8, NULL));
	CLAIM(memcmp(data, back, LONG) == 0, "what was got is not what was put");
	SUCCEEDS(tutti_signal(window, 1, 0, 1));
	SUCCEEDS(tutti_flush(window, 1, NULL));
	free(data);
	free(back);
	return 0;
}

/* Rank 1 calls nothing until all is done; rank 2 waits in a collective meanwhile. */
static int while_it_computes(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	const int rank = tutti_comm_rank(comm);
	struct memory memory = { .heap = scene->heap };
	tutti_window_t window;
	uint64_t word = 35, value;
	int failed = 0;

	SUCCEEDS(take(&memory, LONG + 8));
	memcpy(memory.bytes, &word, sizeof(word));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, LONG + 8, 1, &window));
	if (rank == 1) {
		atomic_store(&scene->busy, 1);
		await_count(&scene->done, 1);
		SUCCEEDS(tutti_wait_signal(window, 0, 0, &value, NULL));
		CLAIM(value == 1, "the signal is %llu", (unsigned long long)value);
		memcpy(&word, memory.bytes, sizeof(word));
		CLAIM(word == 42, "the word is %llu", (unsigned long long)word);
		failed = check(comm, memory.bytes + 8, LONG, 0, 1, 3);
	} else if (rank == 0) {
		await_count(&scene->busy, 1);
		failed = use_of_one_that_computes(comm, window);
		atomic_store(&scene->done, 1);
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	return failed;
}

/* ---- the life of windows */

static int several(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	const int to = (rank + 1) % size, from = (rank + size - 1) % size;
	struct memory memory = { .heap = true };
	static uint64_t plain[4];
	tutti_window_t windows[3];

	SUCCEEDS(take(&memory, 64));
	memset(memory.bytes, 0, 64);
	SUCCEEDS(tutti_window_create(comm, NULL, 0, 3, &windows[0]));
	SUCCEEDS(tutti_window_create(comm, plain, sizeof(plain) - 8 * (size_t)(rank % 2), 1,
				     &windows[1]));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 64, (uint32_t)rank, &windows[2]));
	CLAIM(tutti_window_bytes(windows[1], to) == 32 - 8 * (size_t)(to % 2), "%zu bytes",
	      tutti_window_bytes(windows[1], to));
	for (uint64_t round = 1; round <= 20; round++) {
		const uint64_t sent[2] = { round * 100 + (uint64_t)rank, round };

		SUCCEEDS(tutti_put(windows[1], sent, 16, to, 8, NULL));
		SUCCEEDS(tutti_put(windows[2], sent, 16, to, 32, NULL));
		SUCCEEDS(tutti_flush(windows[2], to, NULL));
		SUCCEEDS(tutti_signal(windows[0], to, 2, 1));
		SUCCEEDS(tutti_wait_signal(windows[0], 2, round, NULL, NULL));
		CLAIM(plain[1] == round * 100 + (uint64_t)from && plain[2] == round,
		      "found %llu, %llu", (unsigned long long)plain[1],
		      (unsigned long long)plain[2]);
		CLAIM(memcmp(memory.bytes + 32, &plain[1], 16) == 0, "the windows differ");
		SUCCEEDS(tutti_barrier(comm, NULL));
	}
	SUCCEEDS(tutti_window_destroy(windows[1]));
	SUCCEEDS(tutti_signal(windows[0], to, 1, 9));
	SUCCEEDS(tutti_wait_signal(windows[0], 1, 9, NULL, NULL));
	SUCCEEDS(tutti_window_destroy(windows[0]));
	/* the last one is left to tutti_comm_destroy() */
	SUCCEEDS(tutti_barrier(comm, NULL));
	return 0;
}

struct getter {
	tutti_window_t window;
	atomic_bool stop;
	tutti_result_t result;
};

static void *get_again_and_again(void *argument)
{
	struct getter *getter = argument;
	uint8_t *to = malloc(2 * LONG);

	do
		getter->result = tutti_get(getter->window, to, 2 * LONG, 1, 0, NULL);
	while (!getter->result && !atomic_load(&getter->stop));
	free(to);
	return NULL;
}

/* Two windows on one memory: one ends while a thread gets from the other. */
static int on_one_memory(tutti_comm_t comm, void *argument)
{
	struct memory memory = { .heap = argument != NULL };
	tutti_window_t ending[20];
	struct getter getter = { 0 };
	pthread_t thread;

	SUCCEEDS(take(&memory, 2 * LONG));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 2 * LONG, 0, &getter.window));
	for (int i = 0; i < 20; i++)
		SUCCEEDS(tutti_window_create(comm, memory.bytes, 2 * LONG, 0, &ending[i]));
	if (tutti_comm_rank(comm) == 0)
		pthread_create(&thread, NULL, get_again_and_again, &getter);
	for (int i = 0; i < 20; i++)
		SUCCEEDS(tutti_window_destroy(ending[i]));
	if (tutti_comm_rank(comm) == 0) {
		atomic_store(&getter.stop, true);
		pthread_join(thread, NULL);
		SUCCEEDS(getter.result);
	}
	SUCCEEDS(tutti_window_destroy(getter.window));
	give_back(&memory);
	return 0;
}

/* Ranks end two windows in different orders: none takes another window's end for its own. */
static int other_order(tutti_comm_t comm, void *argument)
{
	struct memory memory = { .heap = argument != NULL };
	const int rank = tutti_comm_rank(comm);
	tutti_window_t windows[2];

	SUCCEEDS(take(&memory, 64));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 64, 0, &windows[0]));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 64, 0, &windows[1]));
	FAILS(tutti_window_destroy(windows[rank]), TUTTI_ERR_MISMATCH,
	      "rank 0 called tutti_window_destroy of window 0, rank 1 called "
	      "tutti_window_destroy of window 1");
	tutti_window_destroy(windows[1 - rank]);
	give_back(&memory);
	return 0;
}

static int wrong_arguments(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	uint64_t words[5] = { 0 };
	tutti_window_t window;

	REFUSES(tutti_window_create(comm, NULL, 8, 0, &window), "memory is NULL, bytes 8");
	REFUSES(tutti_window_create(comm, words, 8, 65537, &window),
		"found 65537 signals, expected at most 65536");
	REFUSES(tutti_window_create(comm, words, 8, 0, NULL), "window is NULL");
	REFUSES(tutti_put(NULL, words, 8, 0, 0, NULL), "tutti_put: window is NULL");
	SUCCEEDS(tutti_window_create(comm, (uint8_t *)words + rank, 32, 2, &window));
	REFUSES(tutti_put(window, words, 8, 2, 0, NULL), "found rank 2, expected one from 0 to 1");
	REFUSES(tutti_put(window, words, 8, -1, 0, NULL), "found rank -1");
	REFUSES(tutti_put(window, words, 8, 1, 25, NULL),
		"found 8 bytes at 25, expected a part of the 32 bytes that rank 1 gave");
	REFUSES(tutti_get(window, words, SIZE_MAX, 1, 8, NULL), "bytes at 8, expected a part");
	REFUSES(tutti_put(window, NULL, 8, 1, 0, NULL), "the buffer is NULL, bytes 8");
	REFUSES(tutti_signal(window, 1, 2, 1),
		"tutti_signal: found signal 2, expected one of the 2 that rank 1 gave");
	REFUSES(tutti_signal(window, 1, UINT32_MAX, 1), "found signal 4294967295");
	REFUSES(tutti_wait_signal(window, 7, 1, NULL, NULL), "tutti_wait_signal: found signal 7");
	REFUSES(tutti_fetch_add(window, 1, 0, 1, words, NULL),
		"the address on rank 1 is no multiple of 8");
	REFUSES(tutti_flush(window, 5, NULL), "tutti_flush: found rank 5");
	SUCCEEDS(tutti_group_begin(comm));
	REFUSES(tutti_signal(window, 1, 0, 1), "this thread has a group open");
	SUCCEEDS(tutti_group_end(comm, NULL));
	SUCCEEDS(tutti_fetch_add(window, 1, 7, 1, NULL, NULL)); /* all is as before */
	SUCCEEDS(tutti_window_destroy(window));
	return 0;
}

/* A window ends when all calls on it have; a user's operation may end before. */
static int unfinished_calls(tutti_comm_t comm, void *argument)
{
	const uint64_t scalar = 3;
	tutti_request_t request;
	tutti_window_t window;
	tutti_op_t op;

	SUCCEEDS(tutti_window_create(comm, NULL, 0, 1, &window));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_UINT64, &op));
	SUCCEEDS(tutti_wait_signal(window, 0, 1, NULL, &request));
	SUCCEEDS(tutti_op_destroy(comm, op));
	REFUSES(tutti_window_destroy(window),
		"1 call of this rank on the window has not ended, expected none: test or wait for it");
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_signal(window, 1 - tutti_comm_rank(comm), 0, 1));
	SUCCEEDS(tutti_wait(&request));
	SUCCEEDS(tutti_window_destroy(window));
	return 0;
}

/* What was said of the next call is of the next, also where that could end at once; and of no other:
 * none of these can do what was said. */
static int next_calls(tutti_comm_t comm, void *argument)
{
	struct memory memory = { .heap = argument != NULL };
	const int peer = 1 - tutti_comm_rank(comm);
	tutti_call_t said = TUTTI_CALL_INIT;
	tutti_window_t window;
	uint64_t word = 1;

	SUCCEEDS(take(&memory, 64));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 64, 1, &window));
	said.wire = TUTTI_WIRE_BFLOAT16;
	SUCCEEDS(tutti_next_call(comm, &said));
	REFUSES(tutti_put_signal(window, &word, 8, peer, 0, 0, 1, NULL),
		"tutti_put_signal: tutti_next_call() said that its elements travel as");
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_next_call(comm, &said));
	REFUSES(tutti_get(window, &word, 8, peer, 8, NULL), "tutti_get: tutti_next_call() said");
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_next_call(comm, &said));
	REFUSES(tutti_flush(window, peer, NULL), "tutti_flush: tutti_next_call() said");
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_next_call(comm, &said));
	SUCCEEDS(tutti_window_destroy(window));
	SUCCEEDS(tutti_barrier(comm, NULL));
	give_back(&memory);
	return 0;
}

/* One allocation with windows of two communicators, one of which fails: the other's peers go on
 * writing where this rank reads. */
static int window_of_another(tutti_comm_t comm, void *argument)
{
	const int other = 1 - tutti_comm_rank(comm);
	struct memory memory = { .heap = true };
	tutti_window_t failing, window;
	tutti_comm_t second;
	uint64_t word = 77;

	SUCCEEDS(take(&memory, 8192));
	memset(memory.bytes, 0, 8192);
	SUCCEEDS(tutti_comm_dup(comm, &second));
	SUCCEEDS(tutti_window_create(comm, memory.bytes + 4096, 64, 1, &window));
	SUCCEEDS(tutti_window_create(second, memory.bytes, 64, 0, &failing));
	SUCCEEDS(tutti_barrier(comm, NULL));
	tutti_comm_abort(second, "a test");
	FAILS(tutti_window_destroy(failing), TUTTI_ERR_ABORTED, "");
	tutti_comm_destroy(second);
	SUCCEEDS(tutti_put_signal(window, &word, 8, other, 8, 0, 1, NULL));
	SUCCEEDS(tutti_wait_signal(window, 0, 1, NULL, NULL));
	CLAIM(((uint64_t *)memory.bytes)[513] == 77, "found %llu",
	      (unsigned long long)((uint64_t *)memory.bytes)[513]);
	SUCCEEDS(tutti_window_destroy(window));
	give_back(&memory);
	return 0;
}

/* ---- failures */

static int memory_is_freed(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	struct memory memory = { .heap = true };
	tutti_window_t window;

	SUCCEEDS(take(&memory, 4096));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, 64, 1, &window));
	if (!tutti_window_direct(window, 1 - tutti_comm_rank(comm)))
		return tutti_window_destroy(window); /* nobody knows */
	meet_at(&scene->busy, 2);
	give_back(&memory);
	FAILS(tutti_flush(window, 0, NULL), TUTTI_ERR_SYSTEM,
	      "the memory of window 0 is not what the other ranks");
	tutti_window_destroy(window);
	return 0;
}

static tutti_result_t put_and_flush(tutti_window_t window)
{
	const uint64_t word = 1;
	const tutti_result_t result = tutti_put(window, &word, sizeof(word), 1, 0, NULL);

	return result ? result : tutti_flush(window, 1, NULL);
}

static tutti_result_t flush_it(tutti_window_t window)
{
	return tutti_flush(window, 1, NULL);
}

static tutti_result_t get_a_word(tutti_window_t window)
{
	uint64_t word;

	return tutti_get(window, &word, sizeof(word), 1, 0, NULL);
}

static tutti_result_t wait_for_it(tutti_window_t window)
{
	return tutti_wait_signal(window, 0, 2, NULL, NULL);
}

/* Rank 1 has signalled once and ended its communicator, with a window left. */
static int call_one_that_has_left(tutti_comm_t comm, struct scene *scene,
				  tutti_result_t (*call)(tutti_window_t window), const char *text)
{
	struct memory memory = { .heap = scene->heap };
	tutti_window_t window;
	tutti_comm_t second;

	SUCCEEDS(tutti_comm_dup(comm, &second));
	SUCCEEDS(tutti_window_create(second, &window, sizeof(window), 0, &window));
	SUCCEEDS(tutti_window_destroy(window)); /* its links stay */
	SUCCEEDS(take(&memory, 64));
	SUCCEEDS(tutti_window_create(second, memory.bytes, 64, 1, &window));
	if (tutti_comm_rank(comm) == 1) {
		SUCCEEDS(tutti_signal(window, 0, 0, 1));
		SUCCEEDS(tutti_flush(window, 0, NULL));
		tutti_comm_destroy(second);
		atomic_fetch_add(&scene->done, 1);
	} else {
		await_count(&scene->done, ++scene->calls);
		FAILS(call(window), TUTTI_ERR_PEER_LOST, text);
		tutti_window_destroy(window);
		tutti_comm_destroy(second);
	}
	give_back(&memory);
	return 0;
}

static int target_has_left(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	int failed = call_one_that_has_left(comm, scene, put_and_flush, "rank 1 ");

	if (!failed)
		failed = call_one_that_has_left(comm, scene, flush_it, "rank 1 ");
	if (!failed && !scene->heap) /* a get of memory that is still mapped may find what it was */
		failed = call_one_that_has_left(comm, scene, get_a_word, "rank 1 ");
	return failed ? failed
		      : call_one_that_has_left(comm, scene, wait_for_it,
					       "all other ranks have left the communicator; it is "
					       "1, and not yet 2");
}

/* A call that is to fail by its deadline; the others have time. */
static const tutti_call_t hasty = { .size = sizeof(hasty), .timeout_s = 0.4 };

static int nobody_signals(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	tutti_window_t window;

	SUCCEEDS(tutti_window_create(comm, NULL, 0, 4, &window));
	if (tutti_comm_rank(comm) == 0)
		SUCCEEDS(tutti_signal(window, 1, 3, 2));
	SUCCEEDS(tutti_barrier(comm, NULL));
	meet_at(&scene->busy, 2); /* the other one is out of it, too */
	SUCCEEDS(tutti_next_call(comm, &hasty));
	FAILS(tutti_wait_signal(window, 3, 5, NULL, NULL), TUTTI_ERR_TIMEOUT,
	      "tutti_wait_signal of signal 3 of window 0 missed its deadline of 0.4 s: it is ",
	      ", and not yet 5");
	FAILS(tutti_signal(window, 1, 3, 2), TUTTI_ERR_TIMEOUT, ""); /* nothing is sent after it */
	tutti_window_destroy(window);
	return 0;
}

/* Rank 1 is stopped: a flush finds out, and says which. */
static int target_is_stopped(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	static uint8_t memory[64];
	tutti_window_t window;
	tutti_result_t result;

	SUCCEEDS(tutti_window_create(comm, memory, sizeof(memory), 1, &window));
	if (tutti_comm_rank(comm) == 1) {
		atomic_store(&scene->pid, getpid());
		raise(SIGSTOP);
		tutti_window_destroy(window);
		return 0;
	}
	await_count(&scene->pid, 1);
	CLAIM(await_stop(atomic_load(&scene->pid)), "rank 1 has ended");
	do {
		SUCCEEDS(tutti_put(window, memory, sizeof(memory), 1, 0, NULL));
		SUCCEEDS(tutti_next_call(comm, &hasty));
		result = tutti_flush(window, TUTTI_ANY_PEER, NULL);
	} while (!result);
	kill(atomic_load(&scene->pid), SIGCONT);
	FAILS(result, TUTTI_ERR_TIMEOUT,
	      "rank 0's tutti_flush of window 0 to all ranks missed its deadline of 0.4 s: the "
	      "answer has not come; rank 1 is stopped (state T)");
	tutti_window_destroy(window);
	return 0;
}

/* Rank 1 is killed while one waits for its signal, and another puts for ever. */
static int target_is_killed(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	struct memory memory = { .heap = scene->heap };
	const int rank = tutti_comm_rank(comm);
	tutti_window_t window;
	tutti_result_t result;

	SUCCEEDS(take(&memory, LONG));
	SUCCEEDS(tutti_window_create(comm, memory.bytes, LONG, 1, &window));
	if (rank == 1) {
		await_count(&scene->busy, 2);
		raise(SIGKILL);
	}
	atomic_fetch_add(&scene->busy, 1);
	if (rank == 0) {
		do
			result = tutti_put(window, memory.bytes, 4096, 1, 0, NULL);
		while (!result && !(result = tutti_flush(window, 1, NULL)));
	} else {
		result = tutti_wait_signal(window, 0, 1, NULL, NULL);
	}
	FAILS(result, TUTTI_ERR_PEER_LOST, "rank 1 ");
	tutti_window_destroy(window);
	give_back(&memory);
	return 0;
}

/* Rank 1 makes no window. */
static int not_all_make_it(tutti_comm_t comm, void *argument)
{
	tutti_window_t window = NULL;
	uint64_t word = 0;
	const tutti_result_t result =
		tutti_comm_rank(comm) == 1
			? tutti_all_reduce(comm, &word, &word, 1, TUTTI_UINT64, TUTTI_SUM, NULL)
			: tutti_window_create(comm, &word, 8, 0, &window);

	FAILS(result, TUTTI_ERR_MISMATCH, "tutti_window_create");
	CLAIM(!window, "a window came of it");
	return 0;
}

/* ---- the parent */

#define PATIENT(n, played, with)                                                                   \
	HOLDS(.ranks = n, .env = ENV("TUTTI_TIMEOUT=60"), .body = played, .argument = with)

/* In memory that peers map, and in other. */
#define SCENE(name, body, ranks)                                                                   \
	TEST(name)                                                                                 \
	{                                                                                          \
		PATIENT(ranks, body, NULL);                                                        \
		PATIENT(ranks, body, (void *)"heap");                                              \
	}

SCENE(what_is_put_is_there_when_its_signal_is, exchange, RANKS)
SCENE(short_puts_arrive_in_order, many_short, 3)
SCENE(calls_in_both_directions_wait_for_each_other_nowhere, many_at_once, 2)
SCENE(sums_lose_nothing, sum_up, RANKS)
SCENE(windows_are_told_apart, several, 3)
SCENE(windows_end_in_the_same_order_everywhere, other_order, 2)
SCENE(windows_on_one_memory_end_alone, on_one_memory, 2)
SCENE(wrong_arguments_are_refused, wrong_arguments, 2)
SCENE(all_ranks_make_a_window_together, not_all_make_it, 3)
SCENE(a_window_ends_after_its_calls, unfinished_calls, 2)
SCENE(what_is_said_of_the_next_call_is_of_no_other, next_calls, 2)
SCENE(windows_of_one_allocation_do_not_end_each_other, window_of_another, 2)

static struct scene *new_scene(bool heap)
{
	struct scene *scene = shared_memory(sizeof(*scene));

	scene->heap = heap;
	return scene;
}

TEST(a_target_may_compute)
{
	PATIENT(3, while_it_computes, new_scene(false));
	PATIENT(3, while_it_computes, new_scene(true));
}

TEST_OF(a_signal_that_nobody_sends_is_named, PATIENT(2, nobody_signals, new_scene(false)))
TEST_OF(memory_that_is_freed_too_early_is_noticed, PATIENT(2, memory_is_freed, new_scene(true)))
TEST_OF(a_stopped_target_is_named, PATIENT(2, target_is_stopped, new_scene(false)))

TEST(a_target_that_has_left_is_named)
{
	for (int heap = 0; heap < 2; heap++)
		PATIENT(2, target_has_left, new_scene(heap));
}

TEST(a_killed_target_is_named)
{
	for (int heap = 0; heap < 2; heap++)
		HOLDS(.ranks = 3, .env = ENV("TUTTI_TIMEOUT=60"), .body = target_is_killed,
		      .argument = new_scene(heap), .expect_signal = SIGKILL, .victims = 1u << 1);
}
