/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about wrong calls, after which the communicator is as before. */
#include "claims.h"

static void add(void *acc, const void *in, size_t n, tutti_dtype_t dtype, void *context)
{
}

JOB(wrong_calls_are_refused)
{
	tutti_comm_t other;
	struct vector in, out;
	gpu_stream_t second = gpu_stream();
	tutti_cuda_window_t window;
	tutti_op_t op;

	HOLDS(take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	      put(r, in, (float)r->rank));
	REFUSED(tutti_cuda_all_reduce(comm, in.host, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream),
		TUTTI_ERR_INVALID, "send");
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, out.host, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream),
		TUTTI_ERR_INVALID, "is memory of the host");
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, NULL, few, TUTTI_FLOAT32, TUTTI_SUM, r->stream),
		TUTTI_ERR_INVALID, "recv is NULL");
	REFUSED(tutti_cuda_all_reduce(comm, (char *)in.gpu + 1, out.gpu, 1, TUTTI_FLOAT32,
				      TUTTI_SUM, r->stream),
		TUTTI_ERR_INVALID, "aligned to 4 bytes");
	REFUSED(tutti_cuda_broadcast(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, r->size, r->stream),
		TUTTI_ERR_INVALID, "tutti_cuda_broadcast: root");
	REFUSED(send_to(r, in, r->rank), TUTTI_ERR_INVALID, "this rank itself");
	REFUSED(tutti_cuda_all_reduce(NULL, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream),
		TUTTI_ERR_INVALID, "tutti_cuda_all_reduce: comm is NULL");
	REFUSED(tutti_cuda_bind(comm, r->device), TUTTI_ERR_INVALID, "is bound to GPU");
	CLAIM(tutti_cuda_bound(comm) == r->device, "bound to GPU %d, expected %d",
	      tutti_cuda_bound(comm), r->device);
	REFUSED(tutti_cuda_register(comm, NULL, 8, &window), TUTTI_ERR_INVALID,
		"expected memory of the GPU");
	REFUSED(tutti_cuda_register(comm, in.host, 8, &window), TUTTI_ERR_INVALID,
		"is no memory of GPU");
	SUCCEEDS(tutti_op_create(comm, add, true, NULL, &op));
	REFUSED(tutti_cuda_all_reduce(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, op, r->stream),
		TUTTI_ERR_UNSUPPORTED, "run on the host only");
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &other));
	REFUSED(tutti_cuda_all_reduce(other, in.gpu, out.gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream),
		TUTTI_ERR_INVALID, "tutti_cuda_bind() first");
	CLAIM(tutti_cuda_bound(other) == -1, "bound to GPU %d, expected none",
	      tutti_cuda_bound(other));
	REFUSED(tutti_cuda_bind(other, 99), TUTTI_ERR_INVALID, "device 99, expected -1 or 0 to");
	SUCCEEDS(tutti_group_begin(other));
	REFUSED(tutti_cuda_bind(other, r->device), TUTTI_ERR_INVALID, "has a group open");
	SUCCEEDS(tutti_group_end(other, NULL));
	tutti_comm_destroy(other);
	if (r->size > 1) {
		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(send_to(r, in, (r->rank + 1) % r->size));
		SUCCEEDS(tutti_cuda_send(comm, in.gpu, few, TUTTI_FLOAT32, (r->rank + 1) % r->size,
					 second));
		REFUSED(tutti_group_end(comm, NULL), TUTTI_ERR_INVALID, "on two streams");
	}
	/* and the communicator is as before */
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	HOLDS(expect_sum(r, out));
	WORKS(gpu_stream_free(second));
	return 0;
}
