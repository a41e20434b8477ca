/* SPDX-License-Identifier: BSD-3-Clause */
/* Who runs where. */
#ifndef TT_HOSTS_H
#define TT_HOSTS_H

#include "comm.h"
#include "record.h"

/* A rank among those of its host. */
struct tt_place {
	int local_rank;
	int before; /* the rank before it there; -1: none */
};

/* Fills in comm->topology, but for what depends on transports, and `places` [size]. */
tutti_result_t tt_hosts_find(struct tutti_comm *comm, const struct tt_record *records,
			     struct tt_place *places);

#endif
