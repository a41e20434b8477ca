/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank calls something else than the others: every rank is told, soon, by an error message that
 * names both calls.
 *
 *   test_mismatch shm|tcp|mixed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "harness.h"

#define MAX_RANKS 4
#define SOON_S	  bound_s(2.0)

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
	/* What the error message says, several phrases with | between: see expand(). */
	const char *odd_words, *other_words;
	int smallest;		 /* number of ranks */
	const char *odd_setting; /* NAME=VALUE in the environment of the odd rank */
	bool last;		 /* the last rank is the odd one */
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

static tutti_result_t gather_all(struct scene *s, const size_t *counts)
{
	return tutti_all_gather_v(s->comm, s->send, s->recv, counts, NULL, TUTTI_FLOAT32, NULL);
}

static tutti_result_t other_counts(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count + (odd && rank == 0);
	return gather_all(s, counts);
}

static tutti_result_t moved_counts(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count + (odd && rank == 0) - (odd && rank == 1);
	return gather_all(s, counts);
}

static tutti_result_t bytes_for_elements(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = ((size_t)rank + 1) * (odd ? sizeof(float) : 1);
	return gather_all(s, counts);
}

static tutti_result_t unlike_counts(struct scene *s, bool odd)
{
	static const size_t odd_counts[MAX_RANKS] = { 50, 10, 90, 20 },
			    counts[MAX_RANKS] = { 3, 1, 4, 1 };

	return gather_all(s, odd ? odd_counts : counts);
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

static tutti_result_t sums_in_group(struct scene *s, int n, int longer)
{
	tutti_result_t result = tutti_group_begin(s->comm);

	for (int i = 0; i < n && !result; i++)
		result = sum(s, i == longer ? 3 : 2, TUTTI_FLOAT32, TUTTI_SUM);
	return result ? result : tutti_group_end(s->comm, NULL);
}

static tutti_result_t other_in_long_group(struct scene *s, bool odd)
{
	return sums_in_group(s, 12, odd ? 9 : -1);
}

static tutti_result_t one_more_in_group(struct scene *s, bool odd)
{
	return sums_in_group(s, odd ? 3 : 2, -1);
}

/* ---- where each rank knows its own counts alone */

static tutti_result_t other_count_to_root(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count;
	return tutti_gather_v(s->comm, s->send, s->count + odd, s->recv, counts, NULL,
			      TUTTI_FLOAT32, 0, NULL);
}

static tutti_result_t other_count_from_root(struct scene *s, bool odd)
{
	size_t counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++)
		counts[rank] = s->count;
	return tutti_scatter_v(s->comm, s->send, counts, NULL, s->recv, s->count + odd,
			       TUTTI_FLOAT32, 0, NULL);
}

static tutti_result_t other_count_to_one(struct scene *s, bool odd)
{
	size_t send_counts[MAX_RANKS], recv_counts[MAX_RANKS];

	for (int rank = 0; rank < s->size; rank++) {
		send_counts[rank] = s->count + (odd && rank == 0);
		recv_counts[rank] = s->count;
	}
	return tutti_all_to_all_v(s->comm, s->send, send_counts, NULL, s->recv, recv_counts, NULL,
				  TUTTI_FLOAT32, NULL);
}

static tutti_result_t gather_or_broadcast(struct scene *s, bool odd)
{
	return odd ? other_root(s, false) : other_count_to_root(s, false);
}

/* ---- functions that are made of several operations */

static tutti_result_t split_or_sum(struct scene *s, bool odd)
{
	tutti_comm_t part = NULL;

	return odd ? tutti_comm_split(s->comm, 0, 0, &part)
		   : sum(s, s->count, TUTTI_FLOAT32, TUTTI_SUM);
}

/* The first operation of both gathers a few bytes of each rank. */
static tutti_result_t split_or_its_like(struct scene *s, bool odd)
{
	tutti_comm_t part = NULL;

	return odd ? tutti_comm_split(s->comm, 0, 0, &part)
		   : tutti_all_gather(s->comm, s->send, s->recv, 12, TUTTI_UINT8, NULL);
}

static tutti_result_t grow_or_split(struct scene *s, bool odd)
{
	tutti_comm_t other = NULL;

	return odd ? tutti_comm_grow(s->comm, NULL, 1, &other)
		   : tutti_comm_split(s->comm, 0, 0, &other);
}

static tutti_result_t duplicate_or_split(struct scene *s, bool odd)
{
	tutti_comm_t other = NULL;

	return odd ? tutti_comm_dup(s->comm, &other) : tutti_comm_split(s->comm, 0, 0, &other);
}

/* ---- operations of the user */

static void add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	(void)dtype;
	(void)context;
	for (size_t i = 0; i < count; i++)
		((float *)inout)[i] += ((const float *)in)[i];
}

static tutti_result_t commutative_on_one(struct scene *s, bool odd)
{
	tutti_op_t op;
	const tutti_result_t result = tutti_op_create(s->comm, add, odd, NULL, &op);

	return result ? result : sum(s, s->count, TUTTI_FLOAT32, op);
}

static tutti_result_t scaled_on_one(struct scene *s, bool odd)
{
	const float scale = 1;
	tutti_op_t op;
	const tutti_result_t result =
		odd ? tutti_op_create_premul_sum(s->comm, &scale, TUTTI_FLOAT32, &op)
		    : tutti_op_create(s->comm, add, 1, NULL, &op);

	return result ? result : sum(s, s->count, TUTTI_FLOAT32, op);
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
	snprintf(outcome->text, sizeof(outcome->text), "%s", tutti_last_error(NULL));
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

/* One phrase: %zu is the count, %+ one more, %t what all ranks have together, %T one more, %o the
 * odd rank. Gives where it ends. */
static const char *expand(const struct play *play, const char *phrase, char *out, size_t size)
{
	const size_t all = play->count * (size_t)play->ranks;
	size_t used = 0;

	while (*phrase && *phrase != '|') {
		if (strncmp(phrase, "%zu", 3) == 0)
			used += (size_t)snprintf(out + used, size - used, "%zu", play->count);
		else if (strncmp(phrase, "%+", 2) == 0)
			used += (size_t)snprintf(out + used, size - used, "%zu", play->count + 1);
		else if (strncmp(phrase, "%t", 2) == 0 || strncmp(phrase, "%T", 2) == 0)
			used += (size_t)snprintf(out + used, size - used, "%zu",
						 all + (phrase[1] == 'T'));
		else if (strncmp(phrase, "%o", 2) == 0)
			used += (size_t)snprintf(out + used, size - used, "%d", play->odd);
		else
			used += (size_t)snprintf(out + used, size - used, "%c", *phrase);
		phrase += *phrase != '%' ? 1 : phrase[1] == 'z' ? 3 : 2;
	}
	return phrase;
}

static bool says(const struct play *play, const char *text, const char *words)
{
	bool all = true;

	while (*words) {
		char expected[256] = "";

		words = expand(play, words, expected, sizeof(expected));
		words += *words == '|';
		all &= strstr(text, expected) != NULL;
	}
	return all;
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
			!says(play, outcome->text, m->odd_words) ||
			!says(play, outcome->text, m->other_words) ||
			(m->call != empty_or_not && strstr(outcome->text, "float32 × 0")) ||
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
	/* of two that have parts of their own, one alone can be the odd one */
	const bool last = mismatch->last || strncmp(mismatch->name, "message", 7) == 0;
	struct play play = { mismatch, count, ranks, last ? ranks - 1 : turn++ % ranks, stage };
	/* who has a setting of its own differs from all others, whatever the tuner would choose */
	const char *const env[] = { mismatch->odd_setting ? "TUTTI_ALGORITHM=flat" : NULL, NULL };
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

	for (int ranks = mismatch->smallest; ranks <= MAX_RANKS; ranks++) {
		if (ranks != MAX_RANKS)
			bad += run_play(mismatch, ranks, 2, stage);
		if (ranks != MAX_RANKS - 1)
			bad += run_play(mismatch, ranks, 1u << 18, stage);
	}
	assert_int_equal(bad, 0);
}

#define SUM "all_reduce(float32 × %zu, sum)"
#define SCENE(test, call, odd, other, ...)                                                         \
	TEST(test)                                                                                 \
	{                                                                                          \
		static const struct mismatch it = { #call, call, odd, other, __VA_ARGS__ };        \
		every_rank_is_told_of(&it);                                                        \
	}

SCENE(another_collective_is_told_to_all, other_collective, "all_gather(float32 × %zu)", SUM, 2)
SCENE(a_barrier_for_a_sum_is_told_to_all, barrier_or_sum, "barrier()", SUM, 2)
SCENE(another_count_is_told_to_all, other_count, "all_reduce(float32 × ", SUM, 2)
SCENE(an_empty_call_is_told_to_all, empty_or_not, "all_reduce(float32 × 0, sum)", SUM, 2)
SCENE(a_large_call_among_small_is_told_to_all, other_size, "all_reduce(float32 × 262144, sum)",
      "all_reduce(float32 × 2, sum)", 2)
SCENE(another_type_is_told_to_all, other_dtype, "all_reduce(int32 × %zu, sum)", SUM, 2)
SCENE(another_operation_is_told_to_all, other_op, "all_reduce(float32 × %zu, max)", SUM, 2)
SCENE(another_root_is_told_to_all, other_root, "broadcast(float32 × %zu, root 1)",
      "broadcast(float32 × %zu, root 0)", 2)
SCENE(another_root_of_reduce_is_told_to_all, other_reduce_root,
      "reduce(float32 × %zu, sum, root 1)", "reduce(float32 × %zu, sum, root 0)", 2)
SCENE(an_operation_left_out_is_told_to_all, left_out, "called " SUM,
      "called broadcast(float32 × %zu, root 0)", 2)
SCENE(other_counts_are_told_to_all, other_counts,
      "all_gather_v(float32 × %T in all)|counts[0] is|%+ on rank %o",
      "all_gather_v(float32 × %t in all)|%zu on rank", 2)
SCENE(counts_moved_to_another_rank_are_told_to_all, moved_counts,
      "counts[0] is|%+ on rank %o|(1 more differ)", "all_gather_v(float32 × %t in all)|%zu on rank",
      2)
SCENE(bytes_for_elements_are_told_to_all, bytes_for_elements, "counts[0] is|4 on rank %o",
      "1 on rank|more differ)", 2)
SCENE(counts_that_have_nothing_in_common_are_told_to_all, unlike_counts,
      "several of their counts differ", "all_gather_v(float32 × |in all)", 3)
SCENE(other_counts_of_a_reduction_are_told_to_all, other_scatter_counts,
      "reduce_scatter_v(float32 × %T in all, sum)|counts[1] is|%+ on rank %o",
      "reduce_scatter_v(float32 × %t in all, sum)|%zu on rank", 2)
SCENE(another_count_to_a_root_is_told_to_all, other_count_to_root,
      "rank %o called gather_v(float32 × %+, root 0) with send_count %+",
      "rank 0 called gather_v(float32 × %zu, root 0) with counts[%o] %zu", 2, NULL, true)
SCENE(another_count_from_a_root_is_told_to_all, other_count_from_root,
      "rank %o called scatter_v(float32 × %+, root 0) with recv_count %+",
      "rank 0 called scatter_v(float32 × %zu, root 0) with counts[%o] %zu", 2, NULL, true)
SCENE(another_count_to_one_of_all_is_told_to_all, other_count_to_one,
      "rank %o called all_to_all_v(float32 × %T) with send_counts[0] %+",
      "rank 0 called all_to_all_v(float32 × %t) with recv_counts[%o] %zu", 2, NULL, true)
SCENE(own_counts_are_told_beside_another_collective, gather_or_broadcast,
      "called broadcast(float32 × %zu, root 0)", "called gather_v(float32 × %zu, root 0)", 2)
SCENE(other_calls_of_a_group_are_told_to_all, other_fused,
      "called a group of all_reduce(float32 × 3, sum) and all_reduce(float32 × 2, sum)",
      "called a group of all_reduce(float32 × 2, sum) and all_reduce(float32 × 3, sum)", 2)
SCENE(another_call_of_a_long_group_is_told_to_all, other_in_long_group,
      "call 9 of the group is of|3 on rank %o|2 on rank", "all_reduce(float32 × 2, sum) and 8 more",
      2)
SCENE(one_call_more_in_a_group_is_told_to_all, one_more_in_group,
      "all_reduce(float32 × 2, sum), all_reduce(float32 × 2, sum) and all_reduce(float32 × 2, sum)",
      "called a group of all_reduce(float32 × 2, sum) and all_reduce(float32 × 2, sum)", 2)
SCENE(a_split_for_a_sum_is_told_to_all, split_or_sum, "rank %o called tutti_comm_split",
      "called " SUM, 2)
SCENE(a_split_for_what_it_is_made_of_is_told_to_all, split_or_its_like,
      "rank %o called tutti_comm_split", "called all_gather(uint8 × 12)", 2)
SCENE(growing_for_a_split_is_told_to_all, grow_or_split, "rank %o called tutti_comm_grow",
      "called tutti_comm_split", 2)
SCENE(a_duplicate_for_a_split_is_told_to_all, duplicate_or_split, "rank %o called tutti_comm_dup",
      "called tutti_comm_split", 2)
SCENE(an_operation_that_commutes_on_one_is_told_to_all, commutative_on_one,
      "all_reduce(float32 × %zu, user 0 (commutative))",
      "all_reduce(float32 × %zu, user 0 (not commutative))", 2)
SCENE(an_operation_that_scales_on_one_is_told_to_all, scaled_on_one, "user 0 (pre-multiplied sum)",
      "user 0 (commutative)", 2)
SCENE(another_forced_algorithm_is_told_to_all, same_call, "TUTTI_ALGORITHM", SUM, 2,
      "TUTTI_ALGORITHM=ring")
SCENE(another_count_received_is_told_to_all, message_count, "(float32 × ",
      "send/recv(float32 × %zu)", 2)
SCENE(another_type_received_is_told_to_all, message_dtype, "(int32 × %zu)", "(float32 × %zu)", 2)
