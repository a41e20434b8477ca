/* SPDX-License-Identifier: BSD-3-Clause */
/* What the other end of a link says of its queue pairs. */
#include <string.h>

#include "fuzz.h"
#include "hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[RDMA_HELLO_BYTES];
	struct rdma_hello hello;

	if (size != RDMA_HELLO_BYTES || !tt_rdma_hello_read(data, &hello))
		return 0;
	FUZZ_PROMISE(hello.paths <= RDMA_PORTS_MAX);
	for (int i = 0; i < RDMA_PORTS_MAX; i++) {
		const struct rdma_hello_path *path = &hello.path[i];

		FUZZ_PROMISE(path->packet < 1u << 24 &&
			     (path->queue == 0 || (path->mtu >= 1 && path->mtu <= 5)));
	}
	tt_rdma_hello_write(&hello, again);
	FUZZ_PROMISE(memcmp(again, data, size) == 0);
	return 0;
}
