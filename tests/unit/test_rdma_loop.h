/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair connected with itself: what it reads and writes is memory as the device has it. */
#ifndef TEST_RDMA_LOOP_H
#define TEST_RDMA_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "registration.h"

struct loop {
	struct rdma_adapter *adapter;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

void loop_begin(struct loop *loop, const struct rdma_port *port);
/* Of its adapter nothing is left registered. */
void loop_end(struct loop *loop);
/* The device copies. */
void loop_write(const struct loop *loop, uint64_t to, const struct rdma_registration *r,
		const void *from, const struct rdma_registration *s, uint32_t bytes);

#endif
