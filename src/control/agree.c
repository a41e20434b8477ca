/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the agreement: Paxos (Lamport, "The part-time parliament", 1998) with a list of the dead
 * instead of majorities.
 *
 *   here      to all, when a rank comes: what it says
 *   propose   from the leader, once everybody is here, dead, or late: who is there and said what
 *   accept    back to the leader, from each that took it down
 *   decided   to all, from the leader and from everybody who learns it, before anything else
 *
 * The lowest rank leads. If it dies, stays away until the deadline, or falls silent, the next one
 * collects first (collect, promise) what the others took down last. A rank that waits for another
 * to lead asks it (ask, alive), and that one answers whatever it waits for itself: ranks that fall
 * silent are found out at the same time, and a rank that only waits is not one of them. Proposals
 * have growing numbers, *ballots*, of which each belongs to one rank.
 *
 * A value is decided once everybody who was heard in its ballot, and is not dead, has accepted it.
 * Then no other value is ever decided, whoever dies: a later leader hears all who are alive. If one
 * of them accepted the value, then no accepted value has a higher ballot, but for those of leaders
 * who heard it likewise (induction over ballots), so that is what it proposes. If none of them
 * accepted it, all who did are dead, or late for that leader. The dead return to nobody. And who
 * learnt a decision told all others of it in the same step, also if it is left out by it, in streams
 * that keep their order and outlive the sender; who comes late reads this before it can lead, and
 * finds itself left out or its value decided. A rank refuses ballots below one that it promised.
 *
 * A rank that loses its links one after the other may lead in between, and take for dead whom it
 * can no longer reach. So a proposal without a rank that is alive for all that the acceptor knows,
 * and here or still awaited, is accepted some time later, if its leader is alive then: the two may
 * be alive, and unable to reach each other.
 *
 * What a member said is the same in every value. So whom the leader could not reach makes the value
 * that was decided from what it heard of all: as other ranks count it in, it takes part. One that
 * has not heard all of them takes no part, for nobody is left who could tell it.
 *
 * Death is known for certain (processes, connections). Lateness is a guess, as with any
 * deadline: a rank that stops for longer is passed over, and told. Two ranks that are late for
 * each other both go on, apart, only where messages between them take longer than the deadline,
 * or where each stopped, for the whole of the other's deadline, between reading its links and
 * acting on what it read: tt_agree_step() looks at the time as it was before the links were
 * read, and of the time in which a rank does not look little counts (consensus.c). Where a decision
 * was told to nobody but ranks that were stopped, the others decide once more; so who finds two
 * decisions goes by that of the higher ballot: the earlier one is of those who were stopped. A
 * majority could rule that out, and would forbid half a job to go on when the other half is
 * stopped. */
#include "agree.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

#define MAGIC 0x61677265u

#define PATIENCE(answer_ns) ((answer_ns) / 4) /* with a silent rank, before it is asked */
#define HOLD_NS                                                                                    \
	20000000 /* for a leader to be lost, too. Much less than DOUBT_NS of consensus.c: both sides
		  * of a cut say of the other that it is gone */
#define HOLD(answer_ns)                                                                            \
	((answer_ns) / 16 < HOLD_NS ? (answer_ns) / 16 : HOLD_NS) /* … of a short deadline less */

enum kind { HERE = 1, COLLECT, PROMISE, REFUSE, PROPOSE, ACCEPT, DECIDED, ASK, ALIVE };
enum phase { FOLLOWING, GATHERING, COLLECTING, PROPOSING };

/* A set of ranks and what they said: {rank:4 length:4 bytes}… in order of rank. */
struct value {
	uint64_t ballot; /* in which it was accepted last; 0: none */
	uint8_t *bytes;
	size_t length;
};

/* What this rank knows of another (and of itself). */
struct voice {
	bool here, lost;
	bool answered; /* what this rank, leading, asked last */
	bool asked;    /* for a sign of life, and silent since */
	bool told;     /* what was decided, as its last word */
	uint64_t heard, asked_at;
	uint8_t *said;
	size_t length;
};

struct tt_agree {
	struct tt_agree_config config;
	enum tt_agree_state state;
	bool *among;
	struct voice *voices;
	uint64_t deadline; /* for others to come */
	uint64_t promised; /* ballots below are refused */
	struct value accepted;
	struct value held; /* proposed in the ballot that was promised last, and not yet accepted */
	uint64_t held_until;
	uint64_t decided; /* ballot of the last decision heard of, if any … */
	bool just_heard;  /* … since the last step */
	int members;	  /* once decided */
	uint8_t *sets;	  /* what DECIDED carries: a bit for each member, then for each that was
			   * late */

	enum phase phase;
	uint64_t ballot; /* this rank's, while it leads */
	uint64_t answers_until;
};

/* ---- sets of ranks */

static size_t set_bytes(const struct tt_agree *a)
{
	return ((size_t)a->config.size + 7) / 8;
}

static bool has(const uint8_t *set, int rank)
{
	return set[rank / 8] >> rank % 8 & 1;
}

static void put(uint8_t *set, int rank)
{
	set[rank / 8] |= (uint8_t)(1 << rank % 8);
}

/* ---- values */

struct entry {
	uint32_t rank, length;
};

/* The entry at *at, which moves behind it. False: there is none. */
static bool next_entry(const struct value *value, size_t *at, struct tt_agreed *out)
{
	struct entry entry;

	if (value->length - *at < sizeof(entry))
		return false;
	memcpy(&entry, value->bytes + *at, sizeof(entry));
	*at += sizeof(entry);
	if (entry.length > TT_AGREE_SAID_MAX || value->length - *at < entry.length)
		return false;
	*out = (struct tt_agreed){ (int)entry.rank, value->bytes + *at, entry.length };
	*at += entry.length;
	return true;
}

static bool is_value(const struct tt_agree *a, const void *bytes, size_t length)
{
	const struct value value = { 1, (uint8_t *)bytes, length };
	struct tt_agreed member;
	size_t at = 0;
	int last = -1;

	while (at < length) {
		if (!next_entry(&value, &at, &member) || member.rank <= last ||
		    member.rank >= a->config.size || !a->among[member.rank])
			return false;
		last = member.rank;
	}
	return last >= 0;
}

static bool keep_value(struct tt_agree *a, struct value *value, uint64_t ballot, const void *bytes,
		       size_t length)
{
	uint8_t *copy = malloc(length);

	if (!copy) {
		a->state = TT_AGREE_NO_MEMORY;
		return false;
	}
	memcpy(copy, bytes, length);
	free(value->bytes);
	*value = (struct value){ ballot, copy, length };
	return true;
}

/* From what the members said, who are all here. */
static bool make_value(struct tt_agree *a, uint64_t ballot, const uint8_t *members)
{
	struct value value = { ballot, NULL, 0 };
	size_t capacity = 0;

	for (int rank = 0; rank < a->config.size; rank++)
		if (has(members, rank))
			capacity += sizeof(struct entry) + a->voices[rank].length;
	value.bytes = malloc(capacity);
	if (!value.bytes) {
		a->state = TT_AGREE_NO_MEMORY;
		return false;
	}
	for (int rank = 0; rank < a->config.size; rank++) {
		const struct voice *voice = &a->voices[rank];
		const struct entry entry = { (uint32_t)rank, (uint32_t)voice->length };

		if (!has(members, rank))
			continue;
		memcpy(value.bytes + value.length, &entry, sizeof(entry));
		memcpy(value.bytes + value.length + sizeof(entry), voice->said, voice->length);
		value.length += sizeof(entry) + voice->length;
	}
	free(a->accepted.bytes);
	a->accepted = value;
	return true;
}

/* ---- messages */

static void send_to(struct tt_agree *a, int to, enum kind kind, uint64_t ballot, uint64_t other,
		    const void *body, size_t length)
{
	const struct tt_agree_head head = { MAGIC,  kind, a->config.instance, (uint32_t)length,
					    ballot, other };

	a->config.send(a->config.context, to, &head, body);
}

static void send_to_all(struct tt_agree *a, enum kind kind, uint64_t ballot, const void *body,
			size_t length)
{
	for (int rank = 0; rank < a->config.size; rank++)
		if (a->among[rank] && rank != a->config.rank)
			send_to(a, rank, kind, ballot, 0, body, length);
}

size_t tt_agree_body_max(int size)
{
	return (size_t)size * (sizeof(struct entry) + TT_AGREE_SAID_MAX);
}

bool tt_agree_is_head(const struct tt_agree_head *head, int size)
{
	return head->magic == MAGIC && head->kind >= HERE && head->kind <= ALIVE &&
	       head->length <= tt_agree_body_max(size);
}

/* ---- a proposal that is held */

static void drop_held(struct tt_agree *a)
{
	free(a->held.bytes);
	a->held = (struct value){ 0, NULL, 0 };
}

static void take_held(struct tt_agree *a)
{
	free(a->accepted.bytes);
	a->accepted = a->held;
	a->held = (struct value){ 0, NULL, 0 };
}

/* Is a rank missing in it that is alive, and here or still awaited, for all that is known? */
static bool misses_one(const struct tt_agree *a, const struct value *value, uint64_t now)
{
	struct tt_agreed member = { -1, NULL, 0 };
	size_t at = 0;

	next_entry(value, &at, &member);
	for (int rank = 0; rank < a->config.size; rank++) {
		if (rank == member.rank)
			next_entry(value, &at, &member);
		else if (a->among[rank] && !a->voices[rank].lost &&
			 (a->voices[rank].here || now < a->deadline))
			return true;
	}
	return false;
}

static int owner_of(const struct tt_agree *a, uint64_t ballot)
{
	return (int)((ballot - 1) % (uint64_t)a->config.size);
}

static void look_at_held(struct tt_agree *a, uint64_t now)
{
	const uint64_t ballot = a->held.ballot;

	if (!a->held.bytes)
		return;
	if (ballot < a->promised || a->voices[owner_of(a, ballot)].lost) {
		drop_held(a);
	} else if (now >= a->held_until || !misses_one(a, &a->held, now)) {
		take_held(a);
		send_to(a, owner_of(a, ballot), ACCEPT, ballot, 0, NULL, 0);
	}
}

/* ---- the end */

/* The accepted value was decided in `ballot`: tell all before this rank does anything else. It
 * may have accepted the value again since, in a ballot that others have not heard of. */
static void conclude(struct tt_agree *a, uint64_t ballot)
{
	struct tt_agreed member;
	size_t at = 0;

	memset(a->sets, 0, set_bytes(a));
	a->members = 0;
	while (next_entry(&a->accepted, &at, &member)) {
		put(a->sets, member.rank);
		a->members++;
	}
	a->state = has(a->sets, a->config.rank) ? TT_AGREE_DECIDED : TT_AGREE_LEFT_OUT;
	send_to_all(a, DECIDED, ballot, a->sets, 2 * set_bytes(a));
}

/* A leader knows who is missing for which reason; what it says is passed on. */
static void note_late(struct tt_agree *a)
{
	struct tt_agreed member = { -1, NULL, 0 };
	size_t at = 0;

	next_entry(&a->accepted, &at, &member);
	for (int rank = 0; rank < a->config.size; rank++) {
		if (rank == member.rank)
			next_entry(&a->accepted, &at, &member);
		else if (a->among[rank] && !a->voices[rank].lost)
			put(a->sets + set_bytes(a), rank);
	}
}

static bool all_are_here(const struct tt_agree *a, const uint8_t *members)
{
	for (int rank = 0; rank < a->config.size; rank++)
		if (has(members, rank) && !a->voices[rank].here)
			return false;
	return true;
}

static bool is_of(const struct tt_agree *a, const struct value *value, const uint8_t *members)
{
	struct tt_agreed member;
	size_t at = 0;
	int missing = 0;

	for (int rank = 0; rank < a->config.size; rank++)
		missing += has(members, rank);
	while (next_entry(value, &at, &member)) {
		if (!has(members, member.rank))
			return false;
		missing--;
	}
	return missing == 0;
}

/* Is the value of the decision that was heard of there? Who is cut off from its leader does not
 * get it, but may have accepted it in an earlier ballot, or heard what each of its members said. */
static bool has_value(struct tt_agree *a)
{
	return is_of(a, &a->accepted, a->sets) ||
	       (has(a->sets, a->config.rank) && all_are_here(a, a->sets) &&
		make_value(a, a->decided, a->sets));
}

static void receive_decided(struct tt_agree *a, int from, uint64_t ballot, const uint8_t *sets)
{
	a->voices[from].told = true;
	if (ballot < a->decided)
		return;
	memcpy(a->sets, sets, 2 * set_bytes(a));
	a->decided = ballot;
	a->just_heard = true;
}

/* Who takes no part in what was decided tells all, too: they may count on what it promised. */
static void stand_aside(struct tt_agree *a, enum tt_agree_state state)
{
	a->state = state;
	send_to_all(a, DECIDED, a->decided, a->sets, 2 * set_bytes(a));
}

void tt_agree_settle(struct tt_agree *a)
{
	if (a->state != TT_AGREE_OPEN || !a->decided)
		return;
	if (a->held.bytes && is_of(a, &a->held, a->sets))
		take_held(a);
	if (has_value(a))
		conclude(a, a->decided);
	else if (!has(a->sets, a->config.rank))
		stand_aside(a, TT_AGREE_LEFT_OUT);
}

/* ---- leading */

/* This rank's first ballot above those that it has promised. */
static uint64_t next_ballot(const struct tt_agree *a)
{
	const uint64_t size = (uint64_t)a->config.size;
	const uint64_t ballot =
		(a->promised ? (a->promised - 1) / size : 0) * size + (uint64_t)a->config.rank + 1;

	return ballot > a->promised ? ballot : ballot + size;
}

/* Is nothing more to be hoped for from the rank, as a leader? */
static bool given_up(const struct tt_agree *a, int rank, uint64_t now)
{
	const struct voice *voice = &a->voices[rank];

	if (voice->lost)
		return true;
	if (!voice->here)
		return now >= a->deadline;
	return voice->asked && now >= voice->asked_at + a->config.answer_ns;
}

static bool is_lowest(const struct tt_agree *a)
{
	for (int rank = 0; rank < a->config.rank; rank++)
		if (a->among[rank])
			return false;
	return true;
}

/* Does this rank, as long as it does not lead, wait for the other to do so? */
static bool is_before(const struct tt_agree *a, int rank)
{
	if (!a->among[rank] || rank == a->config.rank)
		return false;
	return rank < a->config.rank || (a->promised && rank == owner_of(a, a->promised));
}

static bool may_lead(const struct tt_agree *a, uint64_t now)
{
	for (int rank = 0; rank < a->config.size; rank++)
		if (is_before(a, rank) && !given_up(a, rank, now))
			return false;
	return true;
}

static void ask(struct tt_agree *a, uint64_t now)
{
	for (int rank = 0; rank < a->config.size; rank++) {
		struct voice *voice = &a->voices[rank];

		if (!is_before(a, rank) || !voice->here || voice->lost || voice->asked ||
		    now < voice->heard + PATIENCE(a->config.answer_ns))
			continue;
		voice->asked = true;
		voice->asked_at = now;
		send_to(a, rank, ASK, 0, 0, NULL, 0);
	}
}

static void expect_answers(struct tt_agree *a, uint64_t now)
{
	for (int rank = 0; rank < a->config.size; rank++)
		a->voices[rank].answered = rank == a->config.rank;
	a->answers_until = now + a->config.answer_ns;
}

static void lead(struct tt_agree *a, uint64_t now)
{
	const bool first = is_lowest(a) && !a->promised; /* there is no ballot below */

	a->promised = a->ballot = next_ballot(a);
	expect_answers(a, now);
	a->phase = first ? GATHERING : COLLECTING;
	if (first)
		for (int rank = 0; rank < a->config.size; rank++)
			a->voices[rank].answered = a->voices[rank].here;
	else
		send_to_all(a, COLLECT, a->ballot, NULL, 0);
}

/* A rank that has not come has until the deadline; one that has come must answer. */
static bool all_answered(const struct tt_agree *a, uint64_t now)
{
	for (int rank = 0; rank < a->config.size; rank++) {
		const struct voice *voice = &a->voices[rank];

		if (!a->among[rank] || voice->answered || voice->lost)
			continue;
		if (now < (voice->here ? a->answers_until : a->deadline))
			return false;
	}
	return true;
}

static void propose(struct tt_agree *a, uint64_t now)
{
	memset(a->sets, 0, set_bytes(a));
	for (int rank = 0; rank < a->config.size; rank++)
		if (a->voices[rank].answered && !a->voices[rank].lost)
			put(a->sets, rank);
	if (!a->accepted.ballot && !make_value(a, a->ballot, a->sets))
		return;
	a->accepted.ballot = a->ballot;
	a->phase = PROPOSING;
	/* those who did not answer are not waited for again */
	for (int rank = 0; rank < a->config.size; rank++)
		a->voices[rank].answered = !a->voices[rank].answered || rank == a->config.rank;
	a->answers_until = now + a->config.answer_ns;
	send_to_all(a, PROPOSE, a->ballot, a->accepted.bytes, a->accepted.length);
}

void tt_agree_step(struct tt_agree *a, uint64_t now)
{
	tt_agree_settle(a);
	/* all was read since, and the value is not there */
	if (a->state == TT_AGREE_OPEN && a->decided && !a->just_heard)
		stand_aside(a, TT_AGREE_UNTOLD);
	a->just_heard = false;
	if (a->decided)
		return; /* there is nothing left to lead to */
	if (a->state == TT_AGREE_OPEN)
		look_at_held(a, now);
	if (a->state == TT_AGREE_OPEN && a->phase == FOLLOWING)
		ask(a, now);
	if (a->state == TT_AGREE_OPEN && a->phase == FOLLOWING && may_lead(a, now))
		lead(a, now);
	if (a->state == TT_AGREE_OPEN && (a->phase == GATHERING || a->phase == COLLECTING) &&
	    all_answered(a, now))
		propose(a, now);
	if (a->state == TT_AGREE_OPEN && a->phase == PROPOSING && all_answered(a, now)) {
		note_late(a);
		conclude(a, a->ballot);
	}
}

/* ---- what comes */

static bool receive_here(struct tt_agree *a, int from, const void *body, size_t length)
{
	struct voice *voice = &a->voices[from];

	if (length > TT_AGREE_SAID_MAX || voice->here)
		return false;
	voice->said = malloc(length + 1);
	if (!voice->said) {
		a->state = TT_AGREE_NO_MEMORY;
		return true;
	}
	if (length)
		memcpy(voice->said, body, length);
	voice->length = length;
	voice->here = true;
	if (a->phase == GATHERING)
		voice->answered = true;
	return true;
}

static void receive_collect(struct tt_agree *a, int from, uint64_t ballot)
{
	if (a->decided)
		return; /* it is told so */
	if (ballot < a->promised) {
		send_to(a, from, REFUSE, ballot, a->promised, NULL, 0);
		return;
	}
	a->promised = ballot;
	a->phase = FOLLOWING;
	send_to(a, from, PROMISE, ballot, a->accepted.ballot, a->accepted.bytes,
		a->accepted.length);
}

static bool receive_promise(struct tt_agree *a, int from, const struct tt_agree_head *head,
			    const void *body)
{
	if (head->other && !is_value(a, body, head->length))
		return false;
	if (a->phase != COLLECTING || head->ballot != a->ballot || !a->voices[from].here)
		return true;
	/* as if accepted by this rank: it is what a leader of that ballot proposed */
	if (head->other > a->accepted.ballot &&
	    !keep_value(a, &a->accepted, head->other, body, head->length))
		return true;
	a->voices[from].answered = true;
	return true;
}

static void receive_refuse(struct tt_agree *a, uint64_t ballot, uint64_t promised)
{
	if (a->phase == FOLLOWING || ballot != a->ballot || promised <= a->promised)
		return;
	a->promised = promised;
	a->phase = FOLLOWING;
}

static bool receive_propose(struct tt_agree *a, int from, const struct tt_agree_head *head,
			    const void *body, uint64_t now)
{
	if (!is_value(a, body, head->length))
		return false;
	if (head->ballot < a->promised) {
		send_to(a, from, REFUSE, head->ballot, a->promised, NULL, 0);
		return true;
	}
	a->promised = head->ballot;
	a->phase = FOLLOWING;
	if (keep_value(a, &a->held, head->ballot, body, head->length)) {
		a->held_until = now + HOLD(a->config.answer_ns);
		look_at_held(a, now);
	}
	return true;
}

#define BALLOT_MAX (UINT64_MAX / 2) /* that numbers above it can be had */

/* Could a rank that follows agree.c have sent it? Only the owner of a ballot leads in it. */
static bool is_sound(const struct tt_agree *a, int from, const struct tt_agree_head *head)
{
	if (head->ballot > BALLOT_MAX || head->other > BALLOT_MAX)
		return false;
	switch ((enum kind)head->kind) {
	case COLLECT:
	case PROPOSE: return head->ballot && owner_of(a, head->ballot) == from;
	case DECIDED: return head->ballot && head->length == 2 * set_bytes(a);
	default: return true;
	}
}

bool tt_agree_receive(struct tt_agree *a, int from, const struct tt_agree_head *head,
		      const void *body, uint64_t now)
{
	if (a->state != TT_AGREE_OPEN || head->instance < a->config.instance || !a->among[from])
		return true; /* late */
	a->voices[from].heard = now;
	a->voices[from].asked = false;
	if (head->instance > a->config.instance) {
		/* streams keep their order: the decision of this agreement was not for this rank */
		if (!a->decided)
			a->state = TT_AGREE_UNTOLD;
		return true;
	}
	if (!is_sound(a, from, head))
		return false;
	switch ((enum kind)head->kind) {
	case HERE: return receive_here(a, from, body, head->length);
	case COLLECT: receive_collect(a, from, head->ballot); return true;
	case PROMISE: return receive_promise(a, from, head, body);
	case REFUSE: receive_refuse(a, head->ballot, head->other); return true;
	case PROPOSE: return receive_propose(a, from, head, body, now);
	case ACCEPT:
		a->voices[from].answered |= a->phase == PROPOSING && head->ballot == a->ballot;
		return true;
	case DECIDED: receive_decided(a, from, head->ballot, body); return true;
	case ASK: send_to(a, from, ALIVE, 0, 0, NULL, 0); return true;
	case ALIVE: return true;
	}
	return false;
}

bool tt_agree_has_told(const struct tt_agree *a, int rank)
{
	return a->voices[rank].told;
}

void tt_agree_lost(struct tt_agree *a, int rank)
{
	a->voices[rank].lost = true;
}

/* ---- life */

static tutti_result_t say(struct tt_agree *a)
{
	struct voice *me = &a->voices[a->config.rank];

	if (!receive_here(a, a->config.rank, a->config.said, a->config.length))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "rank %d has %zu bytes to say, expected at most %d", a->config.rank,
			       a->config.length, TT_AGREE_SAID_MAX);
	if (a->state == TT_AGREE_NO_MEMORY)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory to agree");
	a->config.said = me->said;
	send_to_all(a, HERE, 0, me->said, me->length);
	return TUTTI_OK;
}

tutti_result_t tt_agree_open(const struct tt_agree_config *config, uint64_t now,
			     struct tt_agree **out)
{
	struct tt_agree *a = calloc(1, sizeof(*a));
	const size_t size = (size_t)config->size;
	tutti_result_t result;

	if (!a)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory to agree");
	a->config = *config;
	a->deadline = now + config->coming_ns;
	a->among = malloc(size * sizeof(*a->among));
	a->voices = calloc(size, sizeof(*a->voices));
	a->sets = calloc(2, set_bytes(a));
	if (a->among && a->voices && a->sets) {
		memcpy(a->among, config->among, size * sizeof(*a->among));
		result = say(a);
	} else {
		result = tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks to agree",
				 config->size);
	}
	if (result) {
		tt_agree_close(a);
		return result;
	}
	*out = a;
	return TUTTI_OK;
}

void tt_agree_close(struct tt_agree *a)
{
	if (!a)
		return;
	for (int rank = 0; a->voices && rank < a->config.size; rank++)
		free(a->voices[rank].said);
	free(a->voices);
	free(a->among);
	free(a->sets);
	free(a->accepted.bytes);
	free(a->held.bytes);
	free(a);
}

enum tt_agree_state tt_agree_state(const struct tt_agree *a)
{
	return a->state;
}

int tt_agree_count(const struct tt_agree *a)
{
	return a->members;
}

struct tt_agreed tt_agree_member(const struct tt_agree *a, int place)
{
	struct tt_agreed member = { -1, NULL, 0 };
	size_t at = 0;

	for (int i = 0; i <= place; i++)
		next_entry(&a->accepted, &at, &member);
	return member;
}

bool tt_agree_was_late(const struct tt_agree *a, int rank)
{
	return has(a->sets + set_bytes(a), rank);
}
