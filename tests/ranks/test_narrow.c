/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces whose float32 travels in fewer bytes: their error, their bits, and who may have them.
 *
 *   test_narrow shm|tcp|mixed */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "calls/bounds.h"
#include "calls/values.h"
#include "harness.h"

#define MAX_RANKS 5
#define BLOCK	  128
#define LONGEST	  40000
#define F32_UNIT  0x1p-24

static const tutti_wire_t narrow[] = { TUTTI_WIRE_BFLOAT16, TUTTI_WIRE_FLOAT16, TUTTI_WIRE_FLOAT8,
				       TUTTI_WIRE_INT8 };
#define NARROW ((int)(sizeof(narrow) / sizeof(narrow[0])))

/* Of many magnitudes; every rank knows what the others have. */
static float input(int rank, size_t i)
{
	const uint32_t word = (uint32_t)(i * 2654435761u + (size_t)rank * 40503u) * 747796405u;
	const float unit = (float)(int32_t)(word ^ word >> 15) * 0x1p-31f;

	return unit * (float)(1u << (i / BLOCK + (size_t)rank) % 12) * 0x1p-6f;
}

static double largest_of_block(int rank, size_t n, size_t i)
{
	double largest = 0;

	for (size_t k = i / BLOCK * BLOCK; k < n && k / BLOCK == i / BLOCK; k++)
		largest = fmax(largest, fabs((double)input(rank, k)));
	return largest;
}

/* docs/algorithms.md, "Narrow elements". */
static double bound_of(tutti_wire_t wire, int ranks, size_t n, size_t i)
{
	double inputs = 0, magnitude = 0, largest = 0;

	for (int r = 0; r < ranks; r++) {
		const double x = fabs((double)input(r, i)), block = largest_of_block(r, n, i);
		const double error = value_narrowed(wire, x, block);

		inputs += error;
		magnitude += x + error;
		largest += block + value_narrowed(wire, block, block);
	}
	return inputs + value_narrowed(wire, magnitude, largest) +
	       magnitude * (ranks + 8) * F32_UNIT * (wire == TUTTI_WIRE_INT8 ? 127 : 1);
}

static double exact(int ranks, size_t i)
{
	double sum = 0;

	for (int r = 0; r < ranks; r++)
		sum += (double)input(r, i);
	return sum;
}

/* ---- error and bits */

static tutti_result_t say(tutti_comm_t comm, tutti_wire_t wire)
{
	tutti_call_t next = TUTTI_CALL_INIT;

	next.wire = wire;
	return tutti_next_call(comm, &next);
}

/* `times` the bound of two roundings. */
static int within(tutti_comm_t comm, tutti_wire_t wire, tutti_op_t op, double times, const float *x,
		  size_t n)
{
	const int size = tutti_comm_size(comm);
	const double divisor = op == TUTTI_AVG ? size : 1;
	const size_t step = n > 2000 ? 37 : 1; /* bounds take long to find */

	for (size_t i = 0; i < n; i += step) {
		const double wanted = exact(size, i) / divisor,
			     bound = times * bound_of(wire, size, n, i) / divisor;

		CLAIM(fabs((double)x[i] - wanted) <= bound,
		      "as %s, element %zu of %zu is %.9g, expected %.9g +- %.3g",
		      tutti_wire_name(wire), i, n, (double)x[i], wanted, bound);
	}
	return 0;
}

static int same_on_all(tutti_comm_t comm, uint64_t mine)
{
	uint64_t all[MAX_RANKS];

	SUCCEEDS(tutti_all_gather(comm, &mine, all, 1, TUTTI_UINT64, NULL));
	for (int r = 0; r < tutti_comm_size(comm); r++)
		CLAIM(all[r] == mine, "rank %d has other bits", r);
	return 0;
}

static int same_everywhere(tutti_comm_t comm, uint64_t *known, uint64_t mine)
{
	if (same_on_all(comm, mine))
		return 1;
	SUCCEEDS(tutti_barrier(comm, NULL)); /* before one notes them for the next job */
	if (*known == 0 && tutti_comm_rank(comm) == 0)
		*known = mine;
	SUCCEEDS(tutti_barrier(comm, NULL));
	CLAIM(*known == mine, "an algorithm before had other bits");
	return 0;
}

static int reduce(tutti_comm_t comm, tutti_wire_t wire, tutti_op_t op, size_t n, bool in_place,
		  float *x, float *y)
{
	const int rank = tutti_comm_rank(comm);

	for (size_t i = 0; i < n; i++)
		x[i] = input(rank, i);
	SUCCEEDS(say(comm, wire));
	if (!in_place) {
		SUCCEEDS(tutti_all_reduce(comm, x, y, n, TUTTI_FLOAT32, op, NULL));
		for (size_t i = 0; i < n; i++)
			CLAIM(x[i] == input(rank, i), "the input is changed");
		return 0;
	}
	SUCCEEDS(tutti_all_reduce(comm, x, x, n, TUTTI_FLOAT32, op, NULL));
	memcpy(y, x, n * sizeof(float));
	return 0;
}

static const size_t counts[] = { 1, 127, 128, 129, 1000, LONGEST };
#define COUNTS ((int)(sizeof(counts) / sizeof(counts[0])))

/* [format × count × operation], of the jobs before with as many ranks. */
static int all_sums(tutti_comm_t comm, void *argument)
{
	uint64_t *known = argument;
	float *x = malloc(LONGEST * sizeof(float)), *y = malloc(LONGEST * sizeof(float));
	int failed = 0;

	for (int w = 0; w < NARROW; w++)
		for (int c = 0; c < COUNTS && !failed; c++)
			for (int avg = 0; avg < 2 && !failed; avg++, known++) {
				const tutti_op_t op = avg ? TUTTI_AVG : TUTTI_SUM;

				failed = reduce(comm, narrow[w], op, counts[c], (c + avg) % 2, x,
						y) ||
					 within(comm, narrow[w], op, 1, y, counts[c]) ||
					 same_everywhere(comm, known,
							 bits_hash(y, counts[c] * sizeof(*y)));
			}
	free(x);
	free(y);
	return failed;
}

TEST(sums_are_within_their_bounds_and_have_the_same_bits_by_any_algorithm)
{
	static const char *const algorithms[] = {
		"TUTTI_ALGORITHM=",	    "TUTTI_ALGORITHM=flat",	"TUTTI_ALGORITHM=star",
		"TUTTI_ALGORITHM=two_shot", "TUTTI_ALGORITHM=pairwise", "TUTTI_ALGORITHM=board",
		"TUTTI_ALGORITHM=direct",   "TUTTI_ALGORITHM=two_level"
	};
	int failed = 0;

	for (int ranks = 2; ranks <= MAX_RANKS; ranks++) {
		uint64_t *known = shared_memory(NARROW * COUNTS * 2 * sizeof(*known));
		/* two of two, where what is chosen rounds the sums of hosts, too */
		const bool hosts = ranks == 4 && strcmp(transport_chosen, "mixed") == 0;

		for (int a = hosts; a < (hosts ? 5 : 8); a++) {
			const char *const env[] = { algorithms[a],
						    a == 2 ? "TUTTI_SEGMENT=64" : NULL, NULL };
			const struct job job = {
				.ranks = ranks, .env = env, .body = all_sums, .argument = known
			};

			failed += run_job(&job);
		}
	}
	assert_int_equal(failed, 0);
}

/* The sums of hosts are rounded as well: three roundings of about the same numbers, not two. */
static int sums_of_hosts(tutti_comm_t comm, void *argument)
{
	float *x = malloc(LONGEST * sizeof(float)), *y = malloc(LONGEST * sizeof(float));
	tutti_plan_info_t info = { .size = sizeof(info) };
	int failed = 0;

	for (int w = 0; w < NARROW; w++)
		for (int avg = 0; avg < 2 && !failed; avg++) {
			const tutti_op_t op = avg ? TUTTI_AVG : TUTTI_SUM;

			failed = reduce(comm, narrow[w], op, LONGEST, avg, x, y);
			SUCCEEDS(tutti_comm_last_plan(comm, &info));
			CLAIM(strcmp(info.algorithm, "hierarchical_shots") == 0, "by %s",
			      info.algorithm);
			failed = failed || within(comm, narrow[w], op, 1.6, y, LONGEST) ||
				 same_on_all(comm, bits_hash(y, LONGEST * sizeof(*y)));
		}
	free(x);
	free(y);
	return failed;
}

TEST(between_hosts_of_several_ranks_sums_are_rounded_once_more)
{
	if (strcmp(transport_chosen, "mixed") != 0)
		skip();
	HOLDS(.ranks = 4, .env = ENV("TUTTI_ALGORITHM=hierarchical_shots"), .body = sums_of_hosts);
}

/* ---- which calls */

/* Sums of N inputs that no narrow format has, but its neighbour 1. */
#define N   2000
#define OWN (1 + 0x1p-20)

static int has(tutti_comm_t comm, const char *what, const float *x, double each)
{
	const float sum = (float)(tutti_comm_size(comm) * each);

	for (size_t i = 0; i < N; i++)
		CLAIM(x[i] == sum, "%s: element %zu is %.9g, expected %.9g", what, i, (double)x[i],
		      (double)sum);
	return 0;
}

static tutti_wire_t wire_used(tutti_comm_t comm)
{
	tutti_plan_info_t info = { .size = sizeof(info) };

	return tutti_comm_last_plan(comm, &info) ? TUTTI_WIRE_DEFAULT : info.wire;
}

#define SUM(x, y, n) tutti_all_reduce(comm, x, y, n, TUTTI_FLOAT32, TUTTI_SUM, NULL)

static int rounded_inputs(tutti_comm_t comm, void *argument)
{
	static float x[LONGEST], own[LONGEST], sum[LONGEST], found[LONGEST];

	/* of ranks that have the same, so that each may compute the sum: it is rounded once more */
	for (int w = 0; w < NARROW; w++) {
		for (size_t i = 0; i < LONGEST; i++)
			x[i] = input(1, i);
		SUCCEEDS(tutti_wire_round(narrow[w], x, own, LONGEST));
		for (size_t i = 0; i < LONGEST; i++)
			sum[i] = own[i] + own[i];
		SUCCEEDS(tutti_wire_round(narrow[w], sum, sum, LONGEST));
		SUCCEEDS(say(comm, narrow[w]));
		SUCCEEDS(SUM(x, found, LONGEST));
		CLAIM(memcmp(found, sum, sizeof(sum)) == 0, "as %s: other bits",
		      tutti_wire_name(narrow[w]));
	}
	REFUSES(tutti_wire_round(TUTTI_WIRE_DEFAULT, x, x, 1), "");
	REFUSES(tutti_wire_round(TUTTI_WIRE_INT8, NULL, x, 1), "");
	SUCCEEDS(tutti_wire_round(TUTTI_WIRE_FLOAT32, x, own, LONGEST));
	CLAIM(memcmp(x, own, sizeof(x)) == 0, "float32 is rounded");
	return 0;
}

JOB(rounding_tells_what_others_receive, .ranks = 2, .body = rounded_inputs)

static int next_calls(tutti_comm_t comm, void *argument)
{
	float x[N], y[N], z[N];
	tutti_request_t requests[2];

	for (int i = 0; i < N; i++)
		x[i] = 1 + 0x1p-20f;
	SUCCEEDS(say(comm, TUTTI_WIRE_BFLOAT16));
	SUCCEEDS(SUM(x, y, N));
	CLAIM(wire_used(comm) == TUTTI_WIRE_BFLOAT16, "the plan does not tell");
	if (has(comm, "the next call", y, 1))
		return 1;
	SUCCEEDS(SUM(x, y, N));
	CLAIM(wire_used(comm) == TUTTI_WIRE_FLOAT32, "the plan of the call after it tells else");
	if (has(comm, "the call after it", y, OWN))
		return 1;
	/* two in flight, of which one is narrow */
	SUCCEEDS(say(comm, TUTTI_WIRE_INT8));
	SUCCEEDS(tutti_all_reduce(comm, x, y, N, TUTTI_FLOAT32, TUTTI_SUM, &requests[0]));
	SUCCEEDS(tutti_all_reduce(comm, x, z, N, TUTTI_FLOAT32, TUTTI_SUM, &requests[1]));
	SUCCEEDS(tutti_wait_all(requests, 2));
	if (has(comm, "a request", z, OWN))
		return 1;
	CLAIM(fabsf(y[7] - (float)tutti_comm_size(comm)) < 0.01f, "a narrow request gives %g",
	      (double)y[7]);
	/* all of a group but what travels together, or cannot */
	SUCCEEDS(say(comm, TUTTI_WIRE_BFLOAT16));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(SUM(x, y, N));
	SUCCEEDS(tutti_all_reduce(comm, x, z, N, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	SUCCEEDS(tutti_group_end(comm, NULL));
	CLAIM(z[0] == 1 + 0x1p-20f, "a maximum in a group was rounded");
	return has(comm, "a group", y, 1);
}

JOB(the_next_call_alone_is_narrow, .ranks = 3, .body = next_calls)

static int by_default(tutti_comm_t comm, void *argument)
{
	float x[N], y[N];
	tutti_comm_t twin = NULL;

	for (int i = 0; i < N; i++)
		x[i] = 1 + 0x1p-20f;
	SUCCEEDS(SUM(x, y, N));
	if (tutti_comm_size(comm) == 1)
		return has(comm, "one rank", y, OWN);
	if (has(comm, "the communicator's", y, 1))
		return 1;
	SUCCEEDS(say(comm, TUTTI_WIRE_FLOAT32));
	SUCCEEDS(SUM(x, y, N));
	if (has(comm, "a call that wants its bits", y, OWN))
		return 1;
	SUCCEEDS(tutti_all_reduce(comm, x, y, N, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	CLAIM(y[0] == x[0], "a maximum was rounded");
	SUCCEEDS(tutti_comm_dup(comm, &twin));
	SUCCEEDS(tutti_all_reduce(twin, x, y, N, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	tutti_comm_destroy(twin);
	return has(comm, "the copy of a communicator", y, 1);
}

JOB(a_communicator_may_have_a_format, .ranks = 1, .most = 3, .env = ENV("TUTTI_WIRE=bf16"),
    .body = by_default)

static int where_faster(tutti_comm_t comm, void *argument)
{
	static float x[1 << 20];

	for (int i = 0; i < 2; i++) {
		const size_t n = i ? sizeof(x) / sizeof(x[0]) : 2;

		SUCCEEDS(SUM(x, x, n));
		const bool narrowed = wire_used(comm) == TUTTI_WIRE_INT8;
		CLAIM(narrowed == (i == 1 && strcmp(transport_chosen, "shm") != 0),
		      "%zu elements travel as %s", n, tutti_wire_name(wire_used(comm)));
	}
	return 0;
}

/* Between hosts of several ranks either may be faster. */
TEST(the_cost_model_may_decide)
{
	if (strcmp(transport_chosen, "mixed") == 0)
		skip();
	HOLDS(.ranks = 4, .env = ENV("TUTTI_WIRE=auto:int8"), .body = where_faster);
}

/* ---- what is refused */

static int refused(tutti_comm_t comm, void *argument)
{
	float x[4] = { 1, 2, 3, 4 };
	double d[4] = { 0 };
	tutti_op_t premul;

	SUCCEEDS(tutti_op_create_premul_sum(comm, x, TUTTI_FLOAT32, &premul));
	for (int i = 0; i < 5; i++) {
		SUCCEEDS(say(comm, TUTTI_WIRE_INT8));
		const tutti_result_t result =
			i == 0	 ? tutti_all_reduce(comm, d, d, 4, TUTTI_FLOAT64, TUTTI_SUM, NULL)
			: i == 1 ? tutti_all_reduce(comm, x, x, 4, TUTTI_FLOAT32, TUTTI_MAX, NULL)
			: i == 2 ? tutti_all_reduce(comm, x, x, 4, TUTTI_FLOAT32, premul, NULL)
			: i == 3 ? tutti_broadcast(comm, x, x, 4, TUTTI_FLOAT32, 0, NULL)
				 : tutti_barrier(comm, NULL);

		REFUSES(result, "travel as int8: expected tutti_all_reduce()");
	}
	const tutti_wire_t none[] = { -1, TUTTI_WIRE_COUNT, TUTTI_WIRE_IF_FASTER,
				      TUTTI_WIRE_FLOAT32 | TUTTI_WIRE_IF_FASTER };
	for (int i = 0; i < 4; i++) {
		CLAIM(say(comm, none[i]) == TUTTI_ERR_INVALID, "format %d is taken", none[i]);
		CLAIM(!tutti_wire_name(none[i]) && tutti_wire_bytes(none[i], 1) == 0,
		      "format %d has a name", none[i]);
	}
	SUCCEEDS(SUM(x, x, 4));
	return 0;
}

JOB(other_calls_cannot_be_narrow, .ranks = 2, .body = refused)

static int differ(tutti_comm_t comm, void *argument)
{
	float x[N] = { 0 };

	if (tutti_comm_rank(comm) == 1)
		SUCCEEDS(say(comm, TUTTI_WIRE_INT8));
	FAILS(SUM(x, x, N), TUTTI_ERR_MISMATCH, "all_reduce(float32 as int8 × 2000, sum)");
	return 0;
}

JOB(ranks_that_differ_are_told, .ranks = 3, .body = differ)

TEST(names_are_read)
{
	static const char *const wrong[] = { "", "int9", "auto:", "auto:none", "INT8", "bf16 " };
	tutti_wire_t wire = 77;

	assert_ok(tutti_wire_parse("none", &wire));
	assert_int_equal(wire, TUTTI_WIRE_FLOAT32);
	for (int i = 0; i < NARROW; i++) {
		char name[32];

		assert_ok(tutti_wire_parse(tutti_wire_name(narrow[i]), &wire));
		assert_int_equal(wire, narrow[i]);
		snprintf(name, sizeof(name), "auto:%s", tutti_wire_name(narrow[i]));
		assert_ok(tutti_wire_parse(name, &wire));
		assert_int_equal(wire, narrow[i] | TUTTI_WIRE_IF_FASTER);
	}
	wire = 77;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(tutti_wire_parse(wrong[i], &wire), TUTTI_ERR_INVALID);
		assert_int_equal(wire, 77);
	}
	tutti_wire_parse("int9", &wire);
	assert_says(tutti_last_error(NULL), "(did you mean int8?)");
	assert_int_equal(tutti_wire_parse(NULL, &wire), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_wire_bytes(TUTTI_WIRE_FLOAT32, 1000), 4000);
	assert_int_equal(tutti_wire_bytes(TUTTI_WIRE_FLOAT16, 1001), 2002);
	assert_int_equal(tutti_wire_bytes(TUTTI_WIRE_INT8, 1025), 9 * 132);
}
