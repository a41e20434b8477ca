/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the question whether an adapter can register dma-bufs, as which drivers of GPUs export their
 * memory. It is asked by registering descriptor -1. Who answers, and what:
 *   EOPNOTSUPP       libibverbs, for a provider without the function (libibverbs/dummy_ops.c; rxe and siw are such); the kernel, for a driver without
 *                    it (UVERBS_METHOD_REG_DMABUF_MR in
 *                    drivers/infiniband/core/uverbs_std_types_mr.c) or built without on-demand
 *                    paging (mlx5)
 *   EPROTONOSUPPORT  a kernel before 5.12, which does not know the call
 *   (drivers/infiniband/core/uverbs_ioctl.c)
 *   EBADF            a driver that can: dma_buf_get() of drivers/dma-buf/dma-buf.c finds no such file. It gives EINVAL for a file that is no dma-buf,
 *                    and drivers do for a range that is not in it. */
#include "dmabuf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "registration.h"

static bool is_lacking(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS || error == EPROTONOSUPPORT;
}

static const char *lack(int error)
{
	return error == EPROTONOSUPPORT ? "the kernel cannot" : "the driver or its provider cannot";
}

bool tt_rdma_dmabuf_works(const struct rdma_adapter *adapter, char why[RDMA_WHY_MAX])
{
	const struct rdma_verbs *const verbs = adapter->verbs;
	struct ibv_mr *mr;

	if (!verbs->reg_dmabuf_mr) {
		snprintf(
			why, RDMA_WHY_MAX,
			"this libibverbs has no ibv_reg_dmabuf_mr: expected that of rdma-core 34 or later");
		return false;
	}
	errno = 0;
	mr = verbs->reg_dmabuf_mr(adapter->pd, 0, (size_t)sysconf(_SC_PAGESIZE), 0, -1,
				  RDMA_ACCESS);
	const int error = errno;

	if (mr)
		verbs->dereg_mr(mr);
	if (!mr && error == EBADF)
		return true;
	if (!mr && is_lacking(error))
		snprintf(
			why, RDMA_WHY_MAX,
			"%s (%s): expected a card whose driver can, such as mlx5's, with Linux 5.12 or later",
			lack(error), strerror(error));
	else
		snprintf(why, RDMA_WHY_MAX,
			 "asked to register descriptor -1 it says \"%s\": expected \"%s\"",
			 strerror(mr ? 0 : error), strerror(EBADF));
	return false;
}

TUTTI_API tutti_result_t tutti_rdma_dmabuf(const char *device)
{
	struct rdma_adapter *adapter;
	char why[RDMA_WHY_MAX];
	tutti_result_t result;

	if (!device)
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "tutti_rdma_dmabuf: device is NULL");
	result = tt_rdma_adapter_get(device, &adapter);
	if (result)
		return result;
	if (!tt_rdma_dmabuf_works(adapter, why))
		result = tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "%s registers no dma-bufs: %s",
				 device, why);
	tt_rdma_adapter_put(adapter);
	return result;
}
