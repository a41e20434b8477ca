/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective × type × operation × odd size × in place, each element compared with what it must
 * be: within the documented bound where numbers are rounded, in the reproducible mode bit by bit.
 *
 *   test_matrix RANKS [NAME=VALUE …]      the environment of the ranks: transport, algorithm, hosts
 *   test_matrix launched                  as one rank of those that its environment speaks of
 *
 * TEST_SHARE=N (1): for each collective and size only every N-th type, operation and place, and
 * long vectors are N times shorter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/call.h"
#include "calls/values.h"
#include "harness.h"

static const size_t sizes[] = { 0, 1, 2, 3, 7, 17, 64, 257, 1000, 4099 };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

struct setting {
	tutti_comm_t comm;
	int rank, size;
	bool reproducible;
	unsigned share, turn;
};

static int check_call(struct setting *s, enum what what, tutti_dtype_t dtype, int combine,
		      size_t count, bool in_place)
{
	const tutti_comm_t comm = s->comm;
	char why[CALL_TEXT];
	struct call c;

	call_init(&c, what, s->rank, s->size, dtype, combine, count);
	call_set_uneven(&c);
	if (s->turn % 4 < 2) /* otherwise blocks are one behind the other, without displacements */
		call_spread(&c, s->turn % 3, s->turn % 4 == 0);
	c.root = (int)(s->turn % (unsigned)s->size);
	c.in_place = in_place;
	c.rough = s->reproducible || s->turn % 4 > 1;
	c.in_order = s->reproducible;
	c.salt = s->turn;
	CLAIM(call_try(comm, &c, why), "%s", why);
	return 0;
}

static int check_types(struct setting *s, enum what what, size_t count)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = COMBINE_NONE; op < COMBINE_KINDS; op++) {
			const tutti_dtype_t type = (tutti_dtype_t)dtype;

			if (!call_is_defined(what, type, op))
				continue;
			for (int i = 0; i < 2; i++, s->turn++)
				if (s->turn % s->share == 0 &&
				    check_call(s, what, type, op, count, (op + dtype + i) % 2))
					return 1;
		}
	return 0;
}

/* Segments, staging areas and rings go round. */
static int check_long(struct setting *s, enum what what)
{
	const size_t count = (size_t)(3u << 20) / (size_t)s->size / s->share + 7;
	const int op = call_combines(what) ? TUTTI_SUM : COMBINE_NONE;

	for (int in_place = 0; in_place < 2; in_place++, s->turn++)
		if (check_call(s, what, s->reproducible ? TUTTI_BFLOAT16 : TUTTI_FLOAT32, op, count,
			       in_place))
			return 1;
	return 0;
}

/* ---- all ranks contribute the largest number: no sum of them fits the type, but their average does;
 * integers above are of all magnitudes */

#define MANY 4099

static int has(const struct setting *s, const char *what, const void *found, size_t n,
	       tutti_dtype_t dtype, double number)
{
	const tutti_comm_t comm = s->comm;

	for (size_t i = 0; i < n; i++)
		CLAIM(value_get(found, i, dtype) == number,
		      "%s, the average of %d times %g, %s, is %g", what, s->size, number,
		      tutti_dtype_name(dtype), value_get(found, i, dtype));
	return 0;
}

static int check_average(const struct setting *s, tutti_dtype_t dtype, double number, void *send,
			 void *recv)
{
	const tutti_comm_t comm = s->comm;
	const tutti_op_t avg = TUTTI_AVG;

	for (size_t i = 0; i < (size_t)MANY * (size_t)s->size; i++)
		value_set(send, i, dtype, number);
	for (size_t n = 1; n <= MANY; n += MANY - 1) {
		SUCCEEDS(tutti_all_reduce(comm, send, recv, n, dtype, avg, NULL));
		if (has(s, "all_reduce", recv, n, dtype, number))
			return 1;
		SUCCEEDS(tutti_reduce(comm, send, recv, n, dtype, avg, 0, NULL));
		if (s->rank == 0 && has(s, "reduce", recv, n, dtype, number))
			return 1;
		SUCCEEDS(tutti_reduce_scatter(comm, send, recv, n, dtype, avg, NULL));
		if (has(s, "reduce_scatter", recv, n, dtype, number))
			return 1;
	}
	return 0;
}

static int check_averages(const struct setting *s)
{
	static const struct {
		tutti_dtype_t dtype;
		double number;
	} cases[] = {
		{ TUTTI_FLOAT16, 60000 },
		{ TUTTI_FLOAT16, -65504 },
		{ TUTTI_FLOAT8_E4M3, 448 },
		{ TUTTI_FLOAT8_E5M2, 57344 },
	};
	const size_t most = (size_t)MANY * (size_t)s->size * 2;
	void *send = malloc(most), *recv = malloc(most);
	int failed = 0;

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]) && !failed; k++)
		failed = check_average(s, cases[k].dtype, cases[k].number, send, recv);
	free(send);
	free(recv);
	return failed;
}

/* ---- driving */

static int body(tutti_comm_t comm, void *argument)
{
	const char *share = getenv("TEST_SHARE"), *reproducible = getenv("TUTTI_REPRODUCIBLE");
	struct setting s = { .comm = comm,
			     .rank = tutti_comm_rank(comm),
			     .size = tutti_comm_size(comm),
			     .reproducible = reproducible && strcmp(reproducible, "1") == 0,
			     .share = share ? (unsigned)atoi(share) : 1 };
	int failed = check_averages(&s);

	for (size_t i = 0; i < NSIZES && !failed; i++)
		for (int what = 0; what < MESSAGE && !failed; what++)
			failed = check_types(&s, (enum what)what, sizes[i]);
	for (int what = 0; what < MESSAGE && !failed; what++)
		failed = check_long(&s, (enum what)what);
	return failed;
}

static int say(int ranks, int failed)
{
	printf("%d ranks: %s\n", ranks,
	       failed ? "FAILED" : "every collective, type, operation and size agrees");
	return failed != 0;
}

int main(int argc, char **argv)
{
	const bool launched = argc == 2 && strcmp(argv[1], "launched") == 0;
	const char *number = launched ? getenv("TUTTI_SIZE") : argc > 1 ? argv[1] : NULL;
	const int ranks = number ? atoi(number) : 0;

	if (ranks < 1 || ranks > CALL_RANKS) {
		fprintf(stderr,
			"usage: %s RANKS(1…%d) [NAME=VALUE …], or launched, with TUTTI_SIZE set\n",
			argv[0], CALL_RANKS);
		return 2;
	}
	if (launched)
		return say(ranks, run_launched(body, NULL));
	const struct job job = {
		.ranks = ranks, .env = (const char *const *)argv + 2, .body = body, .limit_s = 280
	};

	return say(ranks, run_job(&job));
}
