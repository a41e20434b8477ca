/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about wrong calls, after which the communicator is as before. */
#include "claims.h"

static void add(void *acc, const void *in, size_t n, tutti_dtype_t dtype, void *context)
{
}

GPU_JOB(wrong_calls_are_refused)
{
	struct gpu_rank nobody = *r, unbound = *r, on_second = *r;
	struct vector in, out, of_host, odd;
	tutti_cuda_window_t window;
	tutti_op_t op;

	TRY(take(comm, &in, few) || take(comm, &out, few) || ready(comm) ||
	    put(r, in, (float)r->rank));
	of_host = odd = in;
	of_host.gpu = in.host;
	odd.gpu = (float *)((char *)in.gpu + 1);
	nobody.comm = NULL;
	on_second.stream = gpu_stream();
	REFUSED(reduce_all(r, of_host, out, TUTTI_SUM), TUTTI_ERR_INVALID, "send");
	REFUSED(reduce_all(r, in, of_host, TUTTI_SUM), TUTTI_ERR_INVALID, "is memory of the host");
	REFUSED(reduce_all(r, in, (struct vector){ NULL }, TUTTI_SUM), TUTTI_ERR_INVALID,
		"recv is NULL");
	REFUSED(reduce_all(r, part(odd, 0, 1), out, TUTTI_SUM), TUTTI_ERR_INVALID,
		"aligned to 4 bytes");
	REFUSED(tutti_cuda_broadcast(comm, in.gpu, out.gpu, few, TUTTI_FLOAT32, r->size, r->stream),
		TUTTI_ERR_INVALID, "tutti_cuda_broadcast: root");
	REFUSED(send_to(r, in, r->rank), TUTTI_ERR_INVALID, "this rank itself");
	REFUSED(reduce_all(&nobody, in, out, TUTTI_SUM), TUTTI_ERR_INVALID,
		"tutti_cuda_all_reduce: comm is NULL");
	REFUSED(tutti_cuda_devices(NULL, NULL), TUTTI_ERR_INVALID,
		"tutti_cuda_devices: each is NULL, expected a function");
	REFUSED(tutti_cuda_bind(comm, r->device), TUTTI_ERR_INVALID, "is bound to GPU");
	CLAIM(tutti_cuda_bound(comm) == r->device, "bound to GPU %d, expected %d",
	      tutti_cuda_bound(comm), r->device);
	REFUSED(tutti_cuda_register(comm, NULL, 8, &window), TUTTI_ERR_INVALID,
		"expected memory of the GPU");
	REFUSED(tutti_cuda_register(comm, in.host, 8, &window), TUTTI_ERR_INVALID,
		"is no memory of GPU");
	SUCCEEDS(tutti_op_create(comm, add, true, NULL, &op));
	REFUSED(reduce_all(r, in, out, op), TUTTI_ERR_UNSUPPORTED, "run on the host only");
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &unbound.comm));
	REFUSED(reduce_all(&unbound, in, out, TUTTI_SUM), TUTTI_ERR_INVALID,
		"tutti_cuda_bind() first");
	CLAIM(tutti_cuda_bound(unbound.comm) == -1, "bound to GPU %d, expected none",
	      tutti_cuda_bound(unbound.comm));
	REFUSED(tutti_cuda_bind(unbound.comm, 99), TUTTI_ERR_INVALID,
		"device 99, expected -1 or 0 to");
	SUCCEEDS(tutti_group_begin(unbound.comm));
	REFUSED(tutti_cuda_bind(unbound.comm, r->device), TUTTI_ERR_INVALID, "has a group open");
	SUCCEEDS(tutti_group_end(unbound.comm, NULL));
	tutti_comm_destroy(unbound.comm);
	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(send_to(r, in, next_rank(r)));
	SUCCEEDS(send_to(&on_second, in, next_rank(r)));
	REFUSED(tutti_group_end(comm, NULL), TUTTI_ERR_INVALID, "on two streams");
	/* and the communicator is as before */
	SUCCEEDS(reduce_all(r, in, out, TUTTI_SUM));
	TRY(expect_sum(r, out));
	WORKS(gpu_stream_free(on_second.stream));
	return 0;
}
