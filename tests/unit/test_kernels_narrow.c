/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of float32 in fewer bytes: the plain C kernels against the bounds of docs/algorithms.md,
 * and every variant against the plain C one, bit for bit. */
#include "tests.h"
#include <math.h>

#include "calls/bounds.h"
#include "kernels_check.h"
#include "narrow.h"

#define SOURCES	 4
#define LONGEST	 1200
#define IN_BLOCK TT_NARROW_BLOCK
#define GUARD	 0x5a

static float numbers[SOURCES][LONGEST + IN_BLOCK];
static char packed[SOURCES][sizeof(float) * (LONGEST + IN_BLOCK)];

/* Each block has a magnitude of its own, and numbers of which a few are much smaller. */
static void fill(float *out, size_t n)
{
	float magnitude = 1;

	for (size_t i = 0; i < n; i++) {
		if (i % IN_BLOCK == 0)
			magnitude = ldexpf(1, (int)(next_random() % 21) - 12);
		const float unit = (float)(int64_t)next_random() * 0x1p-63f;

		out[i] = magnitude * unit * (next_random() % 16 ? 1 : 0x1p-10f);
	}
}

/* All floats there are, but for every other block, which has no infinity and no NaN. */
static void fill_with_edges(float *out, size_t n)
{
	fill(out, n);
	for (size_t i = 0; i < n; i++)
		if (i / IN_BLOCK % 2 == 0)
			set_bits(TUTTI_FLOAT32, out, i, edgy_number(TUTTI_FLOAT32));
}

static double largest_of_block(const float *x, size_t n, size_t i)
{
	const size_t begin = i / IN_BLOCK * IN_BLOCK,
		     end = begin + IN_BLOCK < n ? begin + IN_BLOCK : n;
	double largest = 0;

	for (size_t k = begin; k < end; k++)
		largest = fmax(largest, fabs((double)x[k]));
	return largest;
}

#define IN_F32 (1 + 0x1p-20) /* what scaling adds */

TEST(one_rounding_is_within_its_bound)
{
	const struct tt_narrow_kernels *kernels = table_of(state)->narrow;
	float back[LONGEST];

	for (tutti_wire_t wire = TUTTI_WIRE_BFLOAT16; wire < TUTTI_WIRE_COUNT; wire++)
		for (size_t n = 1; n <= LONGEST; n += n < 300 ? 1 : 97) {
			fill(numbers[0], n);
			kernels[wire].pack(packed[0], numbers[0], n);
			kernels[wire].unpack(back, packed[0], n);
			for (size_t i = 0; i < n; i++) {
				const double x = numbers[0][i], error = fabs(back[i] - x);
				const double largest = largest_of_block(numbers[0], n, i);

				if (error > IN_F32 * value_narrowed(wire, fabs(x), largest))
					fail_msg("%s: %.9g became %.9g", tutti_wire_name(wire), x,
						 (double)back[i]);
			}
		}
}

/* Its scale is one that rounding could make overflow. */
TEST(the_largest_number_stays_finite)
{
	const struct tt_narrow_kernels *kernels = table_of(state)->narrow;
	float x[IN_BLOCK] = { 3.40282347e38f, -3.40282347e38f, 1e38f }, back[IN_BLOCK];

	for (tutti_wire_t wire = TUTTI_WIRE_FLOAT8; wire <= TUTTI_WIRE_INT8; wire++) {
		kernels[wire].pack(packed[0], x, IN_BLOCK);
		kernels[wire].unpack(back, packed[0], IN_BLOCK);
		for (int i = 0; i < IN_BLOCK; i++)
			assert_true(isfinite(back[i]));
		assert_true(back[0] > 3.3e38f && back[1] < -3.3e38f);
	}
}

/* The sum is that of what was packed, in float32 from the left, and is rounded once. */
TEST(sums_are_rounded_once)
{
	const struct tt_narrow_kernels *kernels = table_of(state)->narrow;
	const void *src[SOURCES];
	float part[LONGEST], sum[LONGEST], average[LONGEST];
	char expected[sizeof(packed[0])];

	for (tutti_wire_t wire = TUTTI_WIRE_BFLOAT16; wire < TUTTI_WIRE_COUNT; wire++) {
		for (int s = 0; s < SOURCES; s++) {
			fill(numbers[s], LONGEST);
			kernels[wire].pack(packed[s], numbers[s], LONGEST);
			kernels[wire].unpack(part, packed[s], LONGEST);
			for (size_t i = 0; i < LONGEST; i++)
				sum[i] = s ? sum[i] + part[i] : part[i];
			src[s] = packed[s];
		}
		for (size_t i = 0; i < LONGEST; i++)
			average[i] = sum[i] / 7;
		const size_t elements = tt_narrow_elements(wire, LONGEST),
			     bytes = tutti_wire_bytes(wire, LONGEST);
		char found[sizeof(expected)];

		kernels[wire].pack(expected, sum, LONGEST);
		kernels[wire].sum(found, src, SOURCES, elements);
		assert_memory_equal(found, expected, bytes);
		kernels[wire].pack(expected, average, LONGEST);
		kernels[wire].average(packed[1], src, SOURCES, elements, 7); /* in place */
		assert_memory_equal(packed[1], expected, bytes);
	}
}

TEST(what_is_not_finite_is_not_lost)
{
	const struct tt_narrow_kernels *kernels = table_of(state)->narrow;
	static const float lost[] = { NAN, INFINITY, -INFINITY };
	float back[2 * IN_BLOCK];

	for (tutti_wire_t wire = TUTTI_WIRE_BFLOAT16; wire < TUTTI_WIRE_COUNT; wire++)
		for (int i = 0; i < 3; i++) {
			fill(numbers[0], sizeof(back) / sizeof(back[0]));
			numbers[0][IN_BLOCK + 3] = lost[i];
			kernels[wire].pack(packed[0], numbers[0], 2 * IN_BLOCK);
			kernels[wire].unpack(back, packed[0], 2 * IN_BLOCK);
			assert_false(isfinite(back[IN_BLOCK + 3]));
			assert_true(isfinite(back[0])); /* of another block */
		}
}

/* ---- the others like the plain C one */

/* But for the payload of NaNs. */
static void expect_floats(const float *found, const float *expected, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_true(bits_equal(TUTTI_FLOAT32, get_bits(TUTTI_FLOAT32, found, i),
				       get_bits(TUTTI_FLOAT32, expected, i)));
}

static void expect_numbers(tutti_wire_t wire, const char *found, const char *expected, size_t n)
{
	const struct tt_narrow_kernels *c = &tt_kernels_by_isa("c")->narrow[wire];
	float have[LONGEST], want[LONGEST];

	c->unpack(have, found, n);
	c->unpack(want, expected, n);
	expect_floats(have, want, n);
}

static void narrow_like_c(const struct tt_kernels *table, tutti_wire_t wire, size_t n)
{
	const struct tt_narrow_kernels *own = &table->narrow[wire],
				       *c = &tt_kernels_by_isa("c")->narrow[wire];
	const size_t bytes = tutti_wire_bytes(wire, n), elements = tt_narrow_elements(wire, n);
	char expected[sizeof(packed[0])], found[sizeof(packed[0])];
	const void *src[SOURCES] = { packed[0], packed[1], packed[2], packed[3] };
	float back[2][LONGEST + 1];

	for (int s = 0; s < SOURCES; s++) {
		packed[s][bytes] = GUARD;
		c->pack(expected, numbers[s], n);
		own->pack(packed[s], numbers[s], n);
		assert_int_equal(packed[s][bytes], GUARD);
		expect_numbers(wire, packed[s], expected, n);
	}
	memset(&back[1][n], GUARD, sizeof(float));
	c->unpack(back[0], packed[0], n);
	own->unpack(back[1], packed[0], n);
	expect_floats(back[1], back[0], n);
	assert_int_equal(get_bits(TUTTI_UINT8, &back[1][n], 0), GUARD);
	for (unsigned nsrc = 1; nsrc <= SOURCES; nsrc++) {
		found[bytes] = GUARD;
		c->average(expected, src, nsrc, elements, 3 * nsrc);
		own->average(found, src, nsrc, elements, 3 * nsrc);
		expect_numbers(wire, found, expected, n);
		c->sum(expected, src, nsrc, elements);
		own->sum(found, src, nsrc, elements);
		expect_numbers(wire, found, expected, n);
		assert_int_equal(found[bytes], GUARD);
	}
}

TEST(narrows_like_c)
{
	const struct tt_kernels *table = table_of(state);

	for (tutti_wire_t wire = TUTTI_WIRE_BFLOAT16; wire < TUTTI_WIRE_COUNT; wire++)
		for (size_t n = 0; n < LONGEST; n += n < 300 ? 1 : 53) {
			for (int s = 0; s < SOURCES; s++)
				fill(numbers[s], n);
			narrow_like_c(table, wire, n);
			for (int s = 0; s < SOURCES; s++)
				fill_with_edges(numbers[s], n);
			narrow_like_c(table, wire, n);
		}
}

int main(void)
{
	return run_claims_about(isas, ISAS);
}
