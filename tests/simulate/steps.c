/* SPDX-License-Identifier: BSD-3-Clause */
#include "steps.h"

#include <pthread.h>

#include "faults.h"

static bool split(const struct use *use, const struct step *step, int number)
{
	const int rank = tutti_comm_rank(use->comm);
	struct random random =
		random_stream(run.plan->seed, 100 + (uint64_t)(number * RANKS_MAX + rank));
	struct participant *self = &run.out->ranks[machine_process()];
	const int color = (int)random_below(&random, (uint64_t)step->colors + 1) - 1;
	const uint64_t started = machine_now();
	struct use inner = { 0 };

	machine_trace("splits with color %d", color);
	run.joining++;
	const tutti_result_t result =
		tutti_comm_split(use->comm, color, (int)random_below(&random, 5), &inner.comm);
	run.joining--;
	told_check_time(started, 4, "comm_split");
	const bool parent_failed = result && tutti_comm_error(use->comm, NULL) == result;

	if (color >= 0)
		inner.told = told_begin(self);
	/* otherwise a part of it has failed that this rank has none of, and the parent is as
	 * before */
	if (color >= 0 || parent_failed || result == TUTTI_OK)
		told_hear(color < 0 || parent_failed ? use->told : inner.told, use->comm, result,
			  "split");
	if (result || color < 0)
		return !parent_failed;
	told_made(inner.told, inner.comm);
	if (tutti_op_create(inner.comm, combine_compose, 0, NULL, &inner.op_last) == TUTTI_OK)
		flights_take(&inner, STEP_CALL, step->parts, step->nparts, true, NULL);
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

	flights_take(messages->use, STEP_CALL, messages->parts, messages->nparts, messages->checked,
		     NULL);
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
	flights_take(use, STEP_CALL, step->parts, half, checked, NULL);
	pthread_join(thread, NULL);
	return use->told->result == TUTTI_OK;
}

/* What a rank calls in place of its step. */
static void deviate(const struct fault *fault, struct step *step)
{
	run.out->happened[fault->kind]++;
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
		told_hear(use->told, use->comm, result, "next_call");
	return result == TUTTI_OK || result == TUTTI_ERR_NO_MEMORY;
}

bool take_step(const struct use *use, int number, struct flights *flights, struct random *random)
{
	struct step step = run.plan->steps[number];
	const struct fault *fault = plan_deviation(run.plan, machine_process(), number);

	faults_in_step(machine_process(), number);
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
	case STEP_CALL:
	case STEP_START:
	case STEP_GROUP:
	case STEP_GROUP_START:
		return flights_take(use, step.kind, step.parts, step.nparts, checked, flights);
	case STEP_THREAD: return call_from_two(use, &step, checked);
	case STEP_FINISH:
		flights_finish(use, flights, random);
		return use->told->result == TUTTI_OK;
	case STEP_THINK: machine_sleep(step.think_ns); return true;
	case STEP_SPLIT: return checked ? split(use, &step, number) : true;
	}
	return true;
}
