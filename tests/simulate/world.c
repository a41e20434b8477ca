/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "comm.h"
#include "log.h"
#include "loop.h"
#include "operation.h"
#include "request.h"
#include "store.h"

#define FLIGHTS_MAX  (STEPS_MAX * PARTS_MAX)
#define SWITCHES_MAX 20000000
#define SLACK_NS     3000000000u /* of a call, beyond its deadline */

/* Operations that end with one request. */
struct flight {
	tutti_request_t request;
	struct operation *ops; /* [nops] */
	int nops;
	bool checked;
};

/* A communicator in use by one rank. */
struct use {
	tutti_comm_t comm;
	struct told *told;
	tutti_op_t op_last;
};

static struct {
	const struct plan *plan;
	struct outcome *out;
	int tasks[RANKS_MAX];
	bool shifted; /* a message is left out or added: those behind it are not what their receivers take them for */
	bool later; /* the faults that follow the first going on are planned */
	struct {
		int rank;
		uint64_t ns;
	} arguments[FAULTS_MAX];
} world;

static void blame(const char *format, ...)
{
	va_list args;

	if (*world.out->wrong)
		return;
	va_start(args, format);
	vsnprintf(world.out->wrong, sizeof(world.out->wrong), format, args);
	va_end(args);
	machine_trace("WRONG: %s", world.out->wrong);
}

/* ---- what a rank was told */

static struct told *begin_told(struct participant *rank)
{
	return &rank->told[rank->ntold++];
}

static void was_made(struct told *told, tutti_comm_t comm)
{
	told->made = true;
	told->id = comm->id;
	told->place = tutti_comm_rank(comm);
	told->size = tutti_comm_size(comm);
}

static bool may_deviate(int rank)
{
	for (int step = 0; step < world.plan->nsteps; step++)
		if (plan_deviation(world.plan, rank, step))
			return true;
	return false;
}

static void hear(struct told *told, tutti_comm_t comm, tutti_result_t result, const char *what)
{
	world.out->operations++;
	machine_note((uint64_t)result + 7);
	machine_trace("%s: %s%s%s", what, tutti_strerror(result), result ? ": " : "", result ? tutti_last_error(comm) : "");
	if (result == TUTTI_OK) {
		told->done++;
		return;
	}
	world.out->failed_operations++;
	if (result == TUTTI_ERR_INVALID) { /* the communicator is as before */
		/* a newcomer that was stopped until another had its seat opens an endpoint that loop has already */
		const bool late = machine_process() >= world.plan->ranks && !world.plan->gentle;

		if (!may_deviate(machine_process()) && !late)
			blame("rank %d: %s: \"%s\"", machine_process(), what, tutti_last_error(comm));
		return;
	}
	const char *sentence = tutti_last_error(comm);
	const char *same = tutti_last_error(comm);

	if (strcmp(sentence, same) != 0)
		blame("rank %d: two sentences for one error", machine_process());
	if (told->result == TUTTI_OK) {
		told->result = result;
		snprintf(told->sentence, sizeof(told->sentence), "%s", sentence);
		machine_note(strlen(sentence));
		if (told->made && tutti_comm_error(comm, &told->culprit) != result)
			blame("rank %d: %s: %s, but tutti_comm_error() says otherwise", machine_process(), what,
			      tutti_strerror(result));
	} else if (result != told->result) {
		blame("rank %d: %s: \"%s\", but before it was \"%s\"", machine_process(), what, sentence, told->sentence);
	}
}

/* No call lasts longer than its deadlines, one after another, and a while. */
static void check_time(uint64_t started, int deadlines, const char *what)
{
	const uint64_t lasted = machine_now() - started;
	const double limit_s = world.plan->timeout_s * deadlines + (double)(SLACK_NS + world.plan->lost_ns) / 1e9;

	if ((double)lasted / 1e9 > limit_s && !machine_is_dead(machine_process()))
		blame("rank %d: %s lasted %g s, and its deadline is %g s", machine_process(), what, (double)lasted / 1e9,
		      world.plan->timeout_s);
}

/* ---- operations */

static void land(struct flight *flight, bool well)
{
	for (int i = 0; i < flight->nops; i++) {
		struct operation *op = &flight->ops[i];
		const bool unknown = op->part.what == MESSAGE && world.shifted;
		const char *wrong = well && flight->checked && !unknown ? operation_check(op) : NULL;

		if (wrong)
			blame("rank %d: %s of %zu %s, salt %u, returned success with %s", machine_process(),
			      what_name(op->part.what), op->part.count, tutti_dtype_name(op->part.dtype), op->part.salt, wrong);
		operation_finish(op);
	}
	calls_release(flight->ops);
	flight->ops = NULL;
}

/* Its communicator is gone, and with it the use of the request, which a program that leaves so never gets rid of. */
static void abandon(struct flight *flight)
{
	if (flight->request)
		tt_request_finish(flight->request);
	free(flight->request);
	land(flight, false);
}

static void take_off(struct flight *flight, const struct use *use, const struct part *parts, int nparts, bool grouped,
		     bool checked)
{
	*flight = (struct flight){ .nops = nparts, .checked = checked };
	flight->ops = calls_allocate((size_t)nparts * sizeof(*flight->ops));
	for (int i = 0; i < nparts; i++)
		operation_prepare(&flight->ops[i], &parts[i], tutti_comm_rank(use->comm), tutti_comm_size(use->comm),
				  grouped, world.plan->mapped);
}

/* Each part by itself, blocking. */
static bool call_parts(const struct use *use, const struct part *parts, int nparts, bool checked)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < nparts && result == TUTTI_OK; i++) {
		const uint64_t started = machine_now();
		struct flight flight;

		take_off(&flight, use, &parts[i], 1, false, checked);
		machine_trace("calls %s", what_name(parts[i].what));
		result = operation_call(&flight.ops[0], use->comm, use->op_last, NULL);
		hear(use->told, use->comm, result, what_name(parts[i].what));
		check_time(started, 1, what_name(parts[i].what));
		land(&flight, result == TUTTI_OK);
	}
	return result == TUTTI_OK;
}

static bool start_parts(const struct use *use, const struct part *parts, int nparts, bool checked,
			struct flight *flights, int *nflights)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < nparts && result == TUTTI_OK; i++) {
		struct flight *flight = &flights[*nflights];

		take_off(flight, use, &parts[i], 1, false, checked);
		machine_trace("starts %s", what_name(parts[i].what));
		result = operation_call(&flight->ops[0], use->comm, use->op_last, &flight->request);
		if (result == TUTTI_OK) {
			++*nflights;
			continue;
		}
		hear(use->told, use->comm, result, what_name(parts[i].what));
		land(flight, false);
	}
	return result == TUTTI_OK;
}

static bool group_parts(const struct use *use, const struct part *parts, int nparts, bool checked,
			struct flight *flights, int *nflights, bool started)
{
	struct flight *flight = &flights[*nflights];
	const uint64_t since = machine_now();
	tutti_result_t result = tutti_group_begin(use->comm);

	if (result) {
		hear(use->told, use->comm, result, "group_begin");
		return false;
	}
	take_off(flight, use, parts, nparts, true, checked);
	for (int i = 0; i < nparts; i++)
		operation_call(&flight->ops[i], use->comm, use->op_last, NULL);
	machine_trace("ends a group of %d", nparts);
	result = tutti_group_end(use->comm, started ? &flight->request : NULL);
	if (!started || result) {
		hear(use->told, use->comm, result, "group");
		check_time(since, 1, "group_end");
		land(flight, result == TUTTI_OK);
	} else {
		++*nflights;
	}
	return result == TUTTI_OK;
}

static uint64_t never(const void *argument)
{
	return FOREVER;
}

static void think(uint64_t ns)
{
	machine_wait(never, NULL, machine_now() + ns, false);
}

/* In one of the ways there are. */
static void finish(const struct use *use, struct flight *flights, int *nflights, struct random *random)
{
	const bool by_any = random_one_in(random, 3), by_test = random_one_in(random, 3);
	tutti_request_t requests[FLIGHTS_MAX];

	for (int left = *nflights; left > 0; left--) {
		size_t i = 0;
		const uint64_t started = machine_now();
		tutti_result_t result;

		while (!flights[i].ops)
			i++;
		if (by_any) {
			for (int k = 0; k < *nflights; k++)
				requests[k] = flights[k].ops ? flights[k].request : NULL;
			size_t any = 0;
			result = tutti_wait_any(requests, (size_t)*nflights, &any);
			i = any < (size_t)*nflights ? any : i;
			flights[i].request = NULL;
		} else if (by_test) {
			while ((result = tutti_test(&flights[i].request)) == TUTTI_IN_PROGRESS)
				think(random_below(random, 1000000));
		} else {
			result = tutti_wait(&flights[i].request);
		}
		hear(use->told, use->comm, result, "request");
		check_time(started, 1, "a wait for a request");
		land(&flights[i], result == TUTTI_OK);
	}
	*nflights = 0;
}

/* ---- deaths */

static void *die(void *argument)
{
	const int rank = *(const int *)argument;

	world.out->happened[world.later ? FAULT_SURVIVOR : FAULT_DEATH]++;
	tt_loop_kill(calls_thread(world.tasks[rank]));
	return NULL;
}

static void doom(void *argument)
{
	const int rank = *(const int *)argument;

	if (!world.out->ranks[rank].ended && !machine_is_dead(rank))
		machine_kill(rank, die, argument);
}

/* The first survivor begins to go on. */
static void plan_later_faults(void)
{
	for (int i = 0; i < world.plan->nfaults && !world.later; i++)
		if (world.plan->faults[i].kind == FAULT_SURVIVOR)
			machine_at(machine_switches() + world.plan->faults[i].at, doom, (void *)&world.plan->faults[i].rank);
	world.later = true;
}

/* ---- steps */

static bool split(const struct use *use, const struct step *step, int number)
{
	const int rank = tutti_comm_rank(use->comm);
	struct random random = random_stream(world.plan->seed, 100 + (uint64_t)(number * RANKS_MAX + rank));
	struct participant *self = &world.out->ranks[machine_process()];
	const int color = (int)random_below(&random, (uint64_t)step->colors + 1) - 1;
	const uint64_t started = machine_now();
	struct use inner = { 0 };

	machine_trace("splits with color %d", color);
	const tutti_result_t result =
		tutti_comm_split(use->comm, color, (int)random_below(&random, 5), &inner.comm);
	check_time(started, 4, "comm_split");
	const bool parent_failed = result && tutti_comm_error(use->comm, NULL) == result;

	if (color >= 0)
		inner.told = begin_told(self);
	hear(color < 0 || parent_failed ? use->told : inner.told, use->comm, result, "split");
	if (result || color < 0)
		return !parent_failed;
	was_made(inner.told, inner.comm);
	if (tutti_op_create(inner.comm, operation_last, 0, NULL, &inner.op_last) == TUTTI_OK)
		call_parts(&inner, step->parts, step->nparts, true);
	machine_trace("destroys what it split off");
	tutti_comm_destroy(inner.comm);
	return true;
}

struct messages {
	const struct use *use;
	const struct part *parts;
	int nparts;
	bool checked;
};

static void *message_main(void *argument)
{
	const struct messages *messages = argument;

	call_parts(messages->use, messages->parts, messages->nparts, messages->checked);
	return NULL;
}

/* The second half of the parts are messages, called by another thread. */
static bool call_from_two(const struct use *use, const struct step *step, bool checked)
{
	const int half = step->nparts / 2;
	struct messages messages = { use, step->parts + half, step->nparts - half, checked };
	pthread_t thread;

	if (pthread_create(&thread, NULL, message_main, &messages)) {
		blame("no more tasks");
		return false;
	}
	call_parts(use, step->parts, half, checked);
	pthread_join(thread, NULL);
	return use->told->result == TUTTI_OK;
}

/* What a rank calls in place of its step. */
static void deviate(const struct fault *fault, struct step *step)
{
	world.out->happened[fault->kind]++;
	machine_trace("here the fault %s happens", fault_name(fault->kind));
	if (fault->kind == FAULT_SKIP)
		step->nparts = 0;
	if (fault->kind == FAULT_HURRY)
		step->timeout_s = 0.001;
	for (int i = 0; i < step->nparts && fault->kind == FAULT_OTHER; i++) {
		struct part *part = &step->parts[i];

		if (fault->at % 3 == 0)
			part->count++;
		else if (fault->at % 3 == 1)
			part->root++;
		else
			part->what = (enum what)((part->what + 1) % WHATS);
	}
}

/* Of the step's first call. */
static bool set_deadline(const struct use *use, const struct step *step)
{
	const tutti_call_t call = { sizeof(call), step->timeout_s };

	if (step->timeout_s == 0 || step->nparts == 0)
		return true;
	const tutti_result_t result = tutti_next_call(use->comm, &call);
	if (result && result != TUTTI_ERR_NO_MEMORY)
		hear(use->told, use->comm, result, "next_call");
	return result == TUTTI_OK || result == TUTTI_ERR_NO_MEMORY;
}

/* False when the communicator is of no more use. */
static bool take_step(const struct use *use, int number, struct flight *flights, int *nflights, struct random *random)
{
	struct step step = world.plan->steps[number];
	const struct fault *fault = plan_deviation(world.plan, machine_process(), number);

	if (fault)
		deviate(fault, &step);
	if (fault && fault->kind == FAULT_ABORT)
		tutti_comm_abort(use->comm, "it was planned");
	if (fault && fault->kind == FAULT_LEAVE)
		use->told->left = true;
	if (use->told->left)
		return false;
	const bool checked = !fault || fault->kind == FAULT_HURRY;

	if (!set_deadline(use, &step))
		return false;
	switch (step.kind) {
	case STEP_CALL: return call_parts(use, step.parts, step.nparts, checked);
	case STEP_START: return start_parts(use, step.parts, step.nparts, checked, flights, nflights);
	case STEP_THREAD: return call_from_two(use, &step, checked);
	case STEP_GROUP:
	case STEP_GROUP_START:
		return group_parts(use, step.parts, step.nparts, checked, flights, nflights, step.kind == STEP_GROUP_START);
	case STEP_FINISH: finish(use, flights, nflights, random); return use->told->result == TUTTI_OK;
	case STEP_THINK: think(step.think_ns); return true;
	case STEP_SPLIT: return checked ? split(use, &step, number) : true;
	}
	return true;
}

static bool is_absent(int rank)
{
	for (int i = 0; i < world.plan->nfaults; i++)
		if (world.plan->faults[i].kind == FAULT_ABSENT && world.plan->faults[i].rank == rank)
			return true;
	return false;
}

/* Through the store: the ranks make a communicator, a newcomer becomes a rank of one that grows. */
static tutti_result_t join(struct told *told, int rank, tutti_comm_t *comm)
{
	const bool newcomer = rank >= world.plan->ranks;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	const uint64_t started = machine_now();
	tutti_store_t store = NULL;
	char host[16];

	snprintf(host, sizeof(host), "host %d", world.plan->host[rank]);
	config.timeout_s = world.plan->timeout_s;
	config.transports = "loop";
	config.algorithm = world.plan->algorithm;
	config.host_id = host;
	config.reproducible = world.plan->reproducible ? 1 : -1;
	tutti_result_t result = store_open(&store);
	if (result == TUTTI_OK)
		result = newcomer ? tutti_comm_join(store, &config, comm) :
				    tutti_comm_create(store, rank, world.plan->ranks, &config, comm);
	hear(told, NULL, result, newcomer ? "comm_join" : "comm_create");
	tutti_store_close(store);
	check_time(started, newcomer ? 2 : 1, newcomer ? "comm_join" : "comm_create");
	return result;
}

/* Carry out the plan's steps, as far as the communicator lasts. */
static void live(struct use *use, struct random *random)
{
	struct flight flights[FLIGHTS_MAX];
	int nflights = 0;
	bool good = tutti_op_create(use->comm, operation_last, 0, NULL, &use->op_last) == TUTTI_OK;

	for (int i = 0; i < world.plan->nsteps && good; i++)
		good = take_step(use, i, flights, &nflights, random);
	if (!use->told->left) {
		finish(use, flights, &nflights, random);
		return;
	}
	machine_trace("leaves");
	tutti_comm_destroy(use->comm);
	use->comm = NULL;
	for (int i = 0; i < nflights; i++)
		abandon(&flights[i]);
}

/* The survivors make another communicator; false: there is none, or it is not for this rank. */
static bool go_on(struct participant *self, struct use *use)
{
	struct use next = { 0 };
	const uint64_t started = machine_now();

	plan_later_faults();
	machine_trace("goes on with the survivors");
	const tutti_result_t result = tutti_comm_shrink(use->comm, &next.comm);
	machine_trace("shrink: %s%s%s", tutti_strerror(result), result ? ": " : "", result ? tutti_last_error(NULL) : "");
	machine_note((uint64_t)result + 77);
	world.out->operations++;
	check_time(started, 4 + 2 * world.plan->nfaults, "comm_shrink");
	use->told->shrunk = true;
	use->told->shrink_result = result;
	tutti_comm_destroy(use->comm);
	use->comm = next.comm;
	if (result)
		return false;
	use->told->shrunk_to = next.comm->id;
	use->told = begin_told(self);
	was_made(use->told, use->comm);
	machine_trace("is rank %d of %d", use->told->place, use->told->size);
	return true;
}

/* After a loss: some of the steps' parts, one after another. */
static void live_on(struct use *use, int life)
{
	bool good = tutti_op_create(use->comm, operation_last, 0, NULL, &use->op_last) == TUTTI_OK;

	for (int i = 0; i < world.plan->nsteps && good; i++)
		if (i % LIVES_MAX == life)
			good = call_parts(use, world.plan->steps[i].parts, world.plan->steps[i].nparts, true);
}

/* Take the newcomers in; false: there is no larger communicator, and this one is as before or has failed. */
static bool grow(struct participant *self, struct use *use)
{
	struct use next = { 0 };
	const uint64_t started = machine_now();
	tutti_store_t store = NULL;
	tutti_result_t result = store_open(&store);

	machine_trace("takes %d newcomers in", world.plan->newcomers);
	if (result == TUTTI_OK)
		result = tutti_comm_grow(use->comm, store, world.plan->newcomers, &next.comm);
	tutti_store_close(store);
	check_time(started, 6, "comm_grow");
	use->told->grown = true;
	use->told->grow_result = result;
	const bool failed = tutti_comm_error(use->comm, NULL) != TUTTI_OK;
	if (result == TUTTI_OK || failed)
		hear(use->told, use->comm, result ? result : TUTTI_OK, "comm_grow");
	else
		machine_trace("comm_grow: %s: %s", tutti_strerror(result), tutti_last_error(NULL));
	if (result)
		return false;
	use->told->grown_to = next.comm->id;
	tutti_comm_destroy(use->comm);
	use->comm = next.comm;
	use->told = begin_told(self);
	was_made(use->told, use->comm);
	return true;
}

/* From one communicator to the next, as long as there is one. */
static void live_through(struct participant *self, struct use *use, bool grows)
{
	for (int life = 1; life < LIVES_MAX && use->comm; life++) {
		if (use->told->result == TUTTI_OK && grows) {
			grows = false;
			if (grow(self, use)) {
				life = 0;
				live_on(use, life);
			}
		}
		if (use->told->result == TUTTI_OK || !world.plan->goes_on)
			return;
		if (go_on(self, use))
			live_on(use, life);
	}
}

static void *rank_main(void *argument)
{
	struct participant *self = argument;
	struct random random = random_stream(world.plan->seed, 50 + (uint64_t)self->rank);
	struct use use = { .told = begin_told(self) };
	const bool newcomer = self->rank >= world.plan->ranks;

	if (is_absent(self->rank)) {
		world.out->happened[FAULT_ABSENT]++;
		return NULL;
	}
	if (join(use.told, self->rank, &use.comm) == TUTTI_OK) {
		was_made(use.told, use.comm);
		if (newcomer)
			live_on(&use, 0);
		else
			live(&use, &random);
		live_through(self, &use, !newcomer && world.plan->newcomers > 0);
	}
	machine_trace("destroys the communicator");
	tutti_comm_destroy(use.comm);
	self->ended = true;
	machine_trace("has ended");
	return NULL;
}

/* ---- other faults that happen at a time */

static void stop(void *argument)
{
	const struct fault *fault = argument;

	world.out->happened[FAULT_STOP]++;
	machine_stop(fault->rank, fault->ns);
}

static void jump(void *argument)
{
	const struct fault *fault = argument;

	world.out->happened[FAULT_JUMP]++;
	machine_jump(fault->ns);
}

static void lose_store(void *argument)
{
	world.out->happened[FAULT_STORE]++;
	store_lose();
}

static void lose_memory(void *argument)
{
	world.out->happened[FAULT_MEMORY]++;
	calls_fail_memory(1 + ((const struct fault *)argument)->at % 30);
}

static void plan_faults(const struct plan *plan)
{
	for (int i = 0; i < plan->nfaults; i++) {
		const struct fault *fault = &plan->faults[i];

		switch (fault->kind) {
		case FAULT_DEATH: machine_at(fault->at, doom, (void *)&fault->rank); break;
		case FAULT_STOP: machine_at(fault->at, stop, (void *)fault); break;
		case FAULT_JUMP: machine_at(fault->at, jump, (void *)fault); break;
		case FAULT_STORE: machine_at(fault->at, lose_store, NULL); break;
		case FAULT_MEMORY: machine_at(fault->at, lose_memory, (void *)fault); break;
		case FAULT_CUT:
		case FAULT_REFUSE: world.out->happened[fault->kind]++; break;
		default: break;
		}
	}
}

/* ---- the run */

/* Sends and receives match by their order, so nobody can know of one that is missing if the next one looks the same. */
static bool shifts_messages(const struct plan *plan)
{
	for (int i = 0; i < plan->nfaults; i++) {
		const struct step *step = &plan->steps[plan->faults[i].step];

		if (plan->faults[i].kind != FAULT_SKIP && plan->faults[i].kind != FAULT_OTHER)
			continue;
		for (int k = 0; k < step->nparts; k++) /* after barrier comes message, for one that calls the other */
			if (step->parts[k].what == MESSAGE || step->parts[k].what == BARRIER)
				return true;
	}
	return false;
}

static void set_environment(const struct plan *plan)
{
	char bytes[32];

	snprintf(bytes, sizeof(bytes), "%zu", plan->segment);
	if (plan->segment)
		setenv("TUTTI_SEGMENT", bytes, 1);
	else
		unsetenv("TUTTI_SEGMENT");
	tt_loop_set_faults(plan->links);
}

static void log_to_trace(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	machine_trace("log %s: %s", subsystem, line);
}

static void check_end(enum end end)
{
	if (end == END_STUCK)
		blame("ranks wait for what never comes");
	if (end == END_LONG)
		blame("no end after %d switches", SWITCHES_MAX);
}

static void run_tasks(const struct plan *plan)
{
	for (int rank = 0; rank < plan_processes(plan); rank++) {
		world.out->ranks[rank].rank = rank;
		world.tasks[rank] = machine_spawn(rank, rank_main, &world.out->ranks[rank]);
	}
	check_end(machine_run());
	for (int rank = 0; rank < plan_processes(plan); rank++)
		world.out->ranks[rank].died = machine_is_dead(rank);
	world.out->virtual_s = (double)machine_now() / 1e9;
	if (*world.out->wrong)
		return;
	/* what the dead hold is freed by themselves, which finds out whether they can */
	calls_fail_memory(0);
	machine_revive();
	check_end(machine_run());
	const size_t unfreed = calls_unfreed();

	if (unfreed > 0)
		blame("%zu blocks of memory were never freed", unfreed);
	if (calls_open_descriptors() > 0)
		blame("%d descriptors were never closed", calls_open_descriptors());
}

void world_run(const struct plan *plan, struct outcome *out)
{
	memset(out, 0, sizeof(*out));
	world.plan = plan;
	world.out = out;
	world.later = false;
	world.shifted = shifts_messages(plan);
	set_environment(plan);
	tutti_log_set_sink(log_to_trace, NULL);
	calls_set_cores(plan->cores);
	calls_fail_memory(0);
	store_begin(plan->slowest_ns);
	machine_begin(plan->seed, &plan->pace, SWITCHES_MAX);
	plan_faults(plan);
	run_tasks(plan);
	out->hash = machine_hash();
	out->switches = machine_switches();
	machine_end();
	store_end();
}
