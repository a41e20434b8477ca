/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs on GPUs, through the driver: every kernel gives the bits of the host's plain C one,
 * copies copy all and nothing else, and flag is taken and given as src/device/cuda/kernels.h
 * says. Where TUTTI_CUDA_LIBRARY names the stand-in, that runs the same source on the host. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* include before cmocka.h what it needs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/kernels.h"
#include "cuda/module.h"
#include "kernels_check.h"

#define ARENA	 ((size_t)3 << 20)
#define REGIONS	 11 /* of the arena: sources, then targets */
#define SOURCES	 8
#define EVERY_16 65536

static const struct cuda_driver *cu;
static struct tt_cuda_module *module;
static struct CUstream_st *stream;
static cuda_device device;

/* Of the GPU, all in one allocation; the host writes them whole and reads them whole. */
struct world {
	struct tt_cuda_place place;
	struct tt_cuda_control control[3]; /* of rank 0, whose kernels run here, and of its peers */
};
static struct world world;
static struct world *gpu_world;
static struct tt_cuda_report *report;
static char *gpu_arena;
static char before[ARENA], after[ARENA], expected[ARENA];

#define assert_success(call) assert_int_equal(call, 0)

static cuda_address address(const void *pointer)
{
	return (cuda_address)(uintptr_t)pointer;
}

static void move(void *dst, const void *src, size_t bytes)
{
	if (bytes > 0)
		assert_success(cu->mem_copy(address(dst), address(src), bytes, stream));
}

static void *gpu_alloc(size_t bytes)
{
	cuda_address memory;

	assert_success(cu->mem_alloc(&memory, bytes));
	return (void *)(uintptr_t)memory;
}

/* Word that is given to nobody. */
static struct tt_cuda_sync no_signal(void)
{
	return (struct tt_cuda_sync){
		.place = &gpu_world->place, .kind = TT_CUDA_COLLECTIVE, .clear = -1, .post = -1
	};
}

static void launch(struct CUfunc_st *kernel, unsigned columns, unsigned rows, unsigned threads,
		   struct tt_cuda_part *part, struct tt_cuda_sync *sync)
{
	void *parameters[] = { part, sync };

	assert_success(
		cu->launch(kernel, columns, rows, 1, threads, 1, 1, 0, stream, parameters, NULL));
}

/* ---------------------------------------------------------------- numbers */

/* One launch: where its sources and targets lie in the arena. */
struct trial {
	int op, dtype; /* op TUTTI_OP_COUNT: scaling */
	unsigned nsrc, ndst, divisor;
	size_t n, src[TT_CUDA_RANKS], dst[TT_CUDA_RANKS];
};

static struct CUfunc_st *kernel_of(const struct trial *trial)
{
	return trial->op == TUTTI_OP_COUNT ? module->scale[trial->dtype]
					   : module->reduce[trial->op][trial->dtype];
}

static const char *name_of(const struct trial *trial)
{
	return trial->op == TUTTI_OP_COUNT ? "scale" : op_names[trial->op];
}

/* What the host makes of what the arena holds before; the scalar is the first number of the
 * first source. */
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
	struct tt_cuda_part part = { .nsrc = trial->nsrc,
				     .ndst = trial->ndst,
				     .divisor = trial->divisor,
				     .bytes = { bytes } };
	struct tt_cuda_sync sync = no_signal();

	for (unsigned s = 0; s < trial->nsrc; s++)
		part.src[s] = gpu_arena + trial->src[s];
	for (unsigned d = 0; d < trial->ndst; d++)
		part.dst[d] = gpu_arena + trial->dst[d];
	memcpy(part.scalar, before + trial->src[0], formats[trial->dtype].bytes);
	combine_on_host(trial, result);
	move(gpu_arena, before, used);
	launch(kernel_of(trial), 1 + turn % 3, 1, turn % 2 ? 32 : 96, &part, &sync);
	turn++;
	move(after, gpu_arena, used);
	assert_success(cu->stream_synchronize(stream));
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

static bool is_defined(int op, int dtype)
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

static void numbers_combine_like_on_the_host(void **state)
{
	static const unsigned counts[] = { 1, 2, 3, 8 };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			for (size_t i = 0; i < LENGTHS * 4 && is_defined(op, dtype); i++)
				run_all_places(op, dtype, lengths[i / 4], counts[i % 4],
					       i % 2 ? 3 : 1);
}

static void numbers_scale_like_on_the_host(void **state)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < LENGTHS * 2; i++)
			run_all_places(TUTTI_OP_COUNT, dtype, lengths[i / 2], 1, i % 2 ? 3 : 1);
}

/* Every pair of 8 bits; every 16 bits with others. */
static void small_numbers_combine_like_on_the_host(void **state)
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
static void as_many_sources_and_targets_as_there_can_be(void **state)
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
static void long_ones_combine_like_on_the_host(void **state)
{
	struct trial trial = {
		.op = TUTTI_SUM, .dtype = TUTTI_FLOAT32, .nsrc = 3, .ndst = 2, .n = 60011
	};

	fill_edgy(trial.dtype, before, ARENA / 4);
	for (int place = 0; place < PLACES; place++)
		place_and_run(&trial, (enum place)place, false);
}

/* ---------------------------------------------------------------- copies */

#define COPY_LONGEST 3000
#define COPY_STRIDE  (COPY_LONGEST + 64)

/* As many jobs as there can be: each from and to other places behind a multiple of 16. */
static void run_copies(size_t n, unsigned to, unsigned columns, unsigned rows)
{
	struct tt_cuda_part part = { .nsrc = TT_CUDA_RANKS };
	struct tt_cuda_sync sync = no_signal();
	const size_t used = 2 * TT_CUDA_RANKS * COPY_STRIDE;

	fill_edgy(TUTTI_UINT64, before, used / 8);
	memcpy(expected, before, used);
	for (unsigned job = 0; job < TT_CUDA_RANKS; job++) {
		const size_t src = job * COPY_STRIDE + job % 17,
			     dst = (TT_CUDA_RANKS + job) * COPY_STRIDE + to;

		part.src[job] = gpu_arena + src;
		part.dst[job] = gpu_arena + dst;
		part.bytes[job] = job < 17 ? n : n / 2;
		memcpy(expected + dst, before + src, part.bytes[job]);
	}
	move(gpu_arena, before, used);
	launch(module->copy, columns, rows, 64, &part, &sync);
	move(after, gpu_arena, used);
	assert_success(cu->stream_synchronize(stream));
	if (memcmp(after, expected, used) != 0)
		fail_msg("copies of %zu bytes to %u behind a multiple of 16 differ", n, to);
}

static void copies_copy_every_byte_and_no_more(void **state)
{
	static const size_t sizes[] = { 0,  1,	2,  15, 16, 17,	 31,  32,   47,
					48, 49, 63, 64, 65, 100, 255, 1024, COPY_LONGEST };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned to = 0; to < 17; to++)
			run_copies(sizes[i], to, 1 + to % 2, to % 3 ? TT_CUDA_RANKS : 5);
}

/* ---------------------------------------------------------------- flag */

#define RANKS 3

/* Rank 0 of three, whose flags are as `control` says, has something to copy that tells whether
 * anything was moved. */
static bool run_flag(struct tt_cuda_sync sync, unsigned blocks)
{
	struct tt_cuda_part part = {
		.nsrc = 1, .src = { gpu_arena }, .dst = { gpu_arena + 512 }, .bytes = { 512 }
	};

	for (int i = 0; i < 1024; i++)
		before[i] = (char)(i < 512 ? i : 0x5a);
	world.place = (struct tt_cuda_place){
		.rank = 0, .ranks = RANKS, .own = &gpu_world->control[0], .report = report
	};
	for (int r = 0; r < RANKS; r++)
		world.place.control[r] = &gpu_world->control[r];
	move(gpu_world, &world, sizeof(world));
	move(gpu_arena, before, 1024);
	launch(module->copy, blocks, 1, 64, &part, &sync);
	move(&world, gpu_world, sizeof(world));
	move(after, gpu_arena, 1024);
	assert_success(cu->stream_synchronize(stream));
	assert_true(memcmp(after + 512, before, 512) == 0 || memcmp(after, before, 1024) == 0);
	return memcmp(after + 512, before, 512) == 0;
}

static void new_world(void)
{
	memset(&world, 0, sizeof(world));
	memset(report, 0, sizeof(*report));
}

static struct tt_cuda_sync header_of(struct tt_cuda_sync sync, char byte)
{
	sync.signature = UINT64_C(0x1122334455667788) + (unsigned char)byte;
	memset(sync.header, byte, sizeof(sync.header));
	return sync;
}

static bool is_filled(const uint8_t *bytes, char with)
{
	for (int i = 0; i < TT_CUDA_HEADER; i++)
		if (bytes[i] != (uint8_t)with)
			return false;
	return true;
}

static void collective_waits_and_signals(void **state)
{
	for (unsigned blocks = 1; blocks <= 5; blocks += 2) {
		struct tt_cuda_sync sync = no_signal();

		new_world();
		memset(world.control[0].posted[0], 1, RANKS);
		world.control[0].ended = report->ended = 41;
		report->waiting = TT_CUDA_AWAITS_ALL;
		sync.clear = 0;
		sync.post = 1;
		assert_true(run_flag(sync, blocks));
		assert_int_equal(world.control[0].blocks, 0);
		assert_int_equal(world.control[0].ended, 42);
		assert_int_equal(report->ended, 42);
		assert_int_equal(report->waiting,
				 TT_CUDA_AWAITS_ALL); /* for what it has given flag of */
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(world.control[0].posted[0][r], 0);
			assert_int_equal(world.control[r].posted[1][0], 1);
			assert_int_equal(
				world.control[r].posted[1][1] | world.control[r].posted[2][0], 0);
			assert_int_equal(world.control[r].signature[0], 0);
		}
		assert_int_equal(report->mismatch, 0);
	}
}

/* The last sync belongs to the operation before. */
static void last_sync_is_not_counted(void **state)
{
	struct tt_cuda_sync sync = no_signal();

	new_world();
	memset(world.control[0].posted[TT_CUDA_SYNCS - 1], 1, RANKS);
	report->waiting = 77;
	sync.clear = TT_CUDA_SYNCS - 1;
	assert_true(run_flag(sync, 2));
	assert_int_equal(world.control[0].posted[TT_CUDA_SYNCS - 1][1], 0);
	assert_int_equal(world.control[0].ended | report->ended, 0);
	sync.clear = -1;
	sync.post = TT_CUDA_SYNCS - 1;
	assert_true(run_flag(sync, 2));
	assert_int_equal(world.control[2].posted[TT_CUDA_SYNCS - 1][0], 1);
	assert_int_equal(report->waiting, 77);
}

static void collective_introduces_itself(void **state)
{
	struct tt_cuda_sync sync = header_of(no_signal(), 'c');

	new_world();
	sync.post = 0;
	sync.introduces = 1;
	assert_true(run_flag(sync, 2));
	for (int r = 0; r < RANKS; r++)
		assert_true(world.control[r].signature[0] == sync.signature &&
			    world.control[r].posted[0][0] == 1);
	assert_true(is_filled(world.control[0].header, 'c'));
	assert_true(is_filled(world.control[1].header, 0));
}

static void silent_kernel_signals_nothing(void **state)
{
	struct tt_cuda_sync sync = no_signal();

	new_world();
	sync.kind = TT_CUDA_SILENT;
	sync.clear = 0;
	sync.post = 0;
	world.control[0].posted[0][1] = 1;
	assert_true(run_flag(sync, 3));
	assert_int_equal(world.control[0].posted[0][1], 1);
	assert_int_equal(world.control[1].posted[0][0], 0);
	assert_int_equal(world.control[0].blocks, 0);
}

static void sender_signals_what_it_sent(void **state)
{
	struct tt_cuda_sync sync = header_of(no_signal(), 's');

	new_world();
	sync.kind = TT_CUDA_SEND;
	sync.peer = 2;
	sync.introduces = 1;
	world.control[0].taken[2] = world.control[0].taken[1] = 1;
	report->waiting = TT_CUDA_AWAITS_TAKEN | 2 << 8;
	assert_true(run_flag(sync, 2));
	assert_true(world.control[0].taken[2] == 0 && world.control[0].taken[1] == 1);
	assert_true(world.control[2].sent[0] == 1 && world.control[1].sent[0] == 0);
	assert_true(world.control[2].sent_signature[0] == sync.signature);
	assert_true(is_filled(world.control[0].sent_header[2], 's'));
	assert_true(report->waiting == TT_CUDA_AWAITS_NOBODY && report->ended == 1 &&
		    world.control[0].ended == 1);
}

static void receiver_signals_what_it_took(void **state)
{
	struct tt_cuda_sync sync = header_of(no_signal(), 'r');

	new_world();
	sync.kind = TT_CUDA_RECV;
	sync.peer = 1;
	sync.check = 1;
	world.control[0].sent[1] = world.control[0].sent[2] = 1;
	world.control[0].sent_signature[1] = sync.signature;
	assert_true(run_flag(sync, 2));
	assert_true(world.control[0].sent[1] == 0 && world.control[0].sent[2] == 1);
	assert_true(world.control[1].taken[0] == 1 && world.control[2].taken[0] == 0);
	assert_true(report->ended == 1 && report->mismatch == 0 && world.control[0].dead == 0);
}

static void dead_kernels_do_nothing(void **state)
{
	static struct world as_it_was;
	struct tt_cuda_sync sync = header_of(no_signal(), 'd');

	new_world();
	sync.clear = 0;
	sync.post = 1;
	sync.introduces = sync.check = 1;
	world.control[0].dead = 1;
	world.control[0].posted[0][0] = 1;
	as_it_was = world;
	assert_false(run_flag(sync, 3));
	assert_memory_equal(world.control, as_it_was.control, sizeof(world.control));
	assert_int_equal(report->mismatch, 0);
}

static void nothing_moves_where_ranks_called_different_things(void **state)
{
	struct tt_cuda_sync sync = header_of(no_signal(), 'm');

	new_world();
	sync.clear = 0;
	sync.post = 1;
	sync.check = 1;
	for (int r = 0; r < RANKS; r++)
		world.control[0].signature[r] = sync.signature;
	assert_true(run_flag(sync, 3));
	assert_int_equal(world.control[1].posted[1][0], 1);
	world.control[1].posted[1][0] = 0;
	world.control[0].posted[0][2] = 1;
	world.control[0].signature[2] ^= 1;
	memset(world.control[2].header, 't', TT_CUDA_HEADER);
	assert_false(run_flag(sync, 3));
	assert_int_equal(report->mismatch, 1 + 2);
	assert_true(is_filled(report->mine, 'm') && is_filled(report->theirs, 't'));
	assert_int_equal(world.control[0].dead, 1);
	assert_int_equal(world.control[1].posted[1][0], 0);
	assert_int_equal(world.control[0].posted[0][2], 1);
}

static void nothing_moves_where_something_else_was_sent(void **state)
{
	struct tt_cuda_sync sync = header_of(no_signal(), 'm');

	new_world();
	sync.kind = TT_CUDA_RECV;
	sync.peer = 1;
	sync.check = 1;
	world.control[0].sent[1] = 1;
	memset(world.control[1].sent_header[0], 't', TT_CUDA_HEADER);
	assert_false(run_flag(sync, 1));
	assert_int_equal(report->mismatch, 1 + 1);
	assert_true(is_filled(report->mine, 'm') && is_filled(report->theirs, 't'));
	assert_true(world.control[0].dead == 1 && world.control[0].sent[1] == 1 &&
		    world.control[1].taken[0] == 0);
}

/* ---------------------------------------------------------------- loading */

static void unreadable_kernels_are_named(void **state)
{
	const char *set = getenv("TUTTI_CUDA_KERNELS");
	char *kept = set ? strdup(set) : NULL;
	struct tt_cuda_module *none = NULL;

	setenv("TUTTI_CUDA_KERNELS", "/nowhere/kernels.fatbin", 1);
	assert_int_equal(tt_cuda_module_load(cu, &none), TUTTI_ERR_SYSTEM);
	assert_string_equal(
		tutti_last_error(NULL),
		"TUTTI_CUDA_KERNELS is \"/nowhere/kernels.fatbin\", which cannot be read: No such file or directory");
	assert_null(none);
	if (kept)
		setenv("TUTTI_CUDA_KERNELS", kept, 1);
	else
		unsetenv("TUTTI_CUDA_KERNELS");
	free(kept);
}

/* The stand-in fails as it is told to. */
static void assert_not_loaded(const char *function, const char *error, const char *error_text)
{
	struct tt_cuda_module *none = NULL;

	setenv("STANDIN_ERROR", error, 1);
	setenv("STANDIN_FAILS", function, 1);
	assert_int_equal(tt_cuda_module_load(cu, &none), TUTTI_ERR_UNSUPPORTED);
	unsetenv("STANDIN_FAILS");
	unsetenv("STANDIN_ERROR");
	assert_null(none);
	if (!strstr(tutti_last_error(NULL), error_text))
		fail_msg("\"%s\" says nothing of \"%s\"", tutti_last_error(NULL), error_text);
}

static void kernels_that_are_for_other_gpus_or_drivers_are_explained(void **state)
{
	if (!getenv("TUTTI_CUDA_LIBRARY"))
		skip();
	assert_not_loaded("cuModuleLoadData", "209",
			  "the GPU has compute capability 9.0, the kernels of ");
	assert_not_loaded("cuModuleLoadData", "222",
			  "were built with a newer version of CUDA than this driver's, 13.0, ");
	assert_not_loaded(
		"cuModuleGetFunction", "500",
		"has no kernel tt_cuda_copy: expected what is made of src/device/cuda/kernels.cu of this version");
}

static void every_operation_has_a_kernel(void **state)
{
	assert_non_null(module->copy);
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		assert_non_null(module->scale[dtype]);
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			assert_int_equal(module->reduce[op][dtype] != NULL, is_defined(op, dtype));
	}
}

/* What cannot be had here is said, and skipped. */
static tutti_result_t begin(void)
{
	struct CUctx_st *context;
	tutti_result_t result = tt_cuda_driver(&cu);

	if (result)
		return result;
	assert_success(cu->device_get(&device, 0));
	assert_success(cu->primary_retain(&context, device));
	assert_success(cu->context_push(context));
	result = tt_cuda_module_load(cu, &module);
	if (result)
		return result;
	assert_success(cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
	gpu_arena = gpu_alloc(ARENA);
	gpu_world = gpu_alloc(sizeof(*gpu_world));
	assert_success(cu->mem_host_alloc((void **)&report, sizeof(*report),
					  CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	new_world();
	world.place = (struct tt_cuda_place){ .ranks = 1,
					      .own = &gpu_world->control[0],
					      .report = report,
					      .control = { &gpu_world->control[0] } };
	move(gpu_world, &world, sizeof(world));
	return TUTTI_OK;
}

static void end(void)
{
	struct CUctx_st *context;

	assert_success(cu->stream_destroy(stream));
	assert_success(cu->mem_free(address(gpu_arena)));
	assert_success(cu->mem_free(address(gpu_world)));
	assert_success(cu->mem_host_free(report));
	tt_cuda_module_free(cu, module);
	assert_success(cu->context_pop(&context));
	assert_success(cu->primary_release(device));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_has_a_kernel),
		cmocka_unit_test(unreadable_kernels_are_named),
		cmocka_unit_test(kernels_that_are_for_other_gpus_or_drivers_are_explained),
		cmocka_unit_test(numbers_combine_like_on_the_host),
		cmocka_unit_test(numbers_scale_like_on_the_host),
		cmocka_unit_test(small_numbers_combine_like_on_the_host),
		cmocka_unit_test(as_many_sources_and_targets_as_there_can_be),
		cmocka_unit_test(long_ones_combine_like_on_the_host),
		cmocka_unit_test(copies_copy_every_byte_and_no_more),
		cmocka_unit_test(collective_waits_and_signals),
		cmocka_unit_test(last_sync_is_not_counted),
		cmocka_unit_test(collective_introduces_itself),
		cmocka_unit_test(silent_kernel_signals_nothing),
		cmocka_unit_test(sender_signals_what_it_sent),
		cmocka_unit_test(receiver_signals_what_it_took),
		cmocka_unit_test(dead_kernels_do_nothing),
		cmocka_unit_test(nothing_moves_where_ranks_called_different_things),
		cmocka_unit_test(nothing_moves_where_something_else_was_sent),
	};
	const tutti_result_t result = begin();

	if (result) {
		puts(tutti_last_error(NULL));
		return result == TUTTI_ERR_UNSUPPORTED ? 77 : 1;
	}
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end();
	return failed;
}
