/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about operations on streams, and what they share. Each subject has a file, and each claim
 * stands where it is shown:
 *
 *	GPU_JOB(a_stream_waits_for_all, .reaches = true)
 *	{
 *		…
 *	}
 *
 * It runs in every rank of a job of its own, of two ranks and more, which has `r`, `comm`, which is
 * r->comm, and `came`, a count of 0 that all ranks share. It returns 0, or has complained. What it
 * took is given back behind it, and no rank has been told of a fault, but by told(). */
#ifndef TT_CLAIMS_H
#define TT_CLAIMS_H

#include <string.h>

#include <tutti/cuda.h>

#include "gpu_job.h"

#define HURRY_S 2 /* enough to bind to a GPU where much else runs, too */

typedef int claim_body(struct gpu_rank *r, tutti_comm_t comm, atomic_int *came);

struct claim {
	struct claim *next;
	const char *name;
	claim_body *body;
	bool reaches; /* what only ranks can do that reach each other's memory */
	bool kills;
	bool stands_in; /* a stand-in makes CUDA fail, or counts, of one process alone */
	bool hurries;	/* TUTTI_TIMEOUT is HURRY_S */
	bool quiet;	/* needs a machine that is not busy, as one that hurries does */
	bool recorded;	/* TUTTI_TRACE is a directory */
};

#define GPU_JOB(function, ...)                                                                     \
	static claim_body function;                                                                \
	__attribute__((constructor)) static void add_##function(void)                              \
	{                                                                                          \
		static struct claim claim = { NULL, #function, function, __VA_ARGS__ };            \
		add_claim(&claim);                                                                 \
	}                                                                                          \
	static int function(struct gpu_rank *r, tutti_comm_t comm, atomic_int *came)

/* test_stream_claims.c. They run in the order in which they are added. */
void add_claim(struct claim *claim);

#define LONG ((size_t)10 << 20) /* floats: two segments and a bit of a stage */

#define WORKS(call) CLAIM((call), "%s: %s", #call, gpu_error())

extern size_t few; /* elements of most calls */

struct vector {
	float *host, *gpu; /* the host's is pinned: CUDA may keep whoever copies other memory
			    * until what is on the GPU has ended, and that waits for other ranks */
	size_t n;
};

/* Of `n` elements, which nothing has been put into; the rank's until the claim ends. With
 * TEST_SEGMENTS, or in the second case, memory is mapped in segments (cuMemMap); where that is `mixed`,
 * the first of rank 0. */
int take(tutti_comm_t comm, struct vector *vector, size_t n);
int take_segments(tutti_comm_t comm, struct vector *vector, size_t n);
int give_all(tutti_comm_t comm);
struct vector part(struct vector whole, size_t from, size_t n);
/* All ranks come here before any of them has a stream wait for others: CUDA may keep whoever
 * takes memory, or makes a graph, until streams have ended. */
int ready(tutti_comm_t comm);
/* All elements are `value`, and a bit of their place. */
int put(struct gpu_rank *r, struct vector vector, float value);
/* Waits for the stream. All elements are `value`, and `of_place` times that bit. */
int expect(struct gpu_rank *r, struct vector vector, float value, float of_place);
/* As a sum of what each rank has put, with its number as value, or 1. */
int expect_sum(struct gpu_rank *r, struct vector vector);
int expect_size(struct gpu_rank *r, struct vector vector);
float sum_of_ranks(const struct gpu_rank *r);

/* Another communicator of those who give the same color, on the same GPU and stream. */
int make_another(struct gpu_rank *r, int color, struct gpu_rank *out);
int next_rank(const struct gpu_rank *r);
int rank_before(const struct gpu_rank *r);
/* Calls on the rank's stream; as many elements as `in` has. */
tutti_result_t reduce_all(struct gpu_rank *r, struct vector in, struct vector out, tutti_op_t op);
tutti_result_t send_to(struct gpu_rank *r, struct vector in, int peer);
tutti_result_t recv_from(struct gpu_rank *r, struct vector out, int peer);
/* In a group: to the next rank, and from the one before. */
tutti_result_t swap(struct gpu_rank *r, struct vector in, struct vector out);

/* What a function of the stand-in's has counted, of `to` and `from` if it is of two GPUs; 0: CUDA's
 * driver is there. */
unsigned counted(const char *name, int to, int from);
/* The ranks' GPUs do not all reach each other … */
bool by_host(void);
/* … and those of a clique work together first. */
bool by_cliques(void);
/* The stream ends, although others will never come; the fault is told, and by every call from
 * now on. */
int told(struct gpu_rank *r, struct vector x, tutti_result_t wanted, const char *words);
/* All ranks are here before one of them does what ends the communicator: none is still in
 * tutti_cuda_bind(). */
int begin(struct gpu_rank *r, struct vector *x, atomic_int *came);

#endif
