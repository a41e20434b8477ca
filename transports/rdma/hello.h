/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ends of a link tell each other of their queue pairs, as bytes. */
#ifndef TT_RDMA_HELLO_H
#define TT_RDMA_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

#define RDMA_HELLO_BYTES (37 + RDMA_PORTS_MAX * 31)

/* A queue pair. */
struct rdma_hello_path {
	uint32_t queue;	 /* its number; 0: there is none */
	uint32_t packet; /* sequence number of the first, of 24 bits */
	uint8_t gid[16];
	uint16_t lid;
	uint8_t mtu;  /* enum ibv_mtu: 256 bytes are 1, 4096 are 5 */
	uint32_t key; /* what opens the memory through it */
};

struct rdma_hello {
	uint8_t paths;	   /* 0: there is nothing to connect with */
	uint64_t memory;   /* where its struct rdma_memory is */
	uint64_t messages; /* that it has taken note of */
	uint64_t bytes;	   /* that it has taken out of its ring */
	struct rdma_hello_path path[RDMA_PORTS_MAX];
};

void tt_rdma_hello_write(const struct rdma_hello *hello, uint8_t out[RDMA_HELLO_BYTES]);
/* False, and `hello` unspecified, if the bytes are none of this version. */
bool tt_rdma_hello_read(const uint8_t in[RDMA_HELLO_BYTES], struct rdma_hello *hello);

#endif
