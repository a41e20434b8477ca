/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of an algorithm: the cheapest of those that can, by a model of what messages,
 * bytes, reductions and waits cost on the machine of rank 0. Every rank must choose alike, so
 * nothing here depends on the rank. */
#include <math.h>
#include <string.h>

#include "log.h"
#include "names.h"
#include "narrow.h"
#include "plan.h"
#include "planning.h"
#include "price.h"
#include "registry.h"

/* Seconds, and seconds per byte: [0] within a host, [1] between hosts. The factors were fitted
 * to all-reduces of 8 B to 16 MiB by every algorithm, 2 to 8 ranks on 2 cores. */
struct work_prices { /* of everybody's work, sender's and receiver's together */
	double message[2];
	double byte[2];
	double reduced;
	double wait[2]; /* of one rank, for its messages of a round */
};

/* Each message that is sent or received at once with another takes the time of its calls only.
 * Measured over loopback TCP; less through shared memory. */
#define CALL_SHARE 0.4
/* Where ranks outnumber cores, each receiver has to be woken: one that gathers, once. */
#define CROWDED_CALL_SHARE 0.75
/* Of the lesser of the longest path and everybody's work: they do not overlap wholly, and of two
 * algorithms with the same work the one with the shorter path is faster. */
#define LESSER_SHARE 0.1

/* Of a byte's price: what a rank pays that can do nothing while others expose bytes for it, and
 * what a root saves that sends a vector once more while it is in its cache (loopback). Fitted to
 * reduces and broadcasts of 1 KiB to 4 MiB with 2 to 8 ranks. */
#define AWAITED_SHARE 2.3
#define AGAIN_SHARE   0.7
/* Of the work of a byte that comes through shared memory and is combined where it lies: it is
 * not copied once more. */
#define IN_PLACE_SHARE 0.4

/* Of a line's way: what it takes to read one more while others are on their way, with as many ranks
 * reading each. Not fitted: no machine with enough cores was at hand. */
#define NEXT_LINE_SHARE 0.25

/* What a byte of float32 takes to be narrowed, combined and widened again, in sums of two bytes of
 * float32: measured by avx2 on 64 Ki numbers. */
#define NARROW_HALVES 4
#define NARROW_BLOCKS 10

/* Networks between hosts are not measured. Most are no faster than this one, of 10 Gbit/s, and
 * what is cheap on it is so on faster ones as well; loopback is faster than any. One rank is
 * taken to fill its host's. */
#define NETWORK_MESSAGE 20e-6
#define NETWORK_BYTE	0.8e-9

/* A message through shared memory is written, looked for in vain, found and let go; its bytes
 * are copied twice. */
static struct tt_prices path_prices(const struct tutti_comm *comm)
{
	const struct tt_model *m = &comm->topology.model;
	const double loopback = 2.4 * m->message;
	const double share = comm->topology.oversubscription > 1 ? CROWDED_CALL_SHARE : CALL_SHARE;
	struct tt_prices price = {
		.message = { 8 * m->line, NETWORK_MESSAGE },
		.byte = { 2.2 * m->copy, 3 * m->stream },
		.in_place = 0.3 * m->copy,
		.awaited = AWAITED_SHARE * m->copy,
		.network = NETWORK_BYTE,
		.shared = m->copy,
		.reduced = m->reduce,
		.segment = (double)tt_plan_link_segment(comm),
		.sync = 4 * m->line,
		.peer = { NEXT_LINE_SHARE * m->line, TT_FAR_LINE * NEXT_LINE_SHARE * m->line },
	};

	if (comm->topology.oversubscription >
	    1) { /* every wait costs switches between the ranks that share a core, and they share
		  * its time */
		price.message[0] = 4 * m->handover;
		price.byte[0] = 2.5 * m->copy;
		price.in_place = m->copy;
		price.shared = 1.4 * m->copy;
		price.awaited = AWAITED_SHARE * price.shared;
		price.sync = 2 * m->handover * comm->topology.oversubscription;
		price.peer[0] = price.peer[1] = 0;
	}
	if (comm->topology
		    .by_network) { /* with no shared memory at all, messages inside a host go by
				 * loopback */
		price.message[0] = loopback;
		price.byte[0] = 3 * m->stream;
		price.in_place = 0;
		price.again = AGAIN_SHARE * price.byte[0];
	}
	const double message[2] = { price.message[0], loopback };
	for (int far = 0; far < 2; far++) {
		price.call[far] = share * message[far];
		price.gathered[far] = CALL_SHARE * message[far];
	}
	return price;
}

static struct work_prices work_prices(const struct tutti_comm *comm)
{
	const struct tt_model *m = &comm->topology.model;

	return (struct work_prices){ { m->handover, 2.8 * m->message },
				     { 1.8 * m->copy, 5 * m->stream },
				     2 * m->reduce,
				     { 2 * m->handover, 5 * m->handover } };
}

static double segments_of(const struct tutti_comm *comm, double block)
{
	const double segments = block / (double)tt_plan_link_segment(comm);

	return segments > 1 ? segments : 1;
}

/* Everybody's work, shared by the cores there are. */
static double work_seconds(const struct tutti_comm *comm, const struct tt_work *work,
			   bool pipelined, bool saves, double bytes)
{
	const struct work_prices price = work_prices(comm);
	const int near = comm->topology.by_network ? 1 : 0;
	const double cores = comm->size / comm->topology.oversubscription;
	const bool far = near == 1 || work->messages[1] > work->messages[0];

	const double segments = pipelined ? segments_of(comm, bytes / work->blocks) : 1;

	return (segments * (work->messages[0] * price.message[near] +
			    work->messages[1] * price.message[1] + work->waits * price.wait[far]) +
		bytes * ((work->bytes -
			  (far || pipelined || !saves ? 0 : IN_PLACE_SHARE * work->in_place)) *
				 price.byte[far] +
			 work->reduced * price.reduced)) /
	       cores;
}

/* What takes `enough` or more at least is not looked at any closer. */
static tutti_result_t seconds(struct tutti_comm *comm, const struct tt_group *group, int number,
			      enum tt_collective collective, double bytes, double enough,
			      double *out)
{
	const struct tt_work *work;

	*out = 0;
	if (group->size == 1)
		return TUTTI_OK;
	/* where all ranks combine at once, what is not copied once more has not been seen to be
	 * worth anything */
	const bool saves = collective == TT_REDUCE;
	struct tt_cost cost = tt_algorithms[number]->cost(group, collective, bytes);
	if (!saves)
		cost.in_place = 0;
	const struct tt_prices price = path_prices(comm);
	*out = tt_price(&price, &cost, tt_algorithms[number]->shared);
	if (comm->topology.oversubscription <= 1 || tt_algorithms[number]->shared || *out >= enough)
		return TUTTI_OK;
	const tutti_result_t result = tt_work_of(comm, number, collective, &work);
	const double all =
		work ? work_seconds(comm, work, tt_algorithms[number]->pipelined, saves, bytes) : 0;
	*out = all > *out ? all + LESSER_SHARE * *out : *out + LESSER_SHARE * all;
	return result;
}

static bool needs_order(const struct tutti_comm *comm, const struct tt_call *call)
{
	const int user = call->op - TUTTI_OP_COUNT;

	return call->op >= 0 &&
	       (comm->settings.reproducible || (user >= 0 && !comm->user_ops[user].commutative));
}

/* Sums of 16- and 8-bit floats depend on how often they are rounded on the way. Averages of
 * integers do not overflow only where their sum need not be stored. */
static bool needs_one_fold(const struct tutti_comm *comm, const struct tt_call *call)
{
	if (call->op == TUTTI_AVG && call->dtype <= TUTTI_UINT32)
		return true;
	return comm->settings.reproducible && call->op >= 0 && call->dtype >= TUTTI_FLOAT16 &&
	       tutti_dtype_size(call->dtype) < sizeof(float);
}

/* `shares`: the ranks can read each other's memory. */
static bool can(const struct tutti_comm *comm, const struct tt_group *group,
		const struct tt_call *call, const struct tt_algorithm *algorithm, bool shares)
{
	return tt_algorithm_can(algorithm, call->collective) && (!algorithm->shared || shares) &&
	       (algorithm->ordered || !needs_order(comm, call)) &&
	       (algorithm->one_fold || !needs_one_fold(comm, call)) &&
	       (algorithm->one_fold || algorithm->two_folds || !call->wire) &&
	       algorithm->fits(group, call->collective);
}

/* Once for each collective, and on one rank: all choose alike. */
static void warn_of_other(struct tutti_comm *comm, const struct tt_algorithm *forced,
			  const struct tt_call *call, const struct tt_algorithm *chosen)
{
	struct tt_planning *planning = tt_planning_of(comm);

	if (comm->rank != 0 || !planning || (planning->warned & TT_BIT(call->collective)))
		return;
	planning->warned |= TT_BIT(call->collective);
	tt_log(WARN, PLAN,
	       "algorithm %s, which TUTTI_ALGORITHM (or config) asks for, cannot do %s%s%s with these ranks and "
	       "this operation: %s is used instead",
	       forced->name, tt_collective_name(call->collective), call->wire ? " as " : "",
	       call->wire ? tutti_wire_name(call->wire) : "", chosen->name);
}

/* NULL: the choice is free. */
static const struct tt_algorithm *forced_of(const struct tutti_comm *comm)
{
	return *comm->settings.algorithm ? tt_algorithm_by_name(comm->settings.algorithm) : NULL;
}

/* The cheapest algorithm, and its seconds where it was not asked for by name. */
static tutti_result_t cheapest(struct tutti_comm *comm, const struct tt_group *group,
			       const struct tt_call *call, double bytes,
			       const struct tt_algorithm **out, double *best_time)
{
	const struct tt_algorithm *forced = forced_of(comm);
	double time;
	const bool control_area = comm->control_area.base != NULL;

	*out = NULL;
	*best_time = HUGE_VAL;
	if (forced && can(comm, group, call, forced, control_area)) {
		*out = forced;
		return seconds(comm, group, (int)tt_algorithm_number(forced), call->collective,
			       bytes, HUGE_VAL, best_time);
	}
	for (int i = 0; tt_algorithms[i]; i++) {
		if (!can(comm, group, call, tt_algorithms[i], control_area))
			continue;
		const tutti_result_t result =
			seconds(comm, group, i, call->collective, bytes, *best_time, &time);
		if (result)
			return result;
		if (comm->rank == 0)
			tt_log(DEBUG, PLAN, "%s of %.0f bytes by %s would take %.2f µs",
			       tt_collective_name(call->collective), bytes, tt_algorithms[i]->name,
			       time * 1e6);
		if (!*out || time < *best_time) {
			*out = tt_algorithms[i];
			*best_time = time;
		}
	}
	if (forced && *out)
		warn_of_other(comm, forced, call, *out);
	return TUTTI_OK;
}

/* What it takes a rank to narrow its input and to widen the result, and to combine narrow elements
 * rather than float32. */
static double narrowing_seconds(const struct tutti_comm *comm, tutti_wire_t wire, double bytes)
{
	const struct tt_model *m = &comm->topology.model;
	const double shared =
		comm->topology.oversubscription > 1 ? comm->topology.oversubscription : 1;

	return (tt_narrow_values(wire) > 1 ? NARROW_BLOCKS : NARROW_HALVES) * m->reduce * shared *
	       bytes;
}

/* Where it is free not to narrow, that is better than another algorithm than the one asked for. */
static bool forced_cannot(const struct tutti_comm *comm, const struct tt_group *group,
			  const struct tt_call *call, const struct tt_choice *plain)
{
	const struct tt_algorithm *forced = forced_of(comm);

	return forced && plain->algorithm == forced &&
	       !can(comm, group, call, forced, comm->control_area.base != NULL);
}

tutti_result_t tt_tuner_choose(struct tutti_comm *comm, const struct tt_group *group,
			       const struct tt_call *call, double bytes, struct tt_choice *out)
{
	struct tt_call plain = *call;
	const struct tt_algorithm *narrow;
	double plain_s = HUGE_VAL, narrow_s;

	*out = (struct tt_choice){ 0 };
	plain.wire = 0;
	tutti_result_t result = TUTTI_OK;
	if (!call->wire || call->wire & TUTTI_WIRE_IF_FASTER)
		result = cheapest(comm, group, &plain, bytes, &out->algorithm, &plain_s);
	if (result || !call->wire || (out->algorithm && forced_cannot(comm, group, call, out)))
		return result;
	const double travel = (double)tutti_wire_bytes(call->wire, call->count);
	result = cheapest(comm, group, call, travel, &narrow, &narrow_s);
	if (result)
		return result;
	narrow_s += narrowing_seconds(comm, call->wire, bytes);
	if (comm->rank == 0)
		tt_log(DEBUG, PLAN, "%s of %.0f bytes as %s would take %.2f µs by %s",
		       tt_collective_name(call->collective), bytes, tutti_wire_name(call->wire),
		       narrow_s * 1e6, narrow ? narrow->name : "none");
	if (narrow && narrow_s < plain_s)
		*out = (struct tt_choice){ narrow, tt_narrow_format(call->wire) };
	return TUTTI_OK;
}

static double seconds_on_gpu(const struct tutti_comm *comm, const struct tt_group *group,
			     const struct tt_algorithm *algorithm, enum tt_collective collective,
			     double bytes)
{
	if (group->size == 1)
		return 0;
	const struct tt_cost cost = algorithm->cost(group, collective, bytes);

	return cost.syncs * TT_DEVICE_MEETING_S + cost.bytes[0] * comm->device_byte_s;
}

void tt_tuner_choose_on_gpu(struct tutti_comm *comm, const struct tt_group *group,
			    const struct tt_call *call, double bytes,
			    const struct tt_algorithm **out)
{
	double best_time = HUGE_VAL;

	*out = NULL;
	for (int i = 0; tt_algorithms[i]; i++) {
		const struct tt_algorithm *algorithm = tt_algorithms[i];

		if (!algorithm->shared || !can(comm, group, call, algorithm, true))
			continue;
		const bool forced = strcmp(algorithm->name, comm->settings.algorithm) == 0;
		const double time =
			forced ? -1
			       : seconds_on_gpu(comm, group, algorithm, call->collective, bytes);
		if (time < best_time) {
			*out = algorithm;
			best_time = time;
		}
	}
}
