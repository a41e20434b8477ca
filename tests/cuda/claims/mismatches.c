/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about ranks whose calls differ. */
#include "claims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some ranks' second call has so many elements fewer, and another operation. */
static int mismatch_of(struct gpu_rank *r, size_t fewer, tutti_op_t op, atomic_int *came)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	SUCCEEDS(reduce_all(r, part(x, 0, few - fewer), x, op));
	/* further ones wait for what never comes; the fault may be known already */
	for (int i = 0; i < 5; i++)
		tutti_cuda_barrier(comm, r->stream);
	return told(r, x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × ");
}

GPU_JOB(mismatch_is_told)
{
	return mismatch_of(r, r->rank == 1, TUTTI_SUM, came);
}

/* Of two cliques, in turn, each agrees. */
GPU_JOB(mismatch_of_two_parties_is_told)
{
	return mismatch_of(r, r->rank % 2 == 1, TUTTI_SUM, came);
}

/* What they would send each other is the same. */
GPU_JOB(sum_and_average_of_two_parties_is_told)
{
	return mismatch_of(r, 0, r->rank % 2 == 1 ? TUTTI_AVG : TUTTI_SUM, came);
}

/* On cliques one of them goes by the host whole. */
GPU_JOB(mismatch_of_short_and_long_is_told)
{
	return mismatch_of(r, r->rank == 1 ? few - 10 : 0, TUTTI_SUM, came);
}

GPU_JOB(other_collective_is_told)
{
	char words[96];
	struct vector x;

	TRY(begin(r, &x, came));
	if (r->rank == r->size - 1)
		SUCCEEDS(tutti_cuda_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					   r->rank, r->stream));
	else
		SUCCEEDS(reduce_all(r, x, x, TUTTI_SUM));
	snprintf(words, sizeof(words), "rank %d called reduce(float32 × %zu, sum, root %d)",
		 r->size - 1, few, r->size - 1);
	return told(r, x, TUTTI_ERR_MISMATCH, words);
}

/* On cliques, where they take turns, all ranks of each name one of their own. */
GPU_JOB(other_root_is_told)
{
	struct vector x;

	TRY(begin(r, &x, came));
	SUCCEEDS(tutti_cuda_broadcast(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, r->rank % 2,
				      r->stream));
	tutti_cuda_barrier(comm, r->stream); /* two roots may have sent what nobody was to
					      * receive */
	return told(r, x, TUTTI_ERR_MISMATCH, ", root 1)");
}

/* A pre-multiplied sum is no sum. */
GPU_JOB(other_operation_is_told)
{
	const float one = 1;
	struct vector x;
	tutti_op_t op;

	SUCCEEDS(tutti_op_create_premul_sum(comm, &one, TUTTI_FLOAT32, &op));
	TRY(begin(r, &x, came));
	SUCCEEDS(reduce_all(r, part(x, 0, 10), x, r->rank == 1 ? op : TUTTI_SUM));
	return told(r, x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × 10, sum)");
}

GPU_JOB(other_message_is_told)
{
	struct vector x;

	TRY(begin(r, &x, came));
	if (r->rank == 0)
		SUCCEEDS(send_to(r, part(x, 0, 10), 1));
	if (r->rank == 1)
		SUCCEEDS(recv_from(r, part(x, 0, 11), 0));
	return told(r, x, TUTTI_ERR_MISMATCH, "float32 × 10");
}

/* Ranks that share no network know of a fault as soon as one of them does. */
static bool by_network(void)
{
	const char *transport = getenv("TUTTI_TRANSPORT");

	return getenv("TEST_HOSTS") || (transport && strcmp(transport, "tcp") == 0);
}

enum { ASKED_FOR_ERROR, ASKED_BY_STREAM, ASKED_BY_HOST, ASKED_WAYS };

static tutti_result_t ask(struct gpu_rank *r, int way)
{
	switch (way) {
	case ASKED_FOR_ERROR: return tutti_comm_error(r->comm, NULL);
	case ASKED_BY_STREAM: return tutti_cuda_barrier(r->comm, r->stream);
	default: return tutti_barrier(r->comm, NULL);
	}
}

/* Whoever has seen the stream's end asks once: nothing has to come to pass in between. */
GPU_JOB(mismatch_is_known_when_the_stream_ends)
{
	enum { TURNS = 2 * ASKED_WAYS };
	struct gpu_rank there;
	struct vector x;

	TRY(take(comm, &x, few) || ready(comm) || put(r, x, 1));
	for (int turn = 0; turn < TURNS; turn++) {
		const int way =
			by_network() && turn % ASKED_WAYS == ASKED_FOR_ERROR
				? ASKED_BY_STREAM
				: turn % ASKED_WAYS; /* tutti_comm_error() does not wait for the
						      * others */
		/* by the host nothing comes back to the root, which may have ended before the
		 * others meet */
		const bool broadcasts =
			turn >= ASKED_WAYS && (!by_host() || (by_cliques() && !by_network()));
		const struct vector own = part(x, 0, few - (r->rank == 1));

		TRY(make_another(r, 0, &there));
		meet_at(came, (turn + 1) * r->size);
		if (broadcasts) /* two others may have met already */
			tutti_cuda_broadcast(there.comm, x.gpu, x.gpu, own.n, TUTTI_FLOAT32, 0,
					     r->stream);
		else
			reduce_all(&there, own, x, TUTTI_SUM);
		WORKS(gpu_finish(r->stream));
		const tutti_result_t found = ask(&there, way);
		CLAIM(found == TUTTI_ERR_MISMATCH, "turn %d: %s, expected %s", turn,
		      tutti_strerror(found), tutti_strerror(TUTTI_ERR_MISMATCH));
		CLAIM(strstr(tutti_last_error(there.comm),
			     broadcasts ? "called broadcast(float32 × "
					: "called all_reduce(float32 × "),
		      "turn %d: \"%s\"", turn, tutti_last_error(there.comm));
		tutti_comm_destroy(there.comm);
	}
	return 0;
}
