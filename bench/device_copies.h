/* SPDX-License-Identifier: BSD-3-Clause */
/* A point whose memory is that of a device. It writes inputs and checks results itself; or,
 * where it has nothing to do that with, inputs are copies of a place of the device copies, on
 * which the sequence of inputs is repeated, and results are copied back and checked here. 0, or
 * -1 having said why. */
#ifndef BENCH_TAPE_H
#define BENCH_TAPE_H

#include "point.h"

/* Before the point's first call. */
int bench_device_copy_write(const struct bench_point *point);
/* Fill the input of call number `call` as in repetition `shift`, on the stream. */
int bench_device_copy_fill(const struct bench_point *point, unsigned call, uint64_t shift);
/* What is wrong with the call's result; `found` says nothing yet. */
int bench_device_copy_check(const struct bench_point *point, unsigned call, uint64_t shift,
			    struct bench_found *found);
/* Bytes per second, those read and those written, that one rank's copies of the point's size
 * move while the others do nothing. Collective. */
int bench_device_copy_rate(const struct bench_point *point, double *rate);

#endif
