/* SPDX-License-Identifier: BSD-3-Clause */
/* Every variant of the kernels against the plain C one, bit for bit. With --time it prints the
 * speed of each instead. */
#include "tests.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
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

static char *inputs[SOURCES], *expected, *found;

static int allocate(void **state)
{
	for (int s = 0; s < SOURCES; s++)
		inputs[s] = malloc(ROOM);
	expected = malloc(ROOM);
	found = aligned_alloc(CACHE_LINE, ROOM);
	return 0;
}

static int release(void **state)
{
	for (int s = 0; s < SOURCES; s++)
		free(inputs[s]);
	free(expected);
	free(found);
	return 0;
}

static const struct tt_kernels *table_of(void **state)
{
	const struct tt_kernels *table = tt_kernels_by_isa(*state);

	if (!table) {
		printf("%s: not built, or this processor lacks it\n", (const char *)*state);
		skip();
	}
	return table;
}

static void fill_inputs(int dtype, size_t n)
{
	for (int s = 0; s < SOURCES; s++)
		fill_edgy(dtype, inputs[s], n);
}

static void compare(int dtype, const char *what, const void *want, const void *have, size_t n)
{
	if (memcmp(want, have, n * formats[dtype].bytes) == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const uint64_t a = get_bits(dtype, want, i), b = get_bits(dtype, have, i);

		if (!bits_equal(dtype, a, b))
			fail_msg("%s %s: element %zu of %zu is %#llx, expected %#llx", what,
				 formats[dtype].name, i, n, (unsigned long long)b,
				 (unsigned long long)a);
	}
}

/* Combine inputs, element `shift` and further, with the result in input `in_place`, or elsewhere if
 * that is -1. */
static void reduce_both(const struct tt_kernels *table, int op, int dtype, unsigned nsrc, size_t n,
			size_t shift, int in_place)
{
	const size_t bytes = formats[dtype].bytes, length = n * bytes, at = shift * bytes;
	const struct tt_kernels *c = tt_kernels_by_isa("c");
	const void *src[SOURCES];
	char *dst = found + (in_place < 0 ? at / 2 : at);
	const uint64_t guard = UINT64_C(0xa5a5a5a5a5a5a5a5);

	for (unsigned s = 0; s < nsrc; s++)
		src[s] = inputs[s] + at * (s + 1) % (4 * bytes);
	c->reduce[op][dtype](expected, src, nsrc, n);
	if (in_place >= 0) {
		memcpy(dst, src[in_place], length);
		src[in_place] = dst;
	}
	memcpy(dst + length, &guard, sizeof(guard));
	table->reduce[op][dtype](dst, src, nsrc, n);
	compare(dtype, op_names[op], expected, dst, n);
	if (memcmp(dst + length, &guard, sizeof(guard)) != 0)
		fail_msg("%s %s of %zu writes behind its end", op_names[op], formats[dtype].name,
			 n);
}

static void reduce_all_places(const struct tt_kernels *table, int op, int dtype, size_t n)
{
	const size_t shifts = n < SHORT_END ? 4 : 2;

	for (unsigned nsrc = 1; nsrc <= SOURCES; nsrc++)
		for (size_t shift = 0; shift < shifts; shift++)
			for (int in_place = -1; in_place < (int)nsrc; in_place++)
				reduce_both(table, op, dtype, nsrc, n, shift, in_place);
}

/* The rows of the table that hold a function hold the same ones as the C table's. */
static bool defined(const struct tt_kernels *table, int op, int dtype)
{
	const bool has = table->reduce[op][dtype];

	assert_int_equal(has, op < TUTTI_BAND || !is_float(dtype));
	return has;
}

static void reduces_like_c_at_every_length_and_place(void **state)
{
	const struct tt_kernels *table = table_of(state);

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < LENGTHS; i++) {
			fill_inputs(dtype, nth_length(i) + 4);
			for (int op = 0; op < TUTTI_OP_COUNT; op++)
				if (op != TUTTI_AVG && defined(table, op, dtype))
					reduce_all_places(table, op, dtype, nth_length(i));
		}
}

static void part_of_an_average_is_a_sum_or_a_mean(void **state)
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

static void combines_every_pair_of_8_bit_numbers_like_c(void **state)
{
	const struct tt_kernels *table = table_of(state);

	for (int i = 0; i < LONGEST; i++) {
		inputs[0][i] = (char)i;
		inputs[1][i] = (char)(i >> 8);
	}
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			if (formats[dtype].bytes == 1 && defined(table, op, dtype))
				reduce_both(table, op, dtype, 2, LONGEST, 0, -1);
}

static void combines_every_16_bit_number_like_c(void **state)
{
	const struct tt_kernels *table = table_of(state);

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		if (formats[dtype].bytes != 2)
			continue;
		for (int trial = 0; trial < 16; trial++) {
			fill_edgy(dtype, inputs[1], LONGEST);
			for (size_t i = 0; i < LONGEST; i++)
				set_bits(dtype, inputs[0], i, i);
			for (int op = 0; op < TUTTI_OP_COUNT; op++)
				if (defined(table, op, dtype))
					reduce_both(table, op, dtype, 2, LONGEST, 0, -1);
		}
	}
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

static void combines_every_16_bit_float_with_interesting_ones_like_c(void **state)
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
			for (int op = TUTTI_SUM; op <= TUTTI_MAX; op++)
				reduce_both(table, op, dtype, 2, LONGEST, 0, -1);
		}
	}
}

static void scales_like_c(void **state)
{
	const struct tt_kernels *table = table_of(state), *c = tt_kernels_by_isa("c");

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < LENGTHS * 8; i++) {
			const size_t n = nth_length(i / 8), at = i % 4 * formats[dtype].bytes;
			char *dst = i % 3 ? found : inputs[1] + at;

			fill_inputs(dtype, n + 4);
			memcpy(inputs[1], inputs[0], (n + 4) * formats[dtype].bytes);
			c->scale[dtype](expected, inputs[0] + at, n, inputs[2]);
			table->scale[dtype](dst, inputs[1] + at, n, inputs[2]);
			compare(dtype, "scale", expected, dst, n);
		}
}

/* Inputs averaged, with the result in input `in_place`, or elsewhere if that is -1. */
static void average_both(const struct tt_kernels *table, int dtype, unsigned nsrc, size_t n,
			 size_t at, unsigned divisor, int in_place)
{
	const size_t length = n * formats[dtype].bytes;
	const void *src[SOURCES];
	char *dst = found + at;

	for (unsigned s = 0; s < nsrc; s++)
		src[s] = inputs[s] + at;
	tt_kernels_by_isa("c")->average[dtype](expected, src, nsrc, n, divisor);
	if (in_place >= 0) {
		memcpy(dst, src[in_place], length);
		src[in_place] = dst;
	}
	table->average[dtype](dst, src, nsrc, n, divisor);
	compare(dtype, "average", expected, dst, n);
}

static void mean_both(const struct tt_kernels *table, int dtype, size_t n, size_t at,
		      const float share[2], int in_place)
{
	const void *src[2] = { inputs[0] + at, inputs[1] + at };
	char *dst = found + at;

	tt_kernels_by_isa("c")->mean[dtype](expected, src, share, n);
	if (in_place >= 0) {
		memcpy(dst, src[in_place], n * formats[dtype].bytes);
		src[in_place] = dst;
	}
	table->mean[dtype](dst, src, share, n);
	compare(dtype, "mean", expected, dst, n);
}

static void averages_like_c(void **state)
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
			const size_t n = nth_length(i / 8), at = i % 4 * formats[dtype].bytes;

			fill_inputs(dtype, n + 4);
			for (int in_place = -1; in_place < (int)nsrc; in_place++)
				average_both(table, dtype, nsrc, n, at, divisor, in_place);
			for (int in_place = -1; in_place < 2 && table->mean[dtype]; in_place++)
				mean_both(table, dtype, n, at, shares[i % 3], in_place);
		}
}

/* The sum of some inputs, elsewhere and in place. */
static void sum_both_to(const struct tt_kernels *table, int dtype, unsigned nsrc, size_t n,
			char *dst)
{
	const void *src[] = { inputs[0], inputs[1], inputs[2] };

	tt_kernels_by_isa("c")->reduce[TUTTI_SUM][dtype](expected, src, nsrc, n);
	table->reduce[TUTTI_SUM][dtype](dst, src, nsrc, n);
	compare(dtype, "sum", expected, dst, n);
	memcpy(dst, src[0], n * formats[dtype].bytes);
	src[0] = dst;
	table->reduce[TUTTI_SUM][dtype](dst, src, nsrc, n);
	compare(dtype, "sum in place", expected, dst, n);
}

static void apply_both_to(const struct tt_kernels *table, int dtype, size_t n, char *dst)
{
	const struct tt_kernels *c = tt_kernels_by_isa("c");
	const void *src[2] = { inputs[0], inputs[1] };
	const float share[2] = { 0.25f, 0.75f };

	c->average[dtype](expected, src, 2, n, 3);
	table->average[dtype](dst, src, 2, n, 3);
	compare(dtype, "average", expected, dst, n);
	if (table->mean[dtype]) {
		c->mean[dtype](expected, src, share, n);
		table->mean[dtype](dst, src, share, n);
		compare(dtype, "mean", expected, dst, n);
	}
	c->scale[dtype](expected, inputs[0], n, inputs[1]);
	memcpy(dst, inputs[0], n * formats[dtype].bytes);
	table->scale[dtype](dst, dst, n, inputs[1]);
	compare(dtype, "scale in place", expected, dst, n);
}

/* Results that begin `at` bytes behind the start of a cache line. */
static void combine_both_at(const struct tt_kernels *table, int dtype, size_t n, size_t at)
{
	char *dst = found + CACHE_LINE + at, *end = dst + n * formats[dtype].bytes;
	char guard[CACHE_LINE];

	memset(guard, 0x5a, sizeof(guard));
	memcpy(dst - sizeof(guard), guard, sizeof(guard));
	memcpy(end, guard, sizeof(guard));
	sum_both_to(table, dtype, 2, n, dst);
	sum_both_to(table, dtype, 3, n, dst);
	apply_both_to(table, dtype, n, dst);
	assert_memory_equal(dst - sizeof(guard), guard, sizeof(guard));
	assert_memory_equal(end, guard, sizeof(guard));
}

static void combines_like_c_to_every_place_in_a_cache_line(void **state)
{
	static const size_t lengths[] = { 8, 31, 64, 100, 129, 333 };
	const struct tt_kernels *table = table_of(state);

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			fill_inputs(dtype, lengths[i]);
			for (size_t at = 0; at < CACHE_LINE; at++)
				combine_both_at(table, dtype, lengths[i], at);
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

static void touches_nothing_outside_its_buffers(void **state)
{
	const struct tt_kernels *table = table_of(state);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages[] = { lonely_page(page), lonely_page(page), lonely_page(page),
			  lonely_page(page) };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t n = 0; n < 300; n++) {
			const size_t at = n % 2 ? 0 : page - n * formats[dtype].bytes;
			const void *src[] = { pages[0] + at, pages[1] + at, pages[2] + at };

			for (unsigned nsrc = 1; nsrc <= 3; nsrc++)
				table->reduce[TUTTI_SUM][dtype](pages[3] + at, src, nsrc, n);
			table->average[dtype](pages[3] + at, src, 3, n, 3);
			if (table->mean[dtype])
				table->mean[dtype](pages[3] + at, src,
						   (const float[2]){ 0.5f, 0.5f }, n);
			table->scale[dtype](pages[3] + at, src[0], n, pages[1]);
			table->copy_stream(pages[3] + at, src[0], n * formats[dtype].bytes);
		}
	for (int i = 0; i < 4; i++)
		munmap(pages[i] - page, 3 * page);
}

static void copies_every_byte_and_no_more(void **state)
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

/* ---------------------------------------------------------------- --time */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of one call: the best of ten rounds of about a millisecond. */
static double time_reduce(tt_reduce_fn *reduce, unsigned nsrc, size_t n)
{
	const void *src[] = { inputs[0], inputs[1], inputs[2], inputs[3] };
	size_t calls = 1;
	double best = 1;

	for (int round = 0; round < 10;) {
		const double start = seconds();

		for (size_t i = 0; i < calls; i++)
			reduce(found, src, nsrc, n);
		const double took = seconds() - start;

		if (took < 1e-3) {
			calls *= 2;
			continue;
		}
		best = took / (double)calls < best ? took / (double)calls : best;
		round++;
	}
	return best;
}

/* Bytes read and written; 8 KiB of each buffer are in the first cache, 128 KiB in the second. */
static void print_times(const char *isa)
{
	const struct tt_kernels *table = tt_kernels_by_isa(isa);

	for (int dtype = 0; table && dtype < TUTTI_DTYPE_COUNT; dtype++) {
		const size_t bytes = formats[dtype].bytes;

		fill_inputs(dtype, 131072 / bytes);
		for (int s = 0; s < SOURCES; s++) /* numbers of middling size, as users have */
			for (size_t i = 0; i < 131072 / bytes; i++)
				set_bits(dtype, inputs[s], i,
					 (uint64_t)formats[dtype].bias << formats[dtype].mantissa);
		for (int op = 0; op < TUTTI_OP_COUNT; op++) {
			tt_reduce_fn *reduce = table->reduce[op][dtype];

			if (!reduce || op == TUTTI_AVG)
				continue;
			printf("%-12s %-12s %-5s 8 KiB %6.1f  128 KiB %6.1f  four sources %6.1f "
			       "GB/s"
			       "  8 B %5.1f ns\n",
			       isa, formats[dtype].name, op_names[op],
			       3 * 8.192e-6 / time_reduce(reduce, 2, 8192 / bytes),
			       3 * 131.072e-6 / time_reduce(reduce, 2, 131072 / bytes),
			       5 * 8.192e-6 / time_reduce(reduce, 4, 8192 / bytes),
			       1e9 * time_reduce(reduce, 2, 8 / bytes));
		}
	}
}

/* Copies far larger than the caches. */
static void print_copy_time(const char *isa)
{
	const struct tt_kernels *table = tt_kernels_by_isa(isa);
	const size_t bytes = (size_t)64 << 20;
	char *from = malloc(bytes), *to = malloc(bytes);
	double best = 1;

	if (table && from && to) {
		memset(from, 1, bytes);
		for (int round = 0; round < 10; round++) {
			const double start = seconds();

			table->copy_stream(to, from, bytes);
			const double took = seconds() - start;

			best = took < best ? took : best;
		}
		printf("%-12s copy_stream 64 MiB %6.1f GB/s\n", isa, 2e-9 * (double)bytes / best);
	}
	free(from);
	free(to);
}

#define VARIANT(isa)                                                                               \
	cmocka_unit_test_prestate(reduces_like_c_at_every_length_and_place, isa),                  \
		cmocka_unit_test_prestate(part_of_an_average_is_a_sum_or_a_mean, isa),             \
		cmocka_unit_test_prestate(combines_every_pair_of_8_bit_numbers_like_c, isa),       \
		cmocka_unit_test_prestate(combines_every_16_bit_number_like_c, isa),               \
		cmocka_unit_test_prestate(                                                         \
			combines_every_16_bit_float_with_interesting_ones_like_c, isa),            \
		cmocka_unit_test_prestate(scales_like_c, isa),                                     \
		cmocka_unit_test_prestate(averages_like_c, isa),                                   \
		cmocka_unit_test_prestate(combines_like_c_to_every_place_in_a_cache_line, isa),    \
		cmocka_unit_test_prestate(touches_nothing_outside_its_buffers, isa),               \
		cmocka_unit_test_prestate(copies_every_byte_and_no_more, isa)

int main(int argc, char **argv)
{
	static char *isas[] = { "c", "avx2", "avx512", "avx512_bf16", "avx512_fp16", "neon" };
	const struct CMUnitTest tests[] = { VARIANT(isas[0]), VARIANT(isas[1]), VARIANT(isas[2]),
					    VARIANT(isas[3]), VARIANT(isas[4]), VARIANT(isas[5]) };

	if (argc == 2 && strcmp(argv[1], "--time") == 0) {
		allocate(NULL);
		for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
			print_times(isas[i]);
		for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
			print_copy_time(isas[i]);
		release(NULL);
		return 0;
	}
	return cmocka_run_group_tests(tests, allocate, release);
}
