/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the cutting of blocks into segments, and of what is exposed on the control area into
 * places. */
#include <assert.h>

#include "control_area_state.h"
#include "log.h"
#include "names.h"
#include "plan.h"

#define SEGMENTS_MAX (1u << 20) /* over the control area */
/* Results of all ranks of a host together that no cache keeps until their callers look at them
 * (docs/figures.md). */
#define STREAM_BYTES (16u << 20)
#define STREAM_LENT_BYTES                                                                          \
	(64u << 20) /* where nothing lies in the caches besides, as nothing is staged */

/* What a rank exposes of a segment is to stay in its second-level cache until the others have read
 * it: as much as that holds, but so much at least (docs/figures.md). */
#define CACHED_LEAST (256u * 1024)

/* Where bytes go one way, who exposes them and who reads them work at the same time if there are
 * several chunks: so long each at least, and as many, as more of them gain nothing
 * (docs/figures.md). */
#define CHUNK_BYTES (64u * 1024)
#define CHUNKS_MAX  4u
/* Collectives in which no rank waits for data of one that waits for its own. */
#define ONE_WAY                                                                                    \
	(TT_BIT(TT_BROADCAST) | TT_BIT(TT_REDUCE) | TT_BIT(TT_SCATTER) | TT_BIT(TT_GATHER) |       \
	 TT_BIT(TT_SCAN) | TT_BIT(TT_EXSCAN))

/* ---- what is exposed */

/* What buffers do ranks expose of? Every rank of a shared schedule either exposes of a buffer or
 * reads of a peer's. */
static void find_exposed(struct tt_plan *plan)
{
	for (uint32_t i = 0; i < plan->sched.nsteps; i++) {
		const struct tt_step *step = &plan->sched.steps[i];
		const bool elsewhere =
			step->kind == TT_STEP_SOURCE && step->peer != plan->sched.rank;

		uint32_t *places = &plan->exposes[step->a.buffer];

		if ((step->kind == TT_STEP_EXPOSE || elsewhere) && step->a.slot + step->n > *places)
			*places = step->a.slot + step->n;
	}
}

/* May a rank write what it exposes of its result into the others' instead? See schedule.h. */
static bool pushes(const struct tt_plan *plan)
{
	return plan->call.collective == TT_ALL_REDUCE && plan->exposes[TT_BUF_RECV] && !plan->eager;
}

/* Does this rank write anything for its peers? */
static bool posts(const struct tt_sched *sched)
{
	for (uint32_t i = 0; i < sched->nsteps; i++)
		if (sched->steps[i].kind == TT_STEP_EXPOSE)
			return true;
	return false;
}

/* How many blocks of a buffer may be exposed: the same on every rank, also where a rank has no
 * such buffer. */
static uint32_t exposable(const struct tt_plan *plan, int size, uint8_t buffer)
{
	const enum tt_collective c = plan->call.collective;
	const uint32_t whole_send = TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_REDUCE_SCATTER_V) |
				    TT_BIT(TT_SCATTER) | TT_BIT(TT_ALL_TO_ALL);
	const uint32_t whole_recv = TT_BIT(TT_ALL_GATHER) | TT_BIT(TT_ALL_GATHER_V) |
				    TT_BIT(TT_GATHER) | TT_BIT(TT_ALL_TO_ALL);

	if (!plan->exposes[buffer])
		return 0;
	if (buffer == TT_BUF_SCRATCH && !(whole_send & TT_BIT(c)))
		return plan->exposes[buffer];
	if (tt_collective_of_vector(c))
		return plan->sched.blocks;
	return (buffer != TT_BUF_RECV ? whole_send : whole_recv) & TT_BIT(c) ? (uint32_t)size : 1;
}

size_t tt_plan_exposed_bytes(const struct tt_plan *plan, int size)
{
	size_t blocks = 0;

	for (uint8_t buffer = 0; buffer < 3; buffer++)
		blocks += exposable(plan, size, buffer);
	return blocks * plan->stride;
}

size_t tt_plan_exposed_at(const struct tt_plan *plan, int size, const struct tt_ref *ref,
			  uint32_t k)
{
	const uint32_t blocks = exposable(plan, size, ref->buffer);
	size_t place = blocks <= 1 ? 0 : ref->slot + k;

	for (uint8_t before = 0; before < ref->buffer; before++)
		place += exposable(plan, size, before);
	return place * plan->stride;
}

/* ---- segments */

static size_t longest_block(const struct tt_plan *plan, uint32_t segments)
{
	const struct tt_layout *layouts[2] = { &plan->send, &plan->recv };
	size_t longest = 0;

	for (int i = 0; i < 2; i++) {
		const bool many = layouts[i]->counts || layouts[i]->kind == TT_LAYOUT_VECTOR;
		const uint32_t blocks = many ? layouts[i]->blocks : 1;

		if (layouts[i]->kind == TT_LAYOUT_NONE)
			continue;
		for (uint32_t block = 0; block < blocks; block++) {
			/* the first segment is the longest */
			const struct tt_bytes at =
				tt_layout_at(layouts[i], plan->element, segments, 0, block);

			if (at.length > longest)
				longest = at.length;
		}
	}
	return longest;
}

/* Exposed blocks begin on lines of their own; short ones share them, and none crosses from one
 * into another. */
static size_t stride_of(size_t longest)
{
	size_t stride = sizeof(uint64_t);

	while (stride < longest && stride < TT_LINE)
		stride *= 2;
	return longest <= TT_LINE ? stride : (longest + TT_LINE - 1) / TT_LINE * TT_LINE;
}

static void set_segments(struct tt_plan *plan, uint32_t segments)
{
	const size_t longest = longest_block(plan, segments);

	plan->segments = segments;
	plan->slot_bytes = (longest + TT_LINE - 1) / TT_LINE * TT_LINE;
	plan->stride = longest ? stride_of(longest) : 0;
}

static tutti_result_t cut_for_links(const struct tutti_comm *comm, struct tt_plan *plan)
{
	const size_t target = tt_plan_link_segment(comm);
	size_t segments = 1;

	if (!tt_collective_knows_own_counts(plan->call.collective) &&
	    (plan->algorithm->pipelined || comm->settings.segment_bytes))
		segments = (longest_block(plan, 1) + target - 1) / target;
	set_segments(plan, segments < 1 ? 1 : segments > 65536 ? 65536 : (uint32_t)segments);
	/* the wavefront needs as many segments in flight as there are rounds; more only cost
	 * scratch */
	plan->window =
		plan->segments < plan->sched.nrounds + 1 ? plan->segments : plan->sched.nrounds + 1;
	return TUTTI_OK;
}

/* Segments of which a rank exposes about `target` bytes each, and `span` at most: a line (or an
 * element, if that is longer) per block at least, and no more segments than progress words can count. */
static tutti_result_t cut_for_stages(struct tt_plan *plan, int size, size_t target, size_t span)
{
	const size_t least = plan->element > TT_LINE ? stride_of(plan->element) : TT_LINE;
	const size_t bytes = tt_plan_exposed_bytes(plan, size),
		     lines = bytes / plan->stride * least;
	uint32_t segments;

	static_assert(4ull * TT_ROUNDS * SEGMENTS_MAX < 1ull << TT_STEP_BITS,
		      "progress words count all steps");
	if (target < lines)
		target = lines;
	if (target < bytes / SEGMENTS_MAX)
		target = bytes / SEGMENTS_MAX;
	if (target > span)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, PLAN,
			"%s by algorithm %s would expose %zu bytes, expected %zu at most: split the call or "
			"set TUTTI_ALGORITHM",
			tt_collective_name(plan->call.collective), plan->algorithm->name, bytes,
			(size_t)SEGMENTS_MAX * span);
	segments = (uint32_t)(bytes / target);
	do {
		segments += 1 + segments / 64;
		set_segments(plan, segments);
	} while (tt_plan_exposed_bytes(plan, size) > target);
	return TUTTI_OK;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t cached(const struct tutti_comm *comm)
{
	const size_t cache = comm->topology.level2;

	if (!cache)
		return TT_STAGE_SPAN;
	return cache > CACHED_LEAST ? cache : CACHED_LEAST;
}

/* Bytes that a rank exposes of a segment at best. */
static size_t stage_target(const struct tutti_comm *comm, const struct tt_plan *plan, size_t bytes)
{
	const size_t block = longest_block(plan, 1),
		     chunks = block / CHUNK_BYTES < CHUNKS_MAX ? block / CHUNK_BYTES : CHUNKS_MAX;
	size_t target = cached(comm);

	if (comm->settings.segment_bytes)
		target = 2 * comm->settings.segment_bytes;
	else if (comm->topology.oversubscription <= 1 && chunks > 1 && plan->one_way)
		target = least(target, bytes / chunks +
					       bytes / block * TT_LINE /* ends of chunks are
									* rounded up to lines */);
	return least(target, TT_STAGE_SPAN);
}

static tutti_result_t cut_for_area(const struct tutti_comm *comm, struct tt_plan *plan)
{
	tutti_result_t result = TUTTI_OK;
	size_t bytes;

	find_exposed(plan);
	set_segments(plan, 1);
	bytes = tt_plan_exposed_bytes(plan, comm->size);
	plan->eager = bytes <= TT_EAGER_BYTES;
	plan->hot = bytes <= TT_HOT_PAYLOAD;
	plan->hot_line = bytes <= TT_HOT_LINE;
	plan->payload = plan->eager && !plan->hot_line ? bytes : 0;
	plan->pushes = pushes(plan);
	plan->posts = posts(&plan->sched);
	plan->one_way = TT_BIT(plan->call.collective) & ONE_WAY;
	if (!plan->eager)
		result = cut_for_stages(plan, comm->size, stage_target(comm, plan, bytes),
					TT_STAGE_SPAN);
	const size_t results = tt_layout_extent(&plan->recv, plan->element) * (size_t)comm->size;
	plan->streams = results >= STREAM_BYTES;
	plan->streams_granted = results >= STREAM_LENT_BYTES;
	plan->window = plan->segments < TT_STAGES ? plan->segments : TT_STAGES;
	return result;
}

tutti_result_t tt_plan_cut_into(struct tt_plan *plan, int size, size_t span)
{
	find_exposed(plan);
	set_segments(plan, 1);
	return tt_plan_exposed_bytes(plan, size) <= span ? TUTTI_OK
							 : cut_for_stages(plan, size, span, span);
}

tutti_result_t tt_plan_cut(const struct tutti_comm *comm, struct tt_plan *plan)
{
	return plan->algorithm->shared ? cut_for_area(comm, plan) : cut_for_links(comm, plan);
}
