/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks meet inside kernels, and between them. */
#include "world.h"

void let_others_come(uint64_t theirs)
{
	struct tt_cuda_control *own = &world.control[0];

	new_world();
	own->number = NUMBER;
	own->met = own->arrived[0] = MET;
	for (int r = 1; r < RANKS; r++) {
		own->arrived[r] = MET + 1;
		own->called[(NUMBER + 1) & 1][r] =
			(struct tt_cuda_line){ (uint32_t)theirs, NUMBER + 1,
					       (uint32_t)(theirs >> 32), NUMBER + 1 };
	}
}

/* Two phases, between which ranks meet, and behind which this one arrives again. */
static struct tt_cuda_program two_phases(void)
{
	struct tt_cuda_program program = { .sync = header_of(this_rank(), 'm'), .phases = 2 };

	program.sync.calls = program.sync.ends = 1;
	program.part[0] = (struct tt_cuda_part){ .awaits = 1, .introduces = 1, .arrives = 1 };
	program.part[1] = copy_of_512();
	program.part[1].awaits = program.part[1].checks = program.part[1].arrives = 1;
	fill_1024();
	return program;
}

void assert_called(const struct tt_cuda_line *line, uint64_t signature)
{
	assert_int_equal(line->number, NUMBER + 1);
	assert_int_equal(line->again, NUMBER + 1);
	assert_true(line->low == (uint32_t)signature && line->high == signature >> 32);
}

TEST(ranks_meet_between_phases)
{
	for (unsigned blocks = 1; blocks <= 5; blocks += 2) {
		struct tt_cuda_program program = two_phases();

		let_others_come(program.sync.signature);
		world.control[0].ended = 41;
		run_in_world(module->copy, &program, blocks);
		assert_true(has_moved_512());
		assert_int_equal(world.control[0].met, MET + 2);
		assert_int_equal(world.control[0].number, NUMBER + 1);
		assert_int_equal(world.control[0].ended, 42);
		assert_int_equal(report->ended, 42);
		assert_int_equal(report->waiting, 0);
		assert_int_equal(world.control[0].blocks | world.control[0].dead, 0);
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(world.control[r].arrived[0], MET + 2);
			assert_called(&world.control[r].called[(NUMBER + 1) & 1][0],
				      program.sync.signature);
		}
		for (int i = 0; i < TT_CUDA_HEADER / 8; i++)
			assert_int_equal(world.control[0].header[i].high, 0x6d6d6d6d);
	}
}

void await_missing(int r)
{
	while (__atomic_load_n(&report->missing[r], __ATOMIC_ACQUIRE) == 0 ||
	       (__atomic_load_n(&report->waiting, __ATOMIC_ACQUIRE) & 0xff) != TT_CUDA_AWAITS_NAMED)
		;
}

static bool is_missing(int r)
{
	return __atomic_load_n(&report->missing[r], __ATOMIC_RELAXED);
}

/* One that does not come is told to the host, which ends the wait. */
TEST(a_wait_ends_when_the_host_says_so)
{
	for (unsigned blocks = 1; blocks <= 3; blocks += 2) {
		struct tt_cuda_program program = two_phases();

		let_others_come(program.sync.signature);
		world.control[0].arrived[2] = MET;
		move(gpu_world, &world, sizeof(world));
		move(gpu_arena, before, 1024);
		launch(module->copy, blocks, 64, &program);
		await_missing(2);
		assert_false(is_missing(1));
		__atomic_store_n(&report->abort, 1, __ATOMIC_RELEASE);
		move(&world, gpu_world, sizeof(world));
		move(after, gpu_arena, 1024);
		assert_success(cu->stream_synchronize(stream));
		assert_false(has_moved_512());
		assert_int_equal(world.control[0].dead, 1);
		/* a block that begins only now keeps the others from arriving */
		const uint32_t arrived = world.control[1].arrived[0];
		assert_true(arrived == MET + 1 || (arrived == 0 && blocks > 1));
		run_in_world(module->copy, &program, blocks); /* and what comes later is nothing */
		assert_int_equal(world.control[1].arrived[0], arrived);
	}
}

/* What peers called is compared when they have come, and while one waits for them. */
TEST(those_who_called_something_else_do_not_meet)
{
	for (int comes = 0; comes < 2; comes++) {
		struct tt_cuda_program program = two_phases();
		struct tt_cuda_line *called;

		let_others_come(program.sync.signature);
		called = &world.control[0].called[(NUMBER + 1) & 1][2];
		called->low ^= 1;
		world.control[0].arrived[2] -= !comes;
		for (int i = 0; i < TT_CUDA_HEADER / 8; i++)
			world.control[2].header[i] =
				(struct tt_cuda_line){ 0x74747474, NUMBER + 1, 0x74747474,
						       NUMBER + 1 };
		run_in_world(module->copy, &program, 3);
		assert_false(has_moved_512());
		assert_int_equal(report->mismatch, 1 + 2);
		assert_true(is_filled(report->mine, 'm') && is_filled(report->theirs, 't'));
		assert_int_equal(world.control[0].dead, 1);
		assert_int_not_equal(world.control[1].arrived[0], MET + 2);
	}
}

/* Where streams wait between kernels, the first one says what this rank has called, and the next one
 * compares. */
TEST(ranks_compare_between_kernels)
{
	struct tt_cuda_program program = two_phases();

	let_others_come(program.sync.signature);
	program.phases = 1;
	program.sync.ends = 0;
	program.part[0] = copy_of_512();
	program.part[0].introduces = 1;
	run_in_world(module->copy, &program, 3);
	assert_true(has_moved_512());
	assert_called(&world.control[1].called[(NUMBER + 1) & 1][0], program.sync.signature);
	assert_int_equal(world.control[0].number, NUMBER + 1);
	assert_int_equal(world.control[0].ended | report->ended, 0);
	program.sync.calls = 0;
	program.sync.check = program.sync.ends = 1;
	program.part[0].introduces = 0;
	program.part[0].checks = 1;
	run_in_world(module->copy, &program, 3);
	assert_true(has_moved_512());
	assert_int_equal(world.control[0].number, NUMBER + 1);
	assert_int_equal(report->ended, 1);
	assert_int_equal(world.control[0].met, MET);
	world.control[0].called[(NUMBER + 1) & 1][1].low ^= 1;
	run_in_world(module->copy, &program, 3);
	assert_false(has_moved_512());
	assert_int_equal(report->mismatch, 1 + 1);
}

TEST(kernels_that_look_do_nothing_after_the_end)
{
	for (uint32_t looks = 0; looks < 2; looks++) {
		struct tt_cuda_program program = two_phases();

		let_others_come(program.sync.signature);
		report->abort = 1;
		program.sync.looks = looks;
		run_in_world(module->copy, &program, 1);
		assert_true(has_moved_512() == !looks);
		assert_int_equal(world.control[0].dead, looks);
	}
}

/* One block looks for all, and what it has found is nobody's after the kernel. */
TEST(one_block_looks_for_all)
{
	struct tt_cuda_program program = two_phases();

	program.sync.looks = 1;
	let_others_come(program.sync.signature);
	run_in_world(module->copy, &program, 3);
	assert_true(has_moved_512());
	assert_int_equal(world.control[0].looked | world.control[0].dead, 0);
	let_others_come(program.sync.signature);
	report->abort = 1;
	run_in_world(module->copy, &program, 3);
	assert_false(has_moved_512());
	assert_int_equal(world.control[0].dead, 1);
}
