/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a thread sleeps until any of the transports has something for it. */
#include <poll.h>

#include "comm.h"

static void sleep_in(struct tutti_comm *comm, int timeout_ms)
{
	struct pollfd pollers[TT_MAX_TRANSPORTS];

	if (comm->nendpoints == 1) {
		comm->endpoints[0]->ops->doorbell->sleep(comm->endpoints[0], timeout_ms);
		return;
	}
	for (int i = 0; i < comm->nendpoints; i++)
		pollers[i] =
			(struct pollfd){ comm->endpoints[i]->ops->doorbell->fd(comm->endpoints[i]),
					 POLLIN, 0 };
	poll(pollers, (nfds_t)comm->nendpoints, timeout_ms);
}

void tt_comm_arm(struct tutti_comm *comm)
{
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->doorbell->arm(comm->endpoints[i]);
}

void tt_comm_sleep(struct tutti_comm *comm, int timeout_ms)
{
	comm->sleepers++;
	pthread_mutex_unlock(&comm->lock);
	sleep_in(comm, timeout_ms);
	tt_comm_lock(comm);
	comm->sleepers--;
}

void tt_comm_disarm(struct tutti_comm *comm)
{
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->doorbell->disarm(comm->endpoints[i]);
}

void tt_comm_interrupt(struct tutti_comm *comm)
{
	for (int i = 0; comm->sleepers && i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->doorbell->interrupt(comm->endpoints[i]);
}
