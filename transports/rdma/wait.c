/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how threads sleep: on what TCP sleeps on, and on the rails' completion channels; without
 * rails as TCP alone. A channel tells of the first completion after it was asked to; arm() asks,
 * and the pass that follows finds what came before. */
#include <errno.h>
#include <sys/epoll.h>

#include "endpoint.h"
#include "fork.h"

static bool watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

tutti_result_t tt_rdma_wait_open(struct rdma_endpoint *e)
{
	bool good;

	e->waiter = TT_FD(epoll_create1(EPOLL_CLOEXEC));
	good = e->waiter >= 0 && watch(e->waiter, e->tcp->ops->doorbell->fd(e->tcp));
	for (int i = 0; i < e->nports && good; i++)
		good = watch(e->waiter, e->rails[i].channel->fd);
	return good ? TUTTI_OK : tt_fail_errno(RDMA, "make the epoll that threads sleep on");
}

void tt_rdma_wait_close(struct rdma_endpoint *e)
{
	tt_fd_close(e->waiter);
	e->waiter = -1;
}

static void take_events(struct rdma_rail *rail)
{
	struct ibv_cq *cq;
	void *of;

	while (rail->adapter->verbs->get_cq_event(rail->channel, &cq, &of) == 0)
		rail->adapter->verbs->ack_cq_events(cq, 1);
}

void tt_rdma_arm(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	for (int i = 0; i < e->nports; i++) {
		take_events(&e->rails[i]);
		ibv_req_notify_cq(e->rails[i].cq, 0);
	}
	e->tcp->ops->doorbell->arm(e->tcp);
}

void tt_rdma_disarm(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->doorbell->disarm(e->tcp);
	for (int i = 0; i < e->nports; i++)
		take_events(&e->rails[i]);
}

int tt_rdma_fd(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	return e->waiter < 0 ? e->tcp->ops->doorbell->fd(e->tcp) : e->waiter;
}

void tt_rdma_sleep(struct tt_endpoint *base, int timeout_ms)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);
	struct epoll_event event;

	if (e->waiter < 0)
		e->tcp->ops->doorbell->sleep(e->tcp, timeout_ms);
	else /* what happened is found out by progress() and the links */
		epoll_wait(e->waiter, &event, 1, timeout_ms);
}

void tt_rdma_interrupt(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->doorbell->interrupt(e->tcp);
}
