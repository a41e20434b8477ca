/* SPDX-License-Identifier: BSD-3-Clause */
/* The agreement of one rank of three, and what the others, which are the test's, tell it. */
#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "agree.h"

#define SIZE	3
#define ME	1
#define TIMEOUT 1000u
#define MAGIC	0x61677265u
#define NUMBER	5

enum { HERE = 1, COLLECT, PROMISE, REFUSE, PROPOSE, ACCEPT, DECIDED };

/* All three, who said nothing. */
static const uint32_t everybody[] = { 0, 0, 1, 0, 2, 0 };
static const uint8_t everybody_set[] = { 7, 0 };

static struct {
	struct tt_agree *agree;
	uint64_t now;
	struct said {
		struct tt_agree_head head;
		uint8_t body[64];
	} last[SIZE]; /* that it said to each */
} rank;

static void keep(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	assert_true(head->length <= sizeof(rank.last[to].body));
	rank.last[to].head = *head;
	if (head->length)
		memcpy(rank.last[to].body, body, head->length);
}

static int open_agreement(void **state)
{
	static const bool among[SIZE] = { true, true, true };
	const struct tt_agree_config config = { .rank = ME,
						.size = SIZE,
						.instance = NUMBER,
						.among = among,
						.coming_ns = TIMEOUT,
						.answer_ns = TIMEOUT,
						.send = keep };

	memset(&rank, 0, sizeof(rank));
	assert_ok(tt_agree_open(&config, 0, &rank.agree));
	return 0;
}

static int close_agreement(void **state)
{
	tt_agree_close(rank.agree);
	return 0;
}

static void open_again(void)
{
	close_agreement(NULL);
	open_agreement(NULL);
}

static void step(void)
{
	tt_agree_step(rank.agree, rank.now);
}

static struct tt_agree_head head_of(uint32_t kind, uint64_t ballot, uint64_t other, size_t length)
{
	return (struct tt_agree_head){ MAGIC, kind, NUMBER, (uint32_t)length, ballot, other };
}

static void send(int from, uint32_t kind, uint64_t ballot, uint64_t other, const void *body,
		 size_t length)
{
	const struct tt_agree_head head = head_of(kind, ballot, other, length);

	assert_true(tt_agree_receive(rank.agree, from, &head, body, rank.now));
}

static void tell(int from, uint32_t kind, uint64_t ballot, uint64_t other, const void *body,
		 size_t length)
{
	send(from, kind, ballot, other, body, length);
	step();
}

/* The last message to that rank is of that kind. */
static const struct said *says(int to, uint32_t kind)
{
	assert_int_equal(rank.last[to].head.kind, kind);
	return &rank.last[to];
}

static void is_in(enum tt_agree_state state)
{
	assert_int_equal(tt_agree_state(rank.agree), state);
}

#define ALONE(name) TEST_WITH(name, open_agreement, close_agreement)

/* It never heard what rank 0 proposed, but rank 2 accepted it, and may have learnt that it was
 * decided. */
ALONE(a_later_leader_proposes_what_was_accepted)
{
	/* ranks 0 and 2, who said nothing */
	const uint32_t value[] = { 0, 0, 2, 0 };

	tell(0, HERE, 0, 0, NULL, 0);
	tell(2, HERE, 0, 0, NULL, 0);
	says(2, HERE);
	tt_agree_lost(rank.agree, 0);
	step();
	assert_int_equal(says(2, COLLECT)->head.ballot, 2);
	tell(2, PROMISE, 2, 1, value, sizeof(value));
	assert_int_equal(says(2, PROPOSE)->head.ballot, 2);
	assert_int_equal(says(2, PROPOSE)->head.length, sizeof(value));
	assert_memory_equal(says(2, PROPOSE)->body, value, sizeof(value));
	tell(2, ACCEPT, 2, 0, NULL, 0);
	is_in(TT_AGREE_LEFT_OUT);
}

ALONE(a_promise_is_kept)
{
	tell(2, HERE, 0, 0, NULL, 0);
	tell(2, COLLECT, 6, 0, NULL, 0);
	says(2, PROMISE);
	tell(2, COLLECT, 3, 0, NULL, 0);
	assert_int_equal(says(2, REFUSE)->head.other, 6);
	tell(2, PROPOSE, 3, 0, everybody, sizeof(everybody));
	says(2, REFUSE);
	tell(2, PROPOSE, 6, 0, everybody, sizeof(everybody));
	says(2, ACCEPT);
	tell(2, COLLECT, 9, 0, NULL, 0);
	assert_int_equal(says(2, PROMISE)->head.other, 6);
	assert_memory_equal(says(2, PROMISE)->body, everybody, sizeof(everybody));
}

/* A value was decided in one ballot, and this rank accepted it again in the next before it hears
 * so. Who accepted it in the first only is told of that one: the next may be unheard of there. */
ALONE(a_decision_is_passed_on_with_its_own_ballot)
{
	tell(0, HERE, 0, 0, NULL, 0);
	tell(2, HERE, 0, 0, NULL, 0);
	tell(0, PROPOSE, 1, 0, everybody, sizeof(everybody));
	tell(2, COLLECT, 3, 0, NULL, 0);
	tell(2, PROPOSE, 3, 0, everybody, sizeof(everybody));
	tell(0, DECIDED, 1, 0, everybody_set, sizeof(everybody_set));
	is_in(TT_AGREE_DECIDED);
	assert_int_equal(says(2, DECIDED)->head.ballot, 1);
}

/* A rank that stops while it reads may hear of a decision from the stream that it reads next,
 * and of its value from one that it read before. */
ALONE(a_decision_waits_for_its_value_until_all_is_read)
{
	for (int comes = 0; comes < 2; comes++) {
		open_again();
		tell(2, HERE, 0, 0, NULL, 0);
		if (!comes)
			tt_agree_lost(rank.agree, 0);
		tell(2, DECIDED, 1, 0, everybody_set, sizeof(everybody_set));
		is_in(TT_AGREE_OPEN);
		says(2, HERE); /* nobody is there to be led any more */
		if (comes)
			tell(0, PROPOSE, 1, 0, everybody, sizeof(everybody));
		else
			step();
		is_in(comes ? TT_AGREE_DECIDED : TT_AGREE_UNTOLD);
	}
}

/* Who leads next may count on its promise. */
ALONE(who_is_left_out_tells_all)
{
	const uint8_t first_set[] = { 1, 0 };

	tell(2, HERE, 0, 0, NULL, 0);
	tell(2, COLLECT, 3, 0, NULL, 0);
	says(2, PROMISE);
	tell(0, DECIDED, 1, 0, first_set, sizeof(first_set));
	is_in(TT_AGREE_LEFT_OUT);
	assert_int_equal(says(2, DECIDED)->head.ballot, 1);
	assert_memory_equal(says(2, DECIDED)->body, first_set, sizeof(first_set));
}

/* It was stopped while rank 0 counted it in and died, and rank 2 went on alone. */
ALONE(of_two_decisions_the_later_counts)
{
	const uint32_t value[] = { 0, 0, 1, 0 };
	const uint8_t value_set[] = { 3, 4 }, last_set[] = { 4, 2 };

	for (int turn = 0; turn < 2; turn++) {
		open_again();
		send(0, PROPOSE, 1, 0, value, sizeof(value));
		for (int i = 0; i < 2; i++)
			if (i == turn)
				send(0, DECIDED, 1, 0, value_set, sizeof(value_set));
			else
				send(2, DECIDED, 3, 0, last_set, sizeof(last_set));
		step();
		is_in(TT_AGREE_LEFT_OUT);
		assert_int_equal(says(0, DECIDED)->head.ballot, 3);
	}
}

/* A leader proposes to go on without rank 2, which is here. */
ALONE(a_proposal_without_one_that_is_alive_waits_for_its_leader)
{
	const uint32_t value[] = { 0, 0, 1, 0 };

	for (int is_lost = 0; is_lost < 2; is_lost++) {
		open_again();
		tell(0, HERE, 0, 0, NULL, 0);
		tell(2, HERE, 0, 0, NULL, 0);
		tell(0, PROPOSE, 1, 0, value, sizeof(value));
		says(0, HERE);
		if (is_lost)
			tt_agree_lost(rank.agree, 0);
		else
			rank.now += TIMEOUT / 16;
		step();
		if (!is_lost) {
			says(0, ACCEPT);
			continue;
		}
		/* this rank leads, with what it knows itself */
		says(2, COLLECT);
		tell(2, PROMISE, 2, 0, NULL, 0);
		assert_int_equal(says(2, PROPOSE)->body[0], 1);
	}
}

/* The link to the leader is cut after it heard this rank, which all others count in. */
ALONE(who_is_cut_off_from_the_leader_takes_part)
{
	tell(0, HERE, 0, 0, "zero", 4);
	tell(2, HERE, 0, 0, "two", 3);
	tt_agree_lost(rank.agree, 0);
	tell(2, DECIDED, 1, 0, everybody_set, sizeof(everybody_set));
	is_in(TT_AGREE_DECIDED);
	assert_int_equal(tt_agree_count(rank.agree), SIZE);
	const struct tt_agreed first = tt_agree_member(rank.agree, 0),
			       last = tt_agree_member(rank.agree, 2);
	assert_int_equal(first.rank, 0);
	assert_memory_equal(first.said, "zero", first.length);
	assert_int_equal(last.length, 3);
	assert_memory_equal(last.said, "two", 3);
	says(2, DECIDED);
}

/* It accepted the value from a leader that is gone, and the next one, which it cannot reach, has
 * it decided. */
ALONE(who_is_cut_off_from_a_later_leader_takes_part)
{
	tell(0, HERE, 0, 0, NULL, 0);
	tell(0, PROPOSE, 1, 0, everybody, sizeof(everybody));
	tell(0, DECIDED, 3, 0, everybody_set, sizeof(everybody_set));
	is_in(TT_AGREE_DECIDED);
	assert_int_equal(tt_agree_count(rank.agree), SIZE);
}

ALONE(what_makes_no_sense_is_refused)
{
	/* in a ballot of another rank, and in such that no higher ones can be had */
	const struct tt_agree_head unsound[] = { head_of(COLLECT, 2, 0, 0),
						 head_of(PROPOSE, 2, 0, 0),
						 head_of(COLLECT, UINT64_MAX - 2, 0, 0),
						 head_of(DECIDED, UINT64_MAX - 2, 0, 2),
						 head_of(PROMISE, 3, UINT64_MAX, 0),
						 head_of(REFUSE, 3, UINT64_MAX, 0) };
	const uint32_t bodies[][4] = { { 0, 4, 1, 0 },
				       { 0, 0xffffffff, 0, 0 },
				       { 9, 0, 0, 0 },
				       { 1, 0, 0, 0 },
				       { 0, 3, 0, 0 } };

	for (size_t i = 0; i < sizeof(unsound) / sizeof(unsound[0]); i++)
		assert_false(tt_agree_receive(rank.agree, 0, &unsound[i], NULL, rank.now));
	for (uint32_t kind = 0; kind < 12; kind++) {
		for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
			for (uint32_t length = 0; length <= sizeof(bodies[0]); length++) {
				/* so that a reader beyond it is caught */
				uint8_t *exact = malloc(length + !length);
				struct tt_agree_head head = {
					MAGIC, kind, NUMBER, length, i % 2, i
				};

				memcpy(exact, bodies[i], length);
				if (tt_agree_is_head(&head, SIZE))
					tt_agree_receive(rank.agree, 0, &head, exact, rank.now);
				free(exact);
			}
		}
	}
	struct tt_agree_head head = head_of(HERE, 0, 0, tt_agree_body_max(SIZE) + 1);
	assert_false(tt_agree_is_head(&head, SIZE));
	head.length = 0;
	assert_true(tt_agree_is_head(&head, SIZE));
	head.magic++;
	assert_false(tt_agree_is_head(&head, SIZE));
}
