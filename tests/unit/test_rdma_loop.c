/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_rdma_loop.h"

#include <string.h>

#include "tests.h"

static void connect_to_itself(const struct loop *loop, const struct rdma_port *port)
{
	const struct rdma_verbs *const verbs = loop->adapter->verbs;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = port->number,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	assert_int_equal(verbs->modify_qp(loop->qp, &a,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = loop->qp->qp_num,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .dlid = port->lid,
					       .port_num = port->number,
					       .is_global = !port->infiniband } };
	memcpy(a.ah_attr.grh.dgid.raw, port->gid, sizeof(port->gid));
	a.ah_attr.grh.sgid_index = (uint8_t)port->gid_index;
	a.ah_attr.grh.hop_limit = 1;
	assert_int_equal(verbs->modify_qp(loop->qp, &a,
					  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = 20,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1 };
	assert_int_equal(verbs->modify_qp(loop->qp, &a,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						  IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void loop_begin(struct loop *loop, const struct rdma_port *port)
{
	struct ibv_qp_init_attr wanted = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC
	};

	assert_int_equal(tt_rdma_adapter_get(port->device, &loop->adapter), TUTTI_OK);
	loop->cq = wanted.send_cq = wanted.recv_cq =
		loop->adapter->verbs->create_cq(loop->adapter->context, 8, NULL, NULL, 0);
	assert_non_null(loop->cq);
	loop->qp = loop->adapter->verbs->create_qp(loop->adapter->pd, &wanted);
	assert_non_null(loop->qp);
	connect_to_itself(loop, port);
}

void loop_end(struct loop *loop)
{
	loop->adapter->verbs->destroy_qp(loop->qp);
	loop->adapter->verbs->destroy_cq(loop->cq);
	tt_rdma_adapter_put(loop->adapter);
	assert_int_equal(tt_rdma_registrations(), 0);
}

void loop_write(const struct loop *loop, uint64_t to, const struct rdma_registration *r,
		const void *from, const struct rdma_registration *s, uint32_t bytes)
{
	struct ibv_sge chunk = { (uintptr_t)from, bytes, s->mr->lkey };
	struct ibv_send_wr *bad, request = { .sg_list = &chunk,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = { to, r->mr->rkey } };
	struct ibv_wc done;
	int n = 0;

	assert_int_equal(ibv_post_send(loop->qp, &request, &bad), 0);
	while (n == 0)
		n = ibv_poll_cq(loop->cq, 1, &done);
	assert_int_equal(n, 1);
	assert_int_equal(done.status, IBV_WC_SUCCESS);
}
