/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that combine give the bits of the host's plain C one. */
#include "world.h"

/* One launch, where its sources and targets lie in the arena. */
struct trial {
	int op, dtype; /* op TUTTI_OP_COUNT: scaling */
	unsigned nsrc, ndst, divisor;
	size_t n, src[TT_CUDA_RANKS], dst[TT_CUDA_RANKS];
};

static struct CUfunc_st *kernel_of(const struct trial *trial)
{
	return trial->op == TUTTI_OP_COUNT ? module.scale[trial->dtype]
					   : module.reduce[trial->op][trial->dtype];
}

static const char *name_of(const struct trial *trial)
{
	return trial->op == TUTTI_OP_COUNT ? "scale" : op_names[trial->op];
}

/* What the host makes of what the arena holds before; the scalar is the first number of the first
 * source. */
static void combine_on_host(const struct trial *trial, char *result)
{
	const struct tt_kernels *c = tt_kernels_by_isa("c");
	const void *src[TT_CUDA_RANKS];

	for (unsigned s = 0; s < trial->nsrc; s++)
		src[s] = before + trial->src[s];
	if (trial->op == TUTTI_OP_COUNT)
		c->scale[trial->dtype](result, src[0], trial->n, src[0]);
	else if (trial->divisor)
		c->average[trial->dtype](result, src, trial->nsrc, trial->n, trial->divisor);
	else
		c->reduce[trial->op][trial->dtype](result, src, trial->nsrc, trial->n);
}

static void compare(const struct trial *trial, const char *want, const char *have)
{
	const size_t bytes = formats[trial->dtype].bytes;

	if (memcmp(want, have, trial->n * bytes) == 0)
		return;
	for (size_t i = 0; i < trial->n; i++) {
		const uint64_t a = get_bits(trial->dtype, want, i),
			       b = get_bits(trial->dtype, have, i);

		if (!bits_equal(trial->dtype, a, b))
			fail_msg(
				"%s %s of %u sources to %u targets, divided by %u: element %zu of %zu is %#llx, expected %#llx",
				name_of(trial), formats[trial->dtype].name, trial->nsrc,
				trial->ndst, trial->divisor, i, trial->n, (unsigned long long)b,
				(unsigned long long)a);
	}
}

/* The arena, `used` bytes of it, is afterwards what it was but for the targets. */
static void run(const struct trial *trial, size_t used)
{
	static char result[ARENA];
	static unsigned turn;
	const size_t bytes = trial->n * formats[trial->dtype].bytes;
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 1 };
	struct tt_cuda_part *part = &program.part[0];

	*part = (struct tt_cuda_part){ .kind = TT_CUDA_COMBINE,
				       .nsrc = trial->nsrc,
				       .ndst = trial->ndst,
				       .divisor = trial->divisor,
				       .piece = { { NULL, NULL, { bytes } } } };
	for (unsigned s = 0; s < trial->nsrc; s++)
		part->piece[s].src = gpu_arena + trial->src[s];
	for (unsigned d = 0; d < trial->ndst; d++)
		part->piece[d].dst = gpu_arena + trial->dst[d];
	memcpy(part->scalar, before + trial->src[0], formats[trial->dtype].bytes);
	combine_on_host(trial, result);
	move(gpu_arena, before, used);
	launch(kernel_of(trial), 1 + turn % 3, turn % 2 ? 32 : 96, &program);
	turn++;
	move(after, gpu_arena, used);
	assert_success(tt_cu.stream_synchronize(stream));
	memcpy(expected, before, used);
	for (unsigned d = 0; d < trial->ndst; d++) {
		compare(trial, result, after + trial->dst[d]);
		memcpy(expected + trial->dst[d], after + trial->dst[d], bytes);
	}
	if (memcmp(after, expected, used) != 0)
		fail_msg("%s %s of %zu writes outside of its targets", name_of(trial),
			 formats[trial->dtype].name, trial->n);
}

static size_t region_bytes(const struct trial *trial)
{
	return (trial->n * formats[trial->dtype].bytes + 64 + 15) / 16 * 16;
}

/* Where pointers lie: all at a multiple of 16, all equally behind one, the targets elsewhere
 * than the sources, or each elsewhere. */
enum place { EVEN, EQUAL, SHIFTED, ANYWHERE, PLACES };

static size_t offset_of(enum place place, unsigned region, size_t bytes)
{
	switch (place) {
	case EVEN: return 16;
	case EQUAL: return 16 + 3 * bytes % 16;
	case SHIFTED: return 16 + (region < SOURCES ? bytes : 0);
	default: return 16 + region * bytes % 32;
	}
}

static void place_and_run(struct trial *trial, enum place place, bool in_place)
{
	const size_t stride = region_bytes(trial), bytes = formats[trial->dtype].bytes;

	for (unsigned s = 0; s < trial->nsrc; s++)
		trial->src[s] = s * stride + offset_of(place, s, bytes);
	for (unsigned d = 0; d < trial->ndst; d++)
		trial->dst[d] = (SOURCES + d) * stride + offset_of(place, SOURCES + d, bytes);
	if (in_place)
		trial->dst[trial->ndst - 1] = trial->src[trial->n % trial->nsrc];
	run(trial, REGIONS * stride);
}

bool is_defined(int op, int dtype)
{
	return tt_kernels_by_isa("c")->reduce[op][dtype];
}

static const unsigned divisors[] = { 1, 2, 3, 7, 8, 127, 255, 65537, 4000000000u };

static void run_all_places(int op, int dtype, size_t n, unsigned nsrc, unsigned ndst)
{
	static unsigned turn;

	for (int place = 0; place < PLACES; place++, turn++) {
		struct trial trial = {
			.op = op, .dtype = dtype, .nsrc = nsrc, .ndst = ndst, .n = n
		};

		if (op == TUTTI_AVG) {
			trial.divisor = divisors[turn % (sizeof(divisors) / sizeof(divisors[0]))];
			if (trial.divisor < nsrc) /* the result fits its type */
				trial.divisor = nsrc;
		}
		fill_edgy(dtype, before, REGIONS * region_bytes(&trial) / formats[dtype].bytes);
		place_and_run(&trial, (enum place)place, turn % 3 == 0);
	}
}

static const size_t lengths[] = { 0, 1, 2, 7, 15, 16, 17, 33, 100, 257, 1000, 4099 };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

TEST(numbers_combine_like_on_the_host)
{
	static const unsigned counts[] = { 1, 2, 3, 8 };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			for (size_t i = 0; i < LENGTHS * 4 && is_defined(op, dtype); i++)
				run_all_places(op, dtype, lengths[i / 4], counts[i % 4],
					       i % 2 ? 3 : 1);
}

TEST(numbers_scale_like_on_the_host)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < LENGTHS * 2; i++)
			run_all_places(TUTTI_OP_COUNT, dtype, lengths[i / 2], 1, i % 2 ? 3 : 1);
}

/* Every pair of 8 bits; every 16 bits with others. */
TEST(small_numbers_combine_like_on_the_host)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		struct trial trial = { .dtype = dtype, .nsrc = 2, .ndst = 1, .n = EVERY_16 };
		const size_t bytes = formats[dtype].bytes, stride = region_bytes(&trial);

		if (bytes > 2)
			continue;
		fill_edgy(dtype, before, REGIONS * stride / bytes);
		for (size_t i = 0; i < EVERY_16; i++) {
			set_bits(dtype, before + 16, i, i);
			if (bytes == 1)
				set_bits(dtype, before + stride + 16, i, i >> 8);
		}
		for (trial.op = 0; trial.op < TUTTI_OP_COUNT; trial.op++) {
			trial.divisor = trial.op == TUTTI_AVG ? 3 : 0;
			if (is_defined(trial.op, dtype))
				place_and_run(&trial, EVEN, false);
		}
	}
}

/* The result goes to where the sources are: all 32 of them. */
TEST(as_many_sources_and_targets_as_there_can_be)
{
	struct trial trial = { .op = TUTTI_SUM,
			       .dtype = TUTTI_FLOAT16,
			       .nsrc = TT_CUDA_RANKS,
			       .ndst = TT_CUDA_RANKS,
			       .n = 333 };

	fill_edgy(trial.dtype, before, ARENA / 2);
	for (unsigned i = 0; i < TT_CUDA_RANKS; i++)
		trial.src[i] = trial.dst[i] = 16 + i * 1024;
	run(&trial, TT_CUDA_RANKS * 1024);
}

/* Longer than what all threads have under way at once. */
TEST(long_ones_combine_like_on_the_host)
{
	struct trial trial = {
		.op = TUTTI_SUM, .dtype = TUTTI_FLOAT32, .nsrc = 3, .ndst = 2, .n = 60011
	};

	fill_edgy(trial.dtype, before, ARENA / 4);
	for (int place = 0; place < PLACES; place++)
		place_and_run(&trial, (enum place)place, false);
}
