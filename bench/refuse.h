/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job reports an error of its command line once. */
#ifndef BENCH_REFUSE_H
#define BENCH_REFUSE_H

/* Print the error of the command line. Under a launcher rank 0 alone prints it if all ranks have
 * the same, and no rank returns before. */
void bench_refuse(void);

#endif
