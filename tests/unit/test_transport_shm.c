/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on shared memory. */
#include "shm.h"
#include "transport_suite.h"

static void *allocate(size_t bytes)
{
	void *memory;

	return tutti_mem_alloc(bytes, &memory) == TUTTI_OK ? memory : NULL;
}

int main(void)
{
	const struct suite_options options = {
		.threads = true,
		.processes = true,
		.shares = true,
		.allocate = allocate,
		.release = tutti_mem_free,
	};

	return transport_suite_run(&tt_transport_shm, &options);
}
