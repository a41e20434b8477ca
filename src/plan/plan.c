/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the building of plans: the choice of an algorithm, its schedule, and the routes of its
 * messages. */
#include "plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "log.h"
#include "names.h"
#include "narrow.h"
#include "registry.h"

/* ---- routes */

static bool uses_link(const struct tt_step *step)
{
	return step->kind == TT_STEP_SEND || step->kind == TT_STEP_RECV ||
	       step->kind == TT_STEP_RECV_REDUCE;
}

/* Sorts a schedule's messages by direction and peer: counting sort over 2 × size buckets. */
static tutti_result_t build_routes(struct tt_plan *plan, int size)
{
	const struct tt_sched *sched = &plan->sched;
	uint32_t *count = calloc(2 * (size_t)size + 1, sizeof(*count));
	uint32_t messages = 0;

	if (!count)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for the routes to %d ranks",
			       size);
	for (uint32_t i = 0; i < sched->nsteps; i++) {
		const struct tt_step *step = &sched->steps[i];

		if (step->kind == TT_STEP_REDUCE && step->sources > plan->sources)
			plan->sources = step->sources;
		if (!uses_link(step))
			continue;
		count[2 * step->peer + (step->kind == TT_STEP_SEND)]++;
		messages++;
	}
	for (int i = 0; i < 2 * size; i++)
		plan->nroutes += count[i] > 0;
	plan->entries = malloc((messages + 1) * sizeof(*plan->entries));
	plan->routes = malloc((plan->nroutes + 1) * sizeof(*plan->routes));
	if (!plan->entries || !plan->routes) {
		free(count);
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for a plan of %u messages",
			       messages);
	}
	uint32_t first = 0, route = 0;
	for (int i = 0; i < 2 * size; i++) {
		const uint32_t n = count[i];

		count[i] = first; /* from here on: where the next one goes */
		if (n > 0)
			plan->routes[route++] = (struct tt_route){ i / 2, i % 2, first, n };
		first += n;
	}
	for (uint32_t round = 0; round < sched->nrounds; round++) {
		for (uint32_t i = sched->round[round]; i < sched->round[round + 1]; i++) {
			const struct tt_step *step = &sched->steps[i];

			if (uses_link(step))
				plan->entries[count[2 * step->peer +
						    (step->kind == TT_STEP_SEND)]++] =
					(struct tt_route_entry){ round, i };
		}
	}
	free(count);
	return TUTTI_OK;
}

/* ---- building */

void tt_plan_free(struct tt_plan *plan)
{
	if (!plan)
		return;
	tt_sched_fini(&plan->sched);
	free(plan->routes);
	free(plan->entries);
	free(plan->moves);
	free(plan->spots);
	free(plan->tables);
	free(plan);
}

/* For the error message, should another rank's group differ. */
static tutti_result_t copy_members(struct tt_plan *plan)
{
	const struct tt_counts members = *plan->call.members;
	const size_t bytes = members.n * sizeof(size_t);

	plan->tables = malloc(bytes);
	if (!plan->tables)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN,
			       "no memory for the counts of a group of %zu calls", members.n);
	plan->members = (struct tt_counts){ memcpy(plan->tables, members.at, bytes), members.n };
	plan->call.members = &plan->members;
	return TUTTI_OK;
}

/* The plan keeps its own copies of the caller's tables; displacements not given are filled in. */
static tutti_result_t copy_tables(struct tt_plan *plan, int size)
{
	const size_t **tables[4] = { &plan->call.send_counts, &plan->call.send_displs,
				     &plan->call.recv_counts, &plan->call.recv_displs };
	const size_t n = (size_t)size;

	if (plan->call.part == TT_PART_GROUP)
		return copy_members(plan);
	if (!plan->call.send_counts && !plan->call.recv_counts)
		return TUTTI_OK;
	plan->tables = malloc(4 * n * sizeof(size_t));
	if (!plan->tables)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for the counts of %d ranks",
			       size);
	for (int i = 0; i < 4; i++) {
		size_t *copy = plan->tables + i * n;
		const bool displs = i % 2;

		if (*tables[i]) {
			memcpy(copy, *tables[i], n * sizeof(size_t));
		} else if (displs && *tables[i - 1]) {
			copy[0] = 0;
			for (size_t rank = 1; rank < n; rank++)
				copy[rank] = copy[rank - 1] + (*tables[i - 1])[rank - 1];
		} else {
			continue;
		}
		*tables[i] = copy;
	}
	return TUTTI_OK;
}

static double call_bytes(const struct tutti_comm *comm, const struct tt_call *call)
{
	const double element = (double)tutti_dtype_size(call->dtype);
	const size_t *counts =
		call->collective == TT_REDUCE_SCATTER_V ? call->send_counts : call->recv_counts;
	double total = 0;

	if (tt_collective_of_vector(call->collective))
		return element * (double)call->count;
	if (tt_collective_knows_own_counts(call->collective))
		return 0;
	if (!counts)
		return element * (double)call->count * comm->size;
	for (int i = 0; i < comm->size; i++)
		total += element * (double)counts[i];
	return total;
}

struct tt_counts tt_counts_of_call(const struct tutti_comm *comm, const struct tt_call *call)
{
	const size_t n = (size_t)comm->size;

	if (call->part == TT_PART_GROUP)
		return *call->members;
	if (!tt_collective_has_table(call->collective))
		return (struct tt_counts){ NULL, 0 };
	return (struct tt_counts){ call->collective == TT_REDUCE_SCATTER_V ? call->send_counts
									   : call->recv_counts,
				   n };
}

static void count_in_header(const struct tutti_comm *comm, const struct tt_call *call,
			    struct tt_op_header *header)
{
	const struct tt_counts table = tt_counts_of_call(comm, call);

	if (table.at) {
		const struct tt_counts_digest digest = tt_counts_digest(&table);

		header->count = digest.sum;
		header->own = digest.moment;
		header->detail = digest.hash;
	} else if (tt_collective_knows_own_counts(call->collective)) {
		header->count = 0;
		header->own = call->count;
		for (int i = 0; call->collective == TT_ALL_TO_ALL_V && i < comm->size; i++)
			header->own += call->send_counts[i];
	}
}

static uint8_t declared(const struct tutti_comm *comm, tutti_op_t op)
{
	const struct tt_user_op *user =
		op >= TUTTI_OP_COUNT ? &comm->user_ops[op - TUTTI_OP_COUNT] : NULL;

	if (!user)
		return TT_DECLARED_NOT;
	if (!user->function)
		return TT_DECLARED_PREMUL;
	return user->commutative ? TT_DECLARED_COMMUTATIVE : TT_DECLARED_ORDERED;
}

struct tt_op_header tt_op_header_of_call(const struct tutti_comm *comm, const struct tt_call *call)
{
	struct tt_op_header header = { .magic = TT_OP_HEADER_MAGIC,
				       .rank = comm->rank,
				       .count = call->count,
				       .detail = call->detail,
				       .root = call->root,
				       .op = (int16_t)call->op,
				       .part = call->part,
				       .declared = declared(comm, call->op),
				       .collective = (uint8_t)call->collective,
				       .dtype = (uint8_t)call->dtype };

	count_in_header(comm, call, &header);
	return header;
}

static void fill_header(const struct tutti_comm *comm, const struct tt_call *call,
			struct tt_plan *plan)
{
	plan->header = call->part != TT_PART_GROUP && call->told ? *call->told
								 : tt_op_header_of_call(comm, call);
	plan->header.rank = comm->rank;
	if (plan->wire)
		plan->header.dtype = tt_narrow_dtype(call->dtype, plan->wire);
	plan->header.algorithm = (uint8_t)tt_algorithm_number(plan->algorithm);
	plan->header.segments = plan->segments;
}

/* The ranks as one of them sees them. */
static struct tt_group group_of(const struct tutti_comm *comm, const struct tt_call *call, int rank)
{
	const struct tt_topology *topology = &comm->topology;
	const bool near = topology->hosts == 1 && !call->on_gpu;

	return (struct tt_group){ .rank = rank,
				  .size = comm->size,
				  .root = call->root,
				  .host = topology->host,
				  .hosts = topology->hosts,
				  .domain = near ? topology->domain : NULL,
				  .domains = topology->domains };
}

static tutti_result_t choose_and_build(struct tutti_comm *comm, struct tt_plan *plan)
{
	const struct tt_group group = group_of(comm, &plan->call, comm->rank);
	const double bytes = call_bytes(comm, &plan->call);
	struct tt_choice choice = { 0 };
	tutti_result_t result = TUTTI_OK;

	if (plan->call.on_gpu)
		tt_tuner_choose_on_gpu(comm, &group, &plan->call, bytes, &choice.algorithm);
	else
		result = tt_tuner_choose(comm, &group, &plan->call, bytes, &choice);
	if (result)
		return result;
	plan->algorithm = choice.algorithm;
	plan->wire = choice.wire;
	if (!plan->algorithm)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, PLAN,
			       "no algorithm can do %s with this operation and these ranks",
			       tt_collective_name(plan->call.collective));
	result = tt_sched_build(&plan->sched, plan->algorithm, &group, plan->call.collective);
	if (result)
		return tt_fail(result, PLAN, "algorithm %s could not build %s for rank %d of %d",
			       plan->algorithm->name, tt_collective_name(plan->call.collective),
			       comm->rank, comm->size);
	return TUTTI_OK;
}

/* The layouts are those of what travels. */
static void lay_out(const struct tutti_comm *comm, struct tt_plan *plan)
{
	struct tt_call travels = plan->call;

	plan->element = tutti_dtype_size(plan->call.dtype);
	if (plan->wire) {
		plan->element = tt_narrow_element(plan->wire);
		travels.count = tt_narrow_elements(plan->wire, plan->call.count);
	}
	plan->send = tt_layout_of(comm, &travels, plan->sched.blocks, true);
	plan->recv = tt_layout_of(comm, &travels, plan->sched.blocks, false);
}

/* How many rounds the rank with most has: on a GPU all ranks meet after each. */
static tutti_result_t count_rounds(const struct tutti_comm *comm, struct tt_plan *plan)
{
	for (int rank = 0; rank < comm->size; rank++) {
		const struct tt_group group = group_of(comm, &plan->call, rank);
		struct tt_sched sched;
		const tutti_result_t result =
			tt_sched_build(&sched, plan->algorithm, &group, plan->call.collective);

		if (!result && sched.nrounds > plan->rounds)
			plan->rounds = sched.nrounds;
		tt_sched_fini(&sched);
		if (result)
			return tt_fail(result, PLAN, "no memory for the schedules of %d ranks",
				       comm->size);
	}
	return TUTTI_OK;
}

static tutti_result_t cut(const struct tutti_comm *comm, struct tt_plan *plan)
{
	if (!plan->call.on_gpu)
		return tt_plan_cut(comm, plan);
	const tutti_result_t result = count_rounds(comm, plan);
	/* of an input that is scaled first, the other half is for that (stages.c) */
	const size_t span =
		plan->call.op < TUTTI_OP_COUNT ? TT_DEVICE_STAGE_BYTES : TT_DEVICE_STAGE_BYTES / 2;

	return result ? result : tt_plan_cut_into(plan, comm->size, span);
}

tutti_result_t tt_plan_build(struct tutti_comm *comm, const struct tt_call *call,
			     struct tt_plan **out)
{
	struct tt_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for a plan");
	plan->call = *call;
	plan->call.send = plan->call.recv = NULL;
	if (call->part != TT_PART_GROUP) /* whose members copy_tables() copies */
		plan->call.told = NULL;
	tutti_result_t result = copy_tables(plan, comm->size);
	if (!result)
		result = choose_and_build(comm, plan);
	if (result)
		goto free_plan;
	lay_out(comm, plan);
	result = cut(comm, plan);
	if (!result)
		result = build_routes(plan, comm->size);
	if (!result && plan->eager)
		result = tt_plan_settle(plan, comm->rank, comm->size);
	if (result)
		goto free_plan;
	fill_header(comm, call, plan);
	plan->signature = tt_op_header_signature(&plan->header);
	tt_call_spans(comm, call, &plan->send_span, &plan->recv_span);
	if (call->op >= TUTTI_OP_COUNT)
		plan->user_op = &comm->user_ops[call->op - TUTTI_OP_COUNT];
	tt_combine_choose(comm->kernels, plan);
	assert(!plan->algorithm->shared || plan->sched.nrounds <= TT_ROUNDS);
	assert(!plan->algorithm->shared || plan->sched.scratch_slots <= (uint32_t)comm->size);
	tt_log(DEBUG, PLAN, "rank %d: %s of %zu %s by %s, %u rounds, %u segments", comm->rank,
	       tt_collective_name(call->collective), call->count,
	       tt_narrow_dtype_name(plan->header.dtype), plan->algorithm->name, plan->sched.nrounds,
	       plan->segments);
	*out = plan;
	return TUTTI_OK;
free_plan:
	tt_plan_free(plan);
	return result;
}
