/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about long operations, which go in chunks, and about messages, whose chunks take turns. */
#include "claims.h"

/* No operation before it has made room for it. */
GPU_JOB(a_long_all_gather_may_come_first)
{
	const size_t n = LONG / 4 + 1;
	struct vector in, out;

	TRY(take(comm, &in, n) || take(comm, &out, n * (size_t)r->size) || ready(comm) ||
	    put(r, in, (float)r->rank));
	SUCCEEDS(tutti_cuda_all_gather(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, r->stream));
	for (int rank = 0; rank < r->size; rank++)
		TRY(expect(r, part(out, (size_t)rank * n, n), (float)rank, 1));
	return 0;
}

GPU_JOB(long_ones_go_in_pieces)
{
	struct vector in, out;

	TRY(take(comm, &in, LONG) || take(comm, &out, LONG) || ready(comm) ||
	    put(r, in, (float)r->rank));
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	TRY(expect_sum(r, out));
	SUCCEEDS(swap(r, in, out));
	return expect(r, out, (float)rank_before(r), 1);
}

/* The short ones have nothing in the last pieces. */
GPU_JOB(blocks_that_differ_go_in_pieces)
{
	const size_t size = (size_t)r->size, unit = LONG / (size * (size + 1) / 2) / 16 * 16;
	struct vector own, all;
	size_t counts[GPU_RANKS], at = 0;

	for (size_t rank = 0; rank < size; rank++)
		counts[rank] = (rank + 1) * unit;
	TRY(take(comm, &own, counts[r->rank]) || take(comm, &all, unit * (size * (size + 1) / 2)) ||
	    ready(comm) || put(r, own, (float)r->rank));
	SUCCEEDS(tutti_cuda_all_gather_v(comm, own.gpu, all.gpu, counts, NULL, TUTTI_FLOAT32,
					 r->stream));
	for (size_t rank = 0; rank < size; at += counts[rank++])
		TRY(expect(r, part(all, at, counts[rank]), (float)rank, 1));
	TRY(put(r, all, (float)r->rank));
	SUCCEEDS(tutti_cuda_reduce_scatter_v(comm, all.gpu, own.gpu, counts, TUTTI_FLOAT32,
					     TUTTI_SUM, r->stream));
	return expect_sum(r, own);
}

#define MANY 38 /* messages of 1 MiB: more than fit at once */

GPU_JOB(a_group_may_have_more_messages_than_fit)
{
	const size_t each = (1 << 20) / sizeof(float);
	struct vector in, out;

	TRY(take(comm, &in, MANY * each) || take(comm, &out, MANY * each) || ready(comm) ||
	    put(r, in, (float)r->rank));
	SUCCEEDS(tutti_group_begin(comm));
	for (size_t i = 0; i < MANY; i++)
		SUCCEEDS(send_to(r, part(in, i * each, each), next_rank(r)));
	for (size_t i = 0; i < MANY; i++)
		SUCCEEDS(recv_from(r, part(out, i * each, each), rank_before(r)));
	SUCCEEDS(tutti_group_end(comm, NULL));
	return expect(r, out, (float)rank_before(r), 1);
}

GPU_JOB(groups_have_collectives_and_messages)
{
	struct vector in, sum, got, own;
	tutti_request_t request;

	TRY(take(comm, &in, few) || take(comm, &sum, few) || take(comm, &got, few) ||
	    take(comm, &own, few) || ready(comm) || put(r, in, (float)r->rank));
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(send_to(r, in, next_rank(r)));
	SUCCEEDS(reduce_all(r, in, sum, TUTTI_SUM));
	SUCCEEDS(recv_from(r, got, rank_before(r)));
	SUCCEEDS(recv_from(r, own, r->rank));
	SUCCEEDS(send_to(r, in, r->rank));
	SUCCEEDS(tutti_group_end(comm, &request));
	SUCCEEDS(tutti_wait(&request));
	return expect_sum(r, sum) || expect(r, got, (float)rank_before(r), 1) ||
	       expect(r, own, (float)r->rank, 1);
}

/* By the host rank 0's second chunk, of the long message alone, ends before the first, and then
 * there is another operation. */
GPU_JOB(pieces_end_in_any_order)
{
	const size_t n = (size_t)3 << 17; /* floats: one and a half chunks of a message */
	const int last = r->size - 1;
	struct vector in, out, sum;

	if (r->size < 3 || !by_host())
		return 0;
	TRY(take(comm, &in, n) || take(comm, &out, n) || take(comm, &sum, few) || ready(comm) ||
	    put(r, in, (float)r->rank) || put(r, sum, 1));
	if (r->rank == 0) {
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(recv_from(r, part(out, 0, few), last));
		SUCCEEDS(send_to(r, in, 1));
		SUCCEEDS(tutti_group_end(comm, NULL));
	} else if (r->rank == 1) {
		SUCCEEDS(recv_from(r, out, 0));
		TRY(expect(r, out, 0, 1));
		atomic_fetch_add(came, 1);
	}
	await_count(came, 1);
	if (r->rank == 0)
		SUCCEEDS(reduce_all(r, sum, sum, TUTTI_MAX));
	atomic_fetch_add(came, r->rank == 0);
	await_count(came, 2);
	if (r->rank == last)
		SUCCEEDS(send_to(r, part(in, 0, few), 0));
	if (r->rank > 0)
		SUCCEEDS(reduce_all(r, sum, sum, TUTTI_MAX));
	return expect(r, sum, 1, 1) ||
	       (r->rank == 0 && expect(r, part(out, 0, few), (float)last, 1));
}

GPU_JOB(messages_between_two_ranks_do_not_wait)
{
	const int peer = r->rank ^ 1;
	struct vector in[2], out[2];

	for (int i = 0; i < 2; i++)
		TRY(take(comm, &in[i], few) || take(comm, &out[i], few) || put(r, in[i], (float)i));
	TRY(ready(comm));
	if (peer < r->size) {
		SUCCEEDS(tutti_group_begin(comm));
		for (int i = 0; i < 2; i++)
			SUCCEEDS(send_to(r, in[i], peer));
		for (int i = 0; i < 2; i++)
			SUCCEEDS(recv_from(r, out[i], peer));
		SUCCEEDS(tutti_group_end(comm, NULL));
		TRY(expect(r, out[0], 0, 1) || expect(r, out[1], 1, 1));
	}
	return 0;
}
