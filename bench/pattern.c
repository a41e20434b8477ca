/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sequence that ranks send and the reductions of it. Rank r sends, in repetition s,
 * element i = sequence[bench_place(i, r, s)]. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "wire.h"

/* A product is 2 to the sum of exponents; 2^6 is exact in every type. */
#define PROD_EXPONENTS 6

static uint64_t hash(uint64_t x)
{
	x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t combine(int op, uint64_t a, uint64_t b)
{
	switch (op) {
	case TUTTI_MIN: return a < b ? a : b;
	case TUTTI_MAX: return a > b ? a : b;
	case TUTTI_BAND: return a & b;
	case TUTTI_BOR: return a | b;
	case TUTTI_BXOR: return a ^ b;
	default: return a + b; /* of exponents for a product */
	}
}

static void reduce(const uint64_t *values, int op, int ranks, uint64_t *out)
{
	for (size_t i = 0; i < BENCH_PERIOD; i++) {
		out[i] = values[i];
		for (int r = 1; r < ranks; r++)
			out[i] = combine(op, out[i], values[bench_place(i, r, 0)]);
	}
}

static uint64_t largest(const uint64_t *values)
{
	uint64_t most = 0;

	for (size_t i = 0; i < BENCH_PERIOD; i++)
		most = values[i] > most ? values[i] : most;
	return most;
}

/* Values up to `limit`, of which `ranks` may be added without passing it: where even ones are too
 * much, ever fewer ranks get one. `scratch` has BENCH_PERIOD entries. */
static void draw(uint64_t *values, uint64_t *scratch, bool adds, int ranks, uint64_t limit)
{
	const uint64_t share = adds ? limit / (uint64_t)ranks : limit;
	uint64_t sparse = 1;

	do {
		for (size_t i = 0; i < BENCH_PERIOD; i++)
			values[i] = share > 0 ? hash(i) % (share + 1) : hash(i) % (2 * sparse) == 0;
		sparse *= 2;
		reduce(values, TUTTI_SUM, ranks, scratch);
	} while (adds && largest(scratch) > limit);
}

static void encode_sent(struct bench_pattern *p, const uint64_t *values)
{
	const size_t size = bench_type_size(p->dtype);

	for (size_t i = 0; i < BENCH_PERIOD; i++)
		bench_type_encode(p->dtype,
				  p->op == TUTTI_PROD ? (uint64_t)1 << values[i] : values[i],
				  p->sent + i * size);
}

static void encode_reduced(struct bench_pattern *p, const uint64_t *sums)
{
	const size_t size = bench_type_size(p->dtype);
	const bool average = p->op == TUTTI_AVG;

	for (size_t i = 0; i < BENCH_PERIOD; i++) {
		uint64_t value = sums[i];

		if (p->op == TUTTI_PROD)
			value = (uint64_t)1 << sums[i];
		else if (average)
			value /= (uint64_t)p->ranks;
		bench_type_encode(p->dtype, value, p->reduced + i * size);
		p->exact[i] = average ? (double)sums[i] / p->ranks : (double)value;
	}
}

/* The largest sum. float16 overflows above twice that. */
static uint64_t limit_of(tutti_dtype_t dtype, int op, tutti_wire_t wire)
{
	if (op == TUTTI_PROD)
		return PROD_EXPONENTS;
	return wire == TUTTI_WIRE_FLOAT16 ? 1 << 15 : bench_type_exact(dtype);
}

bool bench_pattern_init(struct bench_pattern *pattern, tutti_dtype_t dtype, int op, int ranks,
			int reduced_ranks, tutti_wire_t wire)
{
	const size_t bytes = BENCH_PERIOD * bench_type_size(dtype);
	const bool adds = op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PROD;
	uint64_t *values = malloc(BENCH_PERIOD * sizeof(*values));
	uint64_t *sums = malloc(BENCH_PERIOD * sizeof(*sums));
	struct bench_pattern made = { .dtype = dtype, .op = op, .ranks = ranks };
	bool ok = false;

	made.sent = malloc(bytes);
	made.reduced = calloc(1, bytes);
	made.exact = calloc(BENCH_PERIOD, sizeof(*made.exact));
	if (!values || !sums || !made.sent || !made.reduced || !made.exact) {
		bench_pattern_fini(&made);
		goto free_values;
	}
	draw(values, sums, adds, ranks, limit_of(dtype, op, wire & ~TUTTI_WIRE_IF_FASTER));
	made.most = largest(values);
	encode_sent(&made, values);
	if (op != BENCH_NO_OP && reduced_ranks > 0) {
		reduce(values, op, reduced_ranks, sums);
		encode_reduced(&made, sums);
	}
	*pattern = made;
	ok = true;
free_values:
	free(sums);
	free(values);
	return ok;
}

void bench_pattern_fini(struct bench_pattern *pattern)
{
	free(pattern->sent);
	free(pattern->reduced);
	free(pattern->exact);
	*pattern = (struct bench_pattern){ 0 };
}

void bench_pattern_fill(const struct bench_pattern *pattern, int rank, uint64_t shift, void *out,
			size_t count)
{
	const size_t size = bench_type_size(pattern->dtype);
	size_t at = (size_t)bench_place(0, rank, shift);
	unsigned char *to = out;

	while (count > 0) {
		const size_t n = count < BENCH_PERIOD - at ? count : BENCH_PERIOD - at;

		memcpy(to, pattern->sent + at * size, n * size);
		to += n * size;
		count -= n;
		at = 0;
	}
}

const double *bench_pattern_exact(const struct bench_pattern *pattern, bool reduced)
{
	return reduced && pattern->op == TUTTI_AVG && bench_type_is_float(pattern->dtype)
		       ? pattern->exact
		       : NULL;
}

/* Sums are exact, so that an average is rounded when it is divided, or multiplied by a
 * reciprocal. Of short floats partial averages travel, each of which is rounded: in a chain once
 * on every rank. */
struct bench_format bench_pattern_format(const struct bench_pattern *pattern)
{
	struct bench_format format = bench_type_format(pattern->dtype);

	format.roundings = format.size < sizeof(float) ? (uint32_t)pattern->ranks + 1 : 2;
	return format;
}

static void compare(const struct bench_pattern *p, bool reduced, size_t at,
		    const unsigned char *got, size_t n, size_t base, struct bench_found *found)
{
	const struct bench_format format = bench_pattern_format(p);
	const double *exact = bench_pattern_exact(p, reduced);
	const unsigned char *want = (reduced ? p->reduced : p->sent) + at * format.size;

	if (!exact && memcmp(want, got, n * format.size) == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (bench_is_right(format, want + i * format.size, exact ? exact + at + i : NULL,
				   got + i * format.size))
			continue;
		found->first = found->first < base + i ? found->first : base + i;
		found->wrong++;
	}
}

static void compare_narrow(const struct bench_pattern *p, tutti_wire_t wire, size_t at,
			   const float *got, size_t n, size_t base, struct bench_found *found)
{
	const double ranks = p->op == TUTTI_AVG ? 1 : p->ranks, most = ranks * (double)p->most;

	for (size_t i = 0; i < n; i++) {
		const double exact = p->exact[at + i], error = fabs((double)got[i] - exact);

		found->error = fmax(found->error, error / most);
		if (error <= bench_wire_bound(wire, exact, most)) /* not so for a NaN */
			continue;
		found->first = found->first < base + i ? found->first : base + i;
		found->wrong++;
	}
}

uint64_t bench_part_place(const struct bench_part *part, uint64_t shift)
{
	return bench_place(part->first, part->reduced ? 0 : part->rank, shift);
}

void bench_pattern_check(const struct bench_pattern *pattern, const struct bench_part *part,
			 uint64_t shift, tutti_wire_t wire, struct bench_found *found)
{
	const bool narrow = part->reduced && bench_wire_narrows(wire);
	const size_t size = bench_type_size(pattern->dtype);
	size_t at = (size_t)bench_part_place(part, shift), done = 0;

	while (done < part->count) {
		const size_t left = part->count - done,
			     n = left < BENCH_PERIOD - at ? left : BENCH_PERIOD - at;

		if (narrow)
			compare_narrow(pattern, wire, at, (const float *)part->got + done, n,
				       part->base + done, found);
		else
			compare(pattern, part->reduced, at,
				(const unsigned char *)part->got + done * size, n,
				part->base + done, found);
		done += n;
		at = 0;
	}
}
