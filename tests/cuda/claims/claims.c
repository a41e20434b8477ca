/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns vectors on GPUs, and how a fault is awaited. */
#include "claims.h"

#include <dlfcn.h>
#include <stdlib.h>

#define VECTORS_MAX 8

size_t few = 1000;
static _Thread_local struct vector taken[VECTORS_MAX];
static _Thread_local bool are_segments[VECTORS_MAX];
static _Thread_local int n_taken;
static _Thread_local bool was_told;

static int note(tutti_comm_t comm, struct vector *vector, float *gpu, size_t n, bool in_segments)
{
	CLAIM(n_taken < VECTORS_MAX, "too many vectors");
	*vector = (struct vector){ gpu_alloc_pinned(n * sizeof(float)), gpu, n };
	WORKS(vector->host);
	are_segments[n_taken] = in_segments;
	taken[n_taken++] = *vector;
	return 0;
}

int take(tutti_comm_t comm, struct vector *vector, size_t n)
{
	void *gpu;

	const char *segments = getenv("TEST_SEGMENTS");
	const bool mixed = segments && strcmp(segments, "mixed") == 0;

	if (segments && (!mixed || (tutti_comm_rank(comm) == 0 && n_taken == 0)))
		return take_segments(comm, vector, n);
	SUCCEEDS(tutti_cuda_mem_alloc(n * sizeof(float), &gpu));
	return note(comm, vector, gpu, n, false);
}

int take_segments(tutti_comm_t comm, struct vector *vector, size_t n)
{
	void *const gpu = gpu_alloc_segments(n * sizeof(float));

	WORKS(gpu);
	return note(comm, vector, gpu, n, true);
}

int give_all(tutti_comm_t comm)
{
	if (!was_told)
		SUCCEEDS(tutti_comm_error(comm, NULL));
	while (n_taken > 0) {
		const struct vector vector = taken[--n_taken];

		gpu_free_pinned(vector.host);
		if (are_segments[n_taken])
			WORKS(gpu_free_segments(vector.gpu, vector.n * sizeof(float)));
		else
			tutti_cuda_mem_free(vector.gpu);
	}
	return 0;
}

struct vector part(struct vector whole, size_t from, size_t n)
{
	return (struct vector){ whole.host + from, whole.gpu + from, n };
}

int ready(tutti_comm_t comm)
{
	SUCCEEDS(tutti_barrier(comm, NULL));
	return 0;
}

int put(struct gpu_rank *r, struct vector vector, float value)
{
	tutti_comm_t comm = r->comm;

	for (size_t i = 0; i < vector.n; i++)
		vector.host[i] = value + (float)(i % 16);
	WORKS(gpu_copy(vector.gpu, vector.host, vector.n * sizeof(float), r->stream) &&
	      gpu_finish(r->stream));
	return 0;
}

int expect(struct gpu_rank *r, struct vector vector, float value, float of_place)
{
	tutti_comm_t comm = r->comm;

	WORKS(gpu_copy(vector.host, vector.gpu, vector.n * sizeof(float), r->stream) &&
	      gpu_finish(r->stream));
	for (size_t i = 0; i < vector.n; i++)
		CLAIM(vector.host[i] == value + of_place * (float)(i % 16),
		      "element %zu is %g, expected %g", i, vector.host[i],
		      value + of_place * (float)(i % 16));
	return 0;
}

int expect_sum(struct gpu_rank *r, struct vector vector)
{
	return expect(r, vector, sum_of_ranks(r), (float)r->size);
}

int expect_size(struct gpu_rank *r, struct vector vector)
{
	return expect(r, vector, (float)r->size, (float)r->size);
}

float sum_of_ranks(const struct gpu_rank *r)
{
	return (float)(r->size * (r->size - 1) / 2);
}

int make_another(struct gpu_rank *r, int color, struct gpu_rank *out)
{
	tutti_comm_t comm = r->comm;

	*out = *r;
	SUCCEEDS(tutti_comm_split(comm, color, 0, &out->comm));
	SUCCEEDS(tutti_cuda_bind(out->comm, r->device));
	return 0;
}

int next_rank(const struct gpu_rank *r)
{
	return (r->rank + 1) % r->size;
}

int rank_before(const struct gpu_rank *r)
{
	return (r->rank + r->size - 1) % r->size;
}

tutti_result_t reduce_all(struct gpu_rank *r, struct vector in, struct vector out, tutti_op_t op)
{
	return tutti_cuda_all_reduce(r->comm, in.gpu, out.gpu, in.n, TUTTI_FLOAT32, op, r->stream);
}

tutti_result_t send_to(struct gpu_rank *r, struct vector in, int peer)
{
	return tutti_cuda_send(r->comm, in.gpu, in.n, TUTTI_FLOAT32, peer, r->stream);
}

tutti_result_t recv_from(struct gpu_rank *r, struct vector out, int peer)
{
	return tutti_cuda_recv(r->comm, out.gpu, out.n, TUTTI_FLOAT32, peer, r->stream);
}

tutti_result_t swap(struct gpu_rank *r, struct vector in, struct vector out)
{
	tutti_result_t result = tutti_group_begin(r->comm);

	if (!result)
		result = send_to(r, in, next_rank(r));
	if (!result)
		result = recv_from(r, out, rank_before(r));
	const tutti_result_t ended = tutti_group_end(r->comm, NULL);
	return result ? result : ended;
}

unsigned counted(const char *name, int to, int from)
{
	const char *driver = getenv("TUTTI_CUDA_LIBRARY");
	void *const library = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : NULL;
	void *const found = library ? dlsym(library, name) : NULL;
	unsigned (*count)(int, int);

	memcpy(&count, &found, sizeof(count));
	return found ? count(to, from) : 0; /* it stays open, as the library has it */
}

bool by_host(void)
{
	return getenv("TEST_PROXY") != NULL;
}

bool by_cliques(void)
{
	return by_host() && few > 1000;
}

int told(struct gpu_rank *r, struct vector x, tutti_result_t wanted, const char *words)
{
	tutti_comm_t comm = r->comm;
	tutti_result_t found;

	WORKS(gpu_finish(r->stream));
	while ((found = tutti_comm_error(comm, NULL)) == TUTTI_OK)
		;
	CLAIM(found == wanted, "%s (%s), expected %s", tutti_strerror(found),
	      tutti_last_error(comm), tutti_strerror(wanted));
	CLAIM(strstr(tutti_last_error(comm), words), "\"%s\", expected \"%s\" in it",
	      tutti_last_error(comm), words);
	found = reduce_all(r, x, x, TUTTI_SUM);
	CLAIM(found == wanted, "the next call gives %s, expected %s", tutti_strerror(found),
	      tutti_strerror(wanted));
	WORKS(gpu_finish(r->stream));
	was_told = true;
	return 0;
}

int begin(struct gpu_rank *r, struct vector *x, atomic_int *came)
{
	TRY(take(r->comm, x, few) || ready(r->comm) || put(r, *x, 1));
	meet_at(came, r->size);
	return 0;
}
