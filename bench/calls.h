/* SPDX-License-Identifier: BSD-3-Clause */
/* Which functions of tutti a call is. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include "tutti/cuda.h"
#include "tutti_backend.h"

/* Of collectives and BENCH_LATENCY; `request` as the library takes it, of the latter NULL. */
tutti_result_t bench_call_on_host(const struct bench_tutti *tutti, const struct bench_call *call,
				  tutti_request_t *request);
/* Of all kinds. */
tutti_result_t bench_call_on_stream(const struct bench_tutti *tutti, const struct bench_call *call,
				    tutti_cuda_stream_t stream);

#endif
