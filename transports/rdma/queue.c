/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what verbs are asked for: devices and completion queues of an endpoint, the queue pairs
 * of a link, requests and completions.
 *
 * A completion names its link by a number that is never used again for other queue pairs, as
 * some devices leave completions of one that is gone in the completion queue. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "endpoint.h"

#define POLLED		  16		    /* completions taken at once */
#define LINKS_OF_A_QUEUE  256		    /* that one completion queue has room for at most */
#define LINKS_WITH_A_PEER (TT_CHANNELS - 1) /* but TT_CHANNEL_CONTROL, which goes by TCP */
#define INLINE_BYTES	  128		    /* a header and some more */
#define PACKET_BITS	  24

/* ---- rails */

static tutti_result_t open_queue(struct rdma_endpoint *e, struct rdma_rail *rail)
{
	const struct rdma_verbs *verbs = rail->adapter->verbs;
	const int each = RDMA_RECEIVES + RDMA_SENDS;
	struct ibv_device_attr limits = { 0 };

	const int error = verbs->query_device(rail->adapter->context, &limits);
	if (error)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA, "ask for the limits of %s: %s",
			       rail->adapter->name, strerror(error));
	rail->links_max = LINKS_OF_A_QUEUE;
	if (rail->links_max > e->size * LINKS_WITH_A_PEER)
		rail->links_max = e->size * LINKS_WITH_A_PEER;
	if (rail->links_max > limits.max_cqe / each)
		rail->links_max = limits.max_cqe / each;
	rail->channel = verbs->create_comp_channel(rail->adapter->context);
	if (!rail->channel)
		return tt_fail_errno(RDMA, "make a completion channel of %s", rail->adapter->name);
	if (fcntl(rail->channel->fd, F_SETFL, fcntl(rail->channel->fd, F_GETFL) | O_NONBLOCK) < 0)
		return tt_fail_errno(RDMA, "set up a completion channel of %s",
				     rail->adapter->name);
	rail->cq = verbs->create_cq(rail->adapter->context, rail->links_max * each, NULL,
				    rail->channel, 0);
	if (!rail->cq)
		return tt_fail_errno(RDMA, "make a completion queue of %s", rail->adapter->name);
	return TUTTI_OK;
}

static tutti_result_t open_rail(struct rdma_endpoint *e, struct rdma_rail *rail,
				const struct rdma_port *port)
{
	tutti_result_t result;

	rail->port = port;
	result = tt_rdma_adapter_get(port->device, &rail->adapter);
	if (!result)
		result = tt_rdma_active_mtu(rail->adapter, port->number, &rail->mtu);
	return result ? result : open_queue(e, rail);
}

tutti_result_t tt_rdma_rails_open(struct rdma_endpoint *e)
{
	for (int i = 0; i < e->nports; i++) {
		const tutti_result_t result = open_rail(e, &e->rails[i], &e->ports[i]);

		if (result)
			return result;
	}
	return TUTTI_OK;
}

void tt_rdma_rails_close(struct rdma_endpoint *e)
{
	for (int i = 0; i < e->nports; i++) {
		struct rdma_rail *rail = &e->rails[i];

		if (rail->cq)
			rail->adapter->verbs->destroy_cq(rail->cq);
		if (rail->channel)
			rail->adapter->verbs->destroy_comp_channel(rail->channel);
		tt_rdma_adapter_put(rail->adapter);
		*rail = (struct rdma_rail){ 0 };
	}
}

/* ---- a link's memory */

static tutti_result_t fail_to_register(const struct rdma_adapter *adapter, size_t bytes)
{
	struct rlimit limit = { 0 };

	if (errno != ENOMEM && errno != EAGAIN)
		return tt_fail_errno(RDMA, "register %zu bytes with %s", bytes, adapter->name);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return tt_fail(
		TUTTI_ERR_NO_MEMORY, RDMA,
		"cannot lock %zu bytes of memory for %s: the limit of locked memory is %llu KiB (ulimit -l); raise it by "
		"\"* - memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, or docker "
		"run --ulimit memlock=-1",
		bytes, adapter->name, (unsigned long long)limit.rlim_cur / 1024);
}

tutti_result_t tt_rdma_memory_open(struct rdma_link *link)
{
	const size_t bytes = sizeof(*link->memory);
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return tt_fail_errno(RDMA, "map %zu bytes for a link", bytes);
	link->memory = memory;
	/* a child of fork() would share its pages with the device until either of them writes */
	madvise(memory, bytes, MADV_DONTFORK);
	for (int i = 0; i < link->paths; i++) {
		const struct rdma_adapter *adapter = link->path[i].rail->adapter;

		link->path[i].mr = adapter->verbs->reg_mr(adapter->pd, memory, bytes, RDMA_ACCESS);
		if (!link->path[i].mr)
			return fail_to_register(adapter, bytes);
	}
	return TUTTI_OK;
}

void tt_rdma_memory_close(struct rdma_link *link)
{
	tt_rdma_queues_close(link);
	tt_rdma_direct_end(link);
	for (int i = 0; i < link->paths; i++) {
		if (link->path[i].mr)
			link->path[i].rail->adapter->verbs->dereg_mr(link->path[i].mr);
		link->path[i].rail->links--;
	}
	if (link->memory)
		munmap(link->memory, sizeof(*link->memory));
	link->memory = NULL;
	link->paths = 0;
}

/* ---- its queue pairs */

static tutti_result_t open_pair(struct rdma_path *path)
{
	const struct rdma_rail *rail = path->rail;
	struct ibv_qp_init_attr wanted = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.cap = { .max_send_wr = RDMA_SENDS,
			 .max_recv_wr = RDMA_RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE_BYTES },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.port_num = rail->port->number,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	/* some drivers refuse what is more than they have inline, such as 96 bytes, instead of
	 * saying so */
	while (!(path->qp = rail->adapter->verbs->create_qp(rail->adapter->pd, &wanted)) &&
	       errno == EINVAL && wanted.cap.max_inline_data > 0)
		wanted.cap.max_inline_data = wanted.cap.max_inline_data / 2 & ~31u;
	if (!path->qp)
		return tt_fail_errno(RDMA, "make a queue pair of %s", rail->adapter->name);
	path->inline_bytes = wanted.cap.max_inline_data;
	path->sends_done = path->sends; /* of a queue pair before, no word comes any more */
	const int error = rail->adapter->verbs->modify_qp(
		path->qp, &attributes,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (error)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA, "prepare a queue pair of %s: %s",
			       rail->adapter->name, strerror(error));
	return TUTTI_OK;
}

/* From any packet on, so that packets of an earlier connection are not taken for those of this
 * one. */
static uint32_t first_packet(void)
{
	uint32_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
		number = (uint32_t)tt_now();
	return number & ((1u << PACKET_BITS) - 1);
}

static struct rdma_hello_path introduction(const struct rdma_path *path)
{
	struct rdma_hello_path hello = {
		.queue = path->qp->qp_num,
		.packet = first_packet(),
		.lid = path->rail->port->lid,
		.mtu = (uint8_t)path->rail->mtu,
		.key = path->mr->rkey,
	};

	memcpy(hello.gid, path->rail->port->gid, sizeof(hello.gid));
	return hello;
}

tutti_result_t tt_rdma_queues_open(struct rdma_link *link)
{
	link->mine = (struct rdma_hello){ .paths = (uint8_t)link->paths,
					  .memory = (uintptr_t)link->memory,
					  .messages = link->receives,
					  .bytes = link->ring_taken };
	for (int i = 0; i < link->paths; i++) {
		const tutti_result_t result = open_pair(&link->path[i]);

		if (result)
			return result;
		link->path[i].to_post = RDMA_RECEIVES;
		tt_rdma_post_receives(link, i);
		link->mine.path[i] = introduction(&link->path[i]);
	}
	return link->broken ? tt_fail(TUTTI_ERR_SYSTEM, RDMA, "%s", link->why) : TUTTI_OK;
}

void tt_rdma_queues_close(struct rdma_link *link)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };

	link->broken = link->decided = true; /* the errors that follow are no news */
	for (int i = 0; i < link->paths; i++)
		if (link->path[i].qp)
			link->path[i].rail->adapter->verbs->modify_qp(link->path[i].qp, &attributes,
								      IBV_QP_STATE);
	if (link->paths > 0)
		tt_rdma_poll(rdma_endpoint_of_link(link)); /* what the peer knows to have arrived */
	for (int i = 0; i < link->paths; i++) {
		if (link->path[i].qp)
			link->path[i].rail->adapter->verbs->destroy_qp(link->path[i].qp);
		link->path[i].qp = NULL;
	}
}

static tutti_result_t ready_to_receive(struct rdma_link *link, int path)
{
	const struct rdma_hello_path *peer = &link->peer.path[path];
	const struct rdma_rail *rail = link->path[path].rail;
	const struct rdma_settings *settings = &rdma_endpoint_of_link(link)->settings;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < rail->mtu ? (enum ibv_mtu)peer->mtu : rail->mtu,
		.dest_qp_num = peer->queue,
		.rq_psn = peer->packet,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = { .dlid = peer->lid,
			     .sl = (uint8_t)settings->sl,
			     .port_num = rail->port->number,
			     .is_global = !rail->port->infiniband },
	};

	if (attributes.ah_attr.is_global) {
		memcpy(attributes.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
		attributes.ah_attr.grh.sgid_index = (uint8_t)rail->port->gid_index;
		attributes.ah_attr.grh.hop_limit = 64;
		attributes.ah_attr.grh.traffic_class = (uint8_t)settings->tc;
	}
	const int error = rail->adapter->verbs->modify_qp(
		link->path[path].qp, &attributes,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return tt_fail(
			TUTTI_ERR_SYSTEM, RDMA,
			"connect a queue pair of %s with rank %d's (MTU %d, GID index %d): %s",
			rail->adapter->name, link->base.peer, 128 << attributes.path_mtu,
			rail->port->gid_index, strerror(error));
	return TUTTI_OK;
}

tutti_result_t tt_rdma_queue_connect(struct rdma_link *link, int path)
{
	const struct rdma_settings *settings = &rdma_endpoint_of_link(link)->settings;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)settings->timeout,
		.retry_cnt = (uint8_t)settings->retry,
		.rnr_retry = 7, /* for ever */
		.sq_psn = link->mine.path[path].packet,
		.max_rd_atomic = 1,
	};
	const struct rdma_adapter *adapter = link->path[path].rail->adapter;
	const tutti_result_t result = ready_to_receive(link, path);

	if (result)
		return result;
	const int error = adapter->verbs->modify_qp(
		link->path[path].qp, &attributes,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (error)
		return tt_fail(TUTTI_ERR_SYSTEM, RDMA,
			       "make a queue pair of %s send to rank %d: %s", adapter->name,
			       link->base.peer, strerror(error));
	return TUTTI_OK;
}

/* ---- requests */

bool tt_rdma_can_send(const struct rdma_path *path)
{
	return path->sends - path->sends_done < RDMA_SENDS;
}

static uint64_t name_of(const struct rdma_link *link, int path)
{
	return link->id | (uint32_t)path << RDMA_PATH_BIT;
}

bool tt_rdma_post(struct rdma_link *link, int number, const struct rdma_post *post)
{
	struct rdma_path *path = &link->path[number];
	struct ibv_sge chunk = { (uintptr_t)post->from, post->bytes, post->lkey };
	struct ibv_send_wr *bad;

	path->sends++;
	struct ibv_send_wr request = {
		.wr_id = RDMA_SENT | (path->sends & RDMA_SENDS_MASK) << 32 | name_of(link, number),
		.sg_list = &chunk,
		.num_sge = post->bytes > 0,
		.opcode = post->tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.imm_data = htonl(post->immediate),
		.wr.rdma = { post->to, post->rkey },
	};

	if (post->signalled || path->sends % RDMA_SIGNAL == 0)
		request.send_flags |= IBV_SEND_SIGNALED;
	if (post->bytes > 0 && post->bytes <= path->inline_bytes)
		request.send_flags |= IBV_SEND_INLINE;
	const int error = ibv_post_send(path->qp, &request, &bad);
	if (error)
		tt_rdma_link_break(link, "cannot post a write to rank %d: %s", link->base.peer,
				   strerror(error));
	return !error;
}

void tt_rdma_post_receives(struct rdma_link *link, int path)
{
	struct ibv_recv_wr requests[RDMA_RECEIVES], *bad;
	const uint32_t n = link->path[path].to_post;

	for (uint32_t i = 0; i < n; i++)
		requests[i] = (struct ibv_recv_wr){ .wr_id = name_of(link, path),
						    .next = i + 1 < n ? &requests[i + 1] : NULL };
	const int error = n ? ibv_post_recv(link->path[path].qp, requests, &bad) : 0;
	if (error)
		tt_rdma_link_break(link, "cannot post receive requests for rank %d: %s",
				   link->base.peer, strerror(error));
	link->path[path].to_post = 0;
}

/* ---- completions */

/* Where the peer's port is: "192.0.2.1", or the GID. */
static const char *place_of(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	const struct in6_addr *address = (const void *)gid;

	if (IN6_IS_ADDR_V4MAPPED(address))
		return inet_ntop(AF_INET, gid + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}

/* Of the first error of a queue pair; all requests that were posted follow it, flushed. */
static void describe(const struct rdma_link *link, int path, const struct ibv_wc *wc, char *text,
		     size_t capacity)
{
	const struct rdma_settings *settings = &rdma_endpoint_of_link(link)->settings;
	const struct rdma_port *port = link->path[path].rail->port;
	const char *status = link->path[path].rail->adapter->verbs->wc_status_str(wc->status);
	char place[INET6_ADDRSTRLEN];

	place_of(link->peer.path[path].gid, place);
	switch (wc->status) {
	case IBV_WC_RETRY_EXC_ERR:
		snprintf(
			text, capacity,
			"rank %d at %s does not answer over %s port %d (%s: %d retries, TUTTI_RDMA_RETRY, with a timeout of "
			"4.096 µs × 2^%d each, TUTTI_RDMA_TIMEOUT): its process or host is gone, or the network between",
			link->base.peer, place, port->device, port->number, status, settings->retry,
			settings->timeout);
		break;
	case IBV_WC_REM_ACCESS_ERR:
		snprintf(
			text, capacity,
			"rank %d's device, at %s, refused a write (%s): the memory is not registered any more",
			link->base.peer, place, status);
		break;
	default:
		snprintf(
			text, capacity,
			"the queue pair with rank %d at %s over %s port %d failed: %s (vendor's code %u); tutti-info and the "
			"kernel's log say whether the port is up",
			link->base.peer, place, port->device, port->number, status, wc->vendor_err);
	}
}

/* Does the link go on without it? What was posted there ends in errors, at its time. */
static bool is_left_out(const struct rdma_link *link, int path)
{
	if (link->state == RDMA_UP)
		return !(link->usable >> path & 1);
	return link->state == RDMA_PROVING && link->decided && !(link->verdict >> path & 1);
}

static void fail(struct rdma_link *link, int path, const struct ibv_wc *wc)
{
	char text[sizeof(link->why)];

	if (is_left_out(link, path))
		return;
	describe(link, path, wc, text, sizeof(text));
	if (link->state != RDMA_PROVING || link->decided)
		tt_rdma_link_break(link, "%s", text);
	else
		tt_rdma_handshake_disproved(
			link, path,
			link->reconnecting
				? text
				: link->path[path].rail->adapter->verbs->wc_status_str(wc->status));
}

/* Up to that one, of whose number the completion has the last bits. */
static void sends_done(struct rdma_path *path, uint64_t number)
{
	path->sends_done += (number - path->sends_done) & RDMA_SENDS_MASK;
}

static void complete(struct rdma_endpoint *e, const struct ibv_wc *wc)
{
	const uint32_t id = (uint32_t)wc->wr_id & ((1u << RDMA_PATH_BIT) - 1);
	const int path = (int)((uint32_t)wc->wr_id >> RDMA_PATH_BIT);
	struct rdma_link *link = id < e->nlinks ? e->links[id] : NULL;

	if (!link || path >= link->paths || !link->path[path].qp)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		fail(link, path, wc);
	} else if (wc->wr_id & RDMA_SENT) {
		sends_done(&link->path[path], wc->wr_id >> 32);
		tt_rdma_ring_sent(link);
	} else {
		tt_rdma_ring_arrived(link, path, ntohl(wc->imm_data));
	}
}

void tt_rdma_poll(struct rdma_endpoint *e)
{
	struct ibv_wc done[POLLED];

	for (int i = 0; i < e->nports; i++) {
		int n = POLLED;

		while (n == POLLED && e->rails[i].cq) {
			n = ibv_poll_cq(e->rails[i].cq, POLLED, done);
			for (int k = 0; k < n; k++)
				complete(e, &done[k]);
		}
	}
}
