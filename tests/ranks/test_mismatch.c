/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank calls something else than the others: every rank is told, soon, by an error message that
 * names both calls.
 *
 *   test_mismatch shm|tcp|mixed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "calls/call.h"
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

/* What a rank calls. */
struct act {
	enum what what;
	size_t count; /* 0: that of the play, and so many more; NOTHING: none */
	size_t more;
	tutti_dtype_t dtype; /* 0: float32 */
	int combine, root;
	size_t counts[MAX_RANKS];	    /* of each rank, where they are not alike … */
	void (*count_each)(struct call *c); /* … or says them */
	const char *element;		    /* what is said of the elements */
	int sums;			    /* a group of so many sums of 2 … */
	int longer; /* … of which the one with this number, from 1, is of 3 */
	tutti_result_t (*call)(struct scene *s); /* what is more than that */
};
#define NOTHING SIZE_MAX

struct mismatch {
	const char *name;
	/* What the error message says, several phrases with | between: see expand(). */
	const char *odd_words, *other_words;
	struct act odd, other;	 /* of the one that differs, and of the rest */
	int smallest;		 /* number of ranks; 0: 2 */
	const char *odd_setting; /* NAME=VALUE in the environment of the odd rank */
	bool last;		 /* the last rank is the odd one */
};

/* ---- the calls */

static void set_counts(struct call *c, int rank, size_t count)
{
	for (int to = 0; to < c->size; to++)
		c->counts[rank][to] = count;
}

static tutti_result_t sum(struct scene *s, size_t count)
{
	return tutti_all_reduce(s->comm, s->send, s->recv, count, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static tutti_result_t sums_in_group(struct scene *s, int n, int longer)
{
	tutti_result_t result = tutti_group_begin(s->comm);

	for (int i = 1; i <= n && !result; i++)
		result = sum(s, i == longer ? 3 : 2);
	return result ? result : tutti_group_end(s->comm, NULL);
}

/* A message is from rank 0 to the last one: the rest meets them in a barrier. */
static tutti_result_t act(struct scene *s, const struct act *act)
{
	const size_t count = act->count == NOTHING ? 0 : act->count ? act->count : s->count;
	const bool calls = act->what != MESSAGE || s->rank == 0 || s->rank == s->size - 1;
	tutti_result_t result = TUTTI_OK;
	struct call c;

	if (act->call)
		return act->call(s);
	if (act->sums)
		return sums_in_group(s, act->sums, act->longer);
	if (act->element && calls)
		result = tutti_next_element(s->comm, act->element);
	call_init(&c, act->what, s->rank, s->size, act->dtype ? act->dtype : TUTTI_FLOAT32,
		  act->combine, count + act->more);
	c.root = act->root;
	c.to = s->size - 1;
	for (int rank = 0; rank < s->size && act->counts[0]; rank++)
		set_counts(&c, rank, act->counts[rank]);
	if (act->count_each)
		act->count_each(&c);
	call_lay_out(&c);
	c.send_at = s->send;
	c.recv_at = s->recv;
	if (!result)
		result = call_make_op(s->comm, &c);
	return result ? result : call_post(s->comm, &c, NULL);
}

static void one_more_of_rank_0(struct call *c)
{
	set_counts(c, 0, c->count + 1);
}

static void one_moves_to_rank_0(struct call *c)
{
	set_counts(c, 0, c->count + 1);
	set_counts(c, 1, c->count - 1);
}

static void one_more_for_rank_1(struct call *c)
{
	for (int from = 0; from < c->size; from++)
		c->counts[from][1]++;
}

/* Where each rank knows its own counts alone. */
static void one_more_of_its_own(struct call *c)
{
	c->counts[c->rank][c->rank]++;
}

static void one_more_to_rank_0(struct call *c)
{
	c->counts[c->rank][0]++;
}

/* ---- functions that are made of several operations */

static tutti_result_t split(struct scene *s)
{
	tutti_comm_t part = NULL;

	return tutti_comm_split(s->comm, 0, 0, &part);
}

static tutti_result_t grow(struct scene *s)
{
	tutti_comm_t more = NULL;

	return tutti_comm_grow(s->comm, NULL, 1, &more);
}

static tutti_result_t duplicate(struct scene *s)
{
	tutti_comm_t twin = NULL;

	return tutti_comm_dup(s->comm, &twin);
}

static tutti_result_t broadcast_and_sum(struct scene *s)
{
	const tutti_result_t result =
		tutti_broadcast(s->comm, s->send, s->recv, s->count, TUTTI_FLOAT32, 0, NULL);

	return result ? result : sum(s, s->count);
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
	tutti_result_t result = act(&s, rank == play->odd ? &mismatch->odd : &mismatch->other);
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
			(m->odd.count != NOTHING && strstr(outcome->text, "float32 × 0")) ||
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
	struct play play = { mismatch, count, ranks, mismatch->last ? ranks - 1 : turn++ % ranks,
			     stage };
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

	for (int ranks = mismatch->smallest ? mismatch->smallest : 2; ranks <= MAX_RANKS; ranks++) {
		if (ranks != MAX_RANKS)
			bad += run_play(mismatch, ranks, 2, stage);
		if (ranks != MAX_RANKS - 1)
			bad += run_play(mismatch, ranks, 1u << 18, stage);
	}
	assert_int_equal(bad, 0);
}

#define SUM "all_reduce(float32 × %zu, sum)"
#define SCENE(test, odd, other, ...)                                                               \
	TEST(test)                                                                                 \
	{                                                                                          \
		static const struct mismatch it = { #test, odd, other, __VA_ARGS__ };              \
		every_rank_is_told_of(&it);                                                        \
	}

SCENE(another_collective_is_told_to_all, "all_gather(float32 × %zu)", SUM, { ALL_GATHER },
      { ALL_REDUCE })
SCENE(a_barrier_for_a_sum_is_told_to_all, "barrier()", SUM, { BARRIER }, { ALL_REDUCE })
SCENE(another_count_is_told_to_all, "all_reduce(float32 × ", SUM, { ALL_REDUCE, .more = 1 },
      { ALL_REDUCE })
SCENE(an_empty_call_is_told_to_all, "all_reduce(float32 × 0, sum)", SUM, { ALL_REDUCE, NOTHING },
      { ALL_REDUCE })
SCENE(a_large_call_among_small_is_told_to_all, "all_reduce(float32 × 262144, sum)",
      "all_reduce(float32 × 2, sum)", { ALL_REDUCE, 1u << 18 }, { ALL_REDUCE, 2 })
SCENE(another_type_is_told_to_all, "all_reduce(int32 × %zu, sum)", SUM,
      { ALL_REDUCE, .dtype = TUTTI_INT32 }, { ALL_REDUCE })
SCENE(another_operation_is_told_to_all, "all_reduce(float32 × %zu, max)", SUM,
      { ALL_REDUCE, .combine = TUTTI_MAX }, { ALL_REDUCE })
SCENE(another_root_is_told_to_all, "broadcast(float32 × %zu, root 1)",
      "broadcast(float32 × %zu, root 0)", { BROADCAST, .root = 1 }, { BROADCAST })
SCENE(another_root_of_reduce_is_told_to_all, "reduce(float32 × %zu, sum, root 1)",
      "reduce(float32 × %zu, sum, root 0)", { REDUCE, .root = 1 }, { REDUCE })
SCENE(an_operation_left_out_is_told_to_all, "called " SUM,
      "called broadcast(float32 × %zu, root 0)", { ALL_REDUCE }, { .call = broadcast_and_sum })
SCENE(other_counts_are_told_to_all, "all_gather_v(float32 × %T in all)|counts[0] is|%+ on rank %o",
      "all_gather_v(float32 × %t in all)|%zu on rank",
      { ALL_GATHER_V, .count_each = one_more_of_rank_0 }, { ALL_GATHER_V })
SCENE(counts_moved_to_another_rank_are_told_to_all, "counts[0] is|%+ on rank %o|(1 more differ)",
      "all_gather_v(float32 × %t in all)|%zu on rank",
      { ALL_GATHER_V, .count_each = one_moves_to_rank_0 }, { ALL_GATHER_V })
SCENE(bytes_for_elements_are_told_to_all, "counts[0] is|4 on rank %o", "1 on rank|more differ)",
      { ALL_GATHER_V, .counts = { 4, 8, 12, 16 } }, { ALL_GATHER_V, .counts = { 1, 2, 3, 4 } })
SCENE(counts_that_have_nothing_in_common_are_told_to_all, "several of their counts differ",
      "all_gather_v(float32 × |in all)", { ALL_GATHER_V, .counts = { 50, 10, 90, 20 } },
      { ALL_GATHER_V, .counts = { 3, 1, 4, 1 } }, .smallest = 3)
SCENE(other_counts_of_a_reduction_are_told_to_all,
      "reduce_scatter_v(float32 × %T in all, sum)|counts[1] is|%+ on rank %o",
      "reduce_scatter_v(float32 × %t in all, sum)|%zu on rank",
      { REDUCE_SCATTER_V, .count_each = one_more_for_rank_1 }, { REDUCE_SCATTER_V })
SCENE(another_count_to_a_root_is_told_to_all,
      "rank %o called gather_v(float32 × %+, root 0) with send_count %+",
      "rank 0 called gather_v(float32 × %zu, root 0) with counts[%o] %zu",
      { GATHER_V, .count_each = one_more_of_its_own }, { GATHER_V }, .last = true)
SCENE(another_count_from_a_root_is_told_to_all,
      "rank %o called scatter_v(float32 × %+, root 0) with recv_count %+",
      "rank 0 called scatter_v(float32 × %zu, root 0) with counts[%o] %zu",
      { SCATTER_V, .count_each = one_more_of_its_own }, { SCATTER_V }, .last = true)
SCENE(another_count_to_one_of_all_is_told_to_all,
      "rank %o called all_to_all_v(float32 × %T) with send_counts[0] %+",
      "rank 0 called all_to_all_v(float32 × %t) with recv_counts[%o] %zu",
      { ALL_TO_ALL_V, .count_each = one_more_to_rank_0 }, { ALL_TO_ALL_V }, .last = true)
SCENE(own_counts_are_told_beside_another_collective, "called broadcast(float32 × %zu, root 0)",
      "called gather_v(float32 × %zu, root 0)", { BROADCAST }, { GATHER_V })
SCENE(other_calls_of_a_group_are_told_to_all,
      "called a group of all_reduce(float32 × 3, sum) and all_reduce(float32 × 2, sum)",
      "called a group of all_reduce(float32 × 2, sum) and all_reduce(float32 × 3, sum)",
      { .sums = 2, .longer = 1 }, { .sums = 2, .longer = 2 })
SCENE(another_call_of_a_long_group_is_told_to_all,
      "call 9 of the group is of|3 on rank %o|2 on rank", "all_reduce(float32 × 2, sum) and 8 more",
      { .sums = 12, .longer = 10 }, { .sums = 12 })
SCENE(one_call_more_in_a_group_is_told_to_all,
      "all_reduce(float32 × 2, sum), all_reduce(float32 × 2, sum) and all_reduce(float32 × 2, sum)",
      "called a group of all_reduce(float32 × 2, sum) and all_reduce(float32 × 2, sum)",
      { .sums = 3 }, { .sums = 2 })
SCENE(a_split_for_a_sum_is_told_to_all, "rank %o called tutti_comm_split", "called " SUM,
      { .call = split }, { ALL_REDUCE })
/* The first operation of both gathers a few bytes of each rank. */
SCENE(a_split_for_what_it_is_made_of_is_told_to_all, "rank %o called tutti_comm_split",
      "called all_gather(uint8 × 12)", { .call = split }, { ALL_GATHER, 12, .dtype = TUTTI_UINT8 })
SCENE(growing_for_a_split_is_told_to_all, "rank %o called tutti_comm_grow",
      "called tutti_comm_split", { .call = grow }, { .call = split })
SCENE(a_duplicate_for_a_split_is_told_to_all, "rank %o called tutti_comm_dup",
      "called tutti_comm_split", { .call = duplicate }, { .call = split })
SCENE(elements_of_another_name_are_told_to_all, "all_reduce(float32 × %zu of hours, sum)",
      "all_reduce(float32 × %zu of seconds., sum)", { ALL_REDUCE, .element = "hours" },
      { ALL_REDUCE, .element = "seconds." })
SCENE(elements_without_the_others_name_are_told_to_all, SUM, "all_reduce(float32 × %zu of c8, sum)",
      { ALL_REDUCE }, { ALL_REDUCE, .element = "c8" })
SCENE(elements_of_a_message_of_another_name_are_told_to_all, "recv(float32 × %zu of hours)",
      "send(float32 × %zu of seconds.)", { MESSAGE, .element = "hours" },
      { MESSAGE, .element = "seconds." }, .last = true)
SCENE(an_operation_that_commutes_on_one_is_told_to_all,
      "all_reduce(float32 × %zu, user 0 (commutative))",
      "all_reduce(float32 × %zu, user 0 (not commutative))", { ALL_REDUCE, .combine = COMBINE_ADD },
      { ALL_REDUCE, .combine = COMBINE_COMPOSE })
SCENE(an_operation_that_scales_on_one_is_told_to_all, "user 0 (pre-multiplied sum)",
      "user 0 (commutative)", { ALL_REDUCE, .combine = COMBINE_PREMUL },
      { ALL_REDUCE, .combine = COMBINE_ADD })
SCENE(another_forced_algorithm_is_told_to_all, "TUTTI_ALGORITHM", SUM, { ALL_REDUCE },
      { ALL_REDUCE }, .odd_setting = "TUTTI_ALGORITHM=ring")
SCENE(another_count_received_is_told_to_all, "(float32 × ", "send(float32 × %zu)",
      { MESSAGE, .more = 1 }, { MESSAGE }, .last = true)
SCENE(another_type_received_is_told_to_all, "(int32 × %zu)", "(float32 × %zu)",
      { MESSAGE, .dtype = TUTTI_INT32 }, { MESSAGE }, .last = true)
