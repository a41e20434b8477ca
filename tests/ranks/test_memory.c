/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that peers can map: what it is, and collectives on it; and what a communicator costs.
 *
 *   test_memory shm|tcp|mixed */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "calls/call.h"
#include "harness.h"

#define MIB		 (1u << 20)
#define PER_RANK_MAX_KIB (16 * 1024)

static bool is_zero(const uint8_t *memory, size_t bytes)
{
	return bytes == 0 || (memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0);
}

static int alloc_and_free(int rank, void *argument)
{
	static const size_t sizes[] = {
		1, 4095, 4096, 4097, 100000, 2 * MIB, 3 * MIB + 1, 64 * MIB
	};
	uint8_t *memory[8];
	tutti_comm_t comm = NULL;
	void *none = memory;

	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < 8; i++) {
			SUCCEEDS(tutti_mem_alloc(sizes[i], (void **)&memory[i]));
			CLAIM((uintptr_t)memory[i] % 4096 == 0, "%zu bytes at %p", sizes[i],
			      (void *)memory[i]);
			CLAIM(is_zero(memory[i], sizes[i]), "%zu bytes are not zero%s", sizes[i],
			      again ? " when used again" : "");
		}
		for (int i = 0; i < 8; i++)
			memset(memory[i], i + 1, sizes[i]);
		for (int i = 0; i < 8; i++) /* none overlaps another */
			CLAIM(memory[i][0] == i + 1 && memory[i][sizes[i] - 1] == i + 1 &&
				      memcmp(memory[i], memory[i] + 1, sizes[i] - 1) == 0,
			      "%zu bytes were written by another", sizes[i]);
		for (int i = 0; i < 8; i++)
			tutti_mem_free(memory[(i * 3) % 8]);
	}
	REFUSES(tutti_mem_alloc(0, &none), "bytes 0");
	CLAIM(!none, "0 bytes were had");
	CLAIM(tutti_mem_alloc((size_t)1 << 60, &none) < 0 && !none, "2^60 bytes were had");
	return 0;
}

/* ---- collectives */

/* Where this rank's buffers are. */
struct place {
	const char *name;
	bool send_mapped, recv_mapped;
	size_t skip; /* bytes: the buffers begin in the middle of a page, and are not lent */
};

static bool take(struct buffer *buffer, bool mapped, size_t skip)
{
	buffer->mapped = mapped;
	buffer->before = skip;
	return buffer_take(buffer);
}

static int collective(tutti_comm_t comm, enum what what, size_t n, const struct place *place,
		      bool in_place)
{
	const int size = tutti_comm_size(comm);
	char why[CALL_TEXT];
	struct call c;

	call_init(&c, what, tutti_comm_rank(comm), size, TUTTI_INT32, TUTTI_SUM, n);
	c.root = size - 1;
	c.in_place = in_place;
	call_lay_out(&c);
	/* there is nothing in the buffers that do not matter */
	CLAIM(c.send.bytes == 0 || take(&c.send, place->send_mapped, place->skip), "no memory");
	CLAIM(c.recv.bytes == 0 || take(&c.recv, place->recv_mapped, place->skip), "no memory");
	call_fill(&c);
	SUCCEEDS(call_post(comm, &c, NULL));
	CLAIM(call_is_right(&c, why), "with %s: %s", place->name, why);
	call_finish(&c);
	return 0;
}

static int collectives(tutti_comm_t comm, void *argument)
{
	/* of a block, or of all of them: divisible by 2, 3 and 4; whole pages and not; the last, too
	 * long for caches */
	static const size_t sizes[] = { 24, 5016, 49152, 4300008 };
	const int rank = tutti_comm_rank(comm);
	const struct place places[] = {
		{ "none mapped", false, false },
		{ "all mapped", true, true },
		{ "input mapped", true, false },
		{ "output mapped", false, true },
		{ "even ranks mapped", rank % 2 == 0, rank % 2 == 0 },
		{ "rank 0 alone plain", rank != 0, rank != 0 },
		{ "rank 0's in the middle of pages", true, true, rank == 0 ? 64 : 0 },
	};

	static const enum what whats[] = { ALL_REDUCE, REDUCE,	       SCAN,
					   BROADCAST,  REDUCE_SCATTER, ALL_GATHER,
					   ALL_TO_ALL, GATHER,	       SCATTER };
	const size_t size = (size_t)tutti_comm_size(comm);

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
			for (int w = 0; w < 9; w++) {
				const size_t n = w < 4 ? sizes[s] : sizes[s] / size; /* blocks */

				for (int in_place = 0; in_place <= (w == 0); in_place++)
					if (collective(comm, whats[w], n, &places[p], in_place))
						return 1;
			}
	return 0;
}

/* ---- memory that others read and write where it lies */

#define LENT (1u << 15) /* elements: nothing of it is copied for the peers */

struct late {
	atomic_int pid; /* of the rank that stopped; -1: none is to any more */
	atomic_int ended;
};

static void add_and_stop(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
			 void *context)
{
	atomic_int *pid = context;
	int nobody = 0;

	for (size_t i = 0; i < count; i++)
		((uint64_t *)inout)[i] += ((const uint64_t *)in)[i];
	if (pid && atomic_compare_exchange_strong(pid, &nobody, getpid()))
		raise(SIGSTOP); /* in the middle of what the other lends */
}

/* An all-reduce that rank 0 ends while rank 1 is in the middle of it. */
static int end_in_the_middle(tutti_comm_t comm, const uint64_t *send, uint64_t *recv,
			     struct late *late)
{
	const int rank = tutti_comm_rank(comm);
	tutti_request_t request = NULL;
	bool stopped = false;
	tutti_op_t op;

	SUCCEEDS(tutti_op_create(comm, add_and_stop, 1, rank == 1 ? &late->pid : NULL, &op));
	SUCCEEDS(tutti_all_reduce(comm, send, recv, LENT, TUTTI_UINT64, op, &request));
	while (rank == 0 && !stopped) {
		CLAIM(tutti_test(&request) == TUTTI_IN_PROGRESS,
		      "it ended before rank 1 came to its middle");
		stopped = atomic_load(&late->pid) && is_stopped(atomic_load(&late->pid));
	}
	if (rank == 0) {
		/* its own part is done by now: rank 1 came to the operation before it stopped */
		CLAIM(tutti_test(&request) == TUTTI_IN_PROGRESS, "it ended without rank 1");
		SUCCEEDS(tutti_comm_abort(comm, "the test says so"));
	}
	FAILS(tutti_wait(&request), TUTTI_ERR_ABORTED, "");
	return 0;
}

static void fill(uint64_t *memory, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		memory[i] = value;
}

static bool is_all(const uint64_t *memory, size_t n, uint64_t value)
{
	return memory[0] == value && memcmp(memory, memory + 1, (n - 1) * sizeof(*memory)) == 0;
}

/* Rank 0's buffers, and no other's, are read in place. */
static int lend_inputs(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	uint64_t *send = malloc(LENT * sizeof(*send)), *recv = malloc(LENT * sizeof(*recv));
	struct late *late = argument;

	if (rank == 0) {
		free(send), free(recv);
		SUCCEEDS(tutti_mem_alloc(LENT * sizeof(*send), (void **)&send));
		SUCCEEDS(tutti_mem_alloc(LENT * sizeof(*recv), (void **)&recv));
	}
	fill(send, LENT, 1);
	if (end_in_the_middle(comm, send, recv, late))
		return 1;
	if (rank == 0) {
		fill(send, LENT, 2);
		fill(recv, LENT, 2);
		kill(atomic_load(&late->pid), SIGCONT);
	}
	(rank == 0 ? tutti_mem_free : free)(send);
	(rank == 0 ? tutti_mem_free : free)(recv);
	return 0;
}

/* Rank 1 goes on when the operation has ended on rank 0 and its result has other uses. */
static int lend_results(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	uint64_t *send, *recv, *again;
	struct late *late = argument;
	tutti_comm_t next = NULL;

	SUCCEEDS(tutti_mem_alloc(LENT * sizeof(*send), (void **)&send));
	SUCCEEDS(tutti_mem_alloc(LENT * sizeof(*recv), (void **)&recv));
	fill(send, LENT, 1);
	fill(recv, LENT, 7);
	if (end_in_the_middle(comm, send, recv, late))
		return 1;
	if (rank == 0) {
		/* rank 1 stopped before it wrote to this half */
		CLAIM(is_all(recv + LENT / 2, LENT / 2, 7), "what was there is not there any more");
		fill(recv, LENT, 9);
		kill(atomic_load(&late->pid), SIGCONT);
	}
	meet_at(&late->ended, 2);
	if (rank == 1)
		CLAIM(is_all(recv, LENT / 2, 2), "rank 0 has not written its part here");
	if (rank == 0)
		CLAIM(is_all(recv, LENT, 9),
		      "rank 1 has written to memory that was no longer lent");

	SUCCEEDS(tutti_comm_shrink(comm, &next)); /* among which it can be lent again */
	for (int times = 0; times < 2; times++) {
		SUCCEEDS(tutti_all_reduce(next, send, recv, LENT, TUTTI_UINT64, TUTTI_SUM, NULL));
		CLAIM(is_all(recv, LENT, 2), "a sum is wrong");
		fill(recv, LENT, 0);
	}
	fill(recv, LENT, 1);
	tutti_mem_free(recv);
	SUCCEEDS(tutti_mem_alloc(LENT * sizeof(*again), (void **)&again));
	CLAIM(again != recv, "what others may still write to is used again");
	CLAIM(is_all(again, LENT, 0), "memory used again is not zero");
	tutti_comm_destroy(next);
	return 0;
}

/* ---- the cost of a communicator */

static int small_before_large(int rank, void *argument)
{
	const long before = memory_in_use();
	tutti_comm_t comm = NULL;
	float data[256] = { 0 };

	SUCCEEDS(tutti_init(NULL, &comm));
	for (int i = 0; i < 100; i++)
		SUCCEEDS(tutti_all_reduce(comm, data, data, 256, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_barrier(comm, NULL));
	const long used = memory_in_use() - before;
	if (rank == 0)
		printf("a communicator of 4: %ld KiB on rank 0, libraries included\n", used);
	CLAIM(used <= PER_RANK_MAX_KIB, "the communicator takes %ld KiB, expected %d at most", used,
	      PER_RANK_MAX_KIB);
	tutti_comm_destroy(comm);
	return 0;
}

/* ---- the parent */

JOB(memory_is_aligned_zero_and_nobody_elses, .ranks = 1, .whole = alloc_and_free)

TEST(collectives_work_wherever_buffers_are)
{
	if (strcmp(transport_chosen, "tcp") == 0)
		skip(); /* there they are nothing to peers */
	HOLDS(.ranks = 2, .most = 4, .body = collectives, .limit_s = 240);
}

static void end_lending(rank_body *body)
{
	/* whatever the caches hold: in one segment, of which each rank combines a half */
	if (strcmp(transport_chosen, "shm") != 0)
		skip(); /* nothing else reads and writes in place */
	HOLDS(.ranks = 2, .env = ENV("TUTTI_ALGORITHM=direct", "TUTTI_SEGMENT=1048576"),
	      .body = body, .shares = sizeof(struct late));
}

/* What it has read since may be anything. */
TEST_OF(who_reads_what_is_no_longer_lent_fails_like_its_owner, end_lending(lend_inputs))
TEST_OF(who_is_late_does_not_write_to_what_is_no_longer_lent, end_lending(lend_results))

JOB(a_communicator_is_small_before_its_first_large_message, .ranks = 4, .whole = small_before_large)
