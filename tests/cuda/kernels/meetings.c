/* SPDX-License-Identifier: BSD-3-Clause */
/* How a kernel ends that waits for others, or is to do nothing. That ranks meet, exchange and send, and are
 * told of calls that differ, is shown by test_streams and claims of streams. */
#include "world.h"

#include "clock.h"

#define NUMBER 7 /* of the operation before */
#define MET    40
#define SENT   5 /* chunks of a channel before */

/* In the world as it is written down, which is read again afterwards. */
static void run_in_world(struct tt_cuda_program *program, unsigned blocks)
{
	move(gpu_world, &world, sizeof(world));
	move(gpu_arena, before, 1024);
	launch(module.copy, blocks, 64, program);
	move(&world, gpu_world, sizeof(world));
	move(after, gpu_arena, 1024);
	assert_success(tt_cu.stream_synchronize(stream));
}

static struct tt_cuda_part copy_of_512(void)
{
	for (int i = 0; i < 1024; i++)
		before[i] = (char)(i < 512 ? i : 0x5a);
	return (struct tt_cuda_part){ .kind = TT_CUDA_COPY,
				      .nsrc = 1,
				      .piece = { { gpu_arena, gpu_arena + 512, { 512 } } } };
}

static bool has_moved_512(void)
{
	assert_true(memcmp(after + 512, before, 512) == 0 || memcmp(after, before, 1024) == 0);
	return memcmp(after + 512, before, 512) == 0;
}

/* The others have arrived as often as this rank, and called operation NUMBER + 1 with signature
 * `theirs`. */
static void let_others_come(uint64_t theirs)
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
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 2 };

	program.sync.signature = UINT64_C(0x1122334455667788);
	program.sync.calls = program.sync.ends = 1;
	program.part[0] = (struct tt_cuda_part){ .awaits = 1, .introduces = 1, .arrives = 1 };
	program.part[1] = copy_of_512();
	program.part[1].awaits = program.part[1].checks = program.part[1].arrives = 1;
	return program;
}

/* Until the kernel has told the host that it waits for rank `r`. Blocks that waited for each other may
 * take that back, and the one that still waits says so again. */
static void await_missing(int r)
{
	while (__atomic_load_n(&report->missing[r], __ATOMIC_ACQUIRE) == 0 ||
	       __atomic_load_n(&report->waiting, __ATOMIC_ACQUIRE) == 0)
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
		launch(module.copy, blocks, 64, &program);
		await_missing(2);
		assert_false(is_missing(1));
		__atomic_store_n(&report->abort, 1, __ATOMIC_RELEASE);
		move(&world, gpu_world, sizeof(world));
		move(after, gpu_arena, 1024);
		assert_success(tt_cu.stream_synchronize(stream));
		assert_false(has_moved_512());
		assert_int_equal(world.control[0].dead, 1);
		/* a block that begins only now keeps the others from arriving */
		const uint32_t arrived = world.control[1].arrived[0];
		assert_true(arrived == MET + 1 || (arrived == 0 && blocks > 1));
		run_in_world(&program, blocks); /* and what comes later is nothing */
		assert_int_equal(world.control[1].arrived[0], arrived);
	}
}

/* One may be at what the program frees when its stream goes on. */
TEST(a_last_wait_gives_others_time)
{
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 1 };
	const uint64_t begun = tt_now();

	let_others_come(program.sync.signature);
	world.control[0].arrived[2] = MET - 1;
	program.part[0].awaits = 2;
	report->abort = 1;
	run_in_world(&program, 3);
	assert_true(tt_now() - begun >= TT_CUDA_GRACE_NS / 10 * 9);
}

TEST(kernels_that_look_do_nothing_after_the_end)
{
	for (uint32_t looks = 0; looks < 2; looks++) {
		struct tt_cuda_program program = two_phases();

		let_others_come(program.sync.signature);
		report->abort = 1;
		program.sync.looks = looks;
		run_in_world(&program, 1);
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
	run_in_world(&program, 3);
	assert_true(has_moved_512());
	assert_int_equal(world.control[0].looked | world.control[0].dead, 0);
	let_others_come(program.sync.signature);
	report->abort = 1;
	run_in_world(&program, 3);
	assert_false(has_moved_512());
	assert_int_equal(world.control[0].dead, 1);
}

/* The wait before memory is freed: what was sent has been taken. */
TEST(what_was_sent_is_awaited)
{
	for (uint32_t taken = 0; taken < 2; taken++) {
		struct tt_cuda_program program = { .sync = this_rank(), .phases = 2 };

		new_world();
		world.control[0].sent[1] = SENT;
		for (uint32_t k = 0; k < TT_CUDA_SLOTS; k++)
			world.control[0].freed[1][(SENT - 1 - k) % TT_CUDA_SLOTS] = SENT - k;
		world.control[0].freed[1][(SENT - 1) % TT_CUDA_SLOTS] -= !taken;
		program.part[0].kind = TT_CUDA_DRAIN;
		program.part[1] = copy_of_512();
		report->abort = !taken;
		run_in_world(&program, 2);
		assert_true(has_moved_512() == taken);
	}
}
