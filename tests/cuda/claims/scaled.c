/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about pre-multiplied sums; what they give is compared by test_streams. */
#include "claims.h"

/* Longer than the half of a stage that is for scaled input. */
GPU_JOB(long_input_is_scaled)
{
	const size_t n = (size_t)5 << 20;
	const float scalar = 2;
	struct vector in, out;
	tutti_op_t op;

	TRY(take(comm, &in, n) || take(comm, &out, n) || ready(comm));
	for (size_t i = 0; i < n; i++)
		in.host[i] = (float)(i % 1000003);
	WORKS(gpu_copy(in.gpu, in.host, n * sizeof(float), r->stream));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op));
	SUCCEEDS(reduce_all(r, in, out, op));
	WORKS(gpu_copy(out.host, out.gpu, n * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (size_t i = 0; i < n; i++)
		CLAIM(out.host[i] == scalar * (float)r->size * in.host[i],
		      "element %zu is %g, expected %g", i, out.host[i],
		      scalar * (float)r->size * in.host[i]);
	return 0;
}

/* The operation goes as soon as the call is made, and the next one gets its number. */
GPU_JOB(factors_are_those_of_the_call)
{
	enum { TURNS = 4 };
	const size_t n = (size_t)5 << 18; /* by the host in two chunks */
	const float ranks = (float)r->size;
	struct vector in, out[TURNS];
	tutti_op_t op, first = 0;

	for (int i = 0; i < TURNS; i++)
		TRY(take(comm, &out[i], n));
	TRY(take(comm, &in, n) || ready(comm) || put(r, in, 1));
	for (int i = 0; i < TURNS; i++) {
		const float factor = (float)(r->rank + i);

		SUCCEEDS(tutti_op_create_premul_sum(comm, &factor, TUTTI_FLOAT32, &op));
		first = i == 0 ? op : first;
		CLAIM(op == first, "the operation is %d, expected %d again", op, first);
		SUCCEEDS(reduce_all(r, in, out[i], op));
		SUCCEEDS(tutti_op_destroy(comm, op));
	}
	for (int i = 0; i < TURNS; i++) {
		const float factors = sum_of_ranks(r) + (float)i * ranks;

		TRY(expect(r, out[i], factors, factors));
	}
	return 0;
}
