/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns vectors on GPUs, and how a fault is awaited. */
#include "claims.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

size_t few = 1000;

int take(tutti_comm_t comm, struct vector *vector, size_t n)
{
	void *gpu;

	*vector = (struct vector){ .host = gpu_alloc_pinned(n * sizeof(float)), .n = n };
	CLAIM(vector->host, "%s", gpu_error());
	SUCCEEDS(tutti_cuda_mem_alloc(n * sizeof(float), &gpu));
	vector->gpu = gpu;
	return 0;
}

void give(struct vector *vector)
{
	gpu_free_pinned(vector->host);
	tutti_cuda_mem_free(vector->gpu);
}

int ready(tutti_comm_t comm)
{
	SUCCEEDS(tutti_barrier(comm, NULL));
	return 0;
}

int put(struct gpu_rank *r, struct vector *vector, float value)
{
	tutti_comm_t comm = r->comm;

	for (size_t i = 0; i < vector->n; i++)
		vector->host[i] = value + (float)(i % 16);
	WORKS(gpu_copy(vector->gpu, vector->host, vector->n * sizeof(float), r->stream) &&
	      gpu_finish(r->stream));
	return 0;
}

int expect(struct gpu_rank *r, struct vector *vector, float value, float of_place)
{
	tutti_comm_t comm = r->comm;

	WORKS(gpu_copy(vector->host, vector->gpu, vector->n * sizeof(float), r->stream) &&
	      gpu_finish(r->stream));
	for (size_t i = 0; i < vector->n; i++)
		CLAIM(vector->host[i] == value + of_place * (float)(i % 16),
		      "element %zu is %g, expected %g", i, vector->host[i],
		      value + of_place * (float)(i % 16));
	return 0;
}

float sum_of_ranks(const struct gpu_rank *r)
{
	return (float)(r->size * (r->size - 1) / 2);
}

void *find_in_standin(const char *name)
{
	const char *driver = getenv("TUTTI_CUDA_LIBRARY");
	void *const library = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : NULL;

	return library ? dlsym(library, name) : NULL; /* it stays open, as the library has it */
}

bool by_host(void)
{
	return getenv("TEST_PROXY") != NULL;
}

bool by_cliques(void)
{
	return by_host() && few > 1000;
}

int told(struct gpu_rank *r, struct vector *x, tutti_result_t wanted, const char *words)
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
	found = tutti_cuda_all_reduce(comm, x->gpu, x->gpu, few, TUTTI_FLOAT32, TUTTI_SUM,
				      r->stream);
	CLAIM(found == wanted, "the next call gives %s, expected %s", tutti_strerror(found),
	      tutti_strerror(wanted));
	WORKS(gpu_finish(r->stream));
	give(x);
	return 0;
}

int begin(struct gpu_rank *r, struct vector *x, atomic_int *came)
{
	if (take(r->comm, x, few) || ready(r->comm) || put(r, x, 1))
		return 1;
	meet_at(came, r->size);
	return 0;
}
