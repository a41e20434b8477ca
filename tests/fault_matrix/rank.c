/* SPDX-License-Identifier: BSD-3-Clause */
/* What every rank of a case does: join, come to the phase, have the fault happen there if it is
 * a victim, call on until there is an error or the end of what is to be called; then see that
 * the error stays, go on without the lost, and leave nothing. */
#include "rank.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "leftovers.h"
#include "network.h"
#include "player.h"
#include "victim.h"

int player_complain(struct player *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!p->failed) /* the first says most */
		vsnprintf(p->report->complaint, sizeof(p->report->complaint), format, args);
	va_end(args);
	p->failed = true;
	return 1;
}

bool player_is_lost(const struct player *p)
{
	return !p->scene->rehearsal && case_lost(&p->scene->c) >> p->rank & 1;
}

uint32_t player_survivors(const struct player *p)
{
	const struct fault_case *c = &p->scene->c;

	return p->scene->rehearsal ? ((1u << p->ranks) - 1) & ~case_gone(c) : case_survivors(c);
}

static bool all_have_fault(const struct player *p)
{
	const uint32_t victims = case_victims(&p->scene->c);

	for (int rank = 0; rank < p->ranks; rank++)
		if (victims >> rank & 1 && atomic_load(&p->stage->report[rank].fault_at) == 0)
			return false;
	return true;
}

/* ---- the error */

/* What a call of the library came back with; the first error is the one that counts. */
static tutti_result_t note(struct player *p, tutti_result_t result)
{
	struct report *r = p->report;

	if (result >= 0 || r->result)
		return result;
	r->told_at = seconds_now();
	r->result = result;
	snprintf(r->error_text, sizeof(r->error_text), "%s", tutti_last_error(p->comm));
	if (p->comm && tutti_comm_error(p->comm, &r->culprit) != result)
		player_complain(p, "a call returned %d, which tutti_comm_error() does not", result);
	return result;
}

static void check_that_it_stays(struct player *p)
{
	const struct report *r = p->report;
	const double start = seconds_now();
	tutti_request_t request = NULL;
	tutti_result_t later[3];

	later[0] = tutti_barrier(p->comm, NULL);
	later[1] = work_start(p->comm, &p->call, NULL);
	later[2] = work_start(p->comm, &p->call, &request);
	if (later[2] >= 0)
		later[2] = tutti_wait(&request);
	for (int i = 0; i < 3; i++)
		if (later[i] != r->result)
			player_complain(p, "a later call returned %d after %d (%.200s)", later[i],
					r->result, r->error_text);
	if (strcmp(tutti_last_error(p->comm), r->error_text) != 0)
		player_complain(p, "the sentence \"%.200s\" became \"%.200s\"", r->error_text,
				tutti_last_error(p->comm));
	if (seconds_now() - start > AT_ONCE_S + SLACK_S)
		player_complain(p, "later calls took %.2f s", seconds_now() - start);
}

/* ---- calls */

static tutti_result_t call_once(struct player *p, const struct work *call)
{
	const tutti_result_t result = work_start(p->comm, call, NULL);

	if (!result && !work_is_right())
		player_complain(p, "a collective of %zu bytes succeeded with wrong results",
				call->bytes);
	return note(p, result);
}

static tutti_result_t split(struct player *p)
{
	tutti_comm_t half = NULL;
	const tutti_result_t result = tutti_comm_split(p->comm, p->rank % 2, p->rank, &half);

	tutti_comm_destroy(half);
	/* who cannot make a part of the new one keeps the old one */
	return result && !tutti_comm_error(p->comm, NULL) && case_may_succeed(&p->scene->c)
		       ? TUTTI_OK
		       : note(p, result);
}

/* So long that they go straight from each rank to each. */
static const struct work pairs = { ALL_TO_ALL, 16 * MEDIUM_BYTES, TUTTI_SUM, 0 };

/* Everything that may want memory, connections or peers, until there is an error. */
static tutti_result_t call_the_rest(struct player *p)
{
	const struct work messages = { MESSAGE, MEDIUM_BYTES, TUTTI_SUM, 0 };
	const struct work medium = { ALL_TO_ALL, MEDIUM_BYTES, TUTTI_SUM, 0 };
	const struct work large = { ALL_REDUCE, WORK_BYTES, TUTTI_SUM, 0 };
	/* as in choose_call() */
	tutti_result_t result =
		p->scene->c.fault == FAULT_STOP ? TUTTI_OK : call_once(p, &messages);

	if (!result)
		result = call_once(p, &medium);
	if (!result)
		result = split(p);
	if (!result)
		result = call_once(p, &large);
	/* who does not use a connection does not know, and some are for long messages alone */
	for (int i = 0; !result && p->scene->c.fault == FAULT_CUT; i++)
		result = call_once(p, i % 2 ? &large : &pairs);
	return result;
}

/* One that has left is done. */
static tutti_result_t call_on(struct player *p)
{
	if (!p->comm)
		return TUTTI_OK;
	const tutti_result_t result = call_once(p, &p->call);

	return result ? result : call_the_rest(p);
}

/* ---- the phases */

/* Where the victim is in no call: it may be one. */
static void have_fault(struct player *p)
{
	victim_fault();
	if (p->scene->c.fault == FAULT_ABORT)
		tutti_comm_abort(p->comm, ABORT_REASON);
	if (p->scene->c.fault == FAULT_LEAVE) {
		tutti_comm_destroy(p->comm);
		p->comm = NULL;
	}
}

static void add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	struct player *p = context;
	float *to = inout;
	const float *from = in;

	if (++p->combined == p->combine_at && victim_is_one())
		victim_fault();
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

static tutti_result_t idle(struct player *p)
{
	if (call_once(p, &p->call))
		return player_complain(p, "the call before the fault failed: %s",
				       p->report->error_text);
	meet_at(&p->stage->idle, p->ranks);
	if (victim_is_one())
		have_fault(p);
	while (!all_have_fault(p))
		look_again();
	return call_on(p);
}

/* The others are about to wait; the fault is there before the call is. */
static tutti_result_t absent(struct player *p)
{
	const int victims = __builtin_popcount(case_victims(&p->scene->c));

	if (!victim_is_one()) {
		atomic_fetch_add(&p->stage->ready, 1);
		return call_on(p);
	}
	await_count(&p->stage->ready, p->ranks - victims);
	have_fault(p);
	return call_on(p);
}

static tutti_result_t posted(struct player *p)
{
	const uint64_t tries = case_random(&p->scene->c, p->scene->seed, 2) % 30;
	tutti_request_t request = NULL;
	tutti_result_t result;

	if (!victim_is_one())
		return call_on(p);
	result = work_start(p->comm, &p->call, &request);
	for (uint64_t i = 0; i < tries && result >= 0 && request; i++)
		result = tutti_test(&request);
	have_fault(p);
	if (result >= 0 && request)
		result = tutti_wait(&request);
	return note(p, result) ? result : call_the_rest(p);
}

static tutti_result_t inside(struct player *p)
{
	p->combine_at = 1 + (unsigned)(case_random(&p->scene->c, p->scene->seed, 3) % 3);
	if (phases[p->scene->c.phase].bytes < WORK_BYTES)
		p->combine_at = 1;
	tutti_result_t result = call_once(p, &p->call);

	if (!result && victim_is_one() && !victim_has_fault()) {
		player_complain(p, "the operation was never called on this rank");
		victim_fault();
	}
	if (!result)
		result = call_on(p);
	return result;
}

static tutti_result_t after(struct player *p)
{
	if (call_once(p, &p->call))
		return p->report->result;
	if (victim_is_one())
		have_fault(p);
	return call_on(p);
}

static tutti_result_t act(struct player *p)
{
	if (phases[p->scene->c.phase].stretch == STRETCH_INIT)
		return call_on(p); /* all or some could join */
	if (phases[p->scene->c.phase].stretch == STRETCH_IDLE)
		return idle(p);
	switch (phases[p->scene->c.phase].place) {
	case PLACE_ABSENT: return absent(p);
	case PLACE_POSTED: return posted(p);
	case PLACE_INSIDE: return inside(p);
	default: return after(p);
	}
}

static void choose_call(struct player *p)
{
	const struct fault_case *c = &p->scene->c;
	const uint64_t random = case_random(c, p->scene->seed, 4);
	const bool collective = phases[c->phase].stretch == STRETCH_COLLECTIVE;
	static const enum what some[] = { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER,
					  ALL_TO_ALL, BROADCAST,      MESSAGE };
	/* a message is blamed on its sender, which may itself wait for one that is stopped */
	const uint64_t kinds = c->fault == FAULT_STOP ? 5 : 6;

	p->call = (struct work){
		.what = collective ? some[random % kinds] : ALL_REDUCE,
		.bytes = collective ? phases[c->phase].bytes : 64,
		.op = TUTTI_SUM,
		.root = (int)(random / kinds % (uint64_t)p->ranks),
	};
	if (!collective || phases[c->phase].place != PLACE_INSIDE)
		return;
	p->call.what = ALL_REDUCE;
	if (tutti_op_create(p->comm, add, 1, p, &p->call.op))
		player_complain(p, "tutti_op_create: %s", tutti_last_error(p->comm));
}

/* ---- a stretch in which calls of the system are counted */

static bool counts_in(const struct player *p, enum stretch stretch)
{
	return phases[p->scene->c.phase].stretch == stretch &&
	       (p->scene->rehearsal || victim_is_one());
}

void player_begin(struct player *p, enum stretch stretch)
{
	const double share = phases[p->scene->c.phase].share;

	if (!counts_in(p, stretch))
		return;
	if (p->scene->rehearsal)
		victim_count_calls(0);
	else
		victim_count_calls(1 + (unsigned)(share * p->report->calls));
}

void player_end(struct player *p, enum stretch stretch)
{
	const unsigned calls = victim_stop_counting();

	if (!counts_in(p, stretch))
		return;
	if (p->scene->rehearsal)
		p->report->calls = calls;
	else
		victim_fault(); /* fewer calls than in the rehearsal: at the end, then */
}

/* ---- afterwards */

static void destroy(struct player *p)
{
	const double start = seconds_now();

	tutti_comm_destroy(p->comm);
	p->comm = NULL;
	if (seconds_now() - start > AT_ONCE_S + SLACK_S && !player_is_lost(p))
		player_complain(p, "tutti_comm_destroy took %.2f s", seconds_now() - start);
}

/* The victims of a stop run on when the last survivor needs them no more: one that was left out
 * because it was slow stops only afterwards. */
static void release(struct player *p, int victim)
{
	struct report *r = &p->stage->report[victim];

	while (!atomic_load(&r->continued) && !atomic_load(&r->finished)) {
		kill(atomic_load(&p->stage->pid[victim]), SIGCONT);
		look_again();
	}
}

static void release_stopped(struct player *p)
{
	const uint32_t lost = case_lost(&p->scene->c), survivors = player_survivors(p);

	if (p->scene->c.fault != FAULT_STOP || p->scene->rehearsal || player_is_lost(p))
		return;
	if (atomic_fetch_add(&p->stage->done, 1) + 1 != __builtin_popcount(survivors))
		return;
	for (int rank = 0; rank < p->ranks; rank++)
		if (lost >> rank & 1)
			release(p, rank);
}

static void join(struct player *p)
{
	const bool joining = phases[p->scene->c.phase].stretch == STRETCH_INIT;

	player_begin(p, STRETCH_INIT);
	const tutti_result_t result = tutti_init(NULL, &p->comm);
	player_end(p, STRETCH_INIT);
	if (note(p, result) && !joining)
		player_complain(p, "tutti_init: %s", p->report->error_text);
	if (!joining && !p->failed)
		meet_at(&p->stage->joined,
			case_members(&p->scene->c)); /* nobody is in tutti_init() any more */
	if (p->comm)
		choose_call(p);
}

/* Every rank has its connections with every other. */
static void connect_all(struct player *p)
{
	if (call_once(p, &pairs))
		player_complain(p, "the call before: %s", p->report->error_text);
	victim_list_links();
	meet_at(&p->stage->connected, p->ranks);
}

/* The fault comes in a call, or between two. */
static void play_collective(struct player *p)
{
	if (p->scene->c.fault == FAULT_CUT)
		connect_all(p);
	const tutti_result_t called = act(p);

	if (victim_is_one() && case_victims(&p->scene->c) != 1u << p->rank)
		victim_fault(); /* the other victim's came first */
	if (!called)
		return;
	check_that_it_stays(p);
	victim_relieve();
	if (phases[p->scene->c.phase].stretch == STRETCH_INIT)
		return; /* some did not even join */
	if (case_goes_on(&p->scene->c))
		meet_at(&p->stage->over, p->ranks); /* by now they can be had again on all */
	if (!player_is_lost(p) || case_goes_on(&p->scene->c))
		go_on_by_shrinking(p, true);
	else if (p->scene->c.fault == FAULT_STOP)
		come_too_late(p);
	release_stopped(p);
}

/* One is lost, and the fault comes when the others shrink. */
static void play_shrink(struct player *p)
{
	if (case_gone(&p->scene->c) >> p->rank & 1)
		raise(SIGKILL);
	if (!call_on(p))
		player_complain(p, "no call failed");
	player_begin(p, STRETCH_SHRINK);
	go_on_by_shrinking(p, false);
	release_stopped(p);
}

/* All leave, and the fault comes meanwhile. */
static void prepare_destroy(struct player *p)
{
	if (call_once(p, &p->call))
		player_complain(p, "the call before: %s", p->report->error_text);
	meet_at(&p->stage->idle, p->ranks);
}

static void play_all(struct player *p)
{
	const enum stretch stretch = phases[p->scene->c.phase].stretch;
	const bool anew = stretch == STRETCH_INIT || stretch == STRETCH_DESTROY;

	if (p->rank < case_members(&p->scene->c))
		join(p);
	if (stretch == STRETCH_GROW && !p->failed) {
		play_grow(p);
		release_stopped(p);
	} else if (p->comm && !p->failed && stretch == STRETCH_SHRINK) {
		play_shrink(p);
	} else if (p->comm && !p->failed && (stretch == STRETCH_DESTROY || p->scene->rehearsal)) {
		prepare_destroy(p);
	} else if (p->comm && !p->failed) {
		play_collective(p);
	}
	player_begin(p, STRETCH_DESTROY);
	destroy(p);
	player_end(p, STRETCH_DESTROY);
	victim_relieve();
	if (anew && player_survivors(p) >> p->rank & 1)
		go_on_by_rendezvous(p);
	if (anew)
		release_stopped(p);
}

int rank_play(int rank, void *argument)
{
	const struct scene *scene = argument;
	struct player p = {
		.scene = scene,
		.stage = scene->stage,
		.report = &scene->stage->report[rank],
		.rank = rank,
		.ranks = case_ranks(&scene->c),
	};
	char left[256];
	void *heap;

	if (tutti_mem_alloc(1, &heap)) /* its descriptor stays with the process */
		return player_complain(&p, "tutti_mem_alloc: %s", tutti_last_error(NULL));
	tutti_mem_free(heap);
	atomic_store(&p.stage->pid[rank], getpid());
	p.report->culprit = -1;
	if (scene->c.fault == FAULT_UNPLUGGED && !network_enter(scene, rank))
		return player_complain(&p, "no host of its own");
	victim_prepare(scene, rank);
	set_number("TUTTI_SIZE", case_members(&scene->c));
	set_number("TUTTI_LOCAL_SIZE", case_members(&scene->c));
	if (!work_begin())
		return player_complain(&p, "no memory");
	const struct holdings before = holdings_now();
	play_all(&p);
	if (!holdings_equal(&before, left, sizeof(left)))
		player_complain(&p, "%s", left);
	work_end();
	p.report->finished = true;
	return p.failed;
}
