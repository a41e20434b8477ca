/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about operations on streams, and what they share. Each subject has a file and a table. */
#ifndef TT_CLAIMS_H
#define TT_CLAIMS_H

#include <string.h>

#include <tutti/cuda.h>

#include "gpu_job.h"

#define HURRY_S 2 /* enough to bind to a GPU where much else runs, too */

struct claim {
	const char *name;
	gpu_body *body;
	bool reaches; /* what only ranks can do that reach each other's memory */
	bool kills;
	bool stands_in; /* a stand-in makes CUDA fail, or counts, of one process alone */
	bool hurries;	/* TUTTI_TIMEOUT is HURRY_S */
	bool quiet;	/* needs a machine that is not busy, as one that hurries does */
	bool recorded;	/* TUTTI_TRACE is a directory */
};

/* The last one of each has no name. */
extern const struct claim graph_claims[], order_claims[], chunk_claims[], scaled_claims[],
	refused_claims[], engine_claims[], mismatch_claims[], window_claims[], deadline_claims[],
	recorder_claims[], fault_claims[];

#define LONG ((size_t)10 << 20) /* floats: two segments and a bit of a stage */

#define WORKS(call) CLAIM((call), "%s: %s", #call, gpu_error())
/* It gives that result, with the words in its error message. */
#define REFUSED(call, wanted, words)                                                               \
	do {                                                                                       \
		const tutti_result_t refused = (call);                                             \
		CLAIM(refused == (wanted), "%s: %s, expected %s", #call, tutti_strerror(refused),  \
		      tutti_strerror(wanted));                                                     \
		CLAIM(strstr(tutti_last_error(NULL), words), "%s: \"%s\", expected \"%s\" in it",  \
		      #call, tutti_last_error(NULL), words);                                       \
	} while (0)

extern size_t few; /* elements of most calls */

struct vector {
	float *host, *gpu; /* the host's is pinned: CUDA may keep whoever copies other memory
			    * until what is on the GPU has ended, and that waits for other ranks */
	size_t n;
};

/* Of `n` elements, which nothing has been put into. */
int take(tutti_comm_t comm, struct vector *vector, size_t n);
void give(struct vector *vector);
/* All ranks come here before any of them has a stream wait for others: CUDA may keep whoever
 * takes memory, or makes a graph, until streams have ended. */
int ready(tutti_comm_t comm);
/* All elements are `value`, and a bit of their place. */
int put(struct gpu_rank *r, struct vector *vector, float value);
/* Waits for the stream. All elements are `value`, and `of_place` times that bit. */
int expect(struct gpu_rank *r, struct vector *vector, float value, float of_place);
float sum_of_ranks(const struct gpu_rank *r);
/* A function of the stand-in's that counts; NULL: CUDA's driver is there. */
void *find_in_standin(const char *name);
/* The ranks' GPUs do not all reach each other … */
bool by_host(void);
/* … and those of a clique work together first. */
bool by_cliques(void);
/* The stream ends, although others will never come; the fault is told, and by every call from
 * now on. */
int told(struct gpu_rank *r, struct vector *x, tutti_result_t wanted, const char *words);
/* All ranks are here before one of them does what ends the communicator: none is still in
 * tutti_cuda_bind(). */
int begin(struct gpu_rank *r, struct vector *x, atomic_int *came);

#endif
