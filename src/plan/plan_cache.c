/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the plans that are kept, and which calls are alike. */
#include "plan_cache.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "log.h"
#include "planning.h"

#define BUCKETS	   64
#define PLANS_KEPT 1024

struct tt_plan_cache {
	struct tt_plan *bucket[BUCKETS];
	size_t kept, capacity; /* plans; beyond capacity those in no use are dropped */
};

static uint64_t hash_counts(uint64_t hash, const size_t *counts, int n)
{
	for (int i = 0; counts && i < n; i++) {
		hash = (hash ^ counts[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static uint64_t call_hash(const struct tt_call *call, int size)
{
	uint64_t hash = (uint64_t)call->collective << 40 | (uint64_t)call->wire << 48 |
			(uint64_t)call->dtype << 32 | (uint64_t)(uint32_t)call->op;

	hash = (hash ^ call->count) * 0x9e3779b97f4a7c15ull;
	hash = (hash ^ (hash >> 31) ^ (uint64_t)(uint32_t)call->root) * 0x9e3779b97f4a7c15ull;
	hash = hash_counts(hash ^ call->detail, call->send_counts, size);
	hash = hash_counts(hash, call->send_displs, size);
	hash = hash_counts(hash, call->recv_counts, size);
	hash = hash_counts(hash, call->recv_displs, size);
	return hash ^ (hash >> 29);
}

/* A table not given stands for the packed one, which the plan spells out. */
static bool same_table(const size_t *kept, const size_t *given, const size_t *counts, int size)
{
	size_t sum = 0;

	if (given)
		return kept && memcmp(kept, given, (size_t)size * sizeof(size_t)) == 0;
	if (!counts)
		return true;
	for (int i = 0; i < size; i++) {
		if (kept[i] != sum)
			return false;
		sum += counts[i];
	}
	return true;
}

static bool same_tables(const struct tt_call *kept, const struct tt_call *call, int size)
{
	return !kept->send_counts == !call->send_counts &&
	       !kept->recv_counts == !call->recv_counts &&
	       same_table(kept->send_counts, call->send_counts, NULL, size) &&
	       same_table(kept->recv_counts, call->recv_counts, NULL, size) &&
	       same_table(kept->send_displs, call->send_displs, call->send_counts, size) &&
	       same_table(kept->recv_displs, call->recv_displs, call->recv_counts, size);
}

static bool same_call(const struct tt_call *kept, const struct tt_call *call, int size)
{
	if (memcmp(kept, call, TT_CALL_KEY) != 0)
		return false;
	if (!call->send_counts && !call->recv_counts)
		return !kept->send_counts && !kept->recv_counts;
	return same_tables(kept, call, size);
}

static bool in_use(const struct tutti_comm *comm, const struct tt_plan *plan)
{
	return comm->last_plan == plan || comm->device_plan == plan || comm->uses_plan(comm, plan);
}

/* Drop what nothing uses of the plans of one operation, which no call finds from here on, or of
 * all (NULL). */
static void drop(struct tutti_comm *comm, const tutti_op_t *op)
{
	for (int i = 0; comm->plans && i < BUCKETS; i++) {
		for (struct tt_plan **link = &comm->plans->bucket[i]; *link;) {
			struct tt_plan *plan = *link;
			const bool meant = !op || plan->call.op == *op;

			plan->call.forgotten |= op && meant;
			if (!meant || in_use(comm, plan)) {
				link = &plan->next;
				continue;
			}
			*link = plan->next;
			if (comm->exchanged_plan == plan)
				comm->exchanged_plan = NULL;
			tt_plan_free(plan);
			comm->plans->kept--;
		}
	}
}

/* A program whose counts never come again must not grow: start afresh when the cache is full. */
static void make_space(struct tutti_comm *comm)
{
	struct tt_plan_cache *cache = comm->plans;

	if (cache->kept < cache->capacity)
		return;
	drop(comm, NULL);
	cache->capacity = 2 * cache->kept > PLANS_KEPT ? 2 * cache->kept : PLANS_KEPT;
}

static tutti_result_t find_or_build(struct tutti_comm *comm, const struct tt_call *call,
				    const struct tt_plan **out)
{
	struct tt_plan_cache *cache = comm->plans;
	struct tt_plan *plan;

	const tutti_result_t checked = tt_call_check(comm, call);
	if (checked)
		return checked;
	if (!cache) {
		cache = comm->plans = calloc(1, sizeof(*cache));
		if (!cache)
			return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN,
				       "no memory for the cache of plans");
		cache->capacity = PLANS_KEPT;
	}
	const uint64_t hash = call_hash(call, comm->size);
	struct tt_plan **bucket = &cache->bucket[hash % BUCKETS];
	for (plan = *bucket; plan; plan = plan->next)
		if (plan->hash == hash && same_call(&plan->call, call, comm->size))
			break;
	if (!plan) {
		const tutti_result_t result = tt_plan_build(comm, call, &plan);

		if (result)
			return result;
		make_space(comm);
		plan->hash = hash;
		plan->next = *bucket;
		*bucket = plan;
		cache->kept++;
	}
	comm->note_plan(comm, plan);
	*out = plan;
	return TUTTI_OK;
}

tutti_result_t tt_plan_find(struct tutti_comm *comm, const struct tt_call *call,
			    const struct tt_plan **out)
{
	const struct tt_plan *same = comm->last_plan;

	if (!same || !same_call(&same->call, call, comm->size))
		return find_or_build(comm, call, out);
	*out = same;
	return tt_call_check_buffers(call, same->send_span, same->recv_span);
}

struct tt_counts tt_plans_counts(const struct tutti_comm *comm, const struct tt_op_header *header)
{
	struct tt_op_header without_seq = *header;

	without_seq.seq = 0; /* as plans have it */
	for (int i = 0; comm->plans && i < BUCKETS; i++)
		for (const struct tt_plan *plan = comm->plans->bucket[i]; plan; plan = plan->next)
			if (tt_op_header_equal(&plan->header, &without_seq))
				return tt_counts_of_call(comm, &plan->call);
	return (struct tt_counts){ NULL, 0 };
}

void tt_plans_free(struct tutti_comm *comm)
{
	for (int i = 0; comm->plans && i < BUCKETS; i++) {
		while (comm->plans->bucket[i]) {
			struct tt_plan *plan = comm->plans->bucket[i];

			comm->plans->bucket[i] = plan->next;
			tt_plan_free(plan);
		}
	}
	free(comm->plans);
	comm->plans = NULL;
	comm->last_plan = NULL;
	if (comm->planning)
		free(comm->planning->work);
	free(comm->planning);
	comm->planning = NULL;
}

struct tt_planning *tt_planning_of(struct tutti_comm *comm)
{
	if (!comm->planning)
		comm->planning = calloc(1, sizeof(*comm->planning));
	return comm->planning;
}

void tt_plans_forget_op(struct tutti_comm *comm, tutti_op_t op)
{
	drop(comm, &op);
}
