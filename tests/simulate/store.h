/* SPDX-License-Identifier: BSD-3-Clause */
/* The store of the simulated machine: keys in memory, and a host that can go away. */
#ifndef TT_SIMULATE_STORE_H
#define TT_SIMULATE_STORE_H

#include <stdint.h>
#include <tutti/tutti.h>

/* Begin with an empty store whose answers take up to so long. */
void store_begin(uint64_t slowest_ns);
/* Its host is gone: every call fails from now on. */
void store_lose(void);
void store_end(void);
/* A handle of the calling process. */
tutti_result_t store_open(tutti_store_t *store);

#endif
