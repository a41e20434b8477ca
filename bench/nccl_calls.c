/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's communicator of NCCL, and which function of NCCL's a call is. */
#include "nccl_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "nccl_functions.h"
#include "pattern.h"

struct functions {
#define MEMBER(result, member, symbol, parameters) result(*member) parameters;
	NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
};

static const struct tt_function functions[] = {
#define FUNCTION(result, member, symbol, parameters)                                               \
	{ #symbol, offsetof(struct functions, member) },
	NCCL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static const struct tt_library library = {
	.variable = "TUTTI_NCCL_LIBRARY",
	.names = { "libnccl.so.2" },
	.before = "NCCL cannot be opened: ",
	.after =
		": NVIDIA's package libnccl2 brings it, PyTorch's wheel nvidia-nccl, and the variable TUTTI_NCCL_LIBRARY names it",
	.expected = "NCCL 2.18 or newer",
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

struct bench_nccl {
	struct functions nccl;
	nccl_comm comm;
	int rank, size;
	bool failed; /* others may not be there any more */
	char version[24];
	void *word; /* of a barrier */
};

static const int types[TUTTI_DTYPE_COUNT] = {
	[TUTTI_INT8] = NCCL_INT8,
	[TUTTI_UINT8] = NCCL_UINT8,
	[TUTTI_INT16] = -1,
	[TUTTI_UINT16] = -1,
	[TUTTI_INT32] = NCCL_INT32,
	[TUTTI_UINT32] = NCCL_UINT32,
	[TUTTI_INT64] = NCCL_INT64,
	[TUTTI_UINT64] = NCCL_UINT64,
	[TUTTI_FLOAT16] = NCCL_FLOAT16,
	[TUTTI_BFLOAT16] = NCCL_BFLOAT16,
	[TUTTI_FLOAT32] = NCCL_FLOAT32,
	[TUTTI_FLOAT64] = NCCL_FLOAT64,
	[TUTTI_FLOAT8_E4M3] = NCCL_FLOAT8_E4M3,
	[TUTTI_FLOAT8_E5M2] = NCCL_FLOAT8_E5M2,
};

static int op_of(int op)
{
	switch (op) {
	case TUTTI_SUM: return NCCL_SUM;
	case TUTTI_PROD: return NCCL_PROD;
	case TUTTI_MIN: return NCCL_MIN;
	case TUTTI_MAX: return NCCL_MAX;
	case TUTTI_AVG: return NCCL_AVG;
	default: return -1;
	}
}

static int said(struct bench_nccl *n, nccl_result result)
{
	if (result == 0)
		return 0;
	n->failed = true;
	fprintf(stderr, "rank %d: NCCL: %s: %s\n", n->rank, n->nccl.get_error_string(result),
		n->nccl.get_last_error(n->comm));
	return -1;
}

/* ---- its life */

/* What a rank needs for itself. `id`: made on rank 0. */
static bool prepare(struct bench_nccl *n, ncclUniqueId *id)
{
	char why[TT_LIBRARY_WHY];
	int version;

	if (!tt_library_open(&library, &n->nccl, why)) {
		fprintf(stderr, "rank %d: %s\n", n->rank, why);
		return false;
	}
	if (said(n, n->nccl.get_version(&version)) < 0 ||
	    (n->rank == 0 && said(n, n->nccl.get_unique_id(id)) < 0))
		return false;
	snprintf(n->version, sizeof(n->version), "%d.%d.%d", version / 10000, version / 100 % 100,
		 version % 100);
	n->word = gpu_alloc(sizeof(int));
	if (!n->word)
		fprintf(stderr, "rank %d: %s\n", n->rank, gpu_error());
	return n->word != NULL;
}

/* NCCL has no deadline: a rank that cannot come is told before others wait for it there. */
static int begin(struct bench_nccl *n, tutti_comm_t comm)
{
	ncclUniqueId id = { { 0 } };
	uint8_t ready = prepare(n, &id), all;
	tutti_result_t rc = tutti_all_reduce(comm, &ready, &all, 1, TUTTI_UINT8, TUTTI_MIN, NULL);

	if (!rc && all)
		rc = tutti_broadcast(comm, &id, &id, sizeof(id), TUTTI_UINT8, 0, NULL);
	if (rc)
		fprintf(stderr, "rank %d: %s\n", n->rank, tutti_last_error(comm));
	return rc || !all ? -1 : said(n, n->nccl.comm_init_rank(&n->comm, n->size, id, n->rank));
}

struct bench_nccl *bench_nccl_begin(tutti_comm_t comm)
{
	struct bench_nccl *n = calloc(1, sizeof(*n));

	if (!n) {
		fprintf(stderr, "no memory for what is known of NCCL\n");
		return NULL;
	}
	n->rank = tutti_comm_rank(comm);
	n->size = tutti_comm_size(comm);
	if (begin(n, comm) == 0)
		return n;
	bench_nccl_end(n);
	return NULL;
}

void bench_nccl_end(struct bench_nccl *n)
{
	if (!n)
		return;
	if (n->word)
		gpu_free(n->word);
	if (n->comm)
		said(n, n->failed ? n->nccl.comm_abort(n->comm) : n->nccl.comm_destroy(n->comm));
	free(n);
}

const char *bench_nccl_version(const struct bench_nccl *n)
{
	return n->version;
}

/* ---- calls */

bool bench_nccl_supports(struct bench_backend *backend, const struct bench_call *c)
{
	switch (c->kind) {
	case BENCH_ALL_REDUCE:
	case BENCH_BROADCAST:
	case BENCH_REDUCE:
	case BENCH_REDUCE_SCATTER:
	case BENCH_ALL_GATHER:
	case BENCH_LATENCY:
	case BENCH_BANDWIDTH:
	case BENCH_BARRIER: break;
	case BENCH_ALL_TO_ALL: /* by messages, which may not overlap */
		if (c->inplace)
			return false;
		break;
	default: return false;
	}
	return types[c->dtype] >= 0 && (c->op == BENCH_NO_OP || op_of(c->op) >= 0);
}

/* From rank 0 to rank 1, and an answer of so many elements, or none. */
static nccl_result send_there(const struct bench_nccl *n, const struct bench_call *c,
			      gpu_stream_t stream, bool answered, size_t answer)
{
	const unsigned type = (unsigned)types[c->dtype];
	nccl_result result;

	if (n->rank > 1)
		return 0;
	if (n->rank == 0) {
		result = n->nccl.send(c->send, c->count, type, 1, n->comm, stream);
		return result || !answered
			       ? result
			       : n->nccl.recv(c->recv, answer, type, 1, n->comm, stream);
	}
	result = n->nccl.recv(c->recv, c->count, type, 0, n->comm, stream);
	return result || !answered ? result
				   : n->nccl.send(c->send, answer, type, 0, n->comm, stream);
}

static nccl_result all_to_all(const struct bench_nccl *n, const struct bench_call *c,
			      gpu_stream_t stream)
{
	const unsigned type = (unsigned)types[c->dtype];
	const size_t block = c->count * tutti_dtype_size(c->dtype);
	nccl_result result = n->nccl.group_start(), ended;

	for (int peer = 0; peer < n->size && !result; peer++) {
		result = n->nccl.send((const char *)c->send + (size_t)peer * block, c->count, type,
				      peer, n->comm, stream);
		if (!result)
			result = n->nccl.recv((char *)c->recv + (size_t)peer * block, c->count,
					      type, peer, n->comm, stream);
	}
	ended = n->nccl.group_end();
	return result ? result : ended;
}

static nccl_result put(const struct bench_nccl *n, const struct bench_call *c, gpu_stream_t stream)
{
	const unsigned type = (unsigned)types[c->dtype], op = (unsigned)op_of(c->op);
	const struct functions *nccl = &n->nccl;
	const void *send = c->send;
	void *recv = c->recv;

	switch (c->kind) {
	case BENCH_ALL_REDUCE:
		return nccl->all_reduce(send, recv, c->count, type, op, n->comm, stream);
	case BENCH_BROADCAST:
		return nccl->broadcast(send, recv, c->count, type, c->root, n->comm, stream);
	case BENCH_REDUCE:
		return nccl->reduce(send, recv, c->count, type, op, c->root, n->comm, stream);
	case BENCH_REDUCE_SCATTER:
		return nccl->reduce_scatter(send, recv, c->count, type, op, n->comm, stream);
	case BENCH_ALL_GATHER: return nccl->all_gather(send, recv, c->count, type, n->comm, stream);
	case BENCH_ALL_TO_ALL: return all_to_all(n, c, stream);
	case BENCH_LATENCY: return send_there(n, c, stream, true, c->count);
	case BENCH_BANDWIDTH: return send_there(n, c, stream, c->last, 1);
	default: /* BENCH_BARRIER, of which NCCL has none */
		return nccl->all_reduce(n->word, n->word, 1, NCCL_INT32, NCCL_SUM, n->comm, stream);
	}
}

int bench_nccl_put(struct bench_nccl *n, const struct bench_call *call, gpu_stream_t stream)
{
	return said(n, put(n, call, stream));
}
