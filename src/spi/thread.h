/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library's own. */
#ifndef TT_SPI_THREAD_H
#define TT_SPI_THREAD_H

#include <pthread.h>

/* Runs body(argument) on a thread that takes no signals, as they are for the program's own
 * threads, and has a stack of 256 KiB: that does for users' operations, OpenSSL and RDMA
 * providers. To be joined. 0, or an errno value. */
int tt_thread_begin(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
