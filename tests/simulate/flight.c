/* SPDX-License-Identifier: BSD-3-Clause */
#include "flight.h"

#include "calls.h"

/* Where a rank leaves out a call, its next one is taken for that if it looks the same: nobody
 * can know. */
static bool may_be_another(const struct part *part)
{
	for (int i = 0; run.deviates && i < run.plan->nsteps; i++)
		for (int k = 0; k < run.plan->steps[i].nparts; k++) {
			const struct part *other = &run.plan->steps[i].parts[k];

			/* a deviation makes one more of the count, or the next of the operations */
			if (other->salt != part->salt && other->dtype == part->dtype &&
			    other->count <= part->count + 1 && part->count <= other->count + 1)
				return true;
		}
	return false;
}

/* Where each rank says lengths of its own, a call with one more of the count may have the same ones
 * for all peers, and other contents. */
static bool may_have_its_lengths(const struct part *part)
{
	const struct plan *plan = run.plan;

	if (part->what != ALL_TO_ALL_V && part->what != GATHER_V && part->what != SCATTER_V)
		return false;
	for (int i = 0; i < plan->nfaults; i++) {
		const struct step *step = &plan->steps[plan->faults[i].step];

		for (int k = 0; plan->faults[i].kind == FAULT_OTHER && k < step->nparts; k++)
			if (step->parts[k].salt == part->salt)
				return true;
	}
	return false;
}

/* Those that failed. A process that died while it read from its peers reads on when it is revived,
 * and over `loop` all memory can be read. */
static struct failed {
	struct failed *next;
	struct operation *ops;
	int nops;
} * failed;

static void keep(struct flight *flight)
{
	struct failed *one = calls_allocate(sizeof(*one));

	*one = (struct failed){ failed, flight->ops, flight->nops };
	failed = one;
	for (int i = 0; i < flight->nops; i++)
		operation_unmap(&flight->ops[i]);
}

void flights_forget(void)
{
	for (struct failed *one; (one = failed);) {
		failed = one->next;
		for (int i = 0; i < one->nops; i++)
			call_finish(&one->ops[i].call);
		calls_release(one->ops);
		calls_release(one);
	}
}

static void finish(struct flight *flight)
{
	for (int i = 0; i < flight->nops; i++)
		call_finish(&flight->ops[i].call);
	calls_release(flight->ops);
}

/* They have ended. */
static void land(struct flight *flight, bool well)
{
	for (int i = 0; i < flight->nops; i++) {
		struct operation *op = &flight->ops[i];
		const bool unknown =
			op->part.what == MESSAGE
				? run.shifted
				: may_be_another(&op->part) || may_have_its_lengths(&op->part);
		char why[CALL_TEXT];

		if (well && flight->checked && !unknown && !operation_check(op, why))
			blame("rank %d returned success, salt %u:\n%s", machine_process(),
			      op->part.salt, why);
	}
	(well ? finish : keep)(flight);
	flight->ops = NULL;
}

static void take_off(struct flight *flight, const struct use *use, const struct part *parts,
		     int nparts, bool grouped, bool checked)
{
	*flight = (struct flight){ .nops = nparts, .checked = checked };
	flight->ops = calls_allocate((size_t)nparts * sizeof(*flight->ops));
	for (int i = 0; i < nparts; i++)
		operation_prepare(&flight->ops[i], &parts[i], tutti_comm_rank(use->comm),
				  tutti_comm_size(use->comm), grouped, run.plan);
}

static tutti_result_t post(struct flight *flight, const struct use *use, bool grouped, bool started)
{
	tutti_request_t *request = started ? &flight->request : NULL;

	if (!grouped)
		return operation_call(&flight->ops[0], use->comm, use->op_last, request);
	const tutti_result_t result = tutti_group_begin(use->comm);
	if (result)
		return result;
	for (int i = 0; i < flight->nops; i++)
		operation_call(&flight->ops[i], use->comm, use->op_last, NULL);
	return tutti_group_end(use->comm, request);
}

bool flights_take(const struct use *use, enum step_kind kind, const struct part *parts, int nparts,
		  bool checked, struct flights *flights)
{
	const bool grouped = kind == STEP_GROUP || kind == STEP_GROUP_START;
	const bool started = kind == STEP_START || kind == STEP_GROUP_START;
	const int each = grouped ? nparts : 1;
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < nparts && result == TUTTI_OK; i += each) {
		const char *what = grouped ? "a group" : call_name(parts[i].what);
		const uint64_t since = machine_now();
		struct flight own, *flight = started ? &flights->flight[flights->count] : &own;

		take_off(flight, use, &parts[i], each, grouped, checked);
		machine_trace("%s %s", started ? "starts" : "calls", what);
		result = post(flight, use, grouped, started);
		if (started && result == TUTTI_OK) {
			flights->count++;
			continue;
		}
		told_hear(use->told, use->comm, result, what);
		told_check_time(since, 1, what);
		land(flight, result == TUTTI_OK);
	}
	return result == TUTTI_OK;
}

void flights_finish(const struct use *use, struct flights *flights, struct random *random)
{
	struct flight *flight = flights->flight;
	const bool by_any = random_one_in(random, 3), by_test = random_one_in(random, 3);
	tutti_request_t requests[FLIGHTS_MAX];

	for (int left = flights->count; left > 0; left--) {
		size_t i = 0;
		const uint64_t started = machine_now();
		tutti_result_t result;

		while (!flight[i].ops)
			i++;
		if (by_any) {
			for (int k = 0; k < flights->count; k++)
				requests[k] = flight[k].ops ? flight[k].request : NULL;
			size_t any = 0;
			result = tutti_wait_any(requests, (size_t)flights->count, &any);
			i = any < (size_t)flights->count ? any : i;
			flight[i].request = NULL;
		} else if (by_test) {
			while ((result = tutti_test(&flight[i].request)) == TUTTI_IN_PROGRESS)
				machine_sleep(random_below(random, 1000000));
		} else {
			result = tutti_wait(&flight[i].request);
		}
		told_hear(use->told, use->comm, result, "request");
		told_check_time(started, 1, "a wait for a request");
		land(&flight[i], result == TUTTI_OK);
	}
	flights->count = 0;
}

void flights_abandon(struct flights *flights)
{
	for (int i = 0; i < flights->count; i++)
		land(&flights->flight[i], false);
}
