/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks exchange what is short, without meetings. */
#include "world.h"

/* What rank `from` has for rank 0 lies in its lines. */
static void lay_lines(int from, const char *data, size_t bytes)
{
	struct tt_cuda_line *line = world.lines[0][(NUMBER + 1) & 1][from];

	for (size_t at = 0; at < bytes; at += 8, line++) {
		uint32_t words[2] = { 0, 0 };

		memcpy(words, data + at, bytes - at < 8 ? bytes - at : 8);
		*line = (struct tt_cuda_line){ words[0], NUMBER + 1, words[1], NUMBER + 1 };
	}
}

static void assert_laid(int to, const char *data, size_t bytes)
{
	const struct tt_cuda_line *line = world.lines[to][(NUMBER + 1) & 1][0];

	for (size_t at = 0; at < bytes; at += 8, line++) {
		const uint32_t words[2] = { line->low, line->high };

		assert_true(line->number == NUMBER + 1 && line->again == NUMBER + 1);
		assert_memory_equal(words, data + at, bytes - at < 8 ? bytes - at : 8);
	}
	assert_int_equal(line->number, 0);
}

static struct tt_cuda_program exchange_of(size_t bytes)
{
	struct tt_cuda_program program = { .sync = header_of(this_rank(), 'x'), .phases = 1 };

	program.sync.calls = program.sync.ends = 1;
	program.part[0].kind = TT_CUDA_EXCHANGE;
	program.part[0].ndst = (uint32_t)((bytes + 7) / 8);
	let_others_come(program.sync.signature);
	return program;
}

static void assert_exchanged(const struct tt_cuda_program *program)
{
	assert_int_equal(world.control[0].number, NUMBER + 1);
	assert_int_equal(world.control[0].met, MET);
	assert_int_equal(world.control[0].ended, 1);
	assert_int_equal(report->ended, 1);
	assert_int_equal(world.control[0].blocks | world.control[0].dead, 0);
	for (int r = 0; r < RANKS; r++)
		assert_called(&world.control[r].called[(NUMBER + 1) & 1][0],
			      program->sync.signature);
}

#define EXCHANGED_AT 4096 /* where in the arena the sources of the ranks are, one after the other */

/* The sources of all ranks are combined; that of rank 0 is where the result goes. */
static void exchange_and_compare(int op, int dtype, size_t n, unsigned shift, unsigned blocks)
{
	const size_t bytes = n * formats[dtype].bytes;
	struct tt_cuda_program program = exchange_of(bytes);
	struct tt_cuda_part *part = &program.part[0];
	struct trial trial = { .op = op, .dtype = dtype, .nsrc = RANKS, .ndst = 1, .n = n };
	static char result[1 << 16];

	part->nsrc = RANKS;
	part->divisor = trial.divisor = op == TUTTI_AVG ? RANKS : 0;
	part->in[0] = (uint32_t)bytes;
	for (int r = 0; r < RANKS; r++) {
		trial.src[r] = (size_t)(1 + r) * EXCHANGED_AT + shift * formats[dtype].bytes;
		part->src[r] = gpu_arena + trial.src[0];
		part->bytes[r] = bytes;
		if (r > 0)
			lay_lines(r, before + trial.src[r], bytes);
	}
	part->dst[0] = gpu_arena + trial.src[0];
	combine_on_host(&trial, result);
	run_in_world(kernel_of(&trial), &program, blocks);
	compare(&trial, result, after + trial.src[0]);
	memcpy(expected, before, 1 << 16);
	memcpy(expected + trial.src[0], after + trial.src[0], bytes);
	assert_memory_equal(expected, after, 1 << 16);
	for (int r = 1; r < RANKS; r++)
		assert_laid(r, before + trial.src[0], bytes);
	assert_exchanged(&program);
}

TEST(exchanged_numbers_combine_like_on_the_host)
{
	static const size_t some[] = { 1, 2, 9, 33, 130 };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		fill_edgy(dtype, before, (1 << 16) / formats[dtype].bytes);
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			for (unsigned i = 0; i < 5 && is_defined(op, dtype); i++)
				exchange_and_compare(op, dtype, some[i], i % 2, 1 + i % 3);
	}
}

/* Each rank has something else for each: blocks of rank 0's memory, where those of the others go. */
TEST(exchanged_bytes_are_copied)
{
	static const size_t some[] = { 1, 7, 8, 9, 100, 4000 };

	for (unsigned i = 0; i < 18; i++) {
		const size_t bytes = some[i % 6], at = EXCHANGED_AT + i % 5;
		struct tt_cuda_program program = exchange_of(bytes);
		struct tt_cuda_part *part = &program.part[0];

		fill_edgy(TUTTI_UINT64, before, (1 << 16) / 8);
		memcpy(expected, before, 1 << 16);
		for (unsigned r = 0; r < RANKS; r++) {
			part->src[r] = part->dst[r] = gpu_arena + at + r * bytes;
			part->bytes[r] = part->in[r] = (uint32_t)bytes;
			if (r == 0)
				continue;
			lay_lines((int)r, before + 30000 + r * bytes, bytes);
			memcpy(expected + at + r * bytes, before + 30000 + r * bytes, bytes);
		}
		run_in_world(module->copy, &program, 1 + i % 4);
		assert_memory_equal(expected, after, 1 << 16);
		for (unsigned r = 1; r < RANKS; r++)
			assert_laid((int)r, before + at + r * bytes, bytes);
		assert_exchanged(&program);
	}
}

/* Also where nothing comes: one has called something with other bytes. */
TEST(an_exchange_of_other_calls_ends)
{
	struct tt_cuda_program program = exchange_of(100);
	struct tt_cuda_part *part = &program.part[0];

	part->dst[1] = gpu_arena;
	part->in[1] = 100;
	world.control[0].called[(NUMBER + 1) & 1][1].high ^= 1;
	run_in_world(module->copy, &program, 2);
	assert_int_equal(report->mismatch, 1 + 1);
	assert_int_equal(world.control[0].number, NUMBER);
	assert_int_equal(world.control[0].dead, 1);
}
