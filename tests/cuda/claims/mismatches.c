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

	if (r->size == 1)
		return 0;
	if (begin(r, &x, came))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				       r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - fewer, TUTTI_FLOAT32, op,
				       r->stream));
	/* further ones wait for what never comes; the fault may be known already */
	for (int i = 0; i < 5; i++)
		tutti_cuda_barrier(comm, r->stream);
	return told(r, &x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × ");
}

static int mismatch_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, r->rank == 1, TUTTI_SUM, argument);
}

/* Of two cliques, in turn, each agrees. */
static int mismatch_of_two_parties_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, r->rank % 2 == 1, TUTTI_SUM, argument);
}

/* What they would send each other is the same. */
static int sum_and_average_of_two_parties_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, 0, r->rank % 2 == 1 ? TUTTI_AVG : TUTTI_SUM, argument);
}

/* On cliques one of them goes by the host whole. */
static int mismatch_of_short_and_long_is_told(struct gpu_rank *r, void *argument)
{
	return mismatch_of(r, r->rank == 1 ? few - 10 : 0, TUTTI_SUM, argument);
}

static int other_collective_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	char words[96];
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	if (r->rank == r->size - 1)
		SUCCEEDS(tutti_cuda_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					   r->rank, r->stream));
	else
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
					       r->stream));
	snprintf(words, sizeof(words), "rank %d called reduce(float32 × %zu, sum, root %d)",
		 r->size - 1, few, r->size - 1);
	return told(r, &x, TUTTI_ERR_MISMATCH, words);
}

/* On cliques, where they take turns, all ranks of each name one of their own. */
static int other_root_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_broadcast(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, r->rank % 2,
				      r->stream));
	tutti_cuda_barrier(comm, r->stream); /* two roots may have sent what nobody was to
					      * receive */
	return told(r, &x, TUTTI_ERR_MISMATCH, ", root 1)");
}

/* A pre-multiplied sum is no sum. */
static int other_operation_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const float one = 1;
	struct vector x;
	tutti_op_t op;

	if (r->size == 1)
		return 0;
	SUCCEEDS(tutti_op_create_premul_sum(comm, &one, TUTTI_FLOAT32, &op));
	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, 10, TUTTI_FLOAT32,
				       r->rank == 1 ? op : TUTTI_SUM, r->stream));
	return told(r, &x, TUTTI_ERR_MISMATCH, "called all_reduce(float32 × 10, sum)");
}

static int other_message_is_told(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (r->size == 1)
		return 0;
	if (begin(r, &x, argument))
		return 1;
	if (r->rank == 0)
		SUCCEEDS(tutti_cuda_send(comm, x.gpu, 10, TUTTI_FLOAT32, 1, r->stream));
	if (r->rank == 1)
		SUCCEEDS(tutti_cuda_recv(comm, x.gpu, 11, TUTTI_FLOAT32, 0, r->stream));
	return told(r, &x, TUTTI_ERR_MISMATCH, "float32 × 10");
}

/* Ranks that share no network know of a fault as soon as one of them does. */
static bool by_network(void)
{
	const char *transport = getenv("TUTTI_TRANSPORT");

	return getenv("TEST_HOSTS") || (transport && strcmp(transport, "tcp") == 0);
}

enum { ASKED_FOR_ERROR, ASKED_BY_STREAM, ASKED_BY_HOST, ASKED_WAYS };

static tutti_result_t ask(struct gpu_rank *r, tutti_comm_t comm, int way)
{
	switch (way) {
	case ASKED_FOR_ERROR: return tutti_comm_error(comm, NULL);
	case ASKED_BY_STREAM: return tutti_cuda_barrier(comm, r->stream);
	default: return tutti_barrier(comm, NULL);
	}
}

/* Whoever has seen the stream's end asks once: nothing has to come to pass in between. */
static int mismatch_is_known_when_the_stream_ends(struct gpu_rank *r, void *argument)
{
	enum { TURNS = 2 * ASKED_WAYS };
	struct vector x;

	if (r->size == 1)
		return 0;
	if (take(r->comm, &x, few) || ready(r->comm) || put(r, &x, 1))
		return 1;
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
		const size_t n = few - (r->rank == 1);
		tutti_comm_t comm = NULL;

		SUCCEEDS(tutti_comm_split(r->comm, 0, 0, &comm));
		SUCCEEDS(tutti_cuda_bind(comm, r->device));
		meet_at(argument, (turn + 1) * r->size);
		if (broadcasts) /* two others may have met already */
			tutti_cuda_broadcast(comm, x.gpu, x.gpu, n, TUTTI_FLOAT32, 0, r->stream);
		else
			tutti_cuda_all_reduce(comm, x.gpu, x.gpu, n, TUTTI_FLOAT32, TUTTI_SUM,
					      r->stream);
		WORKS(gpu_finish(r->stream));
		const tutti_result_t found = ask(r, comm, way);
		CLAIM(found == TUTTI_ERR_MISMATCH, "turn %d: %s, expected %s", turn,
		      tutti_strerror(found), tutti_strerror(TUTTI_ERR_MISMATCH));
		CLAIM(strstr(tutti_last_error(comm), broadcasts ? "called broadcast(float32 × "
								: "called all_reduce(float32 × "),
		      "turn %d: \"%s\"", turn, tutti_last_error(comm));
		tutti_comm_destroy(comm);
	}
	give(&x);
	return 0;
}

const struct claim mismatch_claims[] = {
	{ "mismatch_is_told", mismatch_is_told },
	{ "mismatch_of_two_parties_is_told", mismatch_of_two_parties_is_told },
	{ "sum_and_average_of_two_parties_is_told", sum_and_average_of_two_parties_is_told },
	{ "mismatch_of_short_and_long_is_told", mismatch_of_short_and_long_is_told },
	{ "other_collective_is_told", other_collective_is_told },
	{ "other_root_is_told", other_root_is_told },
	{ "other_operation_is_told", other_operation_is_told },
	{ "other_message_is_told", other_message_is_told },
	{ "mismatch_is_known_when_the_stream_ends", mismatch_is_known_when_the_stream_ends },
	{ NULL },
};
