/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective × type × operation × odd size × in place, checked against double precision on
 * every rank; in the reproducible mode, bit by bit against a left fold.
 *
 *   test_matrix RANKS [NAME=VALUE …]      the environment of the ranks: transport, algorithm, hosts
 *   test_matrix launched                  as one rank of those that its environment speaks of
 *
 * TEST_SHARE=N (1): for each collective and size only every N-th type, operation and place, and
 * long vectors are N times shorter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "values.h"

#define GUARD	  64 /* bytes behind each buffer that nobody may touch */
#define FILL	  0x5a
#define RANKS_MAX 32

static const size_t sizes[] = { 0, 1, 2, 3, 7, 17, 64, 257, 1000, 4099 };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

struct setting {
	tutti_comm_t comm;
	int rank, size, root;
	size_t count;
	tutti_dtype_t dtype;
	tutti_op_t op;
	bool in_place;
	bool reproducible;
	int share, turn;
	size_t *counts, *displs, *back, *back_displs; /* of the _v forms */
	tutti_op_t premul_sum[TUTTI_DTYPE_COUNT];
};

typedef int check_fn(struct setting *s, uint8_t *send, uint8_t *recv);

static int differs(const struct setting *s, const char *what, const uint8_t *recv, size_t i,
		   size_t place, double expected)
{
	const double found = value_get(recv, place, s->dtype);

	if (value_close(found, expected, s->dtype, s->size))
		return 0;
	tutti_comm_t comm = s->comm;
	CLAIM(false, "%s of %zu %s, op %s, root %d%s: element %zu is %.10g, expected %.10g", what,
	      s->count, tutti_dtype_name(s->dtype), s->op < 0 ? "none" : tutti_op_name(s->op),
	      s->root, s->in_place ? ", in place" : "", i, found, expected);
	return 0;
}

/* What ranks first … last reduce to at place i of the vector. */
static double reduced(const struct setting *s, int first, int last, size_t i)
{
	double sum = value_input(first, i, s->dtype, s->op);

	for (int rank = first + 1; rank <= last; rank++)
		sum = value_combine(sum, value_input(rank, i, s->dtype, s->op), s->op);
	return s->op == TUTTI_AVG ? sum / s->size : sum;
}

/* Numbers that are rounded wherever they can be: of both signs, of different magnitudes, with
 * all digits. */
static double rough_input(int rank, size_t i, tutti_op_t op)
{
	const unsigned mixed = (unsigned)(i * 2654435761u + (size_t)rank * 40503u + 12345u) >> 7;

	if (op == TUTTI_PROD)
		return 1 + ((int)(mixed % 65) - 32) / 128.0;
	return ((int)(mixed % 4001) - 2000) / (double)(64 << mixed % 6);
}

/* What rank `rank` contributes at place i to a reduction of the reproducible mode, and how a
 * pre-multiplied sum scales it. */
static void set_rough(const struct setting *s, uint8_t *buffer, size_t at, int rank, size_t i)
{
	if (value_is_float(s->dtype))
		value_set(buffer, at, s->dtype, rough_input(rank, i, s->op));
	else
		value_set(
			buffer, at, s->dtype,
			value_input(rank, i, s->dtype, s->op < TUTTI_OP_COUNT ? s->op : TUTTI_SUM));
}

static void set_scalar(const struct setting *s, uint8_t *scalar, int rank)
{
	value_set(scalar, 0, s->dtype, value_is_float(s->dtype) ? 1.0 / (rank + 3) : rank + 3);
}

static void fill(const struct setting *s, uint8_t *buffer, size_t n, size_t first)
{
	for (size_t i = 0; i < n; i++)
		if (s->reproducible && s->op >= 0)
			set_rough(s, buffer, i, s->rank, first + i);
		else
			value_set(buffer, i, s->dtype,
				  value_input(s->rank, first + i, s->dtype, s->op));
}

/* Are the bits others than those of the left fold of ranks 0 … last? */
static int differs_from_fold(const struct setting *s, const char *what, const uint8_t *recv,
			     size_t place, int last, size_t i)
{
	const size_t bytes = tutti_dtype_size(s->dtype);
	uint8_t inputs[RANKS_MAX][8], scalar[8], expected[8];
	const void *elements[RANKS_MAX];

	for (int rank = 0; rank <= last; rank++) {
		elements[rank] = inputs[rank];
		set_rough(s, inputs[rank], 0, rank, i);
		set_scalar(s, scalar, rank);
		if (s->op >= TUTTI_OP_COUNT)
			value_scale(inputs[rank], inputs[rank], scalar, s->dtype);
	}
	value_fold(expected, elements, last + 1, s->dtype,
		   s->op < TUTTI_OP_COUNT ? s->op : TUTTI_SUM);
	tutti_comm_t comm = s->comm;
	CLAIM(memcmp(expected, recv + place * bytes, bytes) == 0,
	      "%s of %zu %s, op %s%s: element %zu is %.17g, the left fold %.17g", what, s->count,
	      tutti_dtype_name(s->dtype),
	      s->op < TUTTI_OP_COUNT ? tutti_op_name(s->op) : "pre-multiplied sum",
	      s->in_place ? ", in place" : "", i, value_get(recv, place, s->dtype),
	      value_get(expected, 0, s->dtype));
	return 0;
}

/* Is element `place` not what ranks 0 … last reduce to at place i of the vector? */
static int unlike(const struct setting *s, const char *what, const uint8_t *recv, size_t place,
		  int last, size_t i)
{
	if (s->reproducible)
		return differs_from_fold(s, what, recv, place, last, i);
	return differs(s, what, recv, i, place, reduced(s, 0, last, i));
}

static int check_all_reduce(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_all_reduce(comm, send, recv, s->count, s->dtype, s->op, NULL));
	for (size_t i = 0; i < s->count; i++)
		if (unlike(s, "all_reduce", recv, i, s->size - 1, i))
			return 1;
	return 0;
}

static int check_reduce(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_reduce(comm, send, s->rank == s->root ? recv : NULL, s->count, s->dtype,
			      s->op, s->root, NULL));
	for (size_t i = 0; i < s->count && s->rank == s->root; i++)
		if (unlike(s, "reduce", recv, i, s->size - 1, i))
			return 1;
	return 0;
}

static int check_scan(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	if (s->op == TUTTI_AVG)
		return 0;
	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_scan(comm, send, recv, s->count, s->dtype, s->op, NULL));
	for (size_t i = 0; i < s->count; i++)
		if (unlike(s, "scan", recv, i, s->rank, i))
			return 1;
	return 0;
}

static int check_exscan(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	if (s->op == TUTTI_AVG)
		return 0;
	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_exscan(comm, send, recv, s->count, s->dtype, s->op, NULL));
	for (size_t i = 0; i < s->count && s->rank > 0; i++)
		if (unlike(s, "exscan", recv, i, s->rank - 1, i))
			return 1;
	return 0;
}

static int check_reduce_scatter(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	const size_t mine = (size_t)s->rank * s->count;

	fill(s, send, s->count * (size_t)s->size, 0);
	if (s->in_place)
		recv = send + mine * tutti_dtype_size(s->dtype);
	SUCCEEDS(tutti_reduce_scatter(comm, send, recv, s->count, s->dtype, s->op, NULL));
	for (size_t i = 0; i < s->count; i++)
		if (unlike(s, "reduce_scatter", recv, i, s->size - 1, mine + i))
			return 1;
	return 0;
}

static int check_reduce_scatter_v(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	const size_t mine = s->displs[s->rank];

	fill(s, send, s->displs[s->size - 1] + s->counts[s->size - 1], 0);
	if (s->in_place)
		recv = send + mine * tutti_dtype_size(s->dtype);
	SUCCEEDS(tutti_reduce_scatter_v(comm, send, recv, s->counts, s->dtype, s->op, NULL));
	for (size_t i = 0; i < s->counts[s->rank]; i++)
		if (unlike(s, "reduce_scatter_v", recv, i, s->size - 1, mine + i))
			return 1;
	return 0;
}

/* ---- collectives that only move; `from` contributes value_input(from, first + i) */

static int check_block(const struct setting *s, const char *what, const uint8_t *recv, int from,
		       size_t first, size_t place, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (differs(s, what, recv, i, place + i,
			    value_input(from, first + i, s->dtype, s->op)))
			return 1;
	return 0;
}

static int check_broadcast(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_broadcast(comm, s->rank == s->root ? send : NULL, recv, s->count, s->dtype,
				 s->root, NULL));
	return check_block(s, "broadcast", recv, s->root, 0, 0, s->count);
}

static int check_all_gather(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	if (s->in_place)
		send = recv + (size_t)s->rank * s->count * tutti_dtype_size(s->dtype);
	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_all_gather(comm, send, recv, s->count, s->dtype, NULL));
	for (int from = 0; from < s->size; from++)
		if (check_block(s, "all_gather", recv, from, 0, (size_t)from * s->count, s->count))
			return 1;
	return 0;
}

static int check_all_gather_v(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	if (s->in_place)
		send = recv + s->displs[s->rank] * tutti_dtype_size(s->dtype);
	fill(s, send, s->counts[s->rank], 0);
	SUCCEEDS(tutti_all_gather_v(comm, send, recv, s->counts, s->displs, s->dtype, NULL));
	for (int from = 0; from < s->size; from++)
		if (check_block(s, "all_gather_v", recv, from, 0, s->displs[from], s->counts[from]))
			return 1;
	return 0;
}

static int check_gather(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	if (s->in_place && s->rank == s->root)
		send = recv + (size_t)s->rank * s->count * tutti_dtype_size(s->dtype);
	fill(s, send, s->count, 0);
	SUCCEEDS(tutti_gather(comm, send, s->rank == s->root ? recv : NULL, s->count, s->dtype,
			      s->root, NULL));
	for (int from = 0; from < s->size && s->rank == s->root; from++)
		if (check_block(s, "gather", recv, from, 0, (size_t)from * s->count, s->count))
			return 1;
	return 0;
}

static int check_gather_v(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	const bool at_root = s->rank == s->root;

	if (s->in_place && at_root)
		send = recv + s->displs[s->rank] * tutti_dtype_size(s->dtype);
	fill(s, send, s->counts[s->rank], 0);
	SUCCEEDS(tutti_gather_v(comm, send, s->counts[s->rank], at_root ? recv : NULL,
				at_root ? s->counts : NULL, at_root ? s->displs : NULL, s->dtype,
				s->root, NULL));
	for (int from = 0; from < s->size && at_root; from++)
		if (check_block(s, "gather_v", recv, from, 0, s->displs[from], s->counts[from]))
			return 1;
	return 0;
}

static int check_scatter(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	const bool at_root = s->rank == s->root;
	const size_t mine = (size_t)s->rank * s->count;

	if (at_root)
		fill(s, send, s->count * (size_t)s->size, 0);
	if (s->in_place && at_root)
		recv = send + mine * tutti_dtype_size(s->dtype);
	SUCCEEDS(tutti_scatter(comm, at_root ? send : NULL, recv, s->count, s->dtype, s->root,
			       NULL));
	return check_block(s, "scatter", recv, s->root, mine, 0, s->count);
}

static int check_scatter_v(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	const bool at_root = s->rank == s->root;
	const size_t mine = s->displs[s->rank];

	if (at_root)
		fill(s, send, s->displs[s->size - 1] + s->counts[s->size - 1], 0);
	if (s->in_place && at_root)
		recv = send + mine * tutti_dtype_size(s->dtype);
	SUCCEEDS(tutti_scatter_v(comm, at_root ? send : NULL, at_root ? s->counts : NULL,
				 at_root ? s->displs : NULL, recv, s->counts[s->rank], s->dtype,
				 s->root, NULL));
	return check_block(s, "scatter_v", recv, s->root, mine, 0, s->counts[s->rank]);
}

static int check_all_to_all(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;

	fill(s, send, s->count * (size_t)s->size, 0);
	SUCCEEDS(tutti_all_to_all(comm, send, recv, s->count, s->dtype, NULL));
	for (int from = 0; from < s->size; from++)
		if (check_block(s, "all_to_all", recv, from, (size_t)s->rank * s->count,
				(size_t)from * s->count, s->count))
			return 1;
	return 0;
}

/* Rank a sends counts[(a + b) % size] elements to rank b, so that both directions of a pair are
 * alike. */
static int check_all_to_all_v(struct setting *s, uint8_t *send, uint8_t *recv)
{
	tutti_comm_t comm = s->comm;
	size_t at = 0;

	if (s->in_place)
		return 0;
	for (int peer = 0; peer < s->size; peer++) {
		s->back[peer] = s->counts[(s->rank + peer) % s->size];
		s->back_displs[peer] = at;
		at += s->back[peer];
	}
	fill(s, send, at, 0);
	SUCCEEDS(tutti_all_to_all_v(comm, send, s->back, NULL, recv, s->back, s->back_displs,
				    s->dtype, NULL));
	for (int from = 0; from < s->size; from++) {
		size_t first = 0;

		for (int to = 0; to < s->rank; to++)
			first += s->counts[(from + to) % s->size];
		if (check_block(s, "all_to_all_v", recv, from, first, s->back_displs[from],
				s->back[from]))
			return 1;
	}
	return 0;
}

/* ---- driving */

static const struct {
	check_fn *check;
	bool reduces, separate; /* separate: in place it still uses both buffers in its own way */
} checks[] = {
	{ check_all_reduce, true, false },    { check_reduce, true, false },
	{ check_scan, true, false },	      { check_exscan, true, false },
	{ check_reduce_scatter, true, true }, { check_reduce_scatter_v, true, true },
	{ check_broadcast, false, false },    { check_all_gather, false, true },
	{ check_all_gather_v, false, true },  { check_gather, false, true },
	{ check_gather_v, false, true },      { check_scatter, false, true },
	{ check_scatter_v, false, true },     { check_all_to_all, false, false },
	{ check_all_to_all_v, false, true },
};

static int guarded(struct setting *s, check_fn *check, bool separate, uint8_t *send, uint8_t *recv,
		   size_t bytes)
{
	tutti_comm_t comm = s->comm;

	memset(send, FILL, bytes + GUARD);
	memset(recv, FILL, bytes + GUARD);
	const int failed = check(s, s->in_place && !separate ? recv : send, recv);
	for (size_t i = bytes; i < bytes + GUARD; i++)
		CLAIM(send[i] == FILL && recv[i] == FILL, "byte %zu behind a buffer was written",
		      i - bytes);
	return failed;
}

static int check_types(struct setting *s, size_t c, uint8_t *send, uint8_t *recv, size_t elements)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		s->dtype = (tutti_dtype_t)dtype;
		const int ops = checks[c].reduces ? TUTTI_OP_COUNT + s->reproducible : 1;
		for (int op = 0; op < ops; op++) {
			s->op = !checks[c].reduces    ? -1
				: op < TUTTI_OP_COUNT ? op
						      : s->premul_sum[dtype];
			if (checks[c].reduces && op < TUTTI_OP_COUNT &&
			    !op_is_defined(op, s->dtype))
				continue;
			s->in_place = (op + dtype) % 2;
			for (int twice = 0; twice < 2; twice++, s->in_place = !s->in_place)
				if (s->turn++ % s->share == 0 &&
				    guarded(s, checks[c].check, checks[c].separate, send, recv,
					    elements * tutti_dtype_size(s->dtype)))
					return 1;
		}
	}
	return 0;
}

static int make_premul_sums(struct setting *s)
{
	tutti_comm_t comm = s->comm;

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		uint8_t scalar[8];

		s->dtype = (tutti_dtype_t)dtype;
		set_scalar(s, scalar, s->rank);
		SUCCEEDS(tutti_op_create_premul_sum(comm, scalar, s->dtype, &s->premul_sum[dtype]));
	}
	return 0;
}

/* All ranks contribute the largest number: no sum of them fits the type, but their average does. */
static int check_average(struct setting *s, double number, uint8_t *send, uint8_t *recv)
{
	static const size_t counts[] = { 1, 4099 };
	tutti_comm_t comm = s->comm;

	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		const size_t n = counts[k], size = (size_t)s->size;

		for (size_t i = 0; i < n * size; i++)
			value_set(send, i, s->dtype, number);
		SUCCEEDS(tutti_all_reduce(comm, send, recv, n, s->dtype, TUTTI_AVG, NULL));
		for (size_t i = 0; i < n; i++)
			CLAIM(value_get(recv, i, s->dtype) == number,
			      "the average of %d times %g, %s, is %g", s->size, number,
			      tutti_dtype_name(s->dtype), value_get(recv, i, s->dtype));
		SUCCEEDS(tutti_reduce(comm, send, recv, n, s->dtype, TUTTI_AVG, 0, NULL));
		CLAIM(value_get(recv, n - 1, s->dtype) == number,
		      "reduced, the average of %d times %g, %s, is %g", s->size, number,
		      tutti_dtype_name(s->dtype), value_get(recv, n - 1, s->dtype));
		SUCCEEDS(tutti_reduce_scatter(comm, send, recv, n, s->dtype, TUTTI_AVG, NULL));
		CLAIM(value_get(recv, n - 1, s->dtype) == number,
		      "scattered, the average of %d times %g, %s, is %g", s->size, number,
		      tutti_dtype_name(s->dtype), value_get(recv, n - 1, s->dtype));
	}
	return 0;
}

static int check_averages(struct setting *s, uint8_t *send, uint8_t *recv)
{
	static const struct {
		tutti_dtype_t dtype;
		double number;
	} cases[] = {
		{ TUTTI_INT8, 100 },
		{ TUTTI_INT8, -128 },
		{ TUTTI_UINT8, 255 },
		{ TUTTI_INT16, 32767 },
		{ TUTTI_UINT16, 65535 },
		{ TUTTI_INT32, -2147483648.0 },
		{ TUTTI_UINT32, 4294967295.0 },
		{ TUTTI_FLOAT16, 60000 },
		{ TUTTI_FLOAT16, -65504 },
		{ TUTTI_FLOAT8_E4M3, 448 },
		{ TUTTI_FLOAT8_E5M2, 57344 },
	};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		s->dtype = cases[k].dtype;
		if (check_average(s, cases[k].number, send, recv))
			return 1;
	}
	return 0;
}

static int body(tutti_comm_t comm, void *argument)
{
	struct setting s = { .comm = comm,
			     .rank = tutti_comm_rank(comm),
			     .size = tutti_comm_size(comm) };
	const size_t n = (size_t)s.size, most = sizes[NSIZES - 1] * n + n * n;
	uint8_t *send = malloc(most * 8 + GUARD), *recv = malloc(most * 8 + GUARD);
	const char *share = getenv("TEST_SHARE");
	size_t tables[4][64];
	int failed = 0;

	const char *reproducible = getenv("TUTTI_REPRODUCIBLE");

	s.share = share ? atoi(share) : 1;
	s.reproducible = reproducible && strcmp(reproducible, "1") == 0;
	if (s.reproducible)
		failed = make_premul_sums(&s);
	failed = failed || check_averages(&s, send, recv);
	s.counts = tables[0], s.displs = tables[1], s.back = tables[2], s.back_displs = tables[3];
	for (size_t i = 0; i < NSIZES && !failed; i++) {
		s.count = sizes[i];
		s.root = (int)(i % n);
		for (size_t r = 0, at = 0; r < n; r++) { /* uneven, some empty */
			s.counts[r] = r % 3 == 1 ? 0 : s.count / (r + 1) + r;
			s.displs[r] = at;
			at += s.counts[r];
		}
		for (size_t c = 0; c < sizeof(checks) / sizeof(checks[0]) && !failed; c++)
			failed = check_types(&s, c, send, recv, s.count * n + n * n);
		if (!failed)
			SUCCEEDS(tutti_barrier(comm, NULL));
	}
	/* long ones: segments, staging areas and rings go round */
	s.dtype = s.reproducible ? TUTTI_BFLOAT16 : TUTTI_FLOAT32;
	s.count = (size_t)(3u << 20) / n / (size_t)s.share + 7;
	const size_t bytes = s.count * n * 4;
	uint8_t *a = malloc(bytes + GUARD), *b = malloc(bytes + GUARD);
	for (size_t c = 0; c < sizeof(checks) / sizeof(checks[0]) && !failed; c++) {
		for (size_t r = 0; r < n; r++) {
			s.counts[r] = r % 2 ? s.count / 2 : s.count;
			s.displs[r] = r ? s.displs[r - 1] + s.counts[r - 1] : 0;
		}
		s.op = checks[c].reduces ? TUTTI_SUM : -1;
		for (s.in_place = false; !failed; s.in_place = true) {
			failed = guarded(&s, checks[c].check, checks[c].separate, a, b, bytes);
			if (s.in_place)
				break;
		}
	}
	free(send);
	free(recv);
	free(a);
	free(b);
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

	if (ranks < 1 || ranks > RANKS_MAX) {
		fprintf(stderr,
			"usage: %s RANKS(1…32) [NAME=VALUE …], or launched, with TUTTI_SIZE set\n",
			argv[0]);
		return 2;
	}
	if (launched)
		return say(ranks, run_launched(body, NULL));
	const struct job job = {
		.ranks = ranks, .env = (const char *const *)argv + 2, .body = body, .limit_s = 280
	};

	return say(ranks, run_job(&job));
}
