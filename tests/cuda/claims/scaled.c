/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about pre-multiplied sums; what they give is compared by test_streams. */
#include "claims.h"

/* Longer than the half of a stage that is for scaled input. */
static int long_input_is_scaled(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const size_t n = (size_t)5 << 20;
	const float scalar = 2;
	struct vector in, out;
	tutti_op_t op;

	if (take(comm, &in, n) || take(comm, &out, n) || ready(comm))
		return 1;
	for (size_t i = 0; i < n; i++)
		in.host[i] = (float)(i % 1000003);
	WORKS(gpu_copy(in.gpu, in.host, n * sizeof(float), r->stream));
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, n, TUTTI_FLOAT32, op, r->stream));
	WORKS(gpu_copy(out.host, out.gpu, n * sizeof(float), r->stream) && gpu_finish(r->stream));
	for (size_t i = 0; i < n; i++)
		CLAIM(out.host[i] == scalar * (float)r->size * in.host[i],
		      "element %zu is %g, expected %g", i, out.host[i],
		      scalar * (float)r->size * in.host[i]);
	give(&in);
	give(&out);
	return 0;
}

/* The operation goes as soon as the call is made, and the next one gets its number. */
static int factors_are_those_of_the_call(struct gpu_rank *r, void *argument)
{
	enum { TURNS = 4 };
	tutti_comm_t comm = r->comm;
	const size_t n = (size_t)5 << 18; /* by the host in two chunks */
	const float ranks = (float)r->size;
	struct vector in, out[TURNS];
	tutti_op_t op, first = 0;

	for (int i = 0; i < TURNS; i++)
		if (take(comm, &out[i], n))
			return 1;
	if (take(comm, &in, n) || ready(comm) || put(r, &in, 1))
		return 1;
	for (int i = 0; i < TURNS; i++) {
		const float factor = (float)(r->rank + i);

		SUCCEEDS(tutti_op_create_premul_sum(comm, &factor, TUTTI_FLOAT32, &op));
		first = i == 0 ? op : first;
		CLAIM(op == first, "the operation is %d, expected %d again", op, first);
		SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out[i].gpu, n, TUTTI_FLOAT32, op,
					       r->stream));
		SUCCEEDS(tutti_op_destroy(comm, op));
	}
	for (int i = 0; i < TURNS; i++) {
		const float factors = sum_of_ranks(r) + (float)i * ranks;

		if (expect(r, &out[i], factors, factors))
			return 1;
		give(&out[i]);
	}
	give(&in);
	return 0;
}

const struct claim scaled_claims[] = {
	{ "long_input_is_scaled", long_input_is_scaled },
	{ "factors_are_those_of_the_call", factors_are_those_of_the_call },
	{ NULL },
};
