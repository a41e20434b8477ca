/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank calls something else than the others: every rank is told, soon, by a sentence that names
 * both calls.
 *
 *   test_mismatch shm|tcp|mixed */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define MAX_RANKS 4
#define SOON_S	  2.0

/* What a rank saw. */
struct outcome {
	tutti_result_t result;
	double seconds;
	char text[512];
};

/* Shared by all ranks. */
struct stage {
	atomic_int joined;
	struct outcome outcomes[MAX_RANKS];
};

struct scene {
	tutti_comm_t comm;
	int rank, size;
	size_t count; /* of float32 */
	float *send, *recv;
};

struct mismatch {
	const char *name;
	/* What this rank does; `odd` is the one that differs. */
	tutti_result_t (*call)(struct scene *s, bool odd);
	/* What the sentence says of the odd rank, and of the others; "%zu" stands for the count. */
	const char *odd_words, *other_words;
	int smallest;		 /* number of ranks */
	const char *odd_setting; /* NAME=VALUE in the environment of the odd rank */
};

/* ---- the calls */

static tutti_result_t sum(struct scene *s, size_t count, tutti_dtype_t dtype, tutti_op_t op)
{
	return tutti_all_reduce(s->comm, s->send, s->recv, count, dtype, op, NULL);
}

static tutti_result_t other_collective(struct scene *s, bool odd)
{
	if (odd)
		return tutti_all_gather(s->comm, s->send, s->recv, s->count, TUTTI_FLOAT32, NULL);
	return sum(s, s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t barrier_or_sum(struct scene *s, bool odd)
{
	return odd ? tutti_barrier(s->comm, NULL) : sum(s, s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t other_count(struct scene *s, bool odd)
{
	return sum(s, odd ? s->count + 1 : s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t empty_or_not(struct scene *s, bool odd)
{
	return sum(s, odd ? 0 : s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t other_size(struct scene *s, bool odd)
{
	return sum(s, odd ? 1u << 18 : 2, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t other_dtype(struct scene *s, bool odd)
{
	return sum(s, s->count, odd ? TUTTI_INT32 : TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t other_op(struct scene *s, bool odd)
{
	return sum(s, s->count, TUTTI_FLOAT32, odd ? TUTTI_MAX : TUTTI_SUM);
}

static tutti_result_t other_root(struct scene *s, bool odd)
{
	return tutti_broadcast(s->comm, s->send, s->recv, s->count, TUTTI_FLOAT32, odd ? 1 : 0,
			       NULL);
}

static tutti_result_t other_reduce_root(struct scene *s, bool odd)
{
	return tutti_reduce(s->comm, s->send, s->recv, s->count, TUTTI_FLOAT32, TUTTI_SUM,
			    odd ? 1 : 0, NULL);
}

static tutti_result_t left_out(struct scene *s, bool odd)
{
	const tutti_result_t result =
		odd ? TUTTI_OK
		    : tutti_broadcast(s->comm, s->send, s->recv, s->count, TUTTI_FLOAT32, 0, NULL);

	return result ? result : sum(s, s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

static tutti_result_t other_counts(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count / (size_t)s->size + (odd && rank == 0);
	return tutti_all_gather_v(s->comm, s->send, s->recv, counts, NULL, TUTTI_FLOAT32, NULL);
}

static tutti_result_t other_scatter_counts(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count + (odd && rank == 1);
	return tutti_reduce_scatter_v(s->comm, s->send, s->recv, counts, TUTTI_FLOAT32, TUTTI_SUM,
				      NULL);
}

static tutti_result_t other_fused(struct scene *s, bool odd)
{
	tutti_result_t result = tutti_group_begin(s->comm);

	if (!result)
		result = sum(s, odd ? 3 : 2, TUTTI_FLOAT32, TUTTI_SUM);
	if (!result)
		result = sum(s, odd ? 2 : 3, TUTTI_FLOAT32, TUTTI_SUM);
	return result ? result : tutti_group_end(s->comm, NULL);
}

static tutti_result_t same_call(struct scene *s, bool odd)
{
	return sum(s, s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

/* The odd rank receives from a neighbour that sends something else; the rest meets them in a
 * barrier. */
static tutti_result_t message(struct scene *s, bool odd, size_t odd_count, tutti_dtype_t odd_dtype)
{
	const int receiver = s->size - 1, sender = 0;

	if (odd)
		return tutti_recv(s->comm, s->recv, odd_count, odd_dtype, sender, NULL);
	if (s->rank == sender)
		return tutti_send(s->comm, s->send, s->count, TUTTI_FLOAT32, receiver, NULL);
	return TUTTI_OK;
}

static tutti_result_t message_count(struct scene *s, bool odd)
{
	return message(s, odd, s->count + 1, TUTTI_FLOAT32);
}

static tutti_result_t message_dtype(struct scene *s, bool odd)
{
	return message(s, odd, s->count, TUTTI_INT32);
}

/* ---- a rank's part */

struct play {
	const struct mismatch *mismatch;
	size_t count;
	int ranks, odd;
	struct stage *stage;
};

static void report(struct play *play, int rank, tutti_comm_t comm, tutti_result_t result,
		   double since)
{
	struct outcome *outcome = &play->stage->outcomes[rank];

	outcome->result = result;
	outcome->seconds = seconds_now() - since;
	snprintf(outcome->text, sizeof(outcome->text), "%s", tutti_last_error(comm));
}

static int play_rank(int rank, void *argument)
{
	struct play *play = argument;
	const struct mismatch *mismatch = play->mismatch;
	tutti_comm_t comm = NULL;
	struct scene s = { .rank = rank, .size = play->ranks, .count = play->count };

	if (mismatch->odd_setting && rank == play->odd)
		putenv((char *)mismatch->odd_setting);
	SUCCEEDS(tutti_init(NULL, &comm));
	s.comm = comm;
	s.send = calloc((1u << 18) + 8, sizeof(float) * MAX_RANKS);
	s.recv = calloc((1u << 18) + 8, sizeof(float) * MAX_RANKS);
	meet_at(&play->stage->joined,
		play->ranks); /* who is still in tutti_init() would be told there */
	const double start = seconds_now();
	tutti_result_t result = mismatch->call(&s, rank == play->odd);
	if (!result) /* it could end alone: the next cannot */
		result = tutti_barrier(comm, NULL);
	report(play, rank, comm, result, start);
	CLAIM(tutti_barrier(comm, NULL) == result, "the next call does not return the same error");
	free(s.send);
	free(s.recv);
	tutti_comm_destroy(comm);
	return 0;
}

/* ---- the parent's part */

static int ranks_named(const char *text)
{
	uint32_t seen = 0;

	for (const char *at = text; (at = strstr(at, "rank ")); at += 5)
		if (at[5] >= '0' && at[5] <= '9')
			seen |= 1u << (at[5] - '0');
	return __builtin_popcount(seen);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int says(const char *text, const char *words, size_t count)
{
	char expected[128];

	snprintf(expected, sizeof(expected), words, count, count);
	return strstr(text, expected) != NULL;
}

static bool names(const char *text, int rank)
{
	char expected[16];

	snprintf(expected, sizeof(expected), "rank %d ", rank);
	return strstr(text, expected) != NULL;
}

/* Several pairs may find out at the same time, each of itself: all settle on one. */
static int judge(const struct play *play)
{
	const struct mismatch *m = play->mismatch;
	int bad = 0;

	for (int rank = 0; rank < play->ranks; rank++) {
		const struct outcome *outcome = &play->stage->outcomes[rank];
		const bool wrong =
			outcome->result != TUTTI_ERR_MISMATCH || outcome->seconds > SOON_S ||
			ranks_named(outcome->text) != 2 || !names(outcome->text, play->odd) ||
			!says(outcome->text, m->odd_words, play->count) ||
			!says(outcome->text, m->other_words, play->count) ||
			strcmp(outcome->text, play->stage->outcomes[0].text) != 0;

		bad += wrong;
	}
	for (int rank = 0; bad && rank < play->ranks; rank++)
		fprintf(stderr,
			"  %s, %zu elements, rank %d of %d, odd %d: result %d after %.3f s: %s\n",
			m->name, play->count, rank, play->ranks, play->odd,
			play->stage->outcomes[rank].result, play->stage->outcomes[rank].seconds,
			play->stage->outcomes[rank].text);
	return bad;
}

static int run_play(const struct mismatch *mismatch, int ranks, size_t count, struct stage *stage)
{
	static int turn;
	const bool message = strncmp(mismatch->name, "message", 7) == 0;
	struct play play = { mismatch, count, ranks, message ? ranks - 1 : turn++ % ranks, stage };
	/* who has a setting of its own differs from all others, whatever the tuner would choose */
	const char *const env[] = { "TUTTI_TIMEOUT=3", mismatch->odd_setting ? "TUTTI_ALGORITHM=flat" : NULL,
				    NULL };
	const struct job job = {
		.ranks = ranks, .env = env, .whole = play_rank, .argument = &play, .limit_s = 20
	};

	memset(stage, 0, sizeof(*stage));
	const int failed = run_job(&job);
	return failed + judge(&play);
}

static void every_rank_is_told_of(const struct mismatch *mismatch)
{
	struct stage *stage = shared_memory(sizeof(*stage));
	int bad = 0;

	for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
		for (size_t count = 2; count <= 1u << 18; count <<= 17)
			bad += run_play(mismatch, ranks, count, stage);
	assert_int_equal(bad, 0);
}

#define SUM "all_reduce(float32 × %zu, sum)"
#define TEST(test, call, odd, other, ...)                                                          \
	static void test(void **state)                                                             \
	{                                                                                          \
		static const struct mismatch it = { #call, call, odd, other, __VA_ARGS__ };        \
		every_rank_is_told_of(&it);                                                        \
	}

TEST(another_collective_is_told_to_all, other_collective, "all_gather(float32 × %zu)", SUM, 2)
TEST(a_barrier_for_a_sum_is_told_to_all, barrier_or_sum, "barrier()", SUM, 2)
TEST(another_count_is_told_to_all, other_count, "all_reduce(float32 × ", SUM, 2)
TEST(an_empty_call_is_told_to_all, empty_or_not, "all_reduce(float32 × 0, sum)", SUM, 2)
TEST(a_large_call_among_small_is_told_to_all, other_size, "all_reduce(float32 × 262144, sum)",
     "all_reduce(float32 × 2, sum)", 2)
TEST(another_type_is_told_to_all, other_dtype, "all_reduce(int32 × %zu, sum)", SUM, 2)
TEST(another_operation_is_told_to_all, other_op, "all_reduce(float32 × %zu, max)", SUM, 2)
TEST(another_root_is_told_to_all, other_root, "broadcast(float32 × %zu, root 1)",
     "broadcast(float32 × %zu, root 0)", 2)
TEST(another_root_of_reduce_is_told_to_all, other_reduce_root, "reduce(float32 × %zu, sum, root 1)",
     "reduce(float32 × %zu, sum, root 0)", 2)
TEST(an_operation_left_out_is_told_to_all, left_out, "called " SUM, "called broadcast(float32 × %zu, root 0)", 2)
TEST(other_counts_are_told_to_all, other_counts, "all_gather_v(", "all_gather_v(", 2)
TEST(other_counts_of_a_reduction_are_told_to_all, other_scatter_counts, "reduce_scatter_v(",
     "reduce_scatter_v(", 2)
TEST(other_parts_of_a_fused_call_are_told_to_all, other_fused, "all_reduce(float32 × 5, sum)",
     "counts or groups differ", 2)
TEST(another_forced_algorithm_is_told_to_all, same_call, "TUTTI_ALGORITHM", SUM, 2,
     "TUTTI_ALGORITHM=ring")
TEST(another_count_received_is_told_to_all, message_count, "(float32 × ",
     "send/recv(float32 × %zu)", 2)
TEST(another_type_received_is_told_to_all, message_dtype, "(int32 × %zu)", "(float32 × %zu)", 2)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_collective_is_told_to_all),
		cmocka_unit_test(a_barrier_for_a_sum_is_told_to_all),
		cmocka_unit_test(another_count_is_told_to_all),
		cmocka_unit_test(an_empty_call_is_told_to_all),
		cmocka_unit_test(a_large_call_among_small_is_told_to_all),
		cmocka_unit_test(another_type_is_told_to_all),
		cmocka_unit_test(another_operation_is_told_to_all),
		cmocka_unit_test(another_root_is_told_to_all),
		cmocka_unit_test(another_root_of_reduce_is_told_to_all),
		cmocka_unit_test(an_operation_left_out_is_told_to_all),
		cmocka_unit_test(other_counts_are_told_to_all),
		cmocka_unit_test(other_counts_of_a_reduction_are_told_to_all),
		cmocka_unit_test(other_parts_of_a_fused_call_are_told_to_all),
		cmocka_unit_test(another_forced_algorithm_is_told_to_all),
		cmocka_unit_test(another_count_received_is_told_to_all),
		cmocka_unit_test(another_type_received_is_told_to_all),
	};

	if (choose_transport(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
