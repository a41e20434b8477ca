/* SPDX-License-Identifier: BSD-3-Clause */
/* The agreement, with all ranks in one thread and a clock of the test's: deaths between any two
 * messages, alone and in pairs, messages and news of deaths in any order, ranks that are late,
 * that stop, that lose their links one by one, and that leave as soon as they know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "agree.h"
#include "calls/random.h"

#define MOST	6
#define QUEUE	64
#define TIMEOUT 1000u
#define NEVER	UINT64_MAX
#define LATEST	(100 * (uint64_t)TIMEOUT) /* when all must have ended */

struct letter {
	uint64_t due;
	struct tt_agree_head head;
	uint8_t *body;
};

/* A stream from one rank to another. */
struct stream {
	struct letter letters[QUEUE]; /* the oldest first */
	int count;
};

enum fate { ALIVE, DEAD, GONE_HOME };

struct member {
	struct world *world;
	int rank;
	struct tt_agree *agree;
	uint64_t comes, stops, continues; /* times */
	uint64_t dies_after;		  /* messages sent */
	uint64_t sent;
	enum fate fate;
	uint64_t fate_known[MOST]; /* when each other learns of it */
	uint64_t cut[MOST];	   /* when it loses the link with each other; 0: never */
	int outcome;		   /* state when it ended, 0 before */
	uint32_t members;	   /* bit mask of what it learnt */
};

struct world {
	int size;
	uint64_t now;
	struct random random;
	uint32_t most_delay;
	uint64_t coming;
	bool go_home; /* whoever knows leaves at once */
	struct member member[MOST];
	struct stream stream[MOST][MOST];
};

static uint32_t draw(struct world *w, uint32_t below)
{
	return (uint32_t)random_below(&w->random, below);
}

/* When what was sent last is there; 0: nothing is on its way. */
static uint64_t last_due(const struct stream *stream)
{
	return stream->count ? stream->letters[stream->count - 1].due : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The news does not overtake what the rank had sent. */
static void end_fate(struct world *w, struct member *m, enum fate fate)
{
	m->fate = fate;
	for (int other = 0; other < w->size; other++)
		m->fate_known[other] = later(w->now + draw(w, 3 * w->most_delay + 1),
					     last_due(&w->stream[m->rank][other]));
}

static bool is_cut(const struct world *w, int a, int b)
{
	const uint64_t cut = w->member[a].cut[b];

	return cut && w->now >= cut;
}

static void post(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	struct member *m = context;
	struct world *w = m->world;
	struct stream *stream = &w->stream[m->rank][to];

	if (m->fate == DEAD || is_cut(w, m->rank, to))
		return;
	if (m->sent++ == m->dies_after) {
		end_fate(w, m, DEAD);
		return;
	}
	assert_true(stream->count < QUEUE);
	assert_true(tt_agree_is_head(head, w->size));
	const uint64_t due = later(w->now + draw(w, w->most_delay + 1), last_due(stream));
	struct letter *letter = &stream->letters[stream->count++];
	*letter = (struct letter){ .due = due, .head = *head, .body = malloc(head->length + 1) };
	if (head->length)
		memcpy(letter->body, body, head->length);
}

static void say_of(int rank, char *said, size_t size)
{
	snprintf(said, size, "%.*s%d", rank * 7,
		 "some words, so that lengths differ from rank to rank", rank);
}

static void come(struct world *w, struct member *m)
{
	bool among[MOST];
	char said[80];
	struct tt_agree_config config = { .rank = m->rank,
					  .size = w->size,
					  .instance = 5,
					  .among = among,
					  .coming_ns = w->coming,
					  .answer_ns = TIMEOUT,
					  .said = said,
					  .send = post,
					  .context = m };

	for (int i = 0; i < w->size; i++)
		among[i] = true;
	say_of(m->rank, said, sizeof(said));
	config.length = strlen(said);
	assert_ok(tt_agree_open(&config, w->now, &m->agree));
}

static void read_streams(struct world *w, struct member *m)
{
	const int begin = (int)draw(w, (uint32_t)w->size);

	for (int i = 0; i < w->size; i++) {
		const int from = (begin + i) % w->size;
		struct stream *stream = &w->stream[from][m->rank];

		while (stream->count > 0 && stream->letters[0].due <= w->now &&
		       !is_cut(w, m->rank, from)) {
			const struct letter letter = stream->letters[0];

			stream->count--;
			memmove(stream->letters, stream->letters + 1,
				(size_t)stream->count * sizeof(letter));
			assert_true(tt_agree_receive(m->agree, from, &letter.head, letter.body,
						     w->now));
			free(letter.body);
		}
		if ((w->member[from].fate != ALIVE &&
		     w->now >= w->member[from].fate_known[m->rank]) ||
		    is_cut(w, m->rank, from))
			tt_agree_lost(m->agree, from);
	}
}

/* What a rank returns: it is not dead then. */
static void note_outcome(struct world *w, struct member *m)
{
	char said[80];

	m->outcome = (int)tt_agree_state(m->agree);
	assert_int_not_equal(m->outcome, TT_AGREE_NO_MEMORY);
	for (int i = 0; m->outcome == TT_AGREE_DECIDED && i < tt_agree_count(m->agree); i++) {
		const struct tt_agreed one = tt_agree_member(m->agree, i);

		say_of(one.rank, said, sizeof(said));
		assert_int_equal(one.length, strlen(said));
		assert_memory_equal(one.said, said, one.length);
		m->members |= 1u << one.rank;
	}
	for (int i = 0; i < w->size; i++)
		assert_false(m->members >> i & 1 && tt_agree_was_late(m->agree, i));
	if (w->go_home)
		end_fate(w, m, GONE_HOME);
}

/* A rank's turn: all it can read, then the clock, as it was before. */
static void take_turn(struct world *w, struct member *m)
{
	if (m->fate != ALIVE || m->outcome || w->now < m->comes ||
	    (w->now >= m->stops && w->now < m->continues))
		return;
	if (!m->agree)
		come(w, m);
	if (m->fate != ALIVE)
		return;
	read_streams(w, m);
	tt_agree_step(m->agree, w->now);
	if (m->fate == ALIVE && tt_agree_state(m->agree) != TT_AGREE_OPEN)
		note_outcome(w, m);
}

static bool all_over(const struct world *w)
{
	for (int i = 0; i < w->size; i++)
		if (w->member[i].fate == ALIVE && !w->member[i].outcome)
			return false;
	return true;
}

static void tear_down(struct world *w)
{
	for (int from = 0; from < w->size; from++) {
		for (int to = 0; to < w->size; to++) {
			struct stream *stream = &w->stream[from][to];

			while (stream->count > 0)
				free(stream->letters[--stream->count].body);
		}
		tt_agree_close(w->member[from].agree);
	}
}

/* In place of the one before. */
static struct world *begin(int size, uint64_t seed)
{
	static struct world world;
	struct world *w = &world;

	tear_down(w);
	memset(w, 0, sizeof(*w));
	w->size = size;
	w->now = 1;
	w->random = random_stream(seed, 0);
	w->most_delay = 10;
	w->coming = TIMEOUT;
	for (int i = 0; i < size; i++)
		w->member[i] = (struct member){
			.world = w, .rank = i, .stops = NEVER, .dies_after = NEVER
		};
	return w;
}

static void run_once(struct world *w)
{
	for (int i = 0; i < w->size; i++)
		take_turn(w, &w->member[draw(w, (uint32_t)w->size)]);
	w->now += 1 + draw(w, 5);
}

static void run(struct world *w)
{
	while (!all_over(w)) {
		run_once(w);
		if (w->now > LATEST)
			fail_msg("no end");
	}
}

/* All who learnt a decision learnt the same, with themselves in it. Gives it, 0 for none. */
static uint32_t same_for_all(const struct world *w)
{
	uint32_t members = 0;

	for (int i = 0; i < w->size; i++) {
		const struct member *m = &w->member[i];

		if (m->outcome != TT_AGREE_DECIDED)
			continue;
		if (members && m->members != members)
			fail_msg("one learnt %x, another %x", members, m->members);
		members = m->members;
		assert_true(members >> i & 1);
	}
	for (int i = 0; i < w->size; i++)
		if (w->member[i].outcome == TT_AGREE_LEFT_OUT)
			assert_false(members >> i & 1);
	return members;
}

/* Nobody was late: whoever lives is in it. */
static void agreed_by_all_alive(const struct world *w)
{
	const uint32_t members = same_for_all(w);

	for (int i = 0; i < w->size; i++) {
		if (w->member[i].fate == DEAD)
			continue;
		if (w->member[i].outcome != TT_AGREE_DECIDED)
			fail_msg("rank %d of %d ended in state %d", i, w->size,
				 w->member[i].outcome);
		assert_true(members >> i & 1);
		for (int other = 0; other < w->size; other++) /* the dead are not */
			assert_false(w->now < TIMEOUT &&
				     tt_agree_was_late(w->member[i].agree, other));
	}
}

/* To the end, which all who live agree upon. */
static void run_and_agree(struct world *w)
{
	run(w);
	agreed_by_all_alive(w);
}

TEST(nobody_dies)
{
	for (int size = 1; size <= MOST; size++) {
		for (uint64_t seed = 1; seed < 200; seed++) {
			struct world *w = begin(size, seed);

			w->go_home = seed % 2;
			run_and_agree(w);
			assert_int_equal(same_for_all(w), (1u << size) - 1);
			assert_true(w->now < TIMEOUT / 2);
		}
	}
}

/* Sent by one rank when it leads through the deaths of others: bounds the steps at which it can
 * die. */
static uint64_t steps_of(int size)
{
	return (uint64_t)(5 * size);
}

TEST(one_dies_at_any_step)
{
	for (int size = 2; size <= 5; size++)
		for (int victim = 0; victim < size; victim++)
			for (uint64_t step = 0; step < steps_of(size); step++)
				for (uint64_t seed = 1; seed < 30; seed++) {
					struct world *w = begin(size, seed + step * 100);

					w->go_home = seed % 2;
					w->member[victim].dies_after = step;
					run_and_agree(w);
					assert_true(w->now < TIMEOUT / 2);
				}
}

TEST(two_die_at_any_steps)
{
	for (int size = 3; size <= 4; size++)
		for (int a = 0; a < size; a++)
			for (int b = a + 1; b < size; b++)
				for (uint64_t i = 0; i < steps_of(size) * steps_of(size); i++)
					for (uint64_t seed = 1; seed < 4; seed++) {
						struct world *w = begin(size, seed + i * 10);

						w->go_home = seed % 2;
						w->most_delay = seed % 3 ? 10 : 100;
						w->member[a].dies_after = i % steps_of(size);
						w->member[b].dies_after = i / steps_of(size);
						run_and_agree(w);
					}
}

TEST(any_number_may_die)
{
	for (uint64_t seed = 1; seed < 20000; seed++) {
		struct world *w = begin(2 + (int)(seed % (MOST - 1)), seed);

		w->go_home = draw(w, 2);
		for (int i = 0; i < w->size; i++)
			if (draw(w, 2))
				w->member[i].dies_after = draw(w, (uint32_t)steps_of(w->size));
		run_and_agree(w);
	}
}

TEST(who_comes_too_late_is_left_out)
{
	for (int size = 2; size <= 5; size++)
		for (int late = 0; late < size; late++)
			for (uint64_t seed = 1; seed < 100; seed++) {
				struct world *w = begin(size, seed);

				w->go_home = seed % 2;
				w->member[late].comes = TIMEOUT + 200 + draw(w, 10 * TIMEOUT);
				if (size > 2 && seed % 3 == 0) /* and another dies */
					w->member[(late + 1) % size].dies_after = draw(w, 20);
				run(w);
				assert_int_equal(w->member[late].outcome, TT_AGREE_LEFT_OUT);
				assert_false(same_for_all(w) >> late & 1);
				for (int i = 0; i < size; i++)
					if (w->member[i].outcome == TT_AGREE_DECIDED)
						assert_true(tt_agree_was_late(w->member[i].agree,
									      late));
			}
}

TEST(who_comes_in_time_is_in)
{
	for (uint64_t seed = 1; seed < 2000; seed++) {
		struct world *w = begin(2 + (int)(seed % 4), seed);

		if (seed % 2) /* the others answer while they wait */
			w->coming = 5 * TIMEOUT;
		for (int i = 0; i < w->size; i++)
			w->member[i].comes = 1 + draw(w, (uint32_t)w->coming - 100);
		run(w);
		assert_int_equal(same_for_all(w), (1u << w->size) - 1);
	}
}

static bool all_have_come(const struct world *w)
{
	bool all = true;

	for (int i = 0; i < w->size; i++)
		all &= w->member[i].agree != NULL;
	return all;
}

/* From the last that falls silent: it is asked, then its answer is waited for, once more when
 * another leads. */
TEST(those_who_fall_silent_cost_the_same_together)
{
	for (uint64_t seed = 1; seed < 20000; seed++) {
		struct world *w = begin(3 + (int)(seed % (MOST - 2)), seed);
		uint64_t last = 0;

		w->coming = 4 * TIMEOUT;
		w->go_home = draw(w, 2);
		while (!all_have_come(w))
			run_once(w);
		for (int i = 1 + (int)draw(w, (uint32_t)w->size); i < w->size + (int)draw(w, 2);
		     i++) {
			struct member *m = &w->member[i % w->size];

			m->stops = w->now + draw(w, draw(w, 2) ? 100 : 2 * TIMEOUT);
			m->continues = LATEST / 2;
			last = m->stops > last ? m->stops : last;
		}
		while (w->now < last + 9 * TIMEOUT / 4 + 200)
			run_once(w);
		for (int i = 0; i < w->size; i++)
			if (w->member[i].stops == NEVER && !w->member[i].outcome)
				fail_msg("seed %llu: rank %d still waits", (unsigned long long)seed,
					 i);
		run(w);
		same_for_all(w);
	}
}

/* Ranks stop for long in the middle, come at any time, and die: no two that go on believe
 * different things, and who was neither late nor dead is never left out by those who were. */
TEST(who_stops_agrees_or_is_told)
{
	for (uint64_t seed = 1; seed < 20000; seed++) {
		struct world *w = begin(2 + (int)(seed % (MOST - 1)), seed);
		uint32_t prompt = 0;

		w->go_home = draw(w, 2);
		for (int i = 0; i < w->size; i++) {
			struct member *m = &w->member[i];

			switch (draw(w, 4)) {
			case 0: m->comes = draw(w, 3 * TIMEOUT); break;
			case 1:
				m->stops = 1 + draw(w, draw(w, 2) ? 100 : 2 * TIMEOUT);
				m->continues = m->stops + draw(w, 6 * TIMEOUT);
				break;
			case 2: m->dies_after = draw(w, 40); break;
			default: prompt |= 1u << i;
			}
		}
		run(w);
		const uint32_t members = same_for_all(w);
		if (prompt && members && (members & prompt) == 0)
			fail_msg("seed %llu: %x decided without any of %x",
				 (unsigned long long)seed, members, prompt);
	}
}

/* A rank that is about to go may take the others for dead, as it hears nothing of them any more.
 * These go on with each other, whether it leads or not. (One that has not heard it at all has no
 * part in a decision that it is counted in.) */
TEST(who_loses_its_links_one_by_one_leaves_nobody_out)
{
	for (uint64_t seed = 1; seed < 20000; seed++) {
		struct world *w = begin(3 + (int)(seed % (MOST - 2)), seed);
		const int going = (int)draw(w, (uint32_t)w->size);
		const uint64_t begins = 1 + draw(w, 80);
		const uint32_t all = (1u << w->size) - 1, others = all & ~(1u << going);
		uint32_t members = 0;

		for (int i = 0; i < w->size; i++)
			if (i != going)
				w->member[i].cut[going] = w->member[going].cut[i] =
					begins + draw(w, TIMEOUT / 32);
		run(w);
		for (int i = 0; i < w->size; i++) {
			const struct member *m = &w->member[i];

			if (i == going || (m->outcome == TT_AGREE_UNTOLD && begins < 50))
				continue;
			if (m->outcome != TT_AGREE_DECIDED || (m->members & others) != others ||
			    (members && m->members != members))
				fail_msg("seed %llu: rank %d ends in state %d with %x, not %x",
					 (unsigned long long)seed, i, m->outcome, m->members,
					 members);
			members = m->members;
		}
		for (int i = 0; i < w->size; i++)
			if (w->member[i].outcome == TT_AGREE_UNTOLD && i != going)
				assert_int_equal(members, all);
	}
}
