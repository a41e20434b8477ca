/* SPDX-License-Identifier: BSD-3-Clause */
/* A point whose memory is that of a device: inputs are copies of a place of the tape, on which the sequence of inputs is
 * repeated; results are copied back and verified here. 0, or -1 having said why. */
#ifndef BENCH_TAPE_H
#define BENCH_TAPE_H

#include "point.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the tape, for the point's calls. */
int bench_tape_write(const struct bench_point *point);
/* Fill the input of call number `call` as in repetition `shift`, on the stream. */
int bench_tape_fill(const struct bench_point *point, unsigned call, uint64_t shift);
/* How many elements of the call's result are wrong. */
int bench_tape_verify(const struct bench_point *point, unsigned call, uint64_t shift, double *wrong);
/* Bytes per second, those read and those written, that one rank's copies of the point's size move while the others do nothing. Collective. */
int bench_tape_copy_rate(const struct bench_point *point, double *rate);

#ifdef __cplusplus
}
#endif

#endif
