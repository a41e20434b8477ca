/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ends of a link tell each other of their queue pairs, as bytes. */
#ifndef TT_RDMA_HELLO_H
#define TT_RDMA_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#define RDMA_HELLO_BYTES 51

struct rdma_hello {
	uint32_t queue;	 /* number of the queue pair; 0: there is none */
	uint32_t packet; /* sequence number of the first, of 24 bits */
	uint8_t gid[16];
	uint16_t lid;
	uint8_t mtu;	 /* enum ibv_mtu: 256 bytes are 1, 4096 are 5 */
	uint64_t memory; /* where its struct rdma_memory is … */
	uint32_t key;	 /* … and what opens it */
};

void tt_rdma_hello_write(const struct rdma_hello *hello, uint8_t out[RDMA_HELLO_BYTES]);
/* False, and `hello` unspecified, if the bytes are none of this version. */
bool tt_rdma_hello_read(const uint8_t in[RDMA_HELLO_BYTES], struct rdma_hello *hello);

#endif
