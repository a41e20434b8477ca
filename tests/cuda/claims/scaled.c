/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about pre-multiplied sums. */
#include "claims.h"

#include <string.h>

static int input_is_scaled(struct gpu_rank *r, void *argument)
{
	tutti_comm_t comm = r->comm;
	const float scalar = (float)(r->rank + 2);
	struct vector in, out;
	tutti_op_t op;

	if (take(comm, &in, few * (size_t)r->size) || take(comm, &out, few) || ready(comm) ||
	    put(r, &in, 1))
		return 1;
	SUCCEEDS(tutti_op_create_premul_sum(comm, &scalar, TUTTI_FLOAT32, &op));
	SUCCEEDS(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, op, r->stream));
	const float scalars = sum_of_ranks(r) + 2 * (float)r->size;
	if (expect(r, &out, scalars, scalars))
		return 1;
	SUCCEEDS(tutti_cuda_reduce_scatter(comm, in.gpu, out.gpu, few / 16 * 16, TUTTI_FLOAT32, op,
					   r->stream));
	out.n = few / 16 * 16;
	if (expect(r, &out, scalars, scalars))
		return 1;
	SUCCEEDS(tutti_op_destroy(comm, op));
	give(&in);
	give(&out);
	return 0;
}

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

enum { SCALED_REDUCE, SCALED_SCATTER, SCALED_SCAN, SCALED_EXSCAN, SCALED_KINDS };

static tutti_result_t scale_on_stream(struct gpu_rank *r, int kind, const struct vector *in,
				      struct vector *out, const size_t *counts, tutti_dtype_t dtype,
				      tutti_op_t op)
{
	switch (kind) {
	case SCALED_REDUCE:
		return tutti_cuda_reduce(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->size - 1,
					 r->stream);
	case SCALED_SCATTER:
		return tutti_cuda_reduce_scatter_v(r->comm, in->gpu, out->gpu, counts, dtype, op,
						   r->stream);
	case SCALED_SCAN:
		return tutti_cuda_scan(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->stream);
	default: return tutti_cuda_exscan(r->comm, in->gpu, out->gpu, out->n, dtype, op, r->stream);
	}
}

static tutti_result_t scale_on_host(struct gpu_rank *r, int kind, const struct vector *in,
				    void *out, size_t n, const size_t *counts, tutti_dtype_t dtype,
				    tutti_op_t op)
{
	switch (kind) {
	case SCALED_REDUCE:
		return tutti_reduce(r->comm, in->host, out, n, dtype, op, r->size - 1, NULL);
	case SCALED_SCATTER:
		return tutti_reduce_scatter_v(r->comm, in->host, out, counts, dtype, op, NULL);
	case SCALED_SCAN: return tutti_scan(r->comm, in->host, out, n, dtype, op, NULL);
	default: return tutti_exscan(r->comm, in->host, out, n, dtype, op, NULL);
	}
}

/* The plain collective's bits, of scalars of every size. */
static int scaled_sums_are_the_hosts(struct gpu_rank *r, void *argument)
{
	static const tutti_dtype_t dtypes[] = { TUTTI_UINT8, TUTTI_FLOAT32, TUTTI_INT64 };
	const uint64_t integers = 0x0000000300000007ull + (uint64_t)r->rank;
	const float real = 0.5f + (float)r->rank;
	tutti_comm_t comm = r->comm;
	struct vector in, out, want;
	size_t counts[64];
	tutti_op_t op;

	/* room for the widest */
	if (take(comm, &in, 2 * 333 * 64) || take(comm, &out, 2 * 333) ||
	    take(comm, &want, 2 * 333) || ready(comm) || put(r, &in, (float)r->rank))
		return 1;
	out.n = 333;
	for (int i = 0; i < r->size; i++)
		counts[i] = i == 1 ? 0 : 333 - (size_t)i;
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		SUCCEEDS(tutti_op_create_premul_sum(
			comm, dtypes[i] == TUTTI_FLOAT32 ? (const void *)&real : &integers,
			dtypes[i], &op));
		for (int kind = 0; kind < SCALED_KINDS; kind++) {
			const size_t n = kind == SCALED_SCATTER ? counts[r->rank] : out.n,
				     bytes = n * tutti_dtype_size(dtypes[i]);

			SUCCEEDS(scale_on_stream(r, kind, &in, &out, counts, dtypes[i], op));
			SUCCEEDS(scale_on_host(r, kind, &in, want.host, n, counts, dtypes[i], op));
			WORKS(gpu_copy(out.host, out.gpu, bytes, r->stream) &&
			      gpu_finish(r->stream));
			if ((kind == SCALED_REDUCE && r->rank != r->size - 1) ||
			    (kind == SCALED_EXSCAN && r->rank == 0)) /* no result */
				continue;
			CLAIM(memcmp(out.host, want.host, bytes) == 0,
			      "%s, kind %d: not as on the host", tutti_dtype_name(dtypes[i]), kind);
		}
		SUCCEEDS(tutti_op_destroy(comm, op));
	}
	give(&in);
	give(&out);
	give(&want);
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
	{ "input_is_scaled", input_is_scaled },
	{ "long_input_is_scaled", long_input_is_scaled },
	{ "scaled_sums_are_the_hosts", scaled_sums_are_the_hosts },
	{ "factors_are_those_of_the_call", factors_are_those_of_the_call },
	{ NULL },
};
