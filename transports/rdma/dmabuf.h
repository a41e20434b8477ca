/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs and other devices: their driver exports it as a dma-buf, of which an adapter is
 * shown a range. Such registrations are kept like those of other memory (registration.h) and put
 * back by tt_rdma_registration_put(), but nobody tells the library when the memory is freed: who
 * registers sees to that. Any thread. */
#ifndef TT_RDMA_DMABUF_H
#define TT_RDMA_DMABUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "registration.h"

struct rdma_dmabuf {
	int fd;		     /* the caller's, who may close it once the range is registered */
	uint64_t offset;     /* of the range in the dma-buf */
	const void *pointer; /* its address: what work requests and offers name. Nothing need be
			      * mapped there; as far from the start of a page as the offset */
	size_t bytes;
};

/* Can the adapter, its libraries and the kernel do it at all? False: `why` has what was found
 * and what is expected. */
bool tt_rdma_dmabuf_works(const struct rdma_adapter *adapter, char why[RDMA_WHY_MAX]);

/* Registers a range, and uses it. TUTTI_ERR_UNSUPPORTED: it does not work; TUTTI_ERR_INVALID:
 * not with this descriptor or range. */
tutti_result_t tt_rdma_dmabuf_register(struct rdma_adapter *adapter,
				       const struct rdma_dmabuf *range,
				       struct rdma_registration **out);

/* One that was registered before and covers all of pointer … + bytes: one user more. NULL: there
 * is none. */
struct rdma_registration *tt_rdma_dmabuf_find(struct rdma_adapter *adapter, const void *pointer,
					      size_t bytes);

/* The memory is about to be freed, or is not what it was: no adapter's registrations of it are
 * found any more, and those that nobody uses have ended on return. */
void tt_rdma_dmabuf_gone(const void *pointer, size_t bytes);

#endif
