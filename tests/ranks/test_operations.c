/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the user's own, in rank order where it matters; and the bits of results.
 *
 *   test_operations shm|tcp|mixed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "calls/call.h"
#include "calls/values.h"
#include "harness.h"

#define MAX_RANKS 8

/* Forced one after the other; NULL: chosen by cost. */
static const char *const algorithms[] = {
	"board",       "direct", "flat",	 "pairwise",	       "two_shot",
	"doubling",    "bruck",	 "tree",	 "halving_doubling",   "ring",
	"double_tree", "chain",	 "hierarchical", "hierarchical_split", "hierarchical_shots",
	"star",	       NULL
};
#define NALGORITHMS ((int)(sizeof(algorithms) / sizeof(algorithms[0])))

static const char *forced(void)
{
	const char *algorithm = getenv("TUTTI_ALGORITHM");

	return algorithm && *algorithm ? algorithm : "choice";
}

/* ---- an operation that minds its order, and one that does not */

static void compose(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	combine_compose(inout, in, count, dtype, NULL);
	atomic_fetch_add((atomic_int *)context, dtype == TUTTI_UINT64 ? 1 : -1000000);
}

static int user_operation(tutti_comm_t comm, int combine, tutti_op_t op, size_t n)
{
	for (int what = 0; what < MESSAGE; what++)
		for (int in_place = 0; in_place <= (what == ALL_REDUCE); in_place++) {
			char why[CALL_TEXT];
			struct call c;

			if (!call_combines((enum what)what))
				continue;
			call_init(&c, (enum what)what, tutti_comm_rank(comm), tutti_comm_size(comm),
				  TUTTI_UINT64, combine, n);
			call_set_uneven(&c);
			c.root = (int)(n % (size_t)c.size);
			c.in_place = in_place;
			c.op = op;
			CLAIM(call_try(comm, &c, why), "by %s: %s", forced(), why);
		}
	return 0;
}

static int user_operations(tutti_comm_t comm, void *argument)
{
	static const size_t sizes[] = { 1, 17, 1001, 30011 };
	atomic_int calls = 0;
	tutti_op_t composing, adding;
	int failed = 0;

	SUCCEEDS(tutti_op_create(comm, compose, 0, &calls, &composing));
	SUCCEEDS(tutti_op_create(comm, combine_add, 1, NULL, &adding));
	for (int i = 0; i < 4 && !failed; i++)
		failed = user_operation(comm, COMBINE_COMPOSE, composing, sizes[i]) ||
			 user_operation(comm, COMBINE_ADD, adding, sizes[i]);
	CLAIM(failed || tutti_comm_size(comm) == 1 || calls >= 0,
	      "the function was told another type");
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_op_destroy(comm, composing));
	SUCCEEDS(tutti_op_destroy(comm, adding));
	return failed;
}

/* ---- pre-multiplied sums */

static int premul_sums(tutti_comm_t comm, void *argument)
{
	static const size_t sizes[] = { 1, 100, 20011 };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (unsigned i = 0; i < 6; i++) {
			char why[CALL_TEXT];
			struct call c;

			call_init(&c, ALL_REDUCE, tutti_comm_rank(comm), tutti_comm_size(comm),
				  (tutti_dtype_t)dtype, COMBINE_PREMUL, sizes[i / 2]);
			c.in_place = i % 2;
			CLAIM(call_try(comm, &c, why), "by %s: %s", forced(), why);
		}
	return 0;
}

/* ---- bits */

#define BITS_N 40000

/* Of many magnitudes, so that every order of adding gives other bits. */
static float any_float(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	const uint32_t word = (uint32_t)(*state >> 32);
	const float mantissa = (float)(word & 0xffff) / 65536.0f - 0.5f;

	return mantissa * (float)(1u << (word >> 16 & 15));
}

/* What is the same for all jobs of a number of ranks: hashes of each rank's results, 0: not known
 * yet. */
struct bits {
	bool across_jobs;
	uint64_t all, each[MAX_RANKS], prefix[MAX_RANKS], narrow[MAX_RANKS];
};

static int same_as_before(tutti_comm_t comm, uint64_t *known, uint64_t hash, const char *what)
{
	if (*known == 0)
		*known = hash;
	CLAIM(*known == hash, "%s by %s, segments %s, %s: other bits than before", what, forced(),
	      getenv("TUTTI_SEGMENT") ? getenv("TUTTI_SEGMENT") : "chosen",
	      getenv("TUTTI_TRANSPORT"));
	return 0;
}

static int same_bits(tutti_comm_t comm, void *argument)
{
	struct bits *bits = argument;
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	float *send = malloc(BITS_N * sizeof(float)), *recv = malloc(BITS_N * sizeof(float));
	uint64_t state = (uint64_t)rank + 1, hashes[MAX_RANKS];
	const size_t block = BITS_N / (size_t)size;
	int failed = 0;

	for (size_t i = 0; i < BITS_N; i++)
		send[i] = any_float(&state);
	SUCCEEDS(tutti_all_reduce(comm, send, recv, BITS_N, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	const uint64_t mine = bits_hash(recv, BITS_N * sizeof(float));
	SUCCEEDS(tutti_all_gather(comm, &mine, hashes, 1, TUTTI_UINT64, NULL));
	for (int other = 0; other < size; other++)
		CLAIM(hashes[other] == mine, "all_reduce by %s: rank %d has other bits", forced(),
		      other);
	if (bits->across_jobs) {
		if (rank == 0)
			failed = same_as_before(comm, &bits->all, mine, "all_reduce");
		SUCCEEDS(tutti_reduce_scatter(comm, send, recv, block, TUTTI_FLOAT32, TUTTI_SUM,
					      NULL));
		failed |= same_as_before(comm, &bits->each[rank],
					 bits_hash(recv, block * sizeof(float)), "reduce_scatter");
		SUCCEEDS(tutti_scan(comm, send, recv, BITS_N, TUTTI_FLOAT32, TUTTI_SUM, NULL));
		failed |= same_as_before(comm, &bits->prefix[rank],
					 bits_hash(recv, BITS_N * sizeof(float)), "scan");
		/* the upper halves of floats: rounding at each hop would show */
		for (size_t i = 0; i < BITS_N; i++)
			memcpy((uint16_t *)send + i, (char *)&send[i] + 2, 2);
		SUCCEEDS(tutti_scan(comm, send, recv, BITS_N, TUTTI_BFLOAT16, TUTTI_SUM, NULL));
		failed |= same_as_before(comm, &bits->narrow[rank], bits_hash(recv, BITS_N * 2),
					 "scan of bfloat16");
	}
	free(send);
	free(recv);
	return failed;
}

/* ---- the parent */

/* Run `body` with an algorithm forced, and what else `more` (NULL: nothing) says. */
static int run_by(rank_body *body, void *argument, int ranks, const char *algorithm,
		  const char *more)
{
	char algorithm_set[48];
	const char *env[3] = { NULL, NULL, NULL };
	const struct job job = { .ranks = ranks, .env = env, .body = body, .argument = argument };
	int n = 0;

	snprintf(algorithm_set, sizeof(algorithm_set), "TUTTI_ALGORITHM=%s",
		 algorithm ? algorithm : "");
	env[n++] = algorithm_set;
	env[n] = more;
	const int failed = run_job(&job);
	if (failed)
		fprintf(stderr, "  %d ranks, %s%s%s\n", ranks, algorithm_set, more ? ", " : "",
			more ? more : "");
	return failed;
}

TEST(user_operations_combine_in_rank_order)
{
	int failed = 0;

	for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
		for (int i = ranks == 1 ? NALGORITHMS - 1 : 0; i < NALGORITHMS; i++)
			failed += run_by(user_operations, NULL, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

TEST(premultiplied_sums_of_every_type_scale_each_rank)
{
	int failed = 0;

	for (int ranks = 1; ranks <= 5; ranks += 2)
		for (int i = 0; i < NALGORITHMS; i++)
			failed += run_by(premul_sums, NULL, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

TEST(all_ranks_have_the_same_bits)
{
	struct bits *bits = shared_memory(sizeof(*bits));
	int failed = 0;

	for (int ranks = 2; ranks <= 5; ranks++)
		for (int i = 0; i < NALGORITHMS; i++)
			failed += run_by(same_bits, bits, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

/* Over all transports, so that it is one claim: run as part of "mixed". */
TEST(reproducible_results_have_the_same_bits_everywhere)
{
	static const char *const ways[][2] = { { "shm", "1" }, { "tcp", "1" }, { "shm,tcp", "2" } };
	static const char *const segments[] = { NULL, "TUTTI_SEGMENT=4096",
						"TUTTI_SEGMENT=1000000" };
	int failed = 0;

	if (strcmp(transport_chosen, "mixed") != 0)
		skip();
	setenv("TUTTI_REPRODUCIBLE", "1", 1);
	for (int ranks = 3; ranks <= 4; ranks++) {
		struct bits *bits = shared_memory(sizeof(*bits));

		bits->across_jobs = true;
		for (int way = 0; way < 3; way++) {
			setenv("TUTTI_TRANSPORT", ways[way][0], 1);
			setenv("TEST_HOSTS", ways[way][1], 1);
			for (int s = 0; s < 3; s++)
				for (int i = 0; i < NALGORITHMS; i++)
					failed += run_by(same_bits, bits, ranks, algorithms[i],
							 segments[s]);
		}
	}
	unsetenv("TUTTI_REPRODUCIBLE");
	assert_int_equal(failed, 0);
}
