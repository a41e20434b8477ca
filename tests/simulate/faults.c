/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include "calls.h"
#include "loop.h"
#include "store.h"
#include "told.h"

#define SHORT_NS 1000000000u /* what joining bears */
#define APART_NS 100000000u  /* how long it takes until all of a job are continued */

static void *die(void *argument)
{
	const struct fault *fault = argument;

	run.out->happened[fault->kind]++;
	tt_loop_kill(calls_thread(run.tasks[fault->rank]));
	return NULL;
}

static void doom(void *argument)
{
	const struct fault *fault = argument;

	if (!run.out->ranks[fault->rank].ended && !machine_is_dead(fault->rank))
		machine_kill(fault->rank, die, argument);
}

void faults_from_now(enum fault_kind kind)
{
	for (int i = 0; i < run.plan->nfaults && !run.begun[kind]; i++)
		if (run.plan->faults[i].kind == kind)
			machine_at(machine_switches() + run.plan->faults[i].at, doom,
				   (void *)&run.plan->faults[i]);
	run.begun[kind] = true;
}

/* While communicators are being made all time counts: there it is to be a short one where all must
 * end well. */
static uint64_t time_lost(const struct fault *fault)
{
	run.out->while_joining |= run.joining > 0;
	run.out->happened[fault->kind]++;
	return run.joining > 0 && run.plan->gentle && fault->ns > SHORT_NS ? SHORT_NS : fault->ns;
}

static void stop(void *argument)
{
	const struct fault *fault = argument;

	machine_stop(fault->rank, time_lost(fault));
}

static void jump(void *argument)
{
	machine_jump(time_lost(argument));
}

static void pause_all(void *argument)
{
	const uint64_t ns = time_lost(argument);

	for (int process = 0; process < plan_processes(run.plan); process++)
		machine_stop(process, ns + random_below(machine_random(), APART_NS));
}

static void lose_store(void *argument)
{
	run.out->happened[FAULT_STORE]++;
	store_lose();
}

static void lose_memory(void *argument)
{
	run.out->happened[FAULT_MEMORY]++;
	calls_fail_memory(1 + ((const struct fault *)argument)->at % 30);
}

static void expect(const struct fault *fault, uint64_t from)
{
	const uint64_t at = from + fault->at;

	switch (fault->kind) {
	case FAULT_DEATH: machine_at(at, doom, (void *)fault); break;
	case FAULT_STOP: machine_at(at, stop, (void *)fault); break;
	case FAULT_JUMP: machine_at(at, jump, (void *)fault); break;
	case FAULT_PAUSE: machine_at(at, pause_all, (void *)fault); break;
	case FAULT_STORE: machine_at(at, lose_store, NULL); break;
	case FAULT_MEMORY: machine_at(at, lose_memory, (void *)fault); break;
	case FAULT_CUT:
	case FAULT_REFUSE: run.out->happened[fault->kind]++; break;
	default: break;
	}
}

void faults_begin(void)
{
	for (int i = 0; i < run.plan->nfaults; i++)
		if (!run.plan->faults[i].in_step)
			expect(&run.plan->faults[i], 0);
}

void faults_in_step(int rank, int step)
{
	for (int i = 0; i < run.plan->nfaults; i++) {
		const struct fault *fault = &run.plan->faults[i];

		if (fault->in_step && fault->rank == rank && fault->step == step)
			expect(fault, machine_switches());
	}
}
