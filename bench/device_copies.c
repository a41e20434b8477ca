/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how data come to a device and back: none of it while the clock runs. */
#include "device_copies.h"

#define COPY_SAMPLES 7
#define COPY_WARMUP  2

int bench_device_copy_write(const struct bench_point *point)
{
	struct bench_backend *b = point->backend;
	const struct bench_call *call = &point->calls[0];
	const size_t count = bench_call_sent(call, b->size) + BENCH_PERIOD;

	if (!b->device->without)
		return b->device->learn(b, &point->pattern);
	bench_pattern_fill(&point->pattern, 0, 0, 0, point->buffers->host, count);
	if (b->device->copy(b, point->buffers->tape, point->buffers->host,
			    count * bench_type_size(call->dtype)) < 0)
		return -1;
	return b->device->finish(b);
}

int bench_device_copy_fill(const struct bench_point *point, unsigned call, uint64_t shift)
{
	struct bench_backend *b = point->backend;
	const struct bench_call *c = &point->calls[call];
	const size_t size = bench_type_size(c->dtype), count = bench_call_sent(c, b->size);
	const uint64_t place = bench_place(0, b->rank, shift);

	if (!b->device->without)
		return b->device->fill(b, (void *)c->send, place, count);
	return b->device->copy(b, (void *)c->send, point->buffers->tape + place * size,
			       count * size);
}

int bench_device_copy_check(const struct bench_point *point, unsigned call, uint64_t shift,
			    struct bench_found *found)
{
	struct bench_backend *b = point->backend;
	struct bench_call seen = point->calls[call];

	if (!b->device->without)
		return b->device->check(b, &seen, shift, found);
	if (b->device->copy(b, point->buffers->host, seen.recv,
			    bench_call_received(&seen, b->size) * bench_type_size(seen.dtype)) <
		    0 ||
	    b->device->finish(b) < 0)
		return -1;
	seen.recv = point->buffers->host;
	bench_call_check(&seen, &point->pattern, b, shift, found);
	return 0;
}

static int time_copies(const struct bench_point *point, double *seconds)
{
	struct bench_backend *b = point->backend;
	double taken[COPY_SAMPLES];

	for (int i = -COPY_WARMUP; i < COPY_SAMPLES; i++)
		if (b->device->time_copies(b, point->buffers->out, point->buffers->in, point->bytes,
					   bench_set_stride(point->bytes), point->batch,
					   &taken[i < 0 ? 0 : i]) < 0)
			return -1;
	*seconds = bench_summarise(taken, COPY_SAMPLES).median * 1e-6 / point->batch;
	return 0;
}

int bench_device_copy_rate(const struct bench_point *point, double *rate)
{
	struct bench_backend *b = point->backend;
	double seconds = 0;

	*rate = 0;
	if (point->bytes == 0)
		return 0;
	if (b->barrier(b) < 0 || (b->rank == 0 && time_copies(point, &seconds) < 0) ||
	    b->combine(b, &seconds, 1, BENCH_MAX) < 0)
		return -1;
	*rate = seconds > 0 ? 2 * (double)point->bytes / seconds : 0;
	return 0;
}
