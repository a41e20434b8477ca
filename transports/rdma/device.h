/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA ports of this machine, and which of them are used. The kernel's small files say it
 * all: verbs are not opened, so that a look costs microseconds, and where there is no card one
 * failed system call. */
#ifndef TT_RDMA_DEVICE_H
#define TT_RDMA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "environment.h"

#define RDMA_PORTS_MAX 4   /* ports that a rank uses at most */
#define RDMA_WHY_MAX   256 /* bytes of an error message about ports that are not used */

/* A port with the GID that is used on it. */
struct rdma_port {
	char device[RDMA_DEVICE_MAX];
	uint8_t number;
	bool infiniband; /* otherwise RoCE */
	int gid_index;	 /* -1: none */
	uint8_t gid[16];
	uint8_t prefix; /* bits of the GID that name its network */
	uint16_t lid;	/* InfiniBand only */
	uint32_t mbits; /* 0: unknown */
	int node;	/* NUMA node of the device; -1: unknown */
};

/* A port that there is. */
struct rdma_found {
	struct rdma_port port;
	const char *kind; /* of its GID: "IPv4", "IPv6", "link-local" or "InfiniBand"; NULL: it
			   * has none to use */
	bool used;
	bool left_out; /* by TUTTI_RDMA_DEVICE or TUTTI_RDMA_PORT */
	int distance;  /* of its NUMA node from the calling thread's, as the kernel counts */
	char why[128]; /* not used: what follows "mlx5_0 port 1 ", such as "is DOWN, expected
			* ACTIVE" */
};

struct rdma_survey {
	struct rdma_found *all; /* those that are used first, the best of them first */
	int count, used;
	char why[RDMA_WHY_MAX]; /* ports that are not used, and were not left out by settings; or
				 * why there is none; or "" */
};

/* Where is looked. */
struct rdma_sources {
	const char *sys;   /* where sysfs is: "/sys" */
	int (*node)(void); /* NUMA node of the calling thread; -1: unknown */
	/* How many bits of `gid`, an IP address of `netdev`, name its network; -1: no interface
	 * here has that address. */
	int (*network)(const char *netdev, const uint8_t gid[16]);
};
extern const struct rdma_sources tt_rdma_here;

/* All ports. Used are up to RDMA_PORTS_MAX that are ACTIVE and have a GID that fits: on
 * InfiniBand GID 0; on Ethernet of those of RoCE v2 that of an IPv4 address before that of a
 * routable IPv6 address before a link-local one, and the first of these. Nearer NUMA nodes come
 * first, then faster ports. Fails for want of descriptors or memory alone. */
tutti_result_t tt_rdma_survey_make(const struct rdma_sources *from,
				   const struct rdma_settings *settings, struct rdma_survey *out);
void tt_rdma_survey_finish(struct rdma_survey *survey);

/* The ports that are used, best first, *n of them, and what the survey says of the others. */
tutti_result_t tt_rdma_ports(const struct rdma_sources *from, const struct rdma_settings *settings,
			     struct rdma_port ports[RDMA_PORTS_MAX], int *n,
			     char why[RDMA_WHY_MAX]);

#endif
