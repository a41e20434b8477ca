/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of a hello. */
#include "hello.h"

#include <assert.h>
#include <string.h>

#include "wire.h"

#define MAGIC 0x616d647274757474ull /* "ttutrdma" */
#define VERSION                                                                                    \
	3 /* another one when struct rdma_memory or the immediate data of messages
	   * change */
#define PACKET_BITS 24
#define MTU_LEAST   1
#define MTU_MOST    5

static uint8_t *path_write(uint8_t *at, const struct rdma_hello_path *path)
{
	at = wire_put(at, path->queue, 4);
	at = wire_put(at, path->packet, 4);
	memcpy(at, path->gid, sizeof(path->gid));
	at = wire_put(at + sizeof(path->gid), path->lid, 2);
	at = wire_put(at, path->mtu, 1);
	return wire_put(at, path->key, 4);
}

void tt_rdma_hello_write(const struct rdma_hello *hello, uint8_t out[RDMA_HELLO_BYTES])
{
	uint8_t *at = wire_put(out, MAGIC, 8);

	at = wire_put(at, VERSION, 4);
	at = wire_put(at, hello->paths, 1);
	at = wire_put(at, hello->memory, 8);
	at = wire_put(at, hello->messages, 8);
	at = wire_put(at, hello->bytes, 8);
	for (int i = 0; i < RDMA_PORTS_MAX; i++)
		at = path_write(at, &hello->path[i]);
	assert(at == out + RDMA_HELLO_BYTES);
}

static bool path_read(const uint8_t **at, struct rdma_hello_path *path)
{
	path->queue = (uint32_t)wire_get(at, 4);
	path->packet = (uint32_t)wire_get(at, 4);
	memcpy(path->gid, *at, sizeof(path->gid));
	*at += sizeof(path->gid);
	path->lid = (uint16_t)wire_get(at, 2);
	path->mtu = (uint8_t)wire_get(at, 1);
	path->key = (uint32_t)wire_get(at, 4);
	return path->packet < 1u << PACKET_BITS &&
	       (path->queue == 0 || (path->mtu >= MTU_LEAST && path->mtu <= MTU_MOST));
}

bool tt_rdma_hello_read(const uint8_t in[RDMA_HELLO_BYTES], struct rdma_hello *hello)
{
	const uint8_t *at = in;
	bool good = wire_get(&at, 8) == MAGIC && wire_get(&at, 4) == VERSION;

	if (!good)
		return false;
	hello->paths = (uint8_t)wire_get(&at, 1);
	hello->memory = wire_get(&at, 8);
	hello->messages = wire_get(&at, 8);
	hello->bytes = wire_get(&at, 8);
	for (int i = 0; i < RDMA_PORTS_MAX; i++)
		good &= path_read(&at, &hello->path[i]);
	return good && hello->paths <= RDMA_PORTS_MAX;
}
