/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank tells its peers about its RDMA ports, and which ports of two ranks reach each
 * other. */
#ifndef TT_RDMA_CARD_H
#define TT_RDMA_CARD_H

#include <stddef.h>

#include "device.h"

#define RDMA_CARD_ENTRY (1 + 1 + 1 + 2 + 4 + 16)
#define RDMA_CARD_MAX	(1 + 1 + RDMA_PORTS_MAX * RDMA_CARD_ENTRY) /* bytes */

/* Writes `n` ports, RDMA_CARD_MAX bytes at most; returns how many bytes. Names, GID indices and
 * NUMA nodes mean nothing to others and stay here. */
size_t tt_rdma_card_write(const struct rdma_port *ports, int n, void *out);
/* False, and the outputs unspecified, if the bytes are no card. */
bool tt_rdma_card_read(const void *bytes, size_t length, struct rdma_port ports[RDMA_PORTS_MAX],
		       int *n);

/* Pairs of ports on the same fabric, each port in one at most: pairs[k][0] of `mine`,
 * pairs[k][1] of `theirs`, *count of them, none if they share no fabric. The pair that both
 * ranks hold best comes first. The peer finds the same pairs in the same order. */
void tt_rdma_match(const struct rdma_port *mine, int n, const struct rdma_port *theirs, int m,
		   int pairs[RDMA_PORTS_MAX][2], int *count);

#endif
