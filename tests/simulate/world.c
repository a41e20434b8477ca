/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "faults.h"
#include "flight.h"
#include "lives.h"
#include "log.h"
#include "loop.h"
#include "store.h"
#include "told.h"

#define SWITCHES_MAX 50000000 /* more is no end: links of one byte a call have taken 27 million */

/* Sends and receives match by their order, so nobody can know of one that is missing if the next
 * one looks the same. */
static bool shifts_messages(const struct plan *plan)
{
	for (int i = 0; i < plan->nfaults; i++) {
		const struct step *step = &plan->steps[plan->faults[i].step];

		if (plan->faults[i].kind != FAULT_SKIP && plan->faults[i].kind != FAULT_OTHER)
			continue;
		for (int k = 0; k < step->nparts;
		     k++) /* after barrier comes message, for one that calls the other */
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

static void log_to_trace(tutti_log_level_t level, const char *subsystem, const char *line,
			 void *context)
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
		run.out->ranks[rank].rank = rank;
		run.tasks[rank] = machine_spawn(rank, lives_main, &run.out->ranks[rank]);
	}
	check_end(machine_run());
	for (int rank = 0; rank < plan_processes(plan); rank++)
		run.out->ranks[rank].died = machine_is_dead(rank);
	run.out->virtual_s = (double)machine_now() / 1e9;
	if (*run.out->wrong)
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
	run.plan = plan;
	run.out = out;
	memset(run.begun, 0, sizeof(run.begun));
	run.joining = 0;
	run.shifted = shifts_messages(plan);
	run.deviates = plan_has(plan, FAULT_SKIP) || plan_has(plan, FAULT_OTHER);
	set_environment(plan);
	tutti_log_set_sink(log_to_trace, NULL);
	calls_set_cores(plan->cores);
	calls_fail_memory(0);
	store_begin(plan->slowest_ns);
	machine_begin(plan->seed, &plan->pace, SWITCHES_MAX);
	faults_begin();
	run_tasks(plan);
	out->hash = machine_hash();
	out->switches = machine_switches();
	machine_end();
	flights_forget();
	store_end();
}
