/* SPDX-License-Identifier: BSD-3-Clause */
/* Every variant of the kernels against the plain C one, bit for bit. */
#include "tests.h"
#include <stdalign.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels_check.h"

#define SOURCES	   5
#define LONGEST	   (1 << 16)
#define ROOM	   ((size_t)(LONGEST + 16) * 8)
#define CACHE_LINE 64
#define SHORT_END  71 /* every length below it is tried: more than a vector of the smallest type */

static const size_t long_lengths[] = { 127, 128, 129, 255, 257, 1000, 4099 };
#define LENGTHS (SHORT_END + sizeof(long_lengths) / sizeof(long_lengths[0]))

static size_t nth_length(size_t i)
{
	return i < SHORT_END ? i : long_lengths[i - SHORT_END];
}

static char inputs[SOURCES][ROOM], expected[ROOM];
static alignas(CACHE_LINE) char found[ROOM];

static void fill_inputs(int dtype, size_t n)
{
	for (int s = 0; s < SOURCES; s++)
		fill_edgy(dtype, inputs[s], n);
}

/* A call of a kernel. */
struct use {
	enum { REDUCE, AVERAGE, MEAN, SCALE } kernel;
	int op, dtype;
	unsigned nsrc, divisor;
	float share[2];
};

static const char *name_of(const struct use *use)
{
	static const char *const names[] = {
		[AVERAGE] = "average", [MEAN] = "mean", [SCALE] = "scale"
	};

	return use->kernel == REDUCE ? op_names[use->op] : names[use->kernel];
}

static void compare(const struct use *use, const void *want, const void *have, size_t n)
{
	const int dtype = use->dtype;

	if (memcmp(want, have, n * formats[dtype].bytes) == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const uint64_t a = get_bits(dtype, want, i), b = get_bits(dtype, have, i);

		if (!bits_equal(dtype, a, b))
			fail_msg("%s %s: element %zu of %zu is %#llx, expected %#llx", name_of(use),
				 formats[dtype].name, i, n, (unsigned long long)b,
				 (unsigned long long)a);
	}
}

static void apply(const struct tt_kernels *table, const struct use *use, void *dst,
		  const void *const *src, size_t n)
{
	switch (use->kernel) {
	case REDUCE: table->reduce[use->op][use->dtype](dst, src, use->nsrc, n); break;
	case AVERAGE: table->average[use->dtype](dst, src, use->nsrc, n, use->divisor); break;
	case MEAN: table->mean[use->dtype](dst, src, use->share, n); break;
	case SCALE: table->scale[use->dtype](dst, src[0], n, inputs[SOURCES - 1]); break;
	}
}

/* Writes to `dst`, in `found`, also where a source is there. */
static void apply_both(const struct tt_kernels *table, const struct use *use, char *dst,
		       const void *const *given, size_t n, int in_place)
{
	const size_t length = n * formats[use->dtype].bytes;
	char guard[CACHE_LINE];
	const void *src[SOURCES];

	memcpy(src, given, use->nsrc * sizeof(*src));
	apply(tt_kernels_by_isa("c"), use, expected, src, n);
	if (in_place >= 0) {
		memcpy(dst, src[in_place], length);
		src[in_place] = dst;
	}
	memset(guard, 0xa5, sizeof(guard));
	memcpy(dst - sizeof(guard), guard, sizeof(guard));
	memcpy(dst + length, guard, sizeof(guard));
	apply(table, use, dst, src, n);
	compare(use, expected, dst, n);
	if (memcmp(dst - sizeof(guard), guard, sizeof(guard)) != 0 ||
	    memcmp(dst + length, guard, sizeof(guard)) != 0)
		fail_msg("%s %s of %zu writes outside its result", name_of(use),
			 formats[use->dtype].name, n);
}

/* Sources that begin at element `shift` and, each elsewhere, behind it. */
static void use_at_every_place(const struct tt_kernels *table, const struct use *use, size_t shift,
			       size_t n)
{
	const size_t bytes = formats[use->dtype].bytes, at = shift * bytes;
	const void *src[SOURCES];

	for (unsigned s = 0; s < use->nsrc; s++)
		src[s] = inputs[s] + at * (s + 1) % (4 * bytes);
	for (int in_place = -1; in_place < (int)use->nsrc; in_place++)
		apply_both(table, use, found + CACHE_LINE + (in_place < 0 ? at / 2 : at), src, n,
			   in_place);
}

/* The rows of the table that hold a function hold the same ones as the C table's. */
static bool defined(const struct tt_kernels *table, int op, int dtype)
{
	const bool has = table->reduce[op][dtype];

	assert_int_equal(has, op < TUTTI_BAND || !is_float(dtype));
	return has;
}

TEST(reduces_like_c_at_every_length_and_place)
{
	const struct tt_kernels *table = table_of(state);
	struct use use = { REDUCE };

	for (use.dtype = 0; use.dtype < TUTTI_DTYPE_COUNT; use.dtype++)
		for (size_t i = 0; i < LENGTHS; i++) {
			const size_t shifts = i < SHORT_END ? 4 : 2;

			fill_inputs(use.dtype, nth_length(i) + 4);
			for (use.op = 0; use.op < TUTTI_OP_COUNT; use.op++)
				if (use.op != TUTTI_AVG && defined(table, use.op, use.dtype))
					for (use.nsrc = 1; use.nsrc <= SOURCES; use.nsrc++)
						for (size_t shift = 0; shift < shifts; shift++)
							use_at_every_place(table, &use, shift,
									   nth_length(i));
		}
}

TEST(part_of_an_average_is_a_sum_or_a_mean)
{
	const struct tt_kernels *table = table_of(state);

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		assert_true(table->reduce[TUTTI_AVG][dtype] == table->reduce[TUTTI_SUM][dtype]);
		assert_true(defined(table, TUTTI_AVG, dtype));
		assert_true(table->average[dtype]);
		assert_int_equal(table->mean[dtype] != NULL,
				 is_float(dtype) && formats[dtype].bytes < 4);
	}
}

/* Two of LONGEST numbers, by every operation. */
static void reduce_all(const struct tt_kernels *table, int dtype)
{
	struct use use = { REDUCE, .dtype = dtype, .nsrc = 2 };
	const void *src[] = { inputs[0], inputs[1] };

	for (; use.op < TUTTI_OP_COUNT; use.op++)
		if (defined(table, use.op, dtype))
			apply_both(table, &use, found + CACHE_LINE, src, LONGEST, -1);
}

TEST(combines_every_pair_of_8_bit_numbers_like_c)
{
	const struct tt_kernels *table = table_of(state);

	for (int i = 0; i < LONGEST; i++) {
		inputs[0][i] = (char)i;
		inputs[1][i] = (char)(i >> 8);
	}
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		if (formats[dtype].bytes == 1)
			reduce_all(table, dtype);
}

#define INTERESTING 48

/* Zeros, ones, infinities and NaNs; the ends of the subnormal and of the normal numbers; and
 * numbers whose sums and products with others are halfway between two, just below or just above. */
static size_t interesting_numbers(int dtype, uint64_t *numbers)
{
	const unsigned mantissa = formats[dtype].mantissa, bias = (unsigned)formats[dtype].bias;
	const uint64_t one = UINT64_C(1) << mantissa, top = all_bits(dtype) / 2 / one;
	const uint64_t exponents[] = { 0, 1, bias - mantissa - 1, bias, top - 1, top };
	const uint64_t fractions[] = { 0, 1, one / 2, one - 1 };
	size_t count = 0;

	for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++)
		for (size_t k = 0; k < sizeof(fractions) / sizeof(fractions[0]); k++) {
			numbers[count++] = exponents[i] * one + fractions[k];
			numbers[count++] = sign_bit(dtype) + exponents[i] * one + fractions[k];
		}
	return count;
}

TEST(combines_every_16_bit_float_with_interesting_ones_like_c)
{
	const struct tt_kernels *table = table_of(state);
	uint64_t numbers[INTERESTING];

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		if (formats[dtype].bytes != 2 || !is_float(dtype))
			continue;
		assert_int_equal(interesting_numbers(dtype, numbers), INTERESTING);
		for (size_t k = 0; k < 2 * INTERESTING; k++) { /* on the left, then on the right */
			for (size_t i = 0; i < LONGEST; i++) {
				set_bits(dtype, inputs[k < INTERESTING], i, i);
				set_bits(dtype, inputs[k >= INTERESTING], i,
					 numbers[k % INTERESTING]);
			}
			reduce_all(table, dtype);
		}
	}
}

TEST(averages_and_scales_like_c)
{
	static const unsigned divisors[] = { 1, 2, 3, 7, 8, 127, 65537, 4000000000u };
	static const float shares[][2] = { { 0.5f, 0.5f },
					   { 2.0f / 3, 1.0f / 3 },
					   { 1.0f / 64, 63.0f / 64 } };
	const struct tt_kernels *table = table_of(state);

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < LENGTHS * 8; i++) {
			const unsigned nsrc = 1 + (unsigned)i % SOURCES;
			const unsigned divisor = divisors[i % 8] < nsrc ? nsrc : divisors[i % 8];
			const float *share = shares[i % 3];
			const struct use average = { AVERAGE, 0, dtype, nsrc, divisor, { 0 } },
					 mean = { MEAN, 0, dtype, 2, 0, { share[0], share[1] } },
					 scale = { SCALE, 0, dtype, 1, 0, { 0 } };

			fill_inputs(dtype, nth_length(i / 8) + 4);
			use_at_every_place(table, &average, i % 4, nth_length(i / 8));
			use_at_every_place(table, &scale, i % 4, nth_length(i / 8));
			if (table->mean[dtype])
				use_at_every_place(table, &mean, i % 4, nth_length(i / 8));
		}
}

/* One of each kernel, for where it reads and writes. */
static const struct use each[] = {
	{ REDUCE, .op = TUTTI_SUM, .nsrc = 1 },		{ REDUCE, .op = TUTTI_SUM, .nsrc = 2 },
	{ REDUCE, .op = TUTTI_SUM, .nsrc = 3 },		{ AVERAGE, .nsrc = 3, .divisor = 3 },
	{ MEAN, .nsrc = 2, .share = { 0.25f, 0.75f } }, { SCALE, .nsrc = 1 },
};
enum { EACH = sizeof(each) / sizeof(each[0]) };

TEST(combines_like_c_to_every_place_in_a_cache_line)
{
	static const size_t lengths[] = { 8, 31, 64, 100, 129, 333 };
	const struct tt_kernels *table = table_of(state);
	const void *const src[] = { inputs[0], inputs[1], inputs[2] };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < EACH * sizeof(lengths) / sizeof(lengths[0]); i++) {
			const size_t n = lengths[i / EACH];
			struct use use = each[i % EACH];

			use.dtype = dtype;
			if (use.kernel == MEAN && !table->mean[dtype])
				continue;
			fill_inputs(dtype, n);
			for (size_t at = 0; at < 2 * CACHE_LINE; at++)
				apply_both(table, &use, found + CACHE_LINE + at / 2, src, n,
					   at % 2 ? 0 : -1);
		}
}

/* Memory of one page whose neighbours may not be touched. */
static char *lonely_page(size_t page)
{
	char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
	return pages + page;
}

TEST(touches_nothing_outside_its_buffers)
{
	const struct tt_kernels *table = table_of(state);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages[] = { lonely_page(page), lonely_page(page), lonely_page(page),
			  lonely_page(page) };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t n = 0; n < 300; n++) {
			const size_t at = n % 2 ? 0 : page - n * formats[dtype].bytes;
			const void *src[] = { pages[0] + at, pages[1] + at, pages[2] + at };

			for (int i = 0; i < EACH; i++) {
				struct use use = each[i];

				use.dtype = dtype;
				if (use.kernel != MEAN || table->mean[dtype])
					apply(table, &use, pages[3] + at, src, n);
			}
			table->copy_stream(pages[3] + at, src[0], n * formats[dtype].bytes);
		}
	for (int i = 0; i < 4; i++)
		munmap(pages[i] - page, 3 * page);
}

TEST(copies_every_byte_and_no_more)
{
	static const size_t lengths[] = { 0, 1, 63, 1000, 16383, 16384, 16385, 99999, 262144 };
	const struct tt_kernels *table = table_of(state);

	fill_edgy(TUTTI_UINT64, inputs[0], LONGEST);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t at = 0; at < 67; at++) {
			memset(found, 0x5a, lengths[i] + 200);
			table->copy_stream(found + at, inputs[0] + 2 * at, lengths[i]);
			assert_memory_equal(found + at, inputs[0] + 2 * at, lengths[i]);
			assert_true(at == 0 || found[at - 1] == 0x5a);
			assert_int_equal(found[at + lengths[i]], 0x5a);
		}
}

int main(void)
{
	return run_claims_about(isas, ISAS);
}
