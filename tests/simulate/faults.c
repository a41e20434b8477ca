/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include "calls.h"
#include "loop.h"
#include "store.h"
#include "told.h"

static void *die(void *argument)
{
	const int rank = *(const int *)argument;

	run.out->happened[run.later ? FAULT_SURVIVOR : FAULT_DEATH]++;
	tt_loop_kill(calls_thread(run.tasks[rank]));
	return NULL;
}

static void doom(void *argument)
{
	const int rank = *(const int *)argument;

	if (!run.out->ranks[rank].ended && !machine_is_dead(rank))
		machine_kill(rank, die, argument);
}

void faults_later(void)
{
	for (int i = 0; i < run.plan->nfaults && !run.later; i++)
		if (run.plan->faults[i].kind == FAULT_SURVIVOR)
			machine_at(machine_switches() + run.plan->faults[i].at, doom,
				   (void *)&run.plan->faults[i].rank);
	run.later = true;
}

static void stop(void *argument)
{
	const struct fault *fault = argument;

	run.out->happened[FAULT_STOP]++;
	machine_stop(fault->rank, fault->ns);
}

static void jump(void *argument)
{
	const struct fault *fault = argument;

	run.out->happened[FAULT_JUMP]++;
	machine_jump(fault->ns);
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

void faults_begin(void)
{
	for (int i = 0; i < run.plan->nfaults; i++) {
		const struct fault *fault = &run.plan->faults[i];

		switch (fault->kind) {
		case FAULT_DEATH: machine_at(fault->at, doom, (void *)&fault->rank); break;
		case FAULT_STOP: machine_at(fault->at, stop, (void *)fault); break;
		case FAULT_JUMP: machine_at(fault->at, jump, (void *)fault); break;
		case FAULT_STORE: machine_at(fault->at, lose_store, NULL); break;
		case FAULT_MEMORY: machine_at(fault->at, lose_memory, (void *)fault); break;
		case FAULT_CUT:
		case FAULT_REFUSE: run.out->happened[fault->kind]++; break;
		default: break;
		}
	}
}
