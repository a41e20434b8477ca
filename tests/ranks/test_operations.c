/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the user's own, in rank order where it matters; and the bits of results.
 *
 *   test_operations shm|tcp|mixed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"
#include "calls/values.h"

#define MAX_RANKS 8

/* Forced one after the other; NULL: chosen by cost. */
static const char *const algorithms[] = {
	"board",       "direct", "flat",	 "pairwise",	       "two_shot",
	"doubling",    "bruck",	 "tree",	 "halving_doubling",   "ring",
	"double_tree", "chain",	 "hierarchical", "hierarchical_split", "hierarchical_shots",
	"star",	       NULL
};
#define NALGORITHMS ((int)(sizeof(algorithms) / sizeof(algorithms[0])))

/* ---- an operation that minds its order: x -> a x + b, composed; a and b are the halves of a
 * uint64 */

static uint64_t affine(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

static uint64_t compose(uint64_t f, uint64_t g)
{
	const uint32_t fa = (uint32_t)(f >> 32), fb = (uint32_t)f, ga = (uint32_t)(g >> 32),
		       gb = (uint32_t)g;

	return affine(fa * ga, fa * gb + fb);
}

static void compose_all(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
			void *context)
{
	uint64_t *f = inout;
	const uint64_t *g = in;

	for (size_t i = 0; i < count; i++)
		f[i] = compose(f[i], g[i]);
	atomic_fetch_add((atomic_int *)context, dtype == TUTTI_UINT64 ? 1 : -1000000);
}

static void add_all(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	uint64_t *sum = inout;
	const uint64_t *more = in;

	for (size_t i = 0; i < count; i++)
		sum[i] += more[i];
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b;
}

struct scene {
	tutti_comm_t comm;
	int rank, size;
	size_t n;
	tutti_op_t op;
	uint64_t (*combine)(uint64_t a, uint64_t b);
	uint64_t *send, *recv; /* size * n each */
};

static uint64_t input(int rank, size_t i)
{
	return affine(3 + 2 * (uint32_t)(i % 1000) + 10 * (uint32_t)rank,
		      7 * (uint32_t)rank + (uint32_t)i);
}

static uint64_t reduced(const struct scene *s, int last, size_t i)
{
	uint64_t f = input(0, i);

	for (int rank = 1; rank <= last; rank++)
		f = s->combine(f, input(rank, i));
	return f;
}

static int agree(const struct scene *s, const char *what, size_t n, size_t first, int last)
{
	const tutti_comm_t comm = s->comm;

	for (size_t i = 0; i < n; i++) {
		const uint64_t expected = reduced(s, last, first + i);

		CLAIM(s->recv[i] == expected,
		      "%s of %zu, op %d, algorithm %s: element %zu is %llx, expected %llx", what,
		      s->n, s->op, getenv("TUTTI_ALGORITHM") ? getenv("TUTTI_ALGORITHM") : "chosen",
		      i, (unsigned long long)s->recv[i], (unsigned long long)expected);
	}
	return 0;
}

static int to_all(struct scene *s)
{
	const tutti_comm_t comm = s->comm;
	const int root = (int)(s->n % (size_t)s->size);

	SUCCEEDS(tutti_all_reduce(comm, s->send, s->recv, s->n, TUTTI_UINT64, s->op, NULL));
	if (agree(s, "all_reduce", s->n, 0, s->size - 1))
		return 1;
	memcpy(s->recv, s->send, s->n * sizeof(*s->send));
	SUCCEEDS(tutti_all_reduce(comm, s->recv, s->recv, s->n, TUTTI_UINT64, s->op, NULL));
	if (agree(s, "all_reduce in place", s->n, 0, s->size - 1))
		return 1;
	SUCCEEDS(tutti_reduce(comm, s->send, s->recv, s->n, TUTTI_UINT64, s->op, root, NULL));
	return s->rank == root && agree(s, "reduce", s->n, 0, s->size - 1);
}

static int to_each(struct scene *s)
{
	const tutti_comm_t comm = s->comm;
	size_t counts[MAX_RANKS], first = 0;

	SUCCEEDS(tutti_reduce_scatter(comm, s->send, s->recv, s->n, TUTTI_UINT64, s->op, NULL));
	if (agree(s, "reduce_scatter", s->n, s->n * (size_t)s->rank, s->size - 1))
		return 1;
	for (int rank = 0; rank < s->size; rank++) {
		counts[rank] = rank % 3 == 1 ? 0 : s->n / (size_t)(rank + 1);
		first += rank < s->rank ? counts[rank] : 0;
	}
	SUCCEEDS(tutti_reduce_scatter_v(comm, s->send, s->recv, counts, TUTTI_UINT64, s->op, NULL));
	if (agree(s, "reduce_scatter_v", counts[s->rank], first, s->size - 1))
		return 1;
	SUCCEEDS(tutti_scan(comm, s->send, s->recv, s->n, TUTTI_UINT64, s->op, NULL));
	if (agree(s, "scan", s->n, 0, s->rank))
		return 1;
	SUCCEEDS(tutti_exscan(comm, s->send, s->recv, s->n, TUTTI_UINT64, s->op, NULL));
	return s->rank > 0 && agree(s, "exscan", s->n, 0, s->rank - 1);
}

static int user_operations(tutti_comm_t comm, void *argument)
{
	static const size_t sizes[] = { 1, 17, 1001, 30011 };
	struct scene s = { .comm = comm,
			   .rank = tutti_comm_rank(comm),
			   .size = tutti_comm_size(comm) };
	const size_t most = sizes[3] * (size_t)s.size;
	atomic_int calls = 0;
	tutti_op_t composing, adding;
	int failed = 0;

	SUCCEEDS(tutti_op_create(comm, compose_all, 0, &calls, &composing));
	SUCCEEDS(tutti_op_create(comm, add_all, 1, NULL, &adding));
	s.send = malloc(most * sizeof(*s.send));
	s.recv = malloc(most * sizeof(*s.recv));
	for (size_t i = 0; i < most; i++)
		s.send[i] = input(s.rank, i);
	for (int i = 0; i < 4 && !failed; i++) {
		s.n = sizes[i];
		s.op = composing;
		s.combine = compose;
		failed = to_all(&s) || to_each(&s);
		s.op = adding;
		s.combine = add;
		failed = failed || to_all(&s) || to_each(&s);
	}
	CLAIM(failed || s.size == 1 || calls >= 0, "the function was told another type");
	free(s.send);
	free(s.recv);
	SUCCEEDS(tutti_barrier(comm, NULL));
	SUCCEEDS(tutti_op_destroy(comm, composing));
	SUCCEEDS(tutti_op_destroy(comm, adding));
	return failed;
}

/* ---- pre-multiplied sums */

static double scalar_of(int rank)
{
	return rank % 2 ? 1 : 2;
}

static int premul_of(tutti_comm_t comm, tutti_dtype_t dtype, uint8_t *send, uint8_t *recv, size_t n)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	uint8_t scalar[8];
	tutti_op_t op;

	value_set(scalar, 0, dtype, scalar_of(rank));
	SUCCEEDS(tutti_op_create_premul_sum(comm, scalar, dtype, &op));
	memset(scalar, 0xff, sizeof(scalar)); /* was copied */
	for (size_t i = 0; i < n; i++)
		value_set(send, i, dtype, value_input(rank, i, dtype, TUTTI_SUM));
	for (int in_place = 0; in_place < 2; in_place++) {
		if (in_place)
			memcpy(recv, send, n * tutti_dtype_size(dtype));
		SUCCEEDS(tutti_all_reduce(comm, in_place ? recv : send, recv, n, dtype, op, NULL));
		for (size_t i = 0; i < n; i++) {
			double expected = 0;

			for (int r = 0; r < size; r++)
				expected += scalar_of(r) * value_input(r, i, dtype, TUTTI_SUM);
			CLAIM(value_close(value_get(recv, i, dtype), expected, dtype, size + 1),
			      "%s: element %zu of %zu is %g, expected %g", tutti_dtype_name(dtype),
			      i, n, value_get(recv, i, dtype), expected);
		}
	}
	SUCCEEDS(tutti_op_destroy(comm, op));
	return 0;
}

static int premul_sums(tutti_comm_t comm, void *argument)
{
	static const size_t sizes[] = { 1, 100, 20011 };
	uint8_t *send = malloc(sizes[2] * 8), *recv = malloc(sizes[2] * 8);
	int failed = 0;

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT && !failed; dtype++)
		for (int i = 0; i < 3 && !failed; i++)
			failed = premul_of(comm, (tutti_dtype_t)dtype, send, recv, sizes[i]);
	free(send);
	free(recv);
	return failed;
}

/* ---- bits */

#define BITS_N 40000

static uint64_t hash_of(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

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
	CLAIM(*known == hash, "%s by %s, segments %s, %s: other bits than before", what,
	      getenv("TUTTI_ALGORITHM") ? getenv("TUTTI_ALGORITHM") : "choice",
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
	const uint64_t mine = hash_of(recv, BITS_N * sizeof(float));
	SUCCEEDS(tutti_all_gather(comm, &mine, hashes, 1, TUTTI_UINT64, NULL));
	for (int other = 0; other < size; other++)
		CLAIM(hashes[other] == mine, "all_reduce by %s: rank %d has other bits",
		      getenv("TUTTI_ALGORITHM") ? getenv("TUTTI_ALGORITHM") : "choice", other);
	if (bits->across_jobs) {
		if (rank == 0)
			failed = same_as_before(comm, &bits->all, mine, "all_reduce");
		SUCCEEDS(tutti_reduce_scatter(comm, send, recv, block, TUTTI_FLOAT32, TUTTI_SUM,
					      NULL));
		failed |= same_as_before(comm, &bits->each[rank],
					 hash_of(recv, block * sizeof(float)), "reduce_scatter");
		SUCCEEDS(tutti_scan(comm, send, recv, BITS_N, TUTTI_FLOAT32, TUTTI_SUM, NULL));
		failed |= same_as_before(comm, &bits->prefix[rank],
					 hash_of(recv, BITS_N * sizeof(float)), "scan");
		/* the upper halves of floats: rounding at each hop would show */
		for (size_t i = 0; i < BITS_N; i++)
			memcpy((uint16_t *)send + i, (char *)&send[i] + 2, 2);
		SUCCEEDS(tutti_scan(comm, send, recv, BITS_N, TUTTI_BFLOAT16, TUTTI_SUM, NULL));
		failed |= same_as_before(comm, &bits->narrow[rank], hash_of(recv, BITS_N * 2),
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
	char forced[48];
	const char *env[3] = { NULL, NULL, NULL };
	const struct job job = { .ranks = ranks, .env = env, .body = body, .argument = argument };
	int n = 0;

	snprintf(forced, sizeof(forced), "TUTTI_ALGORITHM=%s", algorithm ? algorithm : "");
	env[n++] = forced;
	env[n] = more;
	const int failed = run_job(&job);
	if (failed)
		fprintf(stderr, "  %d ranks, %s%s%s\n", ranks, forced, more ? ", " : "",
			more ? more : "");
	return failed;
}

static void user_operations_combine_in_rank_order(void **state)
{
	int failed = 0;

	for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
		for (int i = ranks == 1 ? NALGORITHMS - 1 : 0; i < NALGORITHMS; i++)
			failed += run_by(user_operations, NULL, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

static void premultiplied_sums_of_every_type_scale_each_rank(void **state)
{
	int failed = 0;

	for (int ranks = 1; ranks <= 5; ranks += 2)
		for (int i = 0; i < NALGORITHMS; i++)
			failed += run_by(premul_sums, NULL, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

static void all_ranks_have_the_same_bits(void **state)
{
	struct bits *bits = shared_memory(sizeof(*bits));
	int failed = 0;

	for (int ranks = 2; ranks <= 5; ranks++)
		for (int i = 0; i < NALGORITHMS; i++)
			failed += run_by(same_bits, bits, ranks, algorithms[i], NULL);
	assert_int_equal(failed, 0);
}

/* Over all transports, so that it is one claim: run as part of "mixed". */
static void reproducible_results_have_the_same_bits_everywhere(void **state)
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user_operations_combine_in_rank_order),
		cmocka_unit_test(premultiplied_sums_of_every_type_scale_each_rank),
		cmocka_unit_test(all_ranks_have_the_same_bits),
		cmocka_unit_test(reproducible_results_have_the_same_bits_everywhere),
	};

	if (choose_transport(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
