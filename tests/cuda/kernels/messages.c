/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages go by channels. */
#include "world.h"

#define SENT  5 /* chunks of each channel before */
#define TAKEN 9

/* The channels to rank 1 and from rank 2 have been used, and are empty. */
static struct tt_cuda_post post_of(size_t sent, size_t received)
{
	struct tt_cuda_post post = { .sync = this_rank(), .letters = 2 };

	new_world();
	world.control[0].sent[1] = SENT;
	world.control[0].taken[2] = TAKEN;
	for (uint32_t k = 0; k < SLOTS; k++)
		world.control[0].freed[1][(SENT - 1 - k) % SLOTS] = SENT - k;
	post.sync.ends = 1;
	memset(post.header[0], 'h', TT_CUDA_HEADER);
	post.letter[0] = (struct tt_cuda_letter){ .buffer = gpu_arena,
						  .bytes = sent,
						  .signature = 70,
						  .count = 3,
						  .peer = 1,
						  .sending = 1 };
	post.letter[1] = (struct tt_cuda_letter){ .buffer = gpu_arena + 8192,
						  .bytes = received,
						  .signature = 90,
						  .count = 4,
						  .peer = 2 };
	fill_edgy(TUTTI_UINT64, before, (1 << 16) / 8);
	return post;
}

/* Rank 2 has sent so much of what lies at 20000. */
static void lay_chunks(size_t bytes, uint64_t signature)
{
	for (uint32_t c = 0; c == 0 || c * SLOT_BYTES < bytes; c++) {
		const uint32_t number = TAKEN + c + 1, slot = (number - 1) % SLOTS;
		const size_t left = bytes - c * SLOT_BYTES;

		world.control[0].full[2][slot] =
			(struct tt_cuda_line){ (uint32_t)signature + c, number, 0, number };
		memcpy(world.rooms[2][0][slot], before + 20000 + c * SLOT_BYTES,
		       left < SLOT_BYTES ? left : SLOT_BYTES);
	}
}

TEST(messages_go_in_chunks)
{
	static const size_t some[] = { 0, 1, 127, 128, 129, 300, 512 };

	for (unsigned i = 0; i < 14; i++) {
		const size_t bytes = some[i % 7], chunks = bytes ? (bytes + 127) / 128 : 1;
		struct tt_cuda_post post = post_of(bytes, bytes);

		lay_chunks(bytes, 90);
		memcpy(expected, before, 1 << 16);
		memcpy(expected + 8192, before + 20000, bytes);
		run_in_world(module->messages, &post, 1 + i % 5);
		assert_memory_equal(expected, after, 1 << 16);
		assert_int_equal(world.control[0].sent[1], SENT + chunks);
		assert_int_equal(world.control[0].taken[2], TAKEN + chunks);
		assert_int_equal(world.control[0].ended, 1);
		assert_int_equal(report->ended, 1);
		for (uint32_t c = 0; c < chunks; c++) {
			const uint32_t to = (SENT + c) % SLOTS, from = (TAKEN + c) % SLOTS;
			const struct tt_cuda_line *full = &world.control[1].full[0][to];
			const size_t left = bytes - c * SLOT_BYTES;

			assert_true(full->number == SENT + c + 1 && full->again == SENT + c + 1 &&
				    full->low == 70 + c);
			assert_int_equal(world.control[2].freed[0][from], TAKEN + c + 1);
			assert_memory_equal(world.rooms[0][1][to], before + c * SLOT_BYTES,
					    left < SLOT_BYTES ? left : SLOT_BYTES);
			assert_int_equal(world.control[0].done[1][1][to] |
						 world.control[0].done[0][2][from],
					 0);
		}
		const struct tt_cuda_line *header = world.control[0].sent_header[1][SENT % SLOTS];
		assert_true(header[0].number == SENT + 1 && header[0].low == 0x68686868 &&
			    header[TT_CUDA_HEADER_COUNT / 8].low == 3);
	}
}

/* Until the peer has taken chunks, there is no room; the host learns for whom is waited. */
TEST(long_messages_wait_for_room)
{
	struct tt_cuda_post post = post_of(SLOT_BYTES * (SLOTS + 1), 8);

	lay_chunks(8, 90);
	move(gpu_world, &world, sizeof(world));
	move(gpu_arena, before, 1 << 16);
	launch(module->messages, 1, 64, &post); /* others might begin too late */
	await_missing(1);
	__atomic_store_n(&report->abort, 1, __ATOMIC_RELEASE);
	move(&world, gpu_world, sizeof(world));
	assert_success(cu->stream_synchronize(stream));
	assert_int_equal(report->missing[2], 0);
	assert_int_equal(world.control[2].freed[0][TAKEN % SLOTS], TAKEN + 1);
	assert_int_equal(world.control[1].full[0][(SENT + SLOTS - 1) % SLOTS].number, SENT + SLOTS);
	assert_int_equal(world.control[0].sent[1], SENT);
	assert_int_equal(world.control[0].dead, 1);
}

TEST(a_message_of_another_kind_is_not_taken)
{
	struct tt_cuda_post post = post_of(8, 8);

	lay_chunks(8, 91);
	for (int i = 0; i < TT_CUDA_HEADER / 8; i++)
		world.control[2].sent_header[0][TAKEN % SLOTS][i] =
			(struct tt_cuda_line){ 0x74747474, TAKEN + 1, 0x74747474, TAKEN + 1 };
	memcpy(expected, before, 1 << 16);
	run_in_world(module->messages, &post, 2);
	assert_memory_equal(expected, after, 1 << 16);
	assert_int_equal(report->mismatch, 1 + 2);
	assert_true(is_filled(report->theirs, 't') && report->mine[0] == 'h' &&
		    report->mine[TT_CUDA_HEADER_COUNT] == 4);
	assert_int_equal(world.control[0].dead, 1);
	assert_int_equal(world.control[2].freed[0][TAKEN % SLOTS], 0);
}

/* The wait before memory is freed. */
TEST(what_was_sent_is_awaited)
{
	struct tt_cuda_program program = { .sync = this_rank(), .phases = 2 };

	post_of(8, 8);
	program.part[0].kind = TT_CUDA_DRAIN;
	program.part[1] = copy_of_512();
	fill_1024();
	run_in_world(module->copy, &program, 2);
	assert_true(has_moved_512());
	world.control[0].freed[1][(SENT - 1) % SLOTS]--;
	report->abort = 1;
	run_in_world(module->copy, &program, 2);
	assert_false(has_moved_512());
}
