/* SPDX-License-Identifier: BSD-3-Clause */
/* One case, from the start of its ranks to the judgement. */
#include "scene.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "leftovers.h"
#include "network.h"
#include "rank.h"
#include "stage.h"

#define STOP_DEADLINE_S 2.0 /* what a stop costs at least … */
#define STOP_REGROUP_S	4.0 /* … where others are told apart by it that only wait for a core */
/* Where a deadline may be what tells, and mostly is not. */
#define SHORT_DEADLINE_S (machine_may_be_busy() ? 15.0 : 5.0)
#define INIT_DEADLINE_S	 (machine_may_be_busy() ? 15.0 : 4.0)
#define LONG_DEADLINE_S	 (double)USUAL_DEADLINE_S
#define SILENCE_S	 1.0
#define STORE_GRACE_S	 3.0
#define DECLINE_S	 3.0
#define SERVED		 "unix:tutti-served-%d"

static void fail(struct verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct verdict *v, const char *format, ...)
{
	const size_t used = strlen(v->why);
	va_list args;

	v->failed = true;
	if (used + 4 >= sizeof(v->why))
		return;
	va_start(args, format);
	if (used)
		memcpy(v->why + used, "; ", 3);
	vsnprintf(v->why + strlen(v->why), sizeof(v->why) - strlen(v->why), format, args);
	va_end(args);
}

/* ---- how long it may take */

static bool regroups(const struct fault_case *c)
{
	return phases[c->phase].stretch == STRETCH_SHRINK ||
	       phases[c->phase].stretch == STRETCH_GROW;
}

static double deadline_of(const struct fault_case *c)
{
	if (phases[c->phase].stretch == STRETCH_INIT)
		return INIT_DEADLINE_S;
	if (c->fault == FAULT_STOP)
		return regroups(c) ? STOP_REGROUP_S : STOP_DEADLINE_S;
	if (case_may_succeed(c) || regroups(c))
		return SHORT_DEADLINE_S;
	return LONG_DEADLINE_S;
}

/* A fault that shows itself is told within a second. What can only be missed is told by the
 * deadline, or by silence. */
static double bound_of(const struct fault_case *c)
{
	const double second = 1.0;
	const bool mute =
		(c->fault == FAULT_STOP || c->fault == FAULT_UNPLUGGED) && case_lost(c) & 1;

	/* a host of the store that does not answer is given time to, at the end, too */
	if (phases[c->phase].stretch == STRETCH_INIT)
		return INIT_DEADLINE_S + (mute ? STORE_GRACE_S : 0) + second;
	/* found silent in an agreement within 2¼ times (agree.c), and members by its decision
	 * all the same; then not joining, for half of one, and not coming to the agreement on
	 * that (shrink.c). Less where that decision is the last, and an operation fails */
	if (regroups(c))
		return 3.75 * deadline_of(c) + DECLINE_S + second;
	if (c->fault == FAULT_STOP || case_may_succeed(c))
		return deadline_of(c) + second;
	if (c->fault == FAULT_CUT) /* when it is used next */
		return SHORT_DEADLINE_S;
	return c->fault == FAULT_UNPLUGGED ? SILENCE_S + second : second;
}

/* ---- the job */

static void surround(struct environment *e, const struct scene *s)
{
	static const char *const transports[] = { "shm", "tcp", "shm,tcp", "tcp" };
	const struct fault_case *c = &s->c;

	environment_add(e, "TUTTI_TRANSPORT=%s", transports[c->transport]);
	environment_add(e, "TUTTI_ENCRYPT=%d", c->transport == TRANSPORT_TLS);
	environment_add(e, "TUTTI_TIMEOUT=%g", s->deadline_s);
	environment_add(e, "TUTTI_SILENCE=%g", SILENCE_S);
	environment_add(e, "TUTTI_TRACE=off");
	environment_add(e, "TUTTI_KEY=%064x", 0x7755);
	if (case_hosts(c))
		environment_add(e, "TEST_HOSTS=%d", case_hosts(c));
	if (phases[c->phase].served) {
		environment_add(e, "TUTTI_STORE=" SERVED, (int)getpid());
		environment_add(e, "TUTTI_STORE_SERVED=once");
	} else if (c->fault == FAULT_UNPLUGGED) /* what all hosts see */
		environment_add(e, "TUTTI_STORE=file:%s/first", s->directory);
	/* on links every rank of a ring combines */
	if (phases[c->phase].place == PLACE_INSIDE && c->transport != TRANSPORT_SHM)
		environment_add(e, "TUTTI_ALGORITHM=ring");
}

/* Where ranks meet that host no store themselves, in a process of its own; -1: they do. */
static pid_t serve_store(const struct fault_case *c, const char *const *env)
{
	const pid_t parent = getpid(), pid = phases[c->phase].served ? fork() : -1;
	char address[32];
	tutti_store_t store;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; env[i]; i++)
		putenv((char *)env[i]);
	snprintf(address, sizeof(address), SERVED, (int)parent);
	while (tutti_store_open(address, 1, 0, &store) == TUTTI_OK)
		pause();
	_exit(1);
}

static int run(struct scene *s)
{
	struct environment surroundings = { 0 };

	surround(&surroundings, s);
	const pid_t server = serve_store(&s->c, surroundings.env);
	const struct job job = {
		.ranks = case_ranks(&s->c),
		.env = surroundings.env,
		.whole = rank_play,
		.argument = s,
		.limit_s = s->bound_s + 3 * s->deadline_s + 10,
		.expect_signal = SIGKILL,
		.victims = case_gone(&s->c) |
			   (s->c.fault == FAULT_KILL && !s->rehearsal ? case_victims(&s->c) : 0),
	};

	const int failed = run_job(&job);
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	return failed;
}

/* How many calls of the system each rank makes in the stretch. */
static void rehearse(struct scene *s, struct verdict *v)
{
	const enum stretch stretch = phases[s->c.phase].stretch;
	struct report *report = s->stage->report;
	unsigned calls[RANKS_MAX];

	if (stretch == STRETCH_IDLE || stretch == STRETCH_COLLECTIVE)
		return;
	s->rehearsal = true;
	if (run(s))
		fail(v, "the rehearsal failed: %.200s", report[0].complaint);
	s->rehearsal = false;
	for (int rank = 0; rank < RANKS_MAX; rank++)
		calls[rank] = report[rank].calls;
	memset(s->stage, 0, sizeof(*s->stage));
	for (int rank = 0; rank < RANKS_MAX; rank++)
		report[rank].calls = calls[rank];
}

/* ---- the judgement */

/* Did the store's host see the victims go? Then it told those that were rendezvous. */
static bool is_seen_by_store(const struct scene *s)
{
	const uint32_t fault = s->c.fault;
	bool seen = phases[s->c.phase].stretch == STRETCH_INIT &&
		    (fault == FAULT_KILL || fault == FAULT_EXIT || fault == FAULT_CLOSED);

	for (int rank = 0; rank < RANKS_MAX; rank++)
		seen &= s->stage->report[rank].attended || !(case_victims(&s->c) >> rank & 1);
	return seen;
}

/* Does the error message of a rank that could not join speak of one of the lost? Rank 0 hosts the
 * store. */
static bool speaks_of(const char *error_text, uint32_t lost)
{
	if (lost & 1 && strstr(error_text, "the store "))
		return true;
	for (int rank = 0; rank < RANKS_MAX; rank++) {
		char number[4];

		snprintf(number, sizeof(number), "%d", rank);
		if (!(lost >> rank & 1))
			continue;
		for (const char *at = error_text; (at = strstr(at, number)); at++)
			if (at > error_text && at[-1] == ' ' && strchr(" ,:;", at[1]))
				return true;
	}
	return false;
}

static double last_fault(const struct scene *s)
{
	double last = 0;

	for (int rank = 0; rank < RANKS_MAX; rank++)
		if (atomic_load(&s->stage->report[rank].fault_at) > last)
			last = atomic_load(&s->stage->report[rank].fault_at);
	return last;
}

/* Those whose calls are judged: not the lost; a victim that runs on with the others is like
 * them, and so is one that has lost a single connection. */
static bool is_witness(const struct scene *s, int rank)
{
	const bool all = s->c.fault == FAULT_CUT && s->c.victim != VICTIM_TWO;

	return all || case_survivors(&s->c) >> rank & 1;
}

/* Those that could not join have no communicator to agree on a culprit by: they name whom the
 * store's host saw go, or else whom each waited for, which is the culprit or another that could
 * not join because of it. Who is the culprit says why, and need not say who it is. */
static void judge_culprit(const struct scene *s, const struct report *r, int rank,
			  struct verdict *v)
{
	const uint32_t lost = case_lost(&s->c);
	const bool sure = is_seen_by_store(s) && s->c.fault != FAULT_CLOSED;
	uint32_t failed = lost, blamable = case_blamable(&s->c);

	for (int victim = 0; victim < RANKS_MAX && s->c.fault == FAULT_CUT; victim++)
		if (lost >> victim & 1)
			blamable |= 1u << s->stage->report[victim].cut_off;
	for (int other = 0; other < RANKS_MAX && !sure; other++)
		if (s->stage->report[other].result)
			failed |= 1u << other;
	if (phases[s->c.phase].stretch != STRETCH_INIT &&
	    (r->culprit < 0 || !(blamable >> r->culprit & 1)))
		fail(v, "rank %d blames another: %.300s", rank, r->error_text);
	if (phases[s->c.phase].stretch == STRETCH_INIT && !(lost >> rank & 1) &&
	    !speaks_of(r->error_text, failed & ~(1u << rank)))
		fail(v, "rank %d blames another: %.300s", rank, r->error_text);
}

/* What all are told of faults that leave no doubt, in one sentence for all. */
static const struct {
	tutti_result_t result; /* 0: there may be doubt */
	const char *words;
} told_of[FAULT_COUNT] = {
	[FAULT_KILL] = { TUTTI_ERR_PEER_LOST, "died" },
	[FAULT_EXIT] = { TUTTI_ERR_PEER_LOST, "died" },
	[FAULT_CUT] = { TUTTI_ERR_PEER_LOST, "" },
	[FAULT_UNPLUGGED] = { TUTTI_ERR_PEER_LOST, "nothing for 1 s" },
	[FAULT_LEAVE] = { TUTTI_ERR_PEER_LOST, "left" },
	[FAULT_ABORT] = { TUTTI_ERR_ABORTED, "aborted the communicator: " ABORT_REASON },
};

static void judge_words(const struct scene *s, int rank, const struct report *first,
			struct verdict *v)
{
	const struct report *r = &s->stage->report[rank];

	if (!told_of[s->c.fault].result)
		return;
	if (r->result != told_of[s->c.fault].result ||
	    !strstr(r->error_text, told_of[s->c.fault].words))
		fail(v, "rank %d got %d (%.200s), expected %d (%s)", rank, r->result, r->error_text,
		     told_of[s->c.fault].result, told_of[s->c.fault].words);
	if (strcmp(r->error_text, first->error_text) != 0)
		fail(v, "rank %d was told \"%.200s\", another \"%.200s\"", rank, r->error_text,
		     first->error_text);
}

/* Who lacks descriptors is told which limit that is. */
static void judge_limit(const struct scene *s, int rank, struct verdict *v)
{
	const struct report *r = &s->stage->report[rank];

	if (s->c.fault == FAULT_DESCRIPTORS && r->result == TUTTI_ERR_SYSTEM &&
	    !strstr(r->error_text, "ulimit -n"))
		fail(v, "rank %d does not name the limit: %.200s", rank, r->error_text);
}

/* Of one rank that the store's host saw go, those that could not join have heard by it. */
static void judge_news(const struct scene *s, struct verdict *v)
{
	const struct report *first = NULL;

	if (!is_seen_by_store(s) || !told_of[s->c.fault].result || s->c.victim == VICTIM_TWO)
		return;
	for (int rank = 0; rank < case_ranks(&s->c); rank++) {
		const struct report *r = &s->stage->report[rank];

		if (!is_witness(s, rank) || !r->result || r->culprit >= 0)
			continue;
		first = first ? first : r;
		if (r->result != TUTTI_ERR_PEER_LOST ||
		    strcmp(r->error_text, first->error_text) != 0)
			fail(v,
			     "rank %d, which could not join, was told %d (%.200s), another %.200s",
			     rank, r->result, r->error_text, first->error_text);
	}
}

/* One of the witnesses, and the first of them. */
static void judge_witness(const struct scene *s, int rank, const struct report *first,
			  struct verdict *v)
{
	const struct report *r = &s->stage->report[rank];
	const bool joining = phases[s->c.phase].stretch == STRETCH_INIT;

	if (!r->result != !first->result)
		fail(v, "%s error on rank %d: %.200s", r->result ? "an" : "no", rank,
		     r->result ? r->error_text : first->error_text);
	if (!r->result || !first->result)
		return;
	judge_culprit(s, r, rank, v);
	judge_limit(s, rank, v);
	if (!joining && (r->result != first->result || r->culprit != first->culprit))
		fail(v, "rank %d got %d (%.150s), another %d (%.150s)", rank, r->result,
		     r->error_text, first->result, first->error_text);
	if (!joining && phases[s->c.phase].stretch != STRETCH_DESTROY)
		judge_words(s, rank, first, v);
}

static void judge_times(const struct scene *s, struct verdict *v)
{
	const double second = 1.0, bound = is_seen_by_store(s) ? second : s->bound_s;

	for (int rank = 0; rank < case_ranks(&s->c); rank++) {
		const struct report *r = &s->stage->report[rank];
		const double end = regroups(&s->c) ? r->went_on_at : r->result ? r->told_at : 0;

		if (is_witness(s, rank) && end > 0)
			v->told_s = fmax(v->told_s, fmax(end - last_fault(s), 0));
	}
	if (v->told_s > bound + SLACK_S)
		fail(v, "told after %.2f s, expected %g s", v->told_s, bound);
}

/* Those at stake that have no communicator in the end. */
static uint32_t left_out(const struct scene *s)
{
	uint32_t out = case_at_stake(&s->c);

	for (int rank = 0; rank < case_ranks(&s->c); rank++)
		if (s->stage->report[rank].size > 0)
			out &= ~(1u << rank);
	return out;
}

/* The newcomer is in it on all ranks or on none, and nobody else is missing. */
static void judge_sizes(const struct scene *s, struct verdict *v)
{
	const uint32_t survivors = case_survivors(&s->c) & ~left_out(s),
		       old = survivors & ((1u << case_members(&s->c)) - 1);
	const int least = __builtin_popcount(old), most = __builtin_popcount(survivors);
	int size = 0;

	for (int rank = 0; rank < case_ranks(&s->c); rank++) {
		const int found = s->stage->report[rank].size;

		if (!(survivors >> rank & 1))
			continue;
		size = size ? size : found;
		if (old >> rank & 1 ? found != size || (size != least && size != most)
				    : found != size && (size != least || found > 0))
			fail(v, "rank %d is one of %d in the end, expected %d or all the %d", rank,
			     found, least, most);
	}
}

/* Those that are left, and nobody else, make up one communicator, in order of rank; whoever was
 * at stake is in it, or not. */
static void judge_places(const struct scene *s, struct verdict *v)
{
	const uint32_t stakes = case_at_stake(&s->c), survivors = case_survivors(&s->c);
	int size = 0, place = 0;

	for (int rank = 0; rank < case_ranks(&s->c); rank++)
		if ((survivors | stakes) >> rank & 1)
			size += s->stage->report[rank].size > 0;
	for (int rank = 0; rank < case_ranks(&s->c); rank++) {
		const struct report *r = &s->stage->report[rank];

		if (!((survivors | stakes) >> rank & 1) || (stakes >> rank & 1 && !r->size))
			continue;
		if (r->size != size || r->place != place)
			fail(v, "rank %d goes on as rank %d of %d, expected rank %d of %d", rank,
			     r->place, r->size, place, size);
		place++;
	}
}

static void judge(const struct scene *s, struct verdict *v)
{
	const enum stretch stretch = phases[s->c.phase].stretch;
	const bool must_fail = (stretch == STRETCH_IDLE || stretch == STRETCH_COLLECTIVE) &&
			       !case_may_succeed(&s->c);
	const struct report *first = NULL;

	for (int rank = 0; rank < case_ranks(&s->c); rank++) {
		const struct report *r = &s->stage->report[rank];

		if (*r->complaint)
			fail(v, "rank %d: %.300s", rank, r->complaint);
		if (case_victims(&s->c) >> rank & 1 && !atomic_load(&r->fault_at))
			fail(v, "the fault of rank %d never happened", rank);
		if (!is_witness(s, rank))
			continue;
		if (!r->finished)
			fail(v, "rank %d did not come to its end", rank);
		first = first ? first : r;
		if (!regroups(&s->c)) /* there, it is about what was before */
			judge_witness(s, rank, first, v);
	}
	if (must_fail && !first->result)
		fail(v, "no call failed");
	if (stretch == STRETCH_GROW)
		judge_sizes(s, v);
	else if (stretch == STRETCH_SHRINK ||
		 (first && first->result && stretch != STRETCH_INIT && stretch != STRETCH_DESTROY))
		judge_places(s, v);
	judge_news(s, v);
	judge_times(s, v);
}

/* ---- */

void scene_play(const struct fault_case *c, uint64_t seed, struct verdict *out)
{
	struct scene s = {
		.c = *c,
		.seed = seed,
		.stage = shared_memory(sizeof(struct stage)),
		.deadline_s = deadline_of(c),
		.bound_s = bound_of(c),
	};
	const bool own_network = network_own(c->fault == FAULT_UNPLUGGED), own_shm = own_files();
	char left[256];

	*out = (struct verdict){ .told_s = -1 };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	make_directory(s.directory);
	if (c->fault == FAULT_UNPLUGGED)
		snprintf(s.again, sizeof(s.again), "file:%.60s/again", s.directory);
	else
		snprintf(s.again, sizeof(s.again), "unix:tutti-again-%d", (int)getpid());
	rehearse(&s, out);
	if (!out->failed) {
		if (run(&s))
			fail(out, "ranks ended as they should not");
		judge(&s, out);
	}
	if (!nothing_is_left(own_network, own_shm, left, sizeof(left)))
		fail(out, "%s", left);
	remove_directory(s.directory);
}
