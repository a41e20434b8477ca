/* SPDX-License-Identifier: BSD-3-Clause */
/* What processors have in common, as the kernel tells it (/sys/devices/system). */
#ifndef TT_DOMAIN_H
#define TT_DOMAIN_H

#include <stdint.h>

#define TT_CPU_WORDS 16 /* up to 1024 processors: bit i of word w is that of number 64 w + i */

/* Plain bytes: travels between ranks. 0: the processors have none in common, or it is not known. */
struct tt_domain {
	uint16_t cache;	 /* 1 + the lowest of the processors that share the last cache of these */
	uint16_t node;	 /* 1 + the lowest of those of the NUMA node of these */
	uint32_t level2; /* bytes of the second-level cache of the lowest of these */
};

/* Of the processors `cpus`, one at least. `sys` is "/sys", or what is to be read in its place. */
struct tt_domain tt_domain_of(const char *sys, const uint64_t cpus[TT_CPU_WORDS]);

#endif
