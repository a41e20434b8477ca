/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about long operations, which go in chunks, and about messages, whose chunks take turns. */
#include "claims.h"

/* No operation before it has made room for it. */
static int a_long_all_gather_may_come_first(struct gpu_rank *r, void *argument)
{
	const size_t n = LONG / 4 + 1;
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (take(comm, &in, n) || take(comm, &out, n * (size_t)r->size) || ready(comm) ||
	    put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	for (int rank = 0; rank < r->size; rank++) {
		struct vector block = { out.host + (size_t)rank * n, out.gpu + (size_t)rank * n,
					n };

		if (expect(r, &block, (float)rank, 1))
			return 1;
	}
	give(&in);
	give(&out);
	return 0;
}

static int long_ones_go_in_chunks(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct vector in, out;

	if (take(comm, &in, LONG) || take(comm, &out, LONG) || ready(comm) ||
	    put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, LONG, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	if (expect(r, &out, sum_of_ranks(r), (float)r->size))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_recv(comm, out.gpu, LONG, TUTTI_FLOAT32, before, r->stream));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, LONG, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (expect(r, &out, (float)before, 1))
		return 1;
	give(&in);
	give(&out);
	return 0;
}

/* The short ones have nothing in the last pieces. */
static int blocks_that_differ_go_in_pieces(struct gpu_rank *r, void *argument)
{
	const size_t size = (size_t)r->size, unit = LONG / (size * (size + 1) / 2) / 16 * 16;
	tutti_comm_t comm = r->comm;
	struct vector own, all;
	size_t counts[32], at = 0;

	for (size_t rank = 0; rank < size; rank++)
		counts[rank] = (rank + 1) * unit;
	if (take(comm, &own, counts[r->rank]) || take(comm, &all, unit * (size * (size + 1) / 2)) ||
	    ready(comm) || put(r, &own, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_all_gather_v(comm, own.gpu, all.gpu, counts, NULL, TUTTI_FLOAT32,
					 r->stream));
	for (size_t rank = 0; rank < size; at += counts[rank++]) {
		struct vector block = { all.host + at, all.gpu + at, counts[rank] };

		if (expect(r, &block, (float)rank, 1))
			return 1;
	}
	if (put(r, &all, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_cuda_reduce_scatter_v(comm, all.gpu, own.gpu, counts, TUTTI_FLOAT32,
					     TUTTI_SUM, r->stream));
	if (expect(r, &own, sum_of_ranks(r), (float)r->size))
		return 1;
	give(&own);
	give(&all);
	return 0;
}

#define MANY 38 /* messages of 1 MiB: more than fit at once */

static int a_group_may_have_more_messages_than_fit(struct gpu_rank *r, void *argument)
{
	const size_t each = (1 << 20) / sizeof(float);
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	tutti_comm_t comm = r->comm;
	struct vector in, out;

	if (take(comm, &in, MANY * each) || take(comm, &out, MANY * each) || ready(comm) ||
	    put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	for (size_t i = 0; i < MANY; i++)
		SUCCEEDS(tutti_cuda_send(comm, in.gpu + i * each, each, TUTTI_FLOAT32, next,
					 r->stream));
	for (size_t i = 0; i < MANY; i++)
		SUCCEEDS(tutti_cuda_recv(comm, out.gpu + i * each, each, TUTTI_FLOAT32, before,
					 r->stream));
	SUCCEEDS(tutti_group_end(comm, NULL));
	if (expect(r, &out, (float)before, 1))
		return 1;
	give(&in);
	give(&out);
	return 0;
}

static int groups_have_collectives_and_messages(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct vector in, sum, got, own;
	tutti_request_t request;

	if (take(comm, &in, few) || take(comm, &sum, few) || take(comm, &got, few) ||
	    take(comm, &own, few) || ready(comm) || put(r, &in, (float)r->rank))
		return 1;
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, next, r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, sum.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	SUCCEEDS(tutti_cuda_recv(comm, got.gpu, few, TUTTI_FLOAT32, before, r->stream));
	if (r->size > 1) {
		SUCCEEDS(tutti_cuda_recv(comm, own.gpu, few, TUTTI_FLOAT32, r->rank, r->stream));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, r->rank, r->stream));
	}
	SUCCEEDS(tutti_group_end(comm, &request));
	SUCCEEDS(tutti_wait(&request));
	if (expect(r, &sum, sum_of_ranks(r), (float)r->size) || expect(r, &got, (float)before, 1) ||
	    (r->size > 1 && expect(r, &own, (float)r->rank, 1)))
		return 1;
	give(&in);
	give(&sum);
	give(&got);
	give(&own);
	return 0;
}

/* By the host rank 0's second chunk, of the long message alone, ends before the first, and then
 * there is another operation. */
static int chunks_end_in_any_order(struct gpu_rank *r, void *argument)
{
	const size_t n = (size_t)3 << 17; /* floats: one and a half chunks of a message */
	const int last = r->size - 1;
	tutti_comm_t comm = r->comm;
	struct vector in, out, sum;

	if (r->size < 3 || !by_host())
		return 0;
	if (take(comm, &in, n) || take(comm, &out, n) || take(comm, &sum, few) || ready(comm) ||
	    put(r, &in, (float)r->rank) || put(r, &sum, 1))
		return 1;
	if (r->rank == 0) {
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(tutti_cuda_recv(comm, out.gpu, few, TUTTI_FLOAT32, last, r->stream));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, n, TUTTI_FLOAT32, 1, r->stream));
		SUCCEEDS(tutti_group_end(comm, NULL));
		out.n = few;
	} else if (r->rank == 1) {
		SUCCEEDS(tutti_cuda_recv(comm, out.gpu, n, TUTTI_FLOAT32, 0, r->stream));
		if (expect(r, &out, 0, 1))
			return 1;
		atomic_fetch_add((atomic_int *)argument, 1);
	}
	await_count(argument, 1);
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, sum.gpu, sum.gpu, few, TUTTI_FLOAT32,
					       TUTTI_MAX, r->stream));
	atomic_fetch_add((atomic_int *)argument, r->rank == 0);
	await_count(argument, 2);
	if (r->rank == last)
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, 0, r->stream));
	if (r->rank > 0)
		SUCCEEDS(tutti_cuda_all_reduce(comm, sum.gpu, sum.gpu, few, TUTTI_FLOAT32,
					       TUTTI_MAX, r->stream));
	if (expect(r, &sum, 1, 1) || (r->rank == 0 && expect(r, &out, (float)last, 1)))
		return 1;
	give(&in);
	give(&out);
	give(&sum);
	return 0;
}

static int messages_between_two_ranks_do_not_wait(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const int peer = r->rank ^ 1;
	struct vector in[2], out[2];

	for (int i = 0; i < 2; i++)
		if (take(comm, &in[i], few) || take(comm, &out[i], few) || put(r, &in[i], (float)i))
			return 1;
	if (ready(comm))
		return 1;
	if (peer < r->size) {
		SUCCEEDS(tutti_group_begin(comm));
		for (int i = 0; i < 2; i++)
			SUCCEEDS(tutti_cuda_send(comm, in[i].gpu, few, TUTTI_FLOAT32, peer,
						 r->stream));
		for (int i = 0; i < 2; i++)
			SUCCEEDS(tutti_cuda_recv(comm, out[i].gpu, few, TUTTI_FLOAT32, peer,
						 r->stream));
		SUCCEEDS(tutti_group_end(comm, NULL));
		if (expect(r, &out[0], 0, 1) || expect(r, &out[1], 1, 1))
			return 1;
	}
	SUCCEEDS(tutti_comm_error(comm, NULL));
	for (int i = 0; i < 2; i++) {
		give(&in[i]);
		give(&out[i]);
	}
	return 0;
}

const struct claim chunk_claims[] = {
	{ "a_long_all_gather_may_come_first", a_long_all_gather_may_come_first },
	{ "long_ones_go_in_pieces", long_ones_go_in_chunks },
	{ "blocks_that_differ_go_in_pieces", blocks_that_differ_go_in_pieces },
	{ "a_group_may_have_more_messages_than_fit", a_group_may_have_more_messages_than_fit },
	{ "groups_have_collectives_and_messages", groups_have_collectives_and_messages },
	{ "pieces_end_in_any_order", chunks_end_in_any_order },
	{ "messages_between_two_ranks_do_not_wait", messages_between_two_ranks_do_not_wait },
	{ NULL },
};
