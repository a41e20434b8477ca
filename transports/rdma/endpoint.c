/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the endpoint's life, the transport's table, and what it tells its peers: the address of
 * the TCP endpoint inside, and the ports. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "endpoint.h"
#include "fork.h"
#include "rdma.h"
#include "wire.h"

/* ---- the address */

static size_t rdma_address(const struct tt_endpoint *base, void *out)
{
	const struct rdma_endpoint *e = (const struct rdma_endpoint *)base;

	if (!e->tcp)
		return 0;
	const size_t length = e->tcp->ops->address(e->tcp, (uint8_t *)out + 2);
	if (2 + length + RDMA_CARD_MAX >
	    TT_ADDRESS_MAX) { /* TCP's own endpoint has room for so many interfaces */
		tt_log(WARN, RDMA,
		       "rank %d does not use RDMA: its network addresses take %zu bytes of what ranks tell each other, of which "
		       "RDMA leaves them %d; TUTTI_INTERFACE names those to use",
		       e->rank, length, TT_ADDRESS_MAX - 2 - RDMA_CARD_MAX);
		return 0;
	}
	wire_put(out, length, 2);
	return 2 + length + tt_rdma_card_write(e->ports, e->nports, (uint8_t *)out + 2 + length);
}

bool tt_rdma_address_read(const struct tt_peer *peer, struct tt_peer *tcp, struct rdma_port *ports,
			  int *n)
{
	const uint8_t *at = peer->address;

	if (peer->address_length < 2)
		return false;
	const size_t length = wire_get(&at, 2);
	if (length > (size_t)peer->address_length - 2)
		return false;
	if (tcp) {
		*tcp = *peer;
		tcp->address = at;
		tcp->address_length = (uint16_t)length;
	}
	return tt_rdma_card_read(at + length, peer->address_length - 2 - length, ports, n);
}

/* Hosts may each have a private network of the same addresses, such as a container's bridge. */
static bool same_gid(const struct rdma_port *a, const struct rdma_port *b)
{
	return memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

int tt_rdma_pairs(const struct tt_peer *a, const struct tt_peer *b, int pairs[RDMA_PORTS_MAX][2])
{
	struct rdma_port ours[RDMA_PORTS_MAX], theirs[RDMA_PORTS_MAX];
	int n, m, count, kept = 0;

	if (!tt_rdma_address_read(a, NULL, ours, &n) || !tt_rdma_address_read(b, NULL, theirs, &m))
		return 0;
	tt_rdma_match(ours, n, theirs, m, pairs, &count);
	for (int i = 0; i < count; i++) {
		if (a->host != b->host && same_gid(&ours[pairs[i][0]], &theirs[pairs[i][1]]))
			continue;
		pairs[kept][0] = pairs[i][0];
		pairs[kept++][1] = pairs[i][1];
	}
	return kept;
}

static bool rdma_reach(const struct tt_peer *a, const struct tt_peer *b)
{
	struct rdma_port ports[RDMA_PORTS_MAX];
	int n, pairs[RDMA_PORTS_MAX][2];
	struct tt_peer one, other;

	return tt_rdma_pairs(a, b, pairs) > 0 && tt_rdma_address_read(a, &one, ports, &n) &&
	       tt_rdma_address_read(b, &other, ports, &n) &&
	       tt_transport_of_hosts->reach(&one, &other);
}

/* ---- life */

static void rdma_destroy(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	if (!e)
		return;
	tt_rdma_links_end(e);
	tt_rdma_rails_close(e);
	tt_rdma_wait_close(e);
	if (e->tcp)
		e->tcp->ops->destroy(e->tcp);
	free(e->links);
	free(e->peers);
	free(e);
}

static bool asks_for_something(const struct rdma_settings *settings)
{
	return *settings->device || settings->port > 0 || settings->gid >= 0;
}

/* None is no error: the ranks go by TCP. Not even one descriptor to look with is: TCP needs
 * more. */
static tutti_result_t find_ports(struct rdma_endpoint *e, const struct tt_endpoint_config *config)
{
	tutti_result_t result = tt_rdma_settings_read(&e->settings);

	if (!result)
		result = tt_rdma_ports(&tt_rdma_here, &e->settings, e->ports, &e->nports, e->why);
	if (result)
		return result;
	if (e->nports > 0 && config->key && config->key->encrypt) {
		tt_log(INFO, RDMA,
		       "rank %d does not use RDMA, which encrypts nothing: TUTTI_ENCRYPT asks for encryption",
		       e->rank);
		e->nports = 0;
		snprintf(e->why, sizeof(e->why), "RDMA encrypts nothing, and TUTTI_ENCRYPT=1");
	} else if (e->nports == 0 && asks_for_something(&e->settings)) {
		tt_log(WARN, RDMA, "rank %d does not use RDMA: %s", e->rank, e->why);
	} else if (e->nports == 0) {
		tt_log(DEBUG, RDMA, "rank %d does not use RDMA: %s", e->rank, e->why);
	}
	return TUTTI_OK;
}

static tutti_result_t rdma_open(const struct tt_endpoint_config *config, struct tt_endpoint **out)
{
	struct rdma_endpoint *e = calloc(1, sizeof(*e));
	tutti_result_t result;

	if (!e)
		return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA, "no memory for an endpoint");
	e->base.ops = &tt_transport_rdma;
	e->rank = config->rank;
	e->size = config->size;
	e->silence_s = config->silence_s;
	e->waiter = -1;
	result = find_ports(e, config);
	if (!result && e->nports > 0)
		result = tt_transport_of_hosts->open(config, &e->tcp);
	if (result) {
		rdma_destroy(&e->base);
		return result;
	}
	*out = &e->base;
	return TUTTI_OK;
}

/* What the endpoint inside has learnt, this one has, also where it is better than what it knew.
 * The first ends the communicator. */
static void share_fault(struct rdma_endpoint *e)
{
	const bool first = !e->base.fault.result;

	if (!e->tcp || !e->tcp->fault.result ||
	    (!first && !tt_fault_before(&e->tcp->fault, &e->base.fault)))
		return;
	e->base.fault = e->tcp->fault;
	if (first)
		tt_rdma_links_stop(e);
}

static void rdma_explain(const struct tt_peer *a, const struct tt_peer *b, char *text, size_t size)
{
	int pairs[RDMA_PORTS_MAX][2];

	snprintf(text, size, "%s",
		 tt_rdma_pairs(a, b, pairs) > 0 ? "RDMA needs TCP between the two as well"
						: "no two ports are of one network");
}

static bool rdma_lacks(const struct tt_endpoint *base, char *text, size_t size)
{
	const struct rdma_endpoint *e = (const struct rdma_endpoint *)base;

	if (e->tcp)
		return e->tcp->ops->paths->lacks(e->tcp, text, size);
	snprintf(text, size, "%s", e->why);
	return false;
}

static void rdma_await(struct tt_endpoint *base, uint64_t deadline)
{
	struct rdma_endpoint *e = (struct rdma_endpoint *)base;

	if (e->tcp)
		e->tcp->ops->paths->await(e->tcp, deadline);
}

static tutti_result_t inform_tcp(struct rdma_endpoint *e, const struct tt_peer *peers, int size,
				 bool *any)
{
	struct rdma_port ports[RDMA_PORTS_MAX];
	int n;

	e->known = peers;
	*any = false;
	e->peers = calloc((size_t)size, sizeof(*e->peers));
	if (!e->peers)
		return tt_fail(TUTTI_ERR_NO_MEMORY, RDMA, "no memory for %d ranks", size);
	for (int rank = 0; rank < size; rank++) {
		if (!tt_rdma_address_read(&peers[rank], &e->peers[rank], ports, &n)) {
			e->peers[rank] = peers[rank];
			e->peers[rank].use = false;
		}
		*any |= rank != e->rank && e->peers[rank].use;
	}
	return TUTTI_OK;
}

/* Without a device that opens, or a descriptor for it, the bytes go by TCP, which may have what
 * it needs itself. */
static void open_devices(struct rdma_endpoint *e)
{
	if (tt_rdma_rails_open(e) == TUTTI_OK && tt_rdma_wait_open(e) == TUTTI_OK)
		return;
	tt_log(WARN, RDMA, "rank %d uses TCP where it could use RDMA: %s", e->rank,
	       tt_thread_error());
	tt_rdma_wait_close(e);
	tt_rdma_rails_close(e);
	e->nports = 0;
}

static tutti_result_t rdma_join(struct tt_endpoint *base, const struct tt_peer *peers, int size,
				uint64_t deadline)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);
	bool any;

	tutti_result_t result = inform_tcp(e, peers, size, &any);
	if (!result)
		result = e->tcp->ops->join(e->tcp, e->peers, size, deadline);
	share_fault(e);
	if (result)
		return result;
	if (any)
		open_devices(e);
	else
		e->nports = 0;
	return TUTTI_OK;
}

static void rdma_reject(struct tt_endpoint *base, const struct tt_peer *peers, int size,
			const struct tt_fault *fault)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);
	bool any;

	if (e->tcp && (e->peers || inform_tcp(e, peers, size, &any) == TUTTI_OK))
		e->tcp->ops->control->reject(e->tcp, e->peers, size, fault);
}

static void rdma_progress(struct tt_endpoint *base, bool thorough)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->progress(e->tcp, thorough);
	share_fault(e);
	if (!thorough && e->handshake == 0 && e->closing == 0)
		return;
	tt_rdma_poll(e);
	tt_rdma_links_step(e, thorough);
}

/* ---- what TCP does */

static void rdma_revoke(struct tt_endpoint *base, const struct tt_fault *fault)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->control->revoke(e->tcp, fault);
	share_fault(e);
}

static int rdma_control_fd(const struct tt_endpoint *base)
{
	const struct rdma_endpoint *e = (const struct rdma_endpoint *)base;

	return e->tcp->ops->control->fd(e->tcp);
}

static bool rdma_lost(struct tt_endpoint *base, int peer)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	return e->tcp->ops->control->lost(e->tcp, peer);
}

static void rdma_send_note(struct tt_endpoint *base, const void *note)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->control->send(e->tcp, note);
}

static bool rdma_receive_note(struct tt_endpoint *base, void *note)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	return e->tcp->ops->control->receive(e->tcp, note);
}

static void rdma_locate(struct tt_endpoint *base, int cpu, int *of)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->tcp->ops->locate(e->tcp, cpu, of);
}

/* The device is the parent's: nothing of it is touched, and its mappings are not here. */
static void rdma_forget(struct tt_endpoint *base)
{
	struct rdma_endpoint *e = rdma_endpoint_of(base);

	e->waiter = -1;
	for (uint32_t i = 0; i < e->nlinks; i++) {
		struct rdma_link *link = e->links[i];

		if (!link)
			continue;
		link->paths = 0;
		link->memory = NULL;
		memset(&link->ours, 0, sizeof(link->ours));
		memset(&link->direct, 0, sizeof(link->direct));
		tt_rdma_link_fail(link, "made by the parent of this process");
	}
	e->nports = 0;
	if (e->tcp)
		e->tcp->ops->forget(e->tcp);
}

static const struct tt_transport_control control = {
	.reject = rdma_reject,
	.revoke = rdma_revoke,
	.fd = rdma_control_fd,
	.lost = rdma_lost,
	.send = rdma_send_note,
	.receive = rdma_receive_note,
};

static const struct tt_transport_doorbell doorbell = {
	.arm = tt_rdma_arm,
	.disarm = tt_rdma_disarm,
	.fd = tt_rdma_fd,
	.sleep = tt_rdma_sleep,
	.interrupt = tt_rdma_interrupt,
};

static const struct tt_transport_paths paths = {
	.explain = rdma_explain,
	.lacks = rdma_lacks,
	.await = rdma_await,
};

const struct tt_transport tt_transport_rdma = {
	.name = "rdma",
	.preference = 15,
	.joins_hosts = true,
	.control = &control,
	.doorbell = &doorbell,
	.paths = &paths,
	.open = rdma_open,
	.address = rdma_address,
	.reach = rdma_reach,
	.join = rdma_join,
	.connect = tt_rdma_link_connect,
	.write = tt_rdma_link_write,
	.read = tt_rdma_link_read,
	.peek = tt_rdma_link_peek,
	.release = tt_rdma_link_release,
	.ready = tt_rdma_link_ready,
	.close = tt_rdma_link_close,
	.progress = rdma_progress,
	.locate = rdma_locate,
	.destroy = rdma_destroy,
	.forget = rdma_forget,
};
