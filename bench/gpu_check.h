/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of check.cu: inputs that a GPU writes and results that it checks. */
#ifndef BENCH_GPU_CHECK_H
#define BENCH_GPU_CHECK_H

#include "gpu.h"
#include "pattern.h"

struct bench_gpu_check {
	gpu_module_t module; /* NULL: there are no kernels */
	gpu_kernel_t fill, compare;
	struct bench_gpu_tables *tables; /* in memory of the GPU */
	struct bench_format format;	 /* of the pattern that they have */
	bool near;
	char without[512]; /* why there are no kernels */
};

/* Into the GPU that the thread has entered. False: TUTTI_BENCH_KERNELS names no file that can be
 * read, which was said. */
bool bench_gpu_check_init(struct bench_gpu_check *check);
void bench_gpu_check_fini(struct bench_gpu_check *check); /* zeroed is fine */

/* What follows is for where there are kernels, on the stream; gpu_error() says why it failed. */
/* The pattern of the calls to come, which stays as it is until the stream has come so far. */
bool bench_gpu_check_learn(struct bench_gpu_check *check, const struct bench_pattern *pattern,
			   gpu_stream_t stream);
bool bench_gpu_check_fill(const struct bench_gpu_check *check, void *to, uint64_t place,
			  size_t count, gpu_stream_t stream);
/* Add to what is found of a result, … */
bool bench_gpu_check_part(const struct bench_gpu_check *check, const struct bench_part *part,
			  uint64_t shift, gpu_stream_t stream);
/* … which begins with nothing, and is given. */
bool bench_gpu_check_begin(const struct bench_gpu_check *check, gpu_stream_t stream);
bool bench_gpu_check_end(const struct bench_gpu_check *check, struct bench_found *found,
			 gpu_stream_t stream);

#endif
