/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on RDMA, where this machine has a device: tests/rdma has hosts with one. */
#include <stdio.h>

#include "device.h"
#include "rdma.h"
#include "transport_suite.h"

#define SKIP 77

int main(void)
{
	const struct suite_options options = { .threads = true, .processes = true };
	struct rdma_port ports[RDMA_PORTS_MAX];
	struct rdma_settings settings;
	char why[RDMA_WHY_MAX];
	int n;

	if (tt_rdma_settings_read(&settings) || tt_rdma_ports(&tt_rdma_here, &settings, ports, &n, why)) {
		fprintf(stderr, "%s\n", tt_thread_error());
		return 1;
	}
	if (n == 0) {
		printf("%s\n", why);
		return SKIP;
	}
	return transport_suite_run(&tt_transport_rdma, &options);
}
