/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the registration of dma-bufs, and what is said where there is none.
 *
 * Whether it works is asked by registering descriptor -1. Who answers, and what:
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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deferred.h"
#include "cache.h"
#include "log.h"

/* ---- does it work? */

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

/* ---- registrations */

static tutti_result_t refuse(const struct rdma_adapter *adapter, const struct rdma_dmabuf *range,
			     int error)
{
	const unsigned long long offset = range->offset;
	const int fd = range->fd;
	char why[RDMA_WHY_MAX];

	if (is_lacking(error) && !tt_rdma_dmabuf_works(adapter, why))
		return tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "%s registers no dma-bufs: %s",
			       adapter->name, why);
	if (error == EBADF)
		return tt_fail(TUTTI_ERR_INVALID, RDMA,
			       "descriptor %d is not open: expected a dma-buf", fd);
	if (error == EINVAL)
		return tt_fail(
			TUTTI_ERR_INVALID, RDMA,
			"%s does not register %zu bytes at offset %llu of descriptor %d (%s): expected a dma-buf that has them",
			adapter->name, range->bytes, offset, fd, strerror(error));
	errno = error;
	return tt_fail_errno(RDMA, "register with %s %zu bytes at offset %llu of dma-buf %d",
			     adapter->name, range->bytes, offset, fd);
}

static tutti_result_t check(const struct rdma_dmabuf *range)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
			address = (uintptr_t)range->pointer;

	if (range->bytes == 0)
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "a range of dma-buf %d has no bytes",
			       range->fd);
	if ((address ^ range->offset) % page)
		return tt_fail(
			TUTTI_ERR_INVALID, RDMA,
			"offset %llu of dma-buf %d is said to be at address %#zx: expected both as far from the start of a page",
			(unsigned long long)range->offset, range->fd, (size_t)address);
	return TUTTI_OK;
}

tutti_result_t tt_rdma_dmabuf_register(struct rdma_adapter *adapter,
				       const struct rdma_dmabuf *range,
				       struct rdma_registration **out)
{
	const struct rdma_verbs *const verbs = adapter->verbs;
	const tutti_result_t result = check(range);
	struct rdma_registration *r;

	if (result)
		return result;
	if (!verbs->reg_dmabuf_mr)
		return refuse(adapter, range, ENOSYS);
	r = calloc(1, sizeof(*r));
	if (!r)
		return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA, "no memory to register a dma-buf");
	*r = (struct rdma_registration){ .adapter = adapter,
					 .begin = (uintptr_t)range->pointer,
					 .bytes = range->bytes,
					 .of = RDMA_OF_DEVICE };
	r->mr = verbs->reg_dmabuf_mr(adapter->pd, range->offset, range->bytes, r->begin, range->fd,
				     RDMA_ACCESS);
	if (!r->mr) {
		const int error = errno;

		free(r);
		return refuse(adapter, range, error);
	}
	tt_rdma_monitor_lock();
	tt_rdma_deferred_expect();
	tt_rdma_cache_add(r);
	tt_rdma_monitor_unlock();
	*out = r;
	return TUTTI_OK;
}

struct rdma_registration *tt_rdma_dmabuf_find(struct rdma_adapter *adapter, const void *pointer,
					      size_t bytes)
{
	struct rdma_registration *r;

	tt_rdma_monitor_lock();
	r = tt_rdma_cache_find(adapter, (uintptr_t)pointer, (uintptr_t)pointer + bytes, true);
	if (r)
		tt_rdma_cache_use(r);
	tt_rdma_monitor_unlock();
	return r;
}

void tt_rdma_dmabuf_gone(const void *pointer, size_t bytes)
{
	tt_rdma_monitor_lock();
	tt_rdma_cache_drop_all(RDMA_OF_DEVICE, pointer, bytes);
	tt_rdma_deferred_finish();
}
