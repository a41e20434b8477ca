/* SPDX-License-Identifier: BSD-3-Clause */
/* The port that a test with a device is to use. */
#ifndef TEST_RDMA_PORT_H
#define TEST_RDMA_PORT_H

#include <stdio.h>

#include "device.h"
#include "log.h"

/* 0, or what the test is to end with, after a word on why. */
static inline int find_port(struct rdma_port *out)
{
	struct rdma_port ports[RDMA_PORTS_MAX];
	struct rdma_settings settings;
	char why[RDMA_WHY_MAX];
	int n;

	if (tt_rdma_settings_read(&settings) ||
	    tt_rdma_ports(&tt_rdma_here, &settings, ports, &n, why)) {
		fprintf(stderr, "%s\n", tt_thread_error());
		return 1;
	}
	if (n == 0) {
		printf("%s\n", why);
		return 77;
	}
	*out = ports[0];
	return 0;
}

#endif
