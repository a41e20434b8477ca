/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to CUDA's driver on this machine. Each is asked in a process of its own, which is
 * killed when its time is over: not to come back is an answer, too. */
#ifndef TEST_PROBE_H
#define TEST_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_functions.h"

extern struct cuda_driver cu;

struct question {
	const char *name;
	void (*ask)(const struct question *question);
	int what, beside;    /* for `ask` */
	bool by_connections; /* asked with CUDA_DEVICE_MAX_CONNECTIONS of 1, 8 and 32 */
	double limit_s;	     /* from begun() on; 0: 2 */
};
extern const struct question probe_waits[], probe_shares[]; /* a name that is NULL ends them */

extern bool probe_short;	/* a few streams and bytes are enough */
extern const char *probe_image; /* the file of the library's kernels; NULL: none is known */

/* In the process that answers. A second answer() takes the place of the first, which is what is
 * told if the time is over before. */
void begun(void);
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* That `what` has failed is the answer, and ends the process. */
void must(const char *what, cuda_result error);
const char *error_name(cuda_result error);
_Noreturn void end(void);

/* A GPU, and what most questions need. All has been used once, so that nothing is loaded later. */
struct gpu {
	struct CUctx_st *context;
	struct CUstream_st *waiting, *other;
	struct CUmod_st *module;
	struct CUfunc_st *nothing; /* a kernel */
	volatile uint64_t *words;  /* pinned, of the host: [0] is waited for, [1] says that the
				    * wait has begun */
	char *pinned;
	cuda_address memory; /* PROBE_BYTES here, too */
};
#define PROBE_BYTES ((size_t)1 << 20)
extern const char probe_ptx[];

enum put { PUT_KERNEL, PUT_TO_HOST, PUT_FROM_HOST, PUT_FILL, PUT_WORD };

bool calls_open(char why[512]);
void gpu_begin(struct gpu *gpu);
struct CUstream_st *gpu_stream_new(bool urgent);
cuda_result gpu_put(struct gpu *gpu, enum put what, struct CUstream_st *stream);
cuda_result gpu_word_op(struct CUstream_st *stream, unsigned operation, cuda_address word,
			uint64_t value);
/* From here on gpu->waiting waits, until gpu_go(). */
void gpu_wait_for_word(struct gpu *gpu);
void gpu_go(struct gpu *gpu);

#endif
