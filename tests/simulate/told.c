/* SPDX-License-Identifier: BSD-3-Clause */
#include "told.h"

#include <stdarg.h>
#include <string.h>

#include "comm.h"

#define SLACK_NS 3000000000u /* of a call, beyond its deadline */

struct run run;

void blame(const char *format, ...)
{
	va_list args;

	if (*run.out->wrong)
		return;
	va_start(args, format);
	vsnprintf(run.out->wrong, sizeof(run.out->wrong), format, args);
	va_end(args);
	machine_trace("WRONG: %s", run.out->wrong);
}

struct told *told_begin(struct participant *rank)
{
	return &rank->told[rank->ntold++];
}

void told_made(struct told *told, tutti_comm_t comm)
{
	told->made = true;
	told->id = comm->id;
	told->place = tutti_comm_rank(comm);
	told->size = tutti_comm_size(comm);
}

static bool may_deviate(int rank)
{
	for (int step = 0; step < run.plan->nsteps; step++)
		if (plan_deviation(run.plan, rank, step))
			return true;
	return false;
}

void told_hear(struct told *told, tutti_comm_t comm, tutti_result_t result, const char *what)
{
	run.out->operations++;
	machine_note((uint64_t)result + 7);
	machine_trace("%s: %s%s%s", what, tutti_strerror(result), result ? ": " : "",
		      result ? tutti_last_error(comm) : "");
	if (result == TUTTI_OK)
		return;
	run.out->failed_operations++;
	if (result == TUTTI_ERR_INVALID) { /* the communicator is as before */
		if (!may_deviate(machine_process()))
			blame("rank %d: %s: \"%s\"", machine_process(), what,
			      tutti_last_error(comm));
		return;
	}
	const char *error_text = tutti_last_error(comm);

	if (told->result == TUTTI_OK) {
		told->result = result;
		snprintf(told->error_text, sizeof(told->error_text), "%s", error_text);
		machine_note(strlen(error_text));
		if (told->made && tutti_comm_error(comm, &told->culprit) != result)
			blame("rank %d: %s: %s, but tutti_comm_error() says otherwise",
			      machine_process(), what, tutti_strerror(result));
	} else if (result != told->result) {
		blame("rank %d: %s: \"%s\", but before it was \"%s\"", machine_process(), what,
		      error_text, told->error_text);
	}
}

void told_check_time(uint64_t started, int deadlines, const char *what)
{
	const uint64_t lasted = machine_now() - started;
	const uint64_t lost = plan_lost_ns(run.plan, machine_process());
	const double limit_s = run.plan->timeout_s * deadlines + (double)(SLACK_NS + lost) / 1e9;

	if ((double)lasted / 1e9 > limit_s && !machine_is_dead(machine_process()))
		blame("rank %d: %s lasted %g s, and its deadline is %g s", machine_process(), what,
		      (double)lasted / 1e9, run.plan->timeout_s);
}
