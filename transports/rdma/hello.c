/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of a hello. */
#include "hello.h"

#include <string.h>

#include "wire.h"

#define MAGIC	    0x616d647274757474ull /* "ttutrdma" */
#define VERSION	    1
#define PACKET_BITS 24
#define MTU_LEAST   1
#define MTU_MOST    5

void tt_rdma_hello_write(const struct rdma_hello *hello, uint8_t out[RDMA_HELLO_BYTES])
{
	uint8_t *at = wire_put(out, MAGIC, 8);

	at = wire_put(at, VERSION, 4);
	at = wire_put(at, hello->queue, 4);
	at = wire_put(at, hello->packet, 4);
	memcpy(at, hello->gid, sizeof(hello->gid));
	at = wire_put(at + sizeof(hello->gid), hello->lid, 2);
	at = wire_put(at, hello->mtu, 1);
	at = wire_put(at, hello->memory, 8);
	wire_put(at, hello->key, 4);
}

bool tt_rdma_hello_read(const uint8_t in[RDMA_HELLO_BYTES], struct rdma_hello *hello)
{
	const uint8_t *at = in;

	if (wire_get(&at, 8) != MAGIC || wire_get(&at, 4) != VERSION)
		return false;
	hello->queue = (uint32_t)wire_get(&at, 4);
	hello->packet = (uint32_t)wire_get(&at, 4);
	memcpy(hello->gid, at, sizeof(hello->gid));
	at += sizeof(hello->gid);
	hello->lid = (uint16_t)wire_get(&at, 2);
	hello->mtu = (uint8_t)wire_get(&at, 1);
	hello->memory = wire_get(&at, 8);
	hello->key = (uint32_t)wire_get(&at, 4);
	return hello->packet < 1u << PACKET_BITS && (hello->queue == 0 || (hello->mtu >= MTU_LEAST && hello->mtu <= MTU_MOST));
}
