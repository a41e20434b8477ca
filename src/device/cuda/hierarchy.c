/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the operations on two levels. The GPUs of a clique combine what they have, or hand on
 * what came, by stages; what crosses to other cliques goes by the host, where each rank meets
 * those that have its own place on the other cliques. So each byte crosses once for a clique
 * and not for each rank, and the ranks of a clique share the work. The all_reduce is that of
 * Cho et al., "BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous Network
 * Hierarchy", MLSys 2019, for two levels; the others are cut likewise.
 *
 * Long vectors go in chunks: while the hosts work on one, the GPUs combine the next, and copies
 * run between them. */
#include "hierarchy.h"

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "log.h"
#include "names.h"
#include "parts.h"
#include "proxy.h"

#define LEAST_BYTES                                                                                \
	65536 /* of all that the operation is about: below, the waits between GPUs cost more than
	       * they save. A guess. */
#define ALIGNMENT 16

struct tt_cuda_hierarchy {
	struct tutti_comm *local; /* the ranks of the clique, in order … */
	struct tt_cuda *here;	  /* … and what this one has with them on its GPU */
	int cliques, clique;
	int places, place;    /* ranks of each clique */
	int *rank;	      /* [cliques × places] */
	cuda_address scratch; /* TT_CUDA_CHUNKS_SLOTS × TT_CUDA_CHUNK_BYTES: of a reduce_scatter
			       * what crosses */
	struct tt_op_header header; /* of the operation that is put on a stream */
};

/* Elements [from, from + n) of the vector, or of each block. */
struct part {
	size_t from, n;
	uint64_t number; /* of the chunk at the proxy */
};

static int rank_at(const struct tt_cuda_hierarchy *hierarchy, int clique, int place)
{
	return hierarchy->rank[clique * hierarchy->places + place];
}

static const void *input_at(const struct tt_cuda_op *op, size_t element)
{
	return (const uint8_t *)op->call->send + element * tutti_dtype_size(op->call->dtype);
}

static void *result_at(const struct tt_cuda_op *op, size_t element)
{
	return (uint8_t *)op->call->recv + element * tutti_dtype_size(op->call->dtype);
}

int tt_cuda_rank_across(const struct tt_cuda *cuda, int clique)
{
	return rank_at(cuda->hierarchy, clique, cuda->hierarchy->place);
}

struct tt_cuda *tt_cuda_who_waits(struct tt_cuda *cuda)
{
	return !cuda->proxy ? cuda : cuda->hierarchy ? cuda->hierarchy->here : NULL;
}

/* ---- on the clique */

static tutti_result_t put_here(struct tt_cuda_op *whole, struct tt_call *call)
{
	struct tt_cuda_hierarchy *hierarchy = whole->cuda->hierarchy;
	struct tt_cuda_op op = { .cuda = hierarchy->here, .stream = whole->stream, .call = call };

	call->on_gpu = true;
	const tutti_result_t result = tt_cuda_get_plan(&op, call);

	if (result)
		return result;
	op.header = hierarchy->header; /* what its ranks compare is what the program called */
	op.header.detail = op.plan->header.detail;
	op.header.algorithm = op.plan->header.algorithm;
	op.header.segments = op.plan->header.segments;
	op.signature = tt_op_header_signature(&op.header);
	op.header.seq = whole->cuda->calls;
	const cuda_result error = tt_cuda_by_stages(&op);
	return tt_cuda_check(error, "%s", tt_call_name(whole->call));
}

/* Elements for each place. */
struct slices {
	size_t count[TT_CUDA_RANKS], at[TT_CUDA_RANKS];
};

/* A vector of n elements cut into one slice for each place, aligned. */
static struct slices cut(const struct tt_cuda_op *op, size_t n)
{
	const size_t unit = ALIGNMENT / tutti_dtype_size(op->call->dtype),
		     places = (size_t)op->cuda->hierarchy->places;
	const size_t each = ((n + unit - 1) / unit + places - 1) / places * unit;
	struct slices slices;

	for (size_t place = 0; place < places; place++) {
		slices.at[place] = place * each < n ? place * each : n;
		slices.count[place] = n - slices.at[place] < each ? n - slices.at[place] : each;
	}
	return slices;
}

/* The first n elements of the blocks of a clique's ranks. */
static struct slices blocks_of(const struct tt_cuda_op *op, int clique, size_t n)
{
	struct slices blocks;

	for (int place = 0; place < op->cuda->hierarchy->places; place++) {
		blocks.count[place] = n;
		blocks.at[place] =
			(size_t)rank_at(op->cuda->hierarchy, clique, place) * op->call->count;
	}
	return blocks;
}

/* Everybody of the clique has its slice at `send`; now all have all of them. */
static tutti_result_t gather(struct tt_cuda_op *op, const struct part *part,
			     const struct slices *slices, const void *send)
{
	/* the plan is the same for all chunks */
	struct tt_call call = tt_call_of(TT_ALL_GATHER_V, send, result_at(op, part->from), 0,
					 op->call->dtype, TT_NO_OP, TT_NO_ROOT);

	call.recv_counts = slices->count;
	call.recv_displs = slices->at;
	return put_here(op, &call);
}

/* Everybody of the clique gets its slice, combined. */
static tutti_result_t combine(struct tt_cuda_op *op, const struct part *part,
			      const struct slices *slices, void *recv)
{
	struct tt_call call = tt_call_of(TT_REDUCE_SCATTER_V, input_at(op, part->from), recv, 0,
					 op->call->dtype, op->call->op, TT_NO_ROOT);

	call.send_counts = slices->count;
	call.send_displs = slices->at;
	return put_here(op, &call);
}

/* This rank's slice of the result. */
static void *own_slice(const struct tt_cuda_op *op, const struct part *part,
		       const struct slices *slices)
{
	return result_at(op, part->from + slices->at[op->cuda->hierarchy->place]);
}

/* ---- between cliques */

/* The collective among the ranks of one place, from the beginning of the pinned memory to
 * `recv_at`. */
static struct tt_call crossing_call(const struct tt_cuda_op *op, enum tt_collective collective,
				    int root, size_t n, size_t recv_at)
{
	return tt_call_of(collective, (const void *)0, (void *)recv_at, n, op->call->dtype,
			  op->call->op, root);
}

static tutti_result_t cross(struct tt_cuda_op *op, const struct tt_call *call,
			    const struct tt_cuda_run *inputs, size_t ninputs,
			    const struct tt_cuda_run *results, size_t nresults, struct part *part)
{
	const struct tt_cuda_chunk chunk = { .comm = op->cuda->proxy->across,
					     .whole = &op->cuda->hierarchy->header,
					     .calls = call,
					     .ncalls = 1,
					     .inputs = inputs,
					     .ninputs = ninputs,
					     .results = results,
					     .nresults = nresults };

	return tt_cuda_put_chunk(op, &chunk, &part->number);
}

/* ---- all_reduce: each place's slice is combined on the clique, then between cliques, then
 * handed on */

static tutti_result_t bring_all_reduce(struct tt_cuda_op *op, struct part *part)
{
	const struct slices slices = cut(op, part->n);
	const size_t n = slices.count[op->cuda->hierarchy->place],
		     bytes = n * tutti_dtype_size(op->call->dtype);
	void *const own = own_slice(op, part, &slices);
	const struct tt_cuda_run in = { cuda_at(own), 0, bytes },
				 out = { cuda_at(own), tt_cuda_aligned(bytes), bytes };
	const struct tt_call across = crossing_call(op, TT_ALL_REDUCE, -1, n, out.at);
	const tutti_result_t result = combine(op, part, &slices, own);

	return result ? result : cross(op, &across, &in, 1, &out, 1, part);
}

static tutti_result_t take_all_reduce(struct tt_cuda_op *op, const struct part *part)
{
	const struct slices slices = cut(op, part->n);

	return gather(op, part, &slices, own_slice(op, part, &slices));
}

/* ---- broadcast: the root's clique has it first, and each of its ranks sends its slice across */

static int clique_of(const struct tt_cuda_hierarchy *hierarchy, int rank, int *place)
{
	int i = 0;

	while (hierarchy->rank[i] != rank)
		i++;
	*place = i % hierarchy->places;
	return i / hierarchy->places;
}

static tutti_result_t bring_broadcast(struct tt_cuda_op *op, struct part *part)
{
	const struct tt_cuda_hierarchy *hierarchy = op->cuda->hierarchy;
	const struct slices slices = cut(op, part->n);
	const size_t n = slices.count[hierarchy->place];
	int root;
	const int clique = clique_of(hierarchy, op->call->root, &root);
	const bool sends = clique == hierarchy->clique;
	const struct tt_cuda_run run = { cuda_at(own_slice(op, part, &slices)), 0,
					 n * tutti_dtype_size(op->call->dtype) };
	struct tt_call here =
		tt_call_of(TT_BROADCAST,
			   op->cuda->comm->rank == op->call->root ? input_at(op, part->from) : NULL,
			   result_at(op, part->from), part->n, op->call->dtype, TT_NO_OP, root);
	const struct tt_call across = crossing_call(op, TT_BROADCAST, clique, n, 0);
	tutti_result_t result = TUTTI_OK;

	if (sends)
		result = put_here(op, &here);
	return result ? result : cross(op, &across, &run, sends, &run, !sends, part);
}

static tutti_result_t take_broadcast(struct tt_cuda_op *op, const struct part *part)
{
	const struct tt_cuda_hierarchy *hierarchy = op->cuda->hierarchy;
	int place;

	return clique_of(hierarchy, op->call->root, &place) == hierarchy->clique
		       ? TUTTI_OK
		       : take_all_reduce(op, part);
}

/* ---- all_gather: a rank gathers the blocks of its place from all cliques, and hands them on to
 * its own */

static tutti_result_t bring_all_gather(struct tt_cuda_op *op, struct part *part)
{
	const struct tt_cuda_hierarchy *hierarchy = op->cuda->hierarchy;
	const size_t bytes = part->n * tutti_dtype_size(op->call->dtype),
		     cliques = (size_t)hierarchy->cliques;
	const void *own = input_at(op, part->from);
	const struct tt_cuda_run in = { cuda_at(own), 0, bytes };
	const struct tt_call across =
		crossing_call(op, TT_ALL_GATHER, -1, part->n, tt_cuda_aligned(bytes));
	const struct slices blocks = blocks_of(op, hierarchy->clique, part->n);
	struct tt_cuda_run *out = malloc(cliques * sizeof(*out));
	size_t n = 0;

	if (!out)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for a chunk of it",
			       tt_call_name(op->call));
	for (size_t clique = 0; clique < cliques; clique++) {
		const struct slices theirs = blocks_of(op, (int)clique, part->n);

		if ((int)clique != hierarchy->clique)
			out[n++] = (struct tt_cuda_run){ cuda_at(own_slice(op, part, &theirs)),
							 tt_cuda_aligned(bytes) + clique * bytes,
							 bytes };
	}
	tutti_result_t result = cross(op, &across, &in, 1, out, n, part);
	if (!result) /* meanwhile */
		result = gather(op, part, &blocks, own);
	free(out);
	return result;
}

static tutti_result_t take_all_gather(struct tt_cuda_op *op, const struct part *part)
{
	const struct tt_cuda_hierarchy *hierarchy = op->cuda->hierarchy;
	tutti_result_t result = TUTTI_OK;

	for (int clique = 0; clique < hierarchy->cliques && !result; clique++) {
		const struct slices blocks = blocks_of(op, clique, part->n);

		if (clique != hierarchy->clique)
			result = gather(op, part, &blocks, own_slice(op, part, &blocks));
	}
	return result;
}

/* ---- reduce_scatter: a place's blocks, one for each clique, are combined on the clique and
 * then between cliques */

static tutti_result_t bring_reduce_scatter(struct tt_cuda_op *op, struct part *part)
{
	const struct tt_cuda_hierarchy *hierarchy = op->cuda->hierarchy;
	const size_t bytes = part->n * tutti_dtype_size(op->call->dtype),
		     cliques = (size_t)hierarchy->cliques;
	/* as at the proxy: what lay there before has crossed */
	const cuda_address scratch = hierarchy->scratch + tt_cuda_next_chunk(op->cuda) %
								  TT_CUDA_CHUNKS_SLOTS *
								  TT_CUDA_CHUNK_BYTES;
	const struct tt_cuda_run in = { scratch, 0, cliques * bytes },
				 out = { cuda_at(result_at(op, part->from)),
					 tt_cuda_aligned(cliques * bytes), bytes };
	const struct tt_call across = crossing_call(op, TT_REDUCE_SCATTER, -1, part->n, out.at);
	tutti_result_t result = TUTTI_OK;

	for (size_t clique = 0; clique < cliques && !result; clique++) {
		const struct slices blocks = blocks_of(op, (int)clique, part->n);

		result = combine(op, part, &blocks, cuda_pointer(scratch + clique * bytes));
	}
	return result ? result : cross(op, &across, &in, 1, &out, 1, part);
}

/* ---- an operation */

static const struct way {
	tutti_result_t (*bring)(struct tt_cuda_op *op, struct part *part); /* NULL: no such way */
	tutti_result_t (*take)(struct tt_cuda_op *op,
			       const struct part *part); /* NULL: what has crossed lies where it
							  * belongs */
} ways[TT_COLLECTIVE_COUNT] = {
	[TT_ALL_REDUCE] = { bring_all_reduce, take_all_reduce },
	[TT_BROADCAST] = { bring_broadcast, take_broadcast },
	[TT_ALL_GATHER] = { bring_all_gather, take_all_gather },
	[TT_REDUCE_SCATTER] = { bring_reduce_scatter, NULL },
};

bool tt_cuda_fits_hierarchy(const struct tt_cuda *cuda, const struct tt_call *call)
{
	const size_t blocks =
		tt_collective_of_vector(call->collective) ? 1 : (size_t)cuda->comm->size;

	if (!cuda->hierarchy || !ways[call->collective].bring || call->op >= TUTTI_OP_COUNT)
		return false;
	/* in order of ranks, whoever is where */
	if (cuda->comm->settings.reproducible && call->op >= 0)
		return false;
	if (call->op == TUTTI_AVG &&
	    call->dtype <= TUTTI_UINT64) /* would be truncated twice; floats are averages of
					  * averages, as cliques are equal */
		return false;
	return call->count * blocks * tutti_dtype_size(call->dtype) >= LEAST_BYTES;
}

/* Of a vector a slice for each place, of blocks one for each clique crosses at a time. */
static size_t elements_at_once(const struct tt_cuda_hierarchy *hierarchy,
			       const struct tt_call *call)
{
	const size_t chunk = TT_CUDA_CHUNK_BYTES / tutti_dtype_size(call->dtype),
		     cliques = (size_t)hierarchy->cliques;
	const size_t unit = ALIGNMENT / tutti_dtype_size(call->dtype),
		     block = chunk / cliques / unit * unit;

	if (tt_collective_of_vector(call->collective))
		return chunk * (size_t)hierarchy->places;
	return block > 0 ? block : 1;
}

static tutti_result_t take(struct tt_cuda_op *op, const struct way *way, const struct part *part)
{
	uint64_t *const crossed = &op->cuda->hierarchy->here->report->crossed;
	tutti_result_t result = tt_cuda_fetch_chunk(op, part->number);
	cuda_result error = result ? 0 : tt_cuda_report(op, crossed, 1);

	if (!result && !error && way->take)
		result = way->take(op, part);
	if (!result && !error)
		error = tt_cuda_report(op, crossed, 0);
	return error ? tt_cuda_check(error, "%s", tt_call_name(op->call)) : result;
}

/* All ranks tell each other what they called, by a chunk without bytes, and who does not come is
 * missed by name: on a clique and among the ranks of one place only a few would meet, and those
 * not at all of which one goes another way. */
static tutti_result_t announce(struct tt_cuda_op *op, uint64_t *number)
{
	const struct tt_call barrier =
		tt_call_of(TT_BARRIER, NULL, NULL, 0, TUTTI_UINT8, TT_NO_OP, TT_NO_ROOT);
	const struct tt_cuda_chunk chunk = { .comm = op->cuda->proxy->comm,
					     .whole = &op->cuda->hierarchy->header,
					     .calls = &barrier,
					     .ncalls = 1 };

	return tt_cuda_put_chunk(op, &chunk, number);
}

static tutti_result_t put_parts(struct tt_cuda_op *op, const struct way *way)
{
	const size_t count = op->call->count,
		     each = elements_at_once(op->cuda->hierarchy, op->call),
		     n = (count + each - 1) / each;
	struct part parts[TT_CUDA_CHUNKS_SLOTS];
	uint64_t announced;
	tutti_result_t result = announce(op, &announced);

	for (size_t i = 0; i < n + TT_CUDA_CHUNKS_AHEAD && !result; i++) {
		if (i == TT_CUDA_CHUNKS_AHEAD) /* before its slot is wanted again, and before
						* anything is taken */
			result = tt_cuda_fetch_chunk(op, announced);
		if (!result && i < n) {
			parts[i % TT_CUDA_CHUNKS_SLOTS] = (struct part){
				i * each, count - i * each < each ? count - i * each : each, 0
			};
			result = way->bring(op, &parts[i % TT_CUDA_CHUNKS_SLOTS]);
		}
		if (!result && i >= TT_CUDA_CHUNKS_AHEAD)
			result = take(op, way,
				      &parts[(i - TT_CUDA_CHUNKS_AHEAD) % TT_CUDA_CHUNKS_SLOTS]);
	}
	return result;
}

tutti_result_t tt_cuda_hierarchical(struct tt_cuda_op *op)
{
	op->cuda->calls++;
	op->cuda->hierarchy->header = tt_op_header_of_call(op->cuda->comm, op->call);
	return put_parts(op, &ways[op->call->collective]);
}

/* ---- their life */

/* What this rank needs for itself. */
static tutti_result_t make(struct tt_cuda *cuda, const struct tt_cuda_cliques *cliques)
{
	struct tt_cuda_hierarchy *hierarchy = calloc(1, sizeof(*hierarchy));
	const int size = cuda->comm->size;
	int n = 0;

	cuda->hierarchy = hierarchy;
	if (hierarchy)
		hierarchy->rank = malloc((size_t)size * sizeof(*hierarchy->rank));
	if (!hierarchy || !hierarchy->rank)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the cliques of %d ranks",
			       size);
	for (int clique = 0; clique < cliques->count; clique++)
		for (int rank = 0; rank < size; rank++)
			if (cliques->of[rank] == clique)
				hierarchy->rank[n++] = rank;
	hierarchy->cliques = cliques->count;
	hierarchy->places = tt_cuda_clique_size(cliques, size);
	hierarchy->clique = clique_of(hierarchy, cuda->comm->rank, &hierarchy->place);
	return tt_cuda_check(
		tt_cu.mem_alloc(&hierarchy->scratch, TT_CUDA_CHUNKS_SLOTS * TT_CUDA_CHUNK_BYTES),
		"take memory of the GPU for what crosses to other cliques");
}

void tt_cuda_hierarchy_end(struct tt_cuda *cuda, bool frees)
{
	struct tt_cuda_hierarchy *hierarchy = cuda->hierarchy;

	if (!hierarchy)
		return;
	tt_cuda_free(hierarchy->here, frees);
	tutti_comm_destroy(hierarchy->local);
	if (hierarchy->scratch && frees)
		tt_cu.mem_free(hierarchy->scratch);
	free(hierarchy->rank);
	free(hierarchy);
	cuda->hierarchy = NULL;
}

tutti_result_t tt_cuda_hierarchy_begin(struct tt_cuda *cuda, const struct tt_cuda_cliques *cliques,
				       struct tt_cuda_offer *all)
{
	if (tt_cuda_clique_size(cliques, cuda->comm->size) < 2)
		return TUTTI_OK;
	tutti_result_t result =
		tt_cuda_exchange(cuda->comm, TT_PART_CUDA_BIND, make(cuda, cliques), all);
	struct tt_cuda_hierarchy *const hierarchy = cuda->hierarchy;
	if (!result)
		result = tt_part_split(cuda->comm, TT_PART_CUDA_BIND, hierarchy->clique,
				       hierarchy->place, &hierarchy->local);
	if (!result)
		result = tt_cuda_exchange(
			cuda->comm, TT_PART_CUDA_BIND,
			tt_cuda_bind_clique(hierarchy->local, cuda,
					    &hierarchy->rank[hierarchy->clique * hierarchy->places],
					    &hierarchy->here),
			all);
	if (!result)
		result = tt_cuda_proxy_across(cuda, hierarchy->place, hierarchy->clique);
	if (result)
		tt_cuda_hierarchy_end(cuda, true);
	return result;
}
