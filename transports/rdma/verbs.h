/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs, opened at run time: the same library runs on machines without it. What its header
 * defines inline is called directly. */
#ifndef TT_RDMA_VERBS_H
#define TT_RDMA_VERBS_H

#include <infiniband/verbs.h>

#define VERBS_FORK_UNNEEDED 2 /* IBV_FORK_UNNEEDED, which older headers lack */

struct rdma_verbs {
	int (*fork_init)(void);
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *attributes);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *memory, size_t bytes, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *of,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **of);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned events);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	const char *(*wc_status_str)(enum ibv_wc_status status);
	/* NULL where the library is older */
	int (*is_fork_initialized)(void);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t address, int fd, int access);
};

/* NULL: it cannot be loaded now; tt_thread_error() says why. Whoever asks holds the lock of
 * adapter.c. */
const struct rdma_verbs *tt_rdma_verbs(void);

#endif
