/* SPDX-License-Identifier: BSD-3-Clause */
/* What the process has mapped, as the kernel lists it. Nothing is allocated for a look. */
#ifndef TT_RDMA_MAPPINGS_H
#define TT_RDMA_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

enum rdma_memory {
	RDMA_PLAIN, /* private, writable, and of no file */
	RDMA_SHARED,
	RDMA_OF_FILE,
	RDMA_HUGE_PAGES, /* of hugetlbfs, which for the kernel is a file, too */
	RDMA_CONSTANT,
	RDMA_UNMAPPED, /* between mappings: no mapping is that */
	RDMA_UNKNOWN,  /* the list cannot be read: likewise */
	RDMA_MEMORY_KINDS
};

struct rdma_mapping {
	uintptr_t begin, end;
	enum rdma_memory kind;
};

/* Each mapping that has a byte of begin … end, in their order, until `each` says false. False:
 * the list cannot be read, and errno says why. */
bool tt_rdma_mappings(uintptr_t begin, uintptr_t end,
		      bool (*each)(const struct rdma_mapping *mapping, void *context),
		      void *context);

#endif
