/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <string.h>

#include "calls/call.h"

#define CALLS_A_MOVE	4.0  /* of locks, for each move of bytes by a link */
#define AGREEMENT_BYTES 1000 /* that survivors who agree tell each other, or so */
#define SEVERAL		3    /* operations that may be under way at once */

static const char *const fault_names[FAULT_KINDS] = { "death", "survivor", "member", "stop",
						      "jump",  "pause",	   "store",  "memory",
						      "cut",   "refuse",   "skip",   "other",
						      "hurry", "leave",	   "abort",  "absent" };

const char *fault_name(enum fault_kind kind)
{
	return fault_names[kind];
}

const struct fault *plan_deviation(const struct plan *plan, int rank, int step)
{
	for (int i = 0; i < plan->nfaults; i++) {
		const struct fault *fault = &plan->faults[i];

		if (fault->kind >= FAULT_SKIP && fault->kind <= FAULT_ABORT &&
		    fault->rank == rank && fault->step == step)
			return fault;
	}
	return NULL;
}

bool plan_has(const struct plan *plan, enum fault_kind kind)
{
	for (int i = 0; i < plan->nfaults; i++)
		if (plan->faults[i].kind == kind)
			return true;
	return false;
}

uint64_t plan_lost_ns(const struct plan *plan, int process)
{
	uint64_t lost = 0;

	for (int i = 0; i < plan->nfaults; i++) {
		const struct fault *fault = &plan->faults[i];

		if (fault->kind != FAULT_STOP || fault->rank == process)
			lost += fault->ns;
	}
	return lost;
}

double plan_shortest_s(const struct plan *plan)
{
	double shortest = plan->timeout_s;

	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].timeout_s > 0 && plan->steps[i].timeout_s < shortest)
			shortest = plan->steps[i].timeout_s;
	return shortest;
}

/* ---- the machine */

static void make_pace(struct random *random, struct plan *out)
{
	struct pace *pace = &out->pace;

	pace->step_ns = 1000 + random_any_size(random, 200000);
	pace->switch_one_in = 1 + random_any_size(random, 63);
	pace->spurious_one_in = random_one_in(random, 2) ? 0 : 2 + random_any_size(random, 63);
	for (int i = 0; i < PROCESSES_MAX; i++)
		pace->weight[i] =
			random_one_in(random, 4) ? 1 + (unsigned)random_any_size(random, 99) : 10;
	out->cores = (int)random_between(random, 1, random_one_in(random, 4) ? RANKS_MAX : 2);
	out->slowest_ns = random_one_in(random, 2) ? 0 : random_any_size(random, 20000000);
}

static void make_ranks(struct random *random, struct plan *out)
{
	const uint64_t layout = random_below(random, 4);

	out->ranks = (int)(random_one_in(random, 3) ? random_between(random, 2, RANKS_MAX)
						    : random_between(random, 2, 4));
	if (out->ranks < RANKS_MAX - 1 && random_one_in(random, 3))
		out->newcomers = (int)random_between(random, 1, 2);
	for (int rank = 0; rank < plan_processes(out); rank++)
		out->host[rank] = layout == 0	? 0
				  : layout == 1 ? (int)random_below(random, 3)
						: rank;
	out->algorithm = random_one_in(random, 2) ? NULL : call_any_algorithm(random);
	out->segment = random_one_in(random, 2) ? 0 : 64 + random_any_size(random, 8192);
	out->reproducible = random_one_in(random, 8);
	out->mapped = layout == 0 && random_one_in(random, 2);
}

/* No two ranks on one host. */
static bool apart(const struct plan *plan)
{
	for (int rank = 1; rank < plan_processes(plan); rank++)
		if (plan->host[rank] != rank)
			return false;
	return plan->host[0] == 0;
}

/* What a network does to bytes without losing any. */
static void make_links(struct random *random, struct plan *out)
{
	size_t used = (size_t)snprintf(out->links, sizeof(out->links), "seed=%llu,capacity=%llu",
				       (unsigned long long)random_below(random, 1u << 30),
				       4096 + (unsigned long long)random_any_size(random, 28672));

	const uint64_t longest = 1 + random_any_size(random, 5000);

	out->longest = 6000;
	out->calls_a_byte = CALLS_A_MOVE / 4096.0;
	if (random_one_in(random, 2)) {
		used += (size_t)snprintf(out->links + used, sizeof(out->links) - used,
					 ",short=%llu", (unsigned long long)longest);
		out->longest = longest < 50 ? 4 * longest : 6000;
		out->calls_a_byte = CALLS_A_MOVE / ((double)(1 + longest) / 2);
	}
	if (random_one_in(random, 3)) {
		const uint64_t stall = 2 + random_any_size(random, 30);

		used += (size_t)snprintf(out->links + used, sizeof(out->links) - used,
					 ",stall=%llu", (unsigned long long)stall);
		out->calls_a_byte *= (double)stall / (double)(stall - 1);
	}
	if (random_one_in(random, 2))
		used += (size_t)snprintf(out->links + used, sizeof(out->links) - used,
					 ",delay=%llu",
					 (unsigned long long)random_any_size(random, 3000));
	if (apart(out) && random_one_in(random, 2))
		used += (size_t)snprintf(out->links + used, sizeof(out->links) - used, ",news=%llu",
					 1 + (unsigned long long)random_any_size(random, 20000));
	if (random_one_in(random, 2))
		snprintf(out->links + used, sizeof(out->links) - used, ",jitter=%llu",
			 (unsigned long long)random_any_size(random, 20000));
}

/* ---- what ranks call */

static void make_part(struct random *random, const struct plan *plan, struct part *out)
{
	memset(out, 0, sizeof(*out));
	out->what = (enum what)random_below(random, WHATS);
	out->dtype = (tutti_dtype_t)random_below(random, TUTTI_DTYPE_COUNT);
	do
		out->op = (tutti_op_t)random_below(random, OP_LAST + 1);
	while (!combine_is_defined(out->op, out->dtype) ||
	       (out->op == TUTTI_AVG && (out->what == SCAN || out->what == EXSCAN)));
	out->count = (size_t)random_any_size(random, random_one_in(random, 8) ? 6000 : 300);
	if (out->count > plan->longest)
		out->count %= plan->longest;
	out->root = (int)random_below(random, RANKS_MAX * RANKS_MAX);
	out->peer = (int)random_below(random, RANKS_MAX * RANKS_MAX);
	out->in_place = random_one_in(random, 3);
	out->gaps = random_one_in(random, 2);
	out->salt = (unsigned)random_below(random, 1000);
}

static void make_step(struct random *random, const struct plan *plan, struct step *out)
{
	static const enum step_kind kinds[] = { STEP_CALL,	  STEP_CALL,   STEP_CALL,
						STEP_START,	  STEP_START,  STEP_GROUP,
						STEP_GROUP_START, STEP_FINISH, STEP_THINK,
						STEP_SPLIT,	  STEP_THREAD };

	memset(out, 0, sizeof(*out));
	out->kind = kinds[random_below(random, sizeof(kinds) / sizeof(kinds[0]))];
	if (out->kind == STEP_THINK)
		out->think_ns = random_any_size(random, 200000000);
	out->colors = (int)random_between(random, 1, 3);
	out->nparts = out->kind == STEP_FINISH || out->kind == STEP_THINK
			      ? 0
			      : (int)random_between(random, 1, PARTS_MAX / 2);
	if (out->kind >= STEP_GROUP && out->nparts > 0)
		out->nparts *= 2;
	for (int i = 0; i < out->nparts; i++)
		make_part(random, plan, &out->parts[i]);
	for (int i = 0; out->kind == STEP_THREAD && i < out->nparts; i++)
		if (i >= out->nparts / 2)
			out->parts[i].what = MESSAGE;
		else if (out->parts[i].what == MESSAGE)
			out->parts[i].what = BARRIER;
	if (out->nparts > 0 && random_one_in(random, 4))
		out->timeout_s = plan->timeout_s * (0.5 + (double)random_below(random, 100) / 200);
	/* some small ones that can travel together */
	for (int i = 1; out->kind != STEP_SPLIT && out->kind != STEP_THREAD && i < out->nparts &&
			random_one_in(random, 2);
	     i++) {
		out->parts[i] = out->parts[0];
		out->parts[i].salt += (unsigned)i;
	}
}

/* ---- deadlines */

/* About how long the slowest process takes for a call, as it shares the machine with the others. */
static double slowest_call_s(const struct plan *plan)
{
	const struct pace *pace = &plan->pace;
	unsigned all = 0, least = pace->weight[0];

	for (int i = 0; i < plan_processes(plan); i++) {
		all += pace->weight[i];
		least = pace->weight[i] < least ? pace->weight[i] : least;
	}
	return 1e-9 * (double)pace->step_ns / 2 * all / least / (double)pace->switch_one_in;
}

/* What goes to or comes from one rank in the longest operation or agreement. */
static double most_bytes(const struct plan *plan)
{
	size_t most = AGREEMENT_BYTES;

	for (int i = 0; i < plan->nsteps; i++)
		for (int k = 0; k < plan->steps[i].nparts; k++) {
			const struct part *part = &plan->steps[i].parts[k];
			const size_t bytes = part->count * tutti_dtype_size(part->dtype);

			most = bytes > most ? bytes : most;
		}
	return 2.0 * (double)most * plan->ranks;
}

/* Deadlines are for what goes wrong: a machine that is slow, but does what it should, gets
 * longer ones. */
static void allow_for_slowness(struct plan *plan)
{
	plan->needs_s = SEVERAL * most_bytes(plan) * plan->calls_a_byte * slowest_call_s(plan);
	if (plan->needs_s <= plan->timeout_s)
		return;
	for (int i = 0; i < plan->nsteps; i++)
		plan->steps[i].timeout_s *= plan->needs_s / plan->timeout_s;
	plan->timeout_s = plan->needs_s;
}

/* ---- what goes wrong */

/* As likely near the most as far below it. */
static uint64_t some_time(struct random *random, uint64_t most)
{
	return random_one_in(random, 2) ? random_below(random, most)
					: random_any_size(random, most);
}

/* Of the run. */
static uint64_t some_switch(struct random *random, const struct plan *plan)
{
	return some_time(random, 200 * (uint64_t)(plan->ranks * (plan->nsteps + 4)));
}

static void make_fault(struct random *random, struct plan *plan, enum fault_kind kind, bool gentle)
{
	struct fault *fault = &plan->faults[plan->nfaults++];

	*fault = (struct fault){ .kind = kind,
				 .rank = (int)random_below(random, (uint64_t)plan->ranks),
				 .other = (int)random_below(random, (uint64_t)plan->ranks),
				 .step = (int)random_below(random, (uint64_t)plan->nsteps),
				 .at = some_switch(random, plan) };
	if (kind == FAULT_DEATH || kind == FAULT_SURVIVOR || kind == FAULT_MEMBER ||
	    kind == FAULT_STOP || kind == FAULT_ABSENT)
		fault->rank = (int)random_below(random, (uint64_t)plan_processes(plan));
	if (kind == FAULT_SURVIVOR)
		fault->at = random_any_size(random, 4000);
	if (kind == FAULT_MEMBER)
		fault->at = random_below(random, 4000);
	if (kind == FAULT_STOP && gentle)
		fault->ns = random_any_size(random, 1000000000);
	else if (kind == FAULT_STOP || kind == FAULT_JUMP || kind == FAULT_PAUSE)
		fault->ns = some_time(random, 2 * (uint64_t)(plan->timeout_s * 1e9));
	if (fault->ns && fault->rank < plan->ranks && !random_one_in(random, 3)) {
		fault->in_step = true;
		fault->at = random_any_size(random, 1000);
	}
	const size_t used = strlen(plan->links);
	if (kind == FAULT_CUT)
		snprintf(plan->links + used, sizeof(plan->links) - used, ",cut=%d-%d@%llu",
			 fault->rank, fault->other,
			 (unsigned long long)random_any_size(random, 20000));
	if (kind == FAULT_REFUSE)
		snprintf(plan->links + used, sizeof(plan->links) - used, ",refuse=%d-%d",
			 fault->rank, fault->other);
}

static void make_faults(struct random *random, struct plan *plan)
{
	static const enum fault_kind mild[] = { FAULT_STOP, FAULT_JUMP, FAULT_PAUSE };
	static const enum fault_kind harsh[] = {
		FAULT_DEATH,  FAULT_DEATH, FAULT_DEATH, FAULT_DEATH, FAULT_STOP,  FAULT_STOP,
		FAULT_JUMP,   FAULT_PAUSE, FAULT_STORE, FAULT_CUT,   FAULT_CUT,	  FAULT_REFUSE,
		FAULT_MEMORY, FAULT_SKIP,  FAULT_SKIP,	FAULT_OTHER, FAULT_OTHER, FAULT_HURRY,
		FAULT_LEAVE,  FAULT_ABORT, FAULT_ABSENT
	};
	const bool grows = !plan->gentle && plan->newcomers > 0;
	const int n = plan->gentle			  ? (int)random_below(random, 4)
		      : grows && random_one_in(random, 2) ? 0 /* before members grow */
		      : random_one_in(random, 3)	  ? (int)random_between(random, 2, 4)
							  : 1;

	for (int i = 0; i < n; i++)
		make_fault(random, plan,
			   plan->gentle
				   ? mild[random_below(random, sizeof(mild) / sizeof(mild[0]))]
				   : harsh[random_below(random, sizeof(harsh) / sizeof(harsh[0]))],
			   plan->gentle);
	while (!plan->gentle && plan->nfaults < FAULTS_MAX && random_one_in(random, 4))
		make_fault(random, plan, FAULT_SURVIVOR, false);
	if (grows && plan->nfaults < FAULTS_MAX)
		make_fault(random, plan, FAULT_MEMBER, false);
}

void plan_make(uint64_t seed, struct plan *out)
{
	struct random random = random_stream(seed, 2);

	memset(out, 0, sizeof(*out));
	out->seed = seed;
	out->gentle = random_one_in(&random, 3);
	out->timeout_s = out->gentle ? 100 : 8 + (double)random_any_size(&random, 20000) / 1000;
	make_pace(&random, out);
	make_ranks(&random, out);
	make_links(&random, out);
	out->nsteps = (int)random_between(&random, 1, STEPS_MAX / (out->ranks > 4 ? 2 : 1));
	for (int i = 0; i < out->nsteps; i++)
		make_step(&random, out, &out->steps[i]);
	allow_for_slowness(out);
	make_faults(&random, out);
	out->goes_on = !random_one_in(&random, 4);
}

/* ---- for a human */

static void print_part(const struct part *part, FILE *out)
{
	fprintf(out, " %s(%zu %s", call_name(part->what), part->count,
		tutti_dtype_name(part->dtype));
	if (call_combines(part->what))
		fprintf(out, ", %s", tutti_op_name(part->op));
	if (part->what == MESSAGE)
		fprintf(out, ", %d to %d", part->root, part->peer);
	else
		fprintf(out, ", root %d", part->root);
	fprintf(out, "%s)", part->in_place ? ", in place" : "");
}

void plan_print(const struct plan *plan, FILE *out)
{
	static const char *const kinds[] = { "call",   "start", "group",  "group, started",
					     "finish", "think", "thread", "split" };

	fprintf(out, "seed %llu: %d ranks on hosts", (unsigned long long)plan->seed, plan->ranks);
	for (int rank = 0; rank < plan_processes(plan); rank++)
		fprintf(out, " %d", plan->host[rank]);
	fprintf(out, ", newcomers: %d, %d cores, %s\n", plan->newcomers, plan->cores,
		plan->gentle ? "all must end well" : "faults");
	fprintf(out, "  timeout %g s, algorithm %s, segment %zu, TUTTI_LOOP=%s%s%s\n",
		plan->timeout_s, plan->algorithm ? plan->algorithm : "chosen", plan->segment,
		plan->links, plan->reproducible ? ", reproducible" : "",
		plan->mapped ? ", mapped buffers" : "");
	for (int i = 0; i < plan->nfaults; i++) {
		const struct fault *fault = &plan->faults[i];

		fprintf(out, "  fault %s: rank %d, step %d, %s %llu, %g s\n",
			fault_names[fault->kind], fault->rank, fault->step,
			fault->in_step ? "and then switch" : "switch",
			(unsigned long long)fault->at, (double)fault->ns / 1e9);
	}
	for (int i = 0; i < plan->nsteps; i++) {
		fprintf(out, "  step %d: %s", i, kinds[plan->steps[i].kind]);
		for (int k = 0; k < plan->steps[i].nparts; k++)
			print_part(&plan->steps[i].parts[k], out);
		fputc('\n', out);
	}
}
