/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own threads, and what they wait on. */
#ifndef TT_SPI_THREAD_H
#define TT_SPI_THREAD_H

#include <pthread.h>

/* Run body(argument) on a thread that takes no signals: these are for the program's own threads.
 * Its stack of 1 MiB is enough for users' operations, OpenSSL and RDMA providers. The caller
 * joins it. 0, or an errno value. */
int tt_thread_begin(pthread_t *thread, void *(*body)(void *), void *argument);

/* Make a condition whose waits end by CLOCK_MONOTONIC, as all of the library's do. */
void tt_thread_condition(pthread_cond_t *out);

#endif
