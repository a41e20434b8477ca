/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"

#include <string.h>

#include "calls.h"
#include "values.h"

#define UNTOUCHED 0x5a /* bytes that nobody writes */
#define BEHIND	  32   /* bytes behind each buffer */
#define GAP	  3    /* elements between blocks */

static size_t add_up(const size_t *counts, int n)
{
	size_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

/* Elements that one rank has for another, in the forms with counts. */
static size_t count_between(const struct part *part, int from, int to)
{
	struct random random = random_stream(part->salt, (uint64_t)(from * RANKS_MAX + to));

	return (size_t)random_below(&random, part->count + 1);
}

static void place(const struct operation *op, const size_t *counts, size_t *displs)
{
	size_t at = 0;

	for (int rank = 0; rank < op->size; rank++) {
		displs[rank] = at;
		at += counts[rank] + (op->part.gaps ? GAP : 0);
	}
}

static bool has_counts(enum what what)
{
	return what >= REDUCE_SCATTER_V && what <= ALL_TO_ALL_V;
}

/* Counts of all blocks: per rank, and between pairs in all_to_all_v. */
static void count_blocks(struct operation *op)
{
	const bool pairs = op->part.what == ALL_TO_ALL_V;

	for (int rank = 0; rank < op->size; rank++) {
		op->send_counts[rank] =
			has_counts(op->part.what)
				? count_between(&op->part, pairs ? op->rank : 0, rank)
				: op->part.count;
		op->recv_counts[rank] = has_counts(op->part.what)
						? count_between(&op->part, pairs ? rank : 0,
								pairs ? op->rank : rank)
						: op->part.count;
	}
	if (!has_counts(op->part.what) || op->part.what == REDUCE_SCATTER_V)
		op->part.gaps = false;
	place(op, op->send_counts, op->send_displs);
	place(op, op->recv_counts, op->recv_displs);
}

/* Does the rank give a block for each rank, or get one of each? Otherwise one. */
static bool gives_all(const struct operation *op)
{
	switch (op->part.what) {
	case REDUCE_SCATTER:
	case REDUCE_SCATTER_V:
	case ALL_TO_ALL:
	case ALL_TO_ALL_V: return true;
	case SCATTER:
	case SCATTER_V: return op->rank == op->root;
	default: return false;
	}
}

static bool gets_all(const struct operation *op)
{
	switch (op->part.what) {
	case ALL_GATHER:
	case ALL_GATHER_V:
	case ALL_TO_ALL:
	case ALL_TO_ALL_V: return true;
	case GATHER:
	case GATHER_V: return op->rank == op->root;
	default: return false;
	}
}

static bool gives(const struct operation *op)
{
	const enum what what = op->part.what;

	if (op->idle)
		return false;

	return what == MESSAGE						   ? op->rank == op->root
	       : what == BROADCAST || what == SCATTER || what == SCATTER_V ? op->rank == op->root
									   : what != BARRIER;
}

static bool gets(const struct operation *op)
{
	const enum what what = op->part.what;

	if (op->idle)
		return false;

	return what == MESSAGE					      ? op->rank == op->peer
	       : what == REDUCE || what == GATHER || what == GATHER_V ? op->rank == op->root
								      : what != BARRIER;
}

static size_t end_of_all(const struct operation *op, const size_t *counts)
{
	return add_up(counts, op->size) + (op->part.gaps ? GAP * (size_t)op->size : 0);
}

/* ---- values */

static tutti_op_t op_of_values(const struct part *part)
{
	return reduces(part->what) && part->op != OP_LAST ? part->op : TUTTI_SUM;
}

/* Element `i` of what a rank has for another; reductions have one vector, whose blocks follow
 * each other. */
static double given(const struct operation *op, int from, int to, size_t i)
{
	const size_t shift = reduces(op->part.what) ? 0 : (size_t)to * 31;

	return value_input(from, i + shift + op->part.salt, op->part.dtype,
			   op_of_values(&op->part));
}

static double reduced(const struct operation *op, int first, int last, size_t i)
{
	double value = given(op, first, 0, i);

	for (int rank = first + 1; rank <= last; rank++)
		value = op->part.op == OP_LAST
				? given(op, rank, 0, i)
				: value_combine(value, given(op, rank, 0, i), op->part.op);
	return op->part.op == TUTTI_AVG ? value / op->size : value;
}

/* Block `block`, element i of what this rank gets. */
static double expected(const struct operation *op, int block, size_t i)
{
	switch (op->part.what) {
	case REDUCE:
	case ALL_REDUCE: return reduced(op, 0, op->size - 1, i);
	case REDUCE_SCATTER:
	case REDUCE_SCATTER_V:
		return reduced(op, 0, op->size - 1, add_up(op->send_counts, op->rank) + i);
	case SCAN: return reduced(op, 0, op->rank, i);
	case EXSCAN: return reduced(op, 0, op->rank - 1, i);
	case BROADCAST: return given(op, op->root, 0, i);
	case MESSAGE: return given(op, op->root, op->rank, i);
	case SCATTER:
	case SCATTER_V: return given(op, op->root, op->rank, i);
	case ALL_TO_ALL:
	case ALL_TO_ALL_V: return given(op, block, op->rank, i);
	default: return given(op, block, 0, i);
	}
}

static void fill(struct operation *op)
{
	const bool all = gives_all(op);
	size_t number = 0;

	for (int to = 0; to < (all ? op->size : 1); to++) {
		const size_t count = all ? op->send_counts[to] : op->send_capacity;

		for (size_t i = 0; i < count; i++, number++) {
			const int target = op->part.what == MESSAGE ? op->peer : to;
			const double value = reduces(op->part.what)
						     ? given(op, op->rank, 0, number)
						     : given(op, op->rank, target, i);

			value_set(op->send, (all ? op->send_displs[to] : 0) + i, op->part.dtype,
				  value);
		}
	}
}

/* ---- buffers */

/* In memory that peers can map, if that is wished and can be had. */
static char *make_block(const struct operation *op, size_t elements, bool *mapped)
{
	const size_t bytes = elements * op->element + BEHIND;
	void *block = NULL;

	*mapped = *mapped && tutti_mem_alloc(bytes, &block) == TUTTI_OK;
	if (!*mapped)
		block = calls_allocate(bytes);
	memset(block, UNTOUCHED, bytes);
	return block;
}

static bool sent_within_received(enum what what)
{
	return what == ALL_GATHER || what == ALL_GATHER_V || what == GATHER || what == GATHER_V;
}

static bool received_within_sent(enum what what)
{
	return what == REDUCE_SCATTER || what == REDUCE_SCATTER_V || what == SCATTER ||
	       what == SCATTER_V;
}

static bool may_be_in_place(const struct operation *op)
{
	return gives(op) && gets(op) && op->part.what != ALL_TO_ALL_V && op->part.what != MESSAGE;
}

static void allocate(struct operation *op, bool mapped)
{
	op->send_mapped = op->recv_mapped = mapped;
	op->part.in_place = op->part.in_place && may_be_in_place(op);
	if (!op->part.in_place || !received_within_sent(op->part.what))
		op->recv_block = make_block(op, op->recv_capacity, &op->recv_mapped);
	if (!op->part.in_place || received_within_sent(op->part.what))
		op->send_block = make_block(op, op->send_capacity, &op->send_mapped);
	op->recv = op->recv_block ? op->recv_block
				  : op->send_block + op->send_displs[op->rank] * op->element;
	op->send = op->send_block
			   ? op->send_block
			   : op->recv_block + (sent_within_received(op->part.what)
						       ? op->recv_displs[op->rank] * op->element
						       : 0);
}

void operation_prepare(struct operation *op, const struct part *part, int rank, int size,
		       bool grouped, bool mapped)
{
	memset(op, 0, sizeof(*op));
	op->part = *part;
	op->rank = rank;
	op->size = size;
	op->root = part->root % size;
	op->peer = part->peer % size;
	op->idle = part->what == MESSAGE && op->root == op->peer && !grouped;
	op->element = tutti_dtype_size(part->dtype);
	count_blocks(op);
	const size_t own = part->what == GATHER_V || part->what == ALL_GATHER_V ||
					   part->what == SCATTER_V || part->what == REDUCE_SCATTER_V
				   ? op->recv_counts[rank]
				   : part->count;
	op->send_capacity = !gives(op) ? 0 : gives_all(op) ? end_of_all(op, op->send_counts) : own;
	op->recv_capacity = !gets(op) ? 0 : gets_all(op) ? end_of_all(op, op->recv_counts) : own;
	allocate(op, mapped);
	if (gives(op))
		fill(op);
}

static void free_block(char *block, bool mapped)
{
	if (mapped)
		tutti_mem_free(block);
	else
		calls_release(block);
}

void operation_finish(struct operation *op)
{
	free_block(op->send_block, op->send_mapped);
	free_block(op->recv_block, op->recv_mapped);
	op->send_block = op->recv_block = NULL;
}

/* ---- the call */

void operation_last(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	memcpy(inout, in, count * tutti_dtype_size(dtype));
}

static tutti_result_t call_message(const struct operation *op, tutti_comm_t comm,
				   tutti_request_t *request)
{
	const struct part *part = &op->part;
	tutti_result_t result = TUTTI_OK;

	if (op->idle)
		return TUTTI_OK;
	if (op->rank == op->root)
		result = tutti_send(comm, op->send, part->count, part->dtype, op->peer, request);
	if (op->rank == op->peer && result == TUTTI_OK)
		result = tutti_recv(comm, op->recv, part->count, part->dtype, op->root, request);
	return result;
}

tutti_result_t operation_call(const struct operation *op, tutti_comm_t comm, tutti_op_t op_last,
			      tutti_request_t *request)
{
	const struct part *p = &op->part;
	const tutti_op_t how = p->op == OP_LAST ? op_last : p->op;
	const size_t *send_displs = p->gaps ? op->send_displs : NULL,
		     *recv_displs = p->gaps ? op->recv_displs : NULL;

	switch (p->what) {
	case BROADCAST:
		return tutti_broadcast(comm, op->send, op->recv, p->count, p->dtype, op->root,
				       request);
	case REDUCE:
		return tutti_reduce(comm, op->send, op->recv, p->count, p->dtype, how, op->root,
				    request);
	case ALL_REDUCE:
		return tutti_all_reduce(comm, op->send, op->recv, p->count, p->dtype, how, request);
	case REDUCE_SCATTER:
		return tutti_reduce_scatter(comm, op->send, op->recv, p->count, p->dtype, how,
					    request);
	case ALL_GATHER:
		return tutti_all_gather(comm, op->send, op->recv, p->count, p->dtype, request);
	case GATHER:
		return tutti_gather(comm, op->send, op->recv, p->count, p->dtype, op->root,
				    request);
	case SCATTER:
		return tutti_scatter(comm, op->send, op->recv, p->count, p->dtype, op->root,
				     request);
	case ALL_TO_ALL:
		return tutti_all_to_all(comm, op->send, op->recv, p->count, p->dtype, request);
	case REDUCE_SCATTER_V:
		return tutti_reduce_scatter_v(comm, op->send, op->recv, op->recv_counts, p->dtype,
					      how, request);
	case ALL_GATHER_V:
		return tutti_all_gather_v(comm, op->send, op->recv, op->recv_counts, recv_displs,
					  p->dtype, request);
	case GATHER_V:
		return tutti_gather_v(comm, op->send, op->send_capacity, op->recv, op->recv_counts,
				      recv_displs, p->dtype, op->root, request);
	case SCATTER_V:
		return tutti_scatter_v(comm, op->send, op->send_counts, send_displs, op->recv,
				       op->recv_capacity, p->dtype, op->root, request);
	case ALL_TO_ALL_V:
		return tutti_all_to_all_v(comm, op->send, op->send_counts, send_displs, op->recv,
					  op->recv_counts, recv_displs, p->dtype, request);
	case SCAN: return tutti_scan(comm, op->send, op->recv, p->count, p->dtype, how, request);
	case EXSCAN:
		return tutti_exscan(comm, op->send, op->recv, p->count, p->dtype, how, request);
	case BARRIER: return tutti_barrier(comm, request);
	default: return call_message(op, comm, request);
	}
}

/* ---- the result */

static bool is_untouched(const void *from, size_t bytes)
{
	const unsigned char *at = from;

	for (size_t i = 0; i < bytes; i++)
		if (at[i] != UNTOUCHED)
			return false;
	return true;
}

static const char *check_block(const struct operation *op, int block, size_t at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!value_close(value_get(op->recv, at + i, op->part.dtype),
				 expected(op, block, i), op->part.dtype, op->size + 2))
			return "a wrong value";
	return NULL;
}

static const char *check_around(const struct operation *op)
{
	const char *behind_send =
		op->send_block ? op->send_block + op->send_capacity * op->element : NULL;
	const char *behind_recv =
		op->recv_block ? op->recv_block + op->recv_capacity * op->element : NULL;

	if ((behind_send && !is_untouched(behind_send, BEHIND)) ||
	    (behind_recv && !is_untouched(behind_recv, BEHIND)))
		return "bytes written behind a buffer";
	for (int rank = 0; gets_all(op) && op->part.gaps && rank < op->size; rank++)
		if (!is_untouched((char *)op->recv +
					  (op->recv_displs[rank] + op->recv_counts[rank]) *
						  op->element,
				  GAP * op->element))
			return "bytes written between blocks";
	return NULL;
}

const char *operation_check(const struct operation *op)
{
	const char *wrong = check_around(op);

	if (wrong || !gets(op) || (op->part.what == EXSCAN && op->rank == 0))
		return wrong;
	if (!gets_all(op))
		return check_block(op, 0, 0, op->recv_capacity);
	for (int rank = 0; rank < op->size && !wrong; rank++)
		wrong = check_block(op, rank, op->recv_displs[rank], op->recv_counts[rank]);
	return wrong;
}
