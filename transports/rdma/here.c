/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what sysfs does not tell of this machine: the networks of its addresses, and where the
 * calling thread runs. */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "log.h"

static int node_here(void)
{
	unsigned node;

	return syscall(SYS_getcpu, NULL, &node, NULL) == 0 ? (int)node : -1;
}

static int bits_of(const struct sockaddr *mask, size_t offset, int bytes)
{
	const uint8_t *at = (const uint8_t *)mask + offset;
	int bits = 0;

	if (!mask)
		return 8 * bytes;
	for (int i = 0; i < bytes; i++)
		bits += __builtin_popcount(at[i]);
	return bits;
}

/* Bits of the GID's network if `i` has its address, or -1. */
static int network_by(const struct ifaddrs *i, const uint8_t gid[16])
{
	const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
	const struct in6_addr *address = (const struct in6_addr *)gid;

	if (family == AF_INET && IN6_IS_ADDR_V4MAPPED(address) &&
	    memcmp(&((const struct sockaddr_in *)i->ifa_addr)->sin_addr, gid + 12, 4) == 0)
		return 96 + bits_of(i->ifa_netmask, offsetof(struct sockaddr_in, sin_addr), 4);
	if (family == AF_INET6 &&
	    memcmp(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, gid, 16) == 0)
		return bits_of(i->ifa_netmask, offsetof(struct sockaddr_in6, sin6_addr), 16);
	return -1;
}

/* The interface may have another name than the GID's, which is a port of a bond, say. */
static int network_here(const char *netdev, const uint8_t gid[16])
{
	struct ifaddrs *all;
	int bits = -1;

	if (getifaddrs(&all) < 0) {
		tt_log(WARN, RDMA, "the network interfaces cannot be listed: %s", strerror(errno));
		return -1;
	}
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const int found = network_by(i, gid);

		if (found >= 0 && (bits < 0 || strcmp(i->ifa_name, netdev) == 0))
			bits = found;
	}
	freeifaddrs(all);
	return bits;
}

const struct rdma_sources tt_rdma_here = { .sys = "/sys",
					   .node = node_here,
					   .network = network_here };
