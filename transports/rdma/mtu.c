/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a packet of a port carries at most. Only verbs know that, of the port as it is now. */
#include <string.h>

#include "adapter.h"
#include "log.h"

tutti_result_t tt_rdma_active_mtu(const struct rdma_adapter *adapter, int port, enum ibv_mtu *mtu)
{
	struct ibv_port_attr attributes = { 0 };
	const int error = adapter->verbs->query_port(adapter->context, (uint8_t)port,
						     (struct _compat_ibv_port_attr *)&attributes);

	if (error)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA, "ask for port %d of %s: %s", port,
			       adapter->name, strerror(error));
	*mtu = attributes.active_mtu;
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_rdma_mtu(const char *device, int port, int *bytes)
{
	struct rdma_adapter *adapter;
	enum ibv_mtu mtu = IBV_MTU_256;

	if (!device || !bytes)
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "tutti_rdma_mtu: %s is NULL",
			       device ? "bytes" : "device");
	if (port < 1 || port > UINT8_MAX)
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "tutti_rdma_mtu: port %d, expected 1 to %d",
			       port, UINT8_MAX);
	tutti_result_t result = tt_rdma_adapter_get(device, &adapter);
	if (result)
		return result;
	result = tt_rdma_active_mtu(adapter, port, &mtu);
	if (!result)
		*bytes = 128 << mtu;
	tt_rdma_adapter_put(adapter);
	return result;
}
